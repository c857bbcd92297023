"""Reading YAML that people write: every error names FILE:LINE, the thing, its value and what is allowed. The words are
those of the controller's reader (backend/controllerd/yaml_checks.h)."""

import pathlib

import yaml

from .errors import PlanError
from .speeds import parse_speed

LOADER = getattr(yaml, "CSafeLoader", yaml.SafeLoader)  # libyaml is ten times as fast


class YamlFile:
    def __init__(self, path):
        self.path = path
        self.root = self._compose()

    def _compose(self):
        try:
            root = yaml.compose(pathlib.Path(self.path).read_text(encoding="utf-8"), Loader=LOADER)
        except OSError as error:
            raise PlanError(f"{self.path}: cannot be read: {error.strerror}") from error
        except UnicodeDecodeError as error:
            raise PlanError(f"{self.path}: is not text in UTF-8") from error
        except yaml.MarkedYAMLError as error:
            mark = error.problem_mark or error.context_mark
            line = mark.line + 1 if mark else 1
            raise PlanError(f"{self.path}:{line}: is not YAML: {error.problem}") from error
        except yaml.YAMLError as error:
            raise PlanError(f"{self.path}: is not YAML: {' '.join(str(error).split())}") from error
        if root is None:
            raise PlanError(f"{self.path}:1: is empty")
        return root

    def fail(self, node, message):
        raise PlanError(f"{self.path}:{node.start_mark.line + 1}: {message}")

    def mapping(self, node, what, allowed):
        """{key: node}: no other keys, each once."""
        if not isinstance(node, yaml.MappingNode):
            self.fail(node, f"{what} must have keys; allowed are {', '.join(allowed)}")
        found: dict = {}
        for key, value in node.value:
            if key.value not in allowed:
                self.fail(key, f'{what} has no key "{key.value}"; allowed are {", ".join(allowed)}')
            if key.value in found:
                self.fail(key, f'{what} has the key "{key.value}" twice')
            found[key.value] = value
        return found

    def required(self, node, values, what, key):
        if key not in values:
            self.fail(node, f'{what} needs the key "{key}"')
        return values[key]

    def items(self, node, what):
        if not isinstance(node, yaml.SequenceNode):
            self.fail(node, f"{what} must be a list")
        return node.value

    def text(self, node, what):
        if not isinstance(node, yaml.ScalarNode) or not node.value.strip() or node.tag == "tag:yaml.org,2002:null":
            self.fail(node, f"{what} must be a text that is not empty")
        return node.value

    def boolean(self, node, what):
        words = {"true": True, "false": False}
        word = node.value if isinstance(node, yaml.ScalarNode) else ""
        if word not in words:
            self.fail(node, f'{what} "{word}": allowed are true and false')
        return words[word]

    def number(self, node, what, low, high):
        word = node.value if isinstance(node, yaml.ScalarNode) else ""
        if not (word.isascii() and word.isdigit()) or not low <= int(word) <= high:
            self.fail(node, f'{what} "{word}": allowed are {low} to {high}')
        return int(word)

    def positive(self, node, what):
        word = node.value if isinstance(node, yaml.ScalarNode) else ""
        try:
            value = float(word)
        except ValueError:
            value = 0.0
        if not 1e-6 <= value <= 1e6:  # NaN is not, either
            self.fail(node, f'{what} "{word}": allowed is a number from 0.000001 to 1000000')
        return value

    def speed(self, node, what):
        try:
            return parse_speed(node.value if isinstance(node, yaml.ScalarNode) else "")
        except PlanError as error:
            self.fail(node, f"{what} {error}")
