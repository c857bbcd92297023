#!/usr/bin/env python3
"""Every requirement of docs/protocol*.md is cited by code that implements it, and by a test.

A citation is a comment with identifiers in brackets: `// [SLOT-5]`, `# [SLOT-5, SLOT-6]`. --list says where each is.
"""

import argparse
import pathlib
import re
import sys
import tempfile

ROOT = pathlib.Path(__file__).resolve().parents[1]
CODE = ("backend", "switch_p4", "python/switchml_agent")
TESTS = ("tests",)
SUFFIXES = {".h", ".cc", ".p4", ".py", ".toml", ".txt", ".pml"}

DEFINITION = re.compile(r"^(?:- |\| )\[([A-Z]+-\d+)\]", re.M)
CITATION = re.compile(r"\[([A-Z]+-\d+(?:, [A-Z]+-\d+)*)\]")

# Requirements that no code can cite, and why.
WITHOUT_CODE = {"DROP-12": "a permission"}
# Requirements that no test cites, and why.
WITHOUT_TEST = {"DROP-12": "a permission", "LEN-5": "a permission"}


def defined_in(root):
    """The identifiers of all pages of the protocol, in order."""
    pages = sorted((root / "docs").glob("protocol*.md"))
    return [each for page in pages for each in DEFINITION.findall(page.read_text(encoding="utf-8"))]


def citations(root, folders):
    """By identifier, the places that cite it: [(file, line)]."""
    found: dict = {}
    for folder in folders:
        for path in sorted((root / folder).rglob("*")):
            if path.suffix not in SUFFIXES or not path.is_file() or path.resolve() == pathlib.Path(__file__).resolve():
                continue
            name = path.relative_to(root).as_posix()
            for number, line in enumerate(path.read_text(encoding="utf-8").splitlines(), 1):
                for match in CITATION.finditer(line):
                    for identifier in match[1].split(", "):
                        found.setdefault(identifier, []).append((name, number))
    return found


def check_side(defined, found, exceptions, what):
    problems = []
    for identifier in defined:
        if identifier in found and identifier in exceptions:
            place = "{}:{}".format(*found[identifier][0])
            problems.append(f"{place}: {identifier} is cited by {what}: take it out of the exceptions")
        if identifier not in found and identifier not in exceptions:
            problems.append(f"docs/protocol*.md: {identifier} is cited by no {what}")
    return problems + [f"exceptions: {each} is no requirement" for each in exceptions if each not in defined]


def check(root, without_code, without_test):
    """Returns (problems, number of requirements)."""
    identifiers = defined_in(root)
    problems = [f"docs/protocol*.md: {each} is there twice" for each in set(identifiers) if identifiers.count(each) > 1]
    code, tests = citations(root, CODE), citations(root, TESTS)
    for found in (code, tests):
        for identifier, places in found.items():
            if identifier not in identifiers:
                problems += [f"{name}:{line}: {identifier} is no requirement" for name, line in places]
    problems += check_side(identifiers, code, without_code, "code")
    problems += check_side(identifiers, tests, without_test, "test")
    return problems, len(identifiers)


def print_list(root):
    found = citations(root, (*CODE, *TESTS))
    for identifier in defined_in(root):
        print(f"{identifier}: {', '.join(dict.fromkeys(name for name, _ in found.get(identifier, [])))}")


GOOD = {
    "docs/protocol.md": "- [A-1] One.\n- [A-2] Two, as [A-1] says.\n",
    "docs/protocol-more.md": "| [B-1] | three |\n",
    "backend/x.cc": "int x;  // [A-1, B-1]\n",
    "switch_p4/x.p4": "// [A-2]\n",
    "tests/vectors/x.txt": "# [A-1]\n",
    "tests/x_test.cc": "TEST(X, Y) {  // why [A-2]\n",
}
# Files that differ from GOOD, and what must be found (None: nothing). B-1 needs no test there.
SELF_TESTS = [
    ({}, None),
    ({"backend/x.cc": "// [A-1, B-1] [A-3]\n"}, "backend/x.cc:1: A-3 is no requirement"),
    ({"tests/vectors/x.txt": "#\n# [A-1, C-1]\n"}, "tests/vectors/x.txt:2: C-1 is no requirement"),
    ({"backend/x.cc": "// [A-1], not [B-1 ]\n"}, "B-1 is cited by no code"),
    ({"switch_p4/x.p4": "// A-2\n"}, "A-2 is cited by no code"),
    ({"tests/x_test.cc": ""}, "A-2 is cited by no test"),
    ({"tests/x_test.cc": "// [A-2, B-1]\n"}, "tests/x_test.cc:1: B-1 is cited by test: take it out"),
    ({"docs/protocol.md": GOOD["docs/protocol.md"] + "- [A-1] Again.\n"}, "A-1 is there twice"),
    ({"docs/protocol-more.md": ""}, "x.cc:1: B-1 is no requirement"),
]


def self_test():
    failures = 0
    for changes, expected in SELF_TESTS:
        with tempfile.TemporaryDirectory() as folder:
            root = pathlib.Path(folder)
            for name, text in {**GOOD, **changes}.items():
                (root / name).parent.mkdir(parents=True, exist_ok=True)
                (root / name).write_text(text)
            problems, _ = check(root, {}, {"B-1": "not tested"})
        if not (any(expected in each for each in problems) if expected else not problems):
            failures += 1
            print(f"self-test: {changes}: expected {expected!r}, got {problems}")
    print(f"check_requirements self-test: {len(SELF_TESTS) - failures} of {len(SELF_TESTS)} as expected")
    return failures


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--self-test", action="store_true", help="plant mistakes in a temporary folder and find each")
    parser.add_argument("--list", action="store_true", help="print the files that cite each requirement")
    arguments = parser.parse_args()
    if arguments.self_test:
        return 1 if self_test() else 0
    if arguments.list:
        print_list(ROOT)
        return 0
    problems, count = check(ROOT, WITHOUT_CODE, WITHOUT_TEST)
    print("\n".join(problems), end="\n" if problems else "")
    print(f"check_requirements: {count} requirements, {len(problems)} problems")
    return 1 if problems or count == 0 else 0


if __name__ == "__main__":
    sys.exit(main())
