#!/usr/bin/env python3
"""Whether Markdown is short: pages of 500 lines, 120 columns, sentences of 40 words (25 as a rule); whether links lead
somewhere, and `FILE.cc` and `FILE.cc: symbol` name what is there.

Usage: check_docs.py FILE..., or --self-test
Tables, code and links may be longer than a line.
"""

import functools
import pathlib
import re
import subprocess
import sys
import tempfile

LINES, COLUMNS, WORDS, RULE = 500, 120, 40, 25
FENCE = re.compile(r"^\s*```")
ITEM = re.compile(r"^\s*([-*+]|\d+\.)\s+")
LINK = re.compile(r"\[[^\]]*\]\(([^)\s]+)\)")
SOURCE = re.compile(r"`([\w./-]+\.(?:h|cc|py|p4|toml|sh|cmake|proto))(?:: ?([\w:~, ]+?)(?:\(\))?)?`")
TRACE = re.compile(r"([\w/]+\.(?:h|cc)): (\w+(?:, \w+)*)")  # in a drawing
MADE = {"wire/layout.h", "wire.p4"}  # by the build
PLACEHOLDER = re.compile(r"[A-Z]{4}|/X[._]|_\.\.\.")
END = re.compile(r"(?<=[.!?:;])\s+")


def prose_lines(text):
    """[(number, line)] without code; a blank line stands for what separates paragraphs."""
    lines, inside = [], False
    for number, line in enumerate(text.splitlines(), 1):
        if FENCE.match(line):
            inside = not inside
            line = ""
        lines.append((number, "" if inside or line.startswith(("|", "#", "<!--", "    ")) else line))
    return lines


def paragraphs(lines):
    """[(number of the first line, text)]"""
    found, first = [], 0
    words: list[str] = []
    for number, line in [*lines, (0, "")]:
        if words and (not line.strip() or ITEM.match(line)):
            found.append((first, " ".join(words)))
            words = []
        if line.strip():
            first = first if words else number
            words.append(ITEM.sub("", line).strip())
    return found


def sentences(paragraph):
    """Code and links count as one word."""
    plain = LINK.sub("link", re.sub(r"`[^`]*`", "code", paragraph))
    return [sentence.split() for sentence in END.split(plain) if sentence.split()]


def anchors(text):
    """Of headings, as GitHub makes them."""
    found: set = set()
    for heading in re.findall(r"^#+\s+(.*?)\s*$", re.sub(r"^```.*?^```", "", text, flags=re.S | re.M), re.M):
        plain = re.sub(r"[`*]|\[([^\]]*)\]\([^)]*\)", r"\1", heading).lower()
        slug = re.sub(r"[^\w\- ]", "", plain).replace(" ", "-")
        again = sum(one == slug or re.fullmatch(rf"{re.escape(slug)}-\d+", one) is not None for one in found)
        found.add(f"{slug}-{again}" if again else slug)
    return found | set(re.findall(r'<a (?:id|name)="([^"]+)"', text))


def check_link(path, target):
    if re.match(r"[a-z]+:", target):
        return ""
    file, _, anchor = target.partition("#")
    there = path.parent / file if file else path
    if not there.exists():
        return f"there is no {file}"
    if anchor and there.suffix == ".md" and anchor not in anchors(there.read_text()):
        return f"{there.name} has no heading #{anchor}"
    return ""


@functools.cache
def tracked():
    return subprocess.run(["git", "ls-files"], capture_output=True, text=True, check=True).stdout.split()


def check_source(name, symbols):
    """A file by the end of its path; symbols of one of those."""
    if name in MADE or PLACEHOLDER.search(name):
        return ""
    found = [file for file in tracked() if f"/{file}".endswith(f"/{name}")]
    if not found:
        return f"there is no {name}"
    text = "".join(pathlib.Path(file).read_text() for file in found)
    lost = [
        one
        for one in (symbols or "").split(", ")
        if one and not re.search(rf"\b{re.escape(one.split('::')[-1])}\b", text)
    ]
    return f"{name} has no {lost[0]}" if lost else ""


def check(path):
    """(problems, lengths of the sentences)"""
    text, problems, lengths = path.read_text(), [], []
    lines = prose_lines(text)
    if len(lines) > LINES:
        problems.append((LINES, f"{len(lines)} lines; {LINES} are allowed"))
    for number, line in lines:
        if len(LINK.sub("link", line)) > COLUMNS:
            problems.append((number, f"{len(line)} columns; {COLUMNS} are allowed"))
    for number, paragraph in paragraphs(lines):
        for sentence in sentences(paragraph):
            lengths.append(len(sentence))
            if len(sentence) > WORDS:
                problems.append(
                    (number, f"a sentence of {len(sentence)} words ({' '.join(sentence[:6])} ...); {WORDS} are allowed")
                )
    drawn = {number for number, line in lines if not line}  # code, among others
    for number, line in enumerate(text.splitlines(), 1):
        for target in LINK.findall(line):
            why = check_link(path, target)
            problems += [(number, f"{target}: {why}")] if why else []
        named = SOURCE.findall(line) + (TRACE.findall(line) if number in drawn else [])
        problems += [(number, why) for match in named if (why := check_source(*match))]
    return problems, lengths


# A page, and a part of what is said of it; nothing: no problem.
SELF_TESTS = (
    ("# One\n\nA [link](#one), `wire/packet.h` and `packet.cc: read_header`.\n", ""),
    ("word " * 25, "125 columns"),
    ("word\n" * 41, "a sentence of 41 words"),
    ("\n" * 501, "501 lines; 500 are allowed"),
    ("[link](nowhere.md)", "there is no nowhere.md"),
    ("# One\n\n[link](#two)", "has no heading #two"),
    ("# One\n# One\n# One\n\n[a](#one-1) [b](#one-2)", ""),
    ("`wire/bucket.h`", "there is no wire/bucket.h"),
    ("`wire/packet.h: no_such_thing`", "wire/packet.h has no no_such_thing"),
    ("```\n1 first   wire/packet.cc: no_such_thing\n```", "wire/packet.cc has no no_such_thing"),
)


def self_test():
    wrong = 0
    for text, expected in SELF_TESTS:
        with tempfile.TemporaryDirectory() as folder:
            page = pathlib.Path(folder) / "page.md"
            page.write_text(text)
            found = [problem for _, problem in check(page)[0]]
        if not any(expected in problem for problem in found) if expected else found:
            print(f"self-test: {text!r}: expected {expected!r}, found {found}")
            wrong += 1
    print(f"check_docs self-test: {len(SELF_TESTS) - wrong} of {len(SELF_TESTS)} as expected")
    return 1 if wrong else 0


def main():
    if sys.argv[1:] == ["--self-test"]:
        return self_test()
    total, lengths = 0, []
    for name in sys.argv[1:]:
        problems, found = check(pathlib.Path(name))
        lengths += found
        total += len(problems)
        for number, problem in sorted(problems):
            print(f"{name}:{number}: {problem}")
    long = sum(length > RULE for length in lengths)
    print(
        f"{len(sys.argv) - 1} files, {len(lengths)} sentences of {sum(lengths) / max(1, len(lengths)):.1f} words in the mean, "
        f"{long / max(1, len(lengths)):.0%} longer than {RULE}; {total} problems"
    )
    return 1 if total else 0


if __name__ == "__main__":
    sys.exit(main())
