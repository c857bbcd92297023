#!/usr/bin/env python3
"""Checks the comments of C++: each is a sentence or a term, never half of a sentence that the declaration completes.

Names FILE:LINE of a trailing comment that begins with a preposition or the like, of a comment above code that begins
with what continues a sentence, and of a word for persons, since comments are about things.
"""

import argparse
import pathlib
import re
import sys

ROOT = pathlib.Path(__file__).resolve().parent.parent
FOLDERS = ["backend", "benchmarks"]

PERSONS = re.compile(r"\b(who|whoever|whom|whose|nobody|somebody|everybody)\b", re.I)
TRAILING = re.compile(
    r"(of|that|to|in|by|with|from|for|else|at|behind|beside|likewise|without|what|where|which|whether|and|nor)\b"
)
ABOVE = re.compile(r"(Of|That|And|Nor|Likewise|Behind|Beside|Else)\b")
# A literal or a comment.
TOKEN = re.compile(r'"(?:\\.|[^"\\\n])*"|\'(?:\\.|[^\'\\\n])+\'|//[^\n]*|/\*.*?\*/', re.S)


def comments(text):
    """[(number of the line, whether it trails code, the words)], a line each."""
    lines = text.split("\n")
    for token in TOKEN.finditer(text):
        if token.group()[0] != "/":
            continue
        first = text.count("\n", 0, token.start())
        column = token.start() - text.rfind("\n", 0, token.start()) - 1
        for i, line in enumerate(token.group().split("\n")):
            trails = token.group()[1] == "/" and bool(lines[first][:column].strip())
            yield first + i + 1, trails, line.strip("/*< ")


def problems(text):
    """[(number of the line, what is wrong)]."""
    found, before = [], -1
    for line, trailing, words in comments(text):
        continues = line == before + 1
        if trailing and (match := TRAILING.match(words)):
            found.append((line, f'"{match[0]} ..." is half of a sentence'))
        if not trailing and not continues and (match := ABOVE.match(words)):
            found.append((line, f'"{match[0]} ..." continues a sentence'))
        found += [(line, f'"{match[0]}": comments are about things') for match in PERSONS.finditer(words)]
        before = line
    return found


def check(paths):
    """["FILE:LINE: what is wrong"] of files, and of those in folders."""
    out = []
    for path in paths:
        files = [path] if path.is_file() else sorted(f for end in ("h", "cc") for f in path.rglob(f"*.{end}"))
        for file in files:
            name = file.relative_to(ROOT) if file.is_relative_to(ROOT) else file
            out += [f"{name}:{line}: {problem}" for line, problem in problems(file.read_text())]
    return out


def self_test():
    good = [
        "int a;  // Bytes of the payload.",
        "int a;  // [RDMA-6]",
        'f("// of that");',
        "void f(int /*to*/) {}",
        "// In every version the same.",
        "// The first line\n// of two.",
    ]
    bad = [
        "int a;  // of the payload",
        "int a;  ///< where it begins",
        "// Of the payload.",
        "// Asks whoever knows.",
        "/* Two lines,\n   nobody reads */",
        "int b;\n// That of a.",
    ]
    assert not [text for text in good if problems(text)], [text for text in good if problems(text)]
    assert not [text for text in bad if len(problems(text)) != 1], [text for text in bad if len(problems(text)) != 1]


parser = argparse.ArgumentParser(description=__doc__)
parser.add_argument("paths", nargs="*", type=lambda path: pathlib.Path(path).resolve())
parser.add_argument("--self-test", action="store_true")
arguments = parser.parse_args()
if arguments.self_test:
    self_test()
else:
    wrong = check(arguments.paths or [ROOT / folder for folder in FOLDERS])
    sys.exit("\n".join(wrong) or None)
