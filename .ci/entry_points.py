#!/usr/bin/env python3
"""Writes the metadata and the scripts of an installed package that is used straight from the build folder.

Usage: entry_points.py pyproject.toml FOLDER.dist-info [FOLDER/bin]; the Python beside the scripts runs them
"""

import pathlib
import sys
import tomllib


SCRIPT = """#!/bin/sh
'''exec' "$(dirname "$(readlink -f "$0")")/python" "$0" "$@"
' '''
import sys

from {module} import {function}

sys.exit({function}())
"""


def write_scripts(scripts, folder):
    for name, target in scripts.items():
        module, _, function = target.partition(":")
        (folder / name).write_text(SCRIPT.format(module=module, function=function))
        (folder / name).chmod(0o755)


def main():
    project = tomllib.loads(pathlib.Path(sys.argv[1]).read_text())["project"]
    folder = pathlib.Path(sys.argv[2])
    lines = []
    for group, entries in project["entry-points"].items():
        lines += [f"[{group}]", *(f"{name} = {target}" for name, target in entries.items())]
    (folder / "entry_points.txt").write_text("\n".join(lines) + "\n")
    version = project.get("version", "0")
    (folder / "METADATA").write_text(f"Metadata-Version: 2.1\nName: {project['name']}\nVersion: {version}\n")
    if len(sys.argv) > 3:
        write_scripts(project["scripts"], pathlib.Path(sys.argv[3]))


if __name__ == "__main__":
    main()
