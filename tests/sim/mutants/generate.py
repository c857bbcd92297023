#!/usr/bin/env python3
"""Copies sources of backend/ with the planted bugs of mutants.toml in them, each behind a condition, and lists the
bugs.

The text that a bug replaces must occur exactly once in the file as it stands with the bugs before it.
"""

import argparse
import json
import pathlib
import sys
import tomllib

# What a substitution may need beside the includes of its file.
HEAD = (
    '#include <algorithm>\n#include <utility>\n#include <vector>\n#include "mutant.h"\n#include "kernels/kernels.h"\n'
)


def plant(texts, backend, number, mutant):
    for edit in mutant["edits"]:
        name = edit["file"]
        if name not in texts:
            texts[name] = (backend / name).read_text()
        find, replace = edit["find"].lstrip("\n"), edit["replace"].lstrip("\n")
        count = texts[name].count(find)
        if count != 1:
            sys.exit(
                f"mutants.toml: {mutant['name']}: the text to find in {name} occurs {count} times, not once: {find!r}"
            )
        texts[name] = texts[name].replace(find, replace.replace("MUTANT", f"::switchml::sim::mutant_is({number})"))


def table(mutants):
    def row(m):
        fields = (m["name"], m["what"], m.get("witness", False), m.get("rule", ""), m.get("hostile", False))
        return "{" + ", ".join(map(json.dumps, fields)) + "},\n"

    return "".join(map(row, mutants))


def write(path, text):
    path.parent.mkdir(parents=True, exist_ok=True)
    path.write_text(text)


def with_head(name, text):
    return text.replace("#pragma once\n", "#pragma once\n" + HEAD, 1) if name.endswith(".h") else HEAD + text


def main():
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--backend", type=pathlib.Path, required=True)
    parser.add_argument("--output", type=pathlib.Path, required=True, help="a folder that is searched before backend/")
    parser.add_argument("sources", nargs="+", help="FOLDER/FILE.cc in backend/, copied whether changed or not")
    args = parser.parse_args()
    mutants = tomllib.loads((pathlib.Path(__file__).parent / "mutants.toml").read_text())["mutant"]
    texts = {name: (args.backend / name).read_text() for name in args.sources}
    for number, mutant in enumerate(mutants):
        plant(texts, args.backend, number, mutant)
    for name, text in texts.items():
        write(args.output / name, with_head(name, text))
    write(args.output / "mutants.inc", table(mutants))


if __name__ == "__main__":
    main()
