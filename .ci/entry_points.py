#!/usr/bin/env python3
"""Writes the metadata of an installed package that is used straight from the build folder.

Usage: entry_points.py pyproject.toml FOLDER.dist-info
"""

import pathlib
import sys
import tomllib


def main():
    project = tomllib.loads(pathlib.Path(sys.argv[1]).read_text())["project"]
    folder = pathlib.Path(sys.argv[2])
    lines = []
    for group, entries in project["entry-points"].items():
        lines += [f"[{group}]", *(f"{name} = {target}" for name, target in entries.items())]
    (folder / "entry_points.txt").write_text("\n".join(lines) + "\n")
    version = project.get("version", "0")
    (folder / "METADATA").write_text(f"Metadata-Version: 2.1\nName: {project['name']}\nVersion: {version}\n")


if __name__ == "__main__":
    main()
