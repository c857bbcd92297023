"""The tables of options and settings in the documentation have what programs and package have: each name, its default,
and the numbers of what is allowed."""

import re
import subprocess

import lab
import pytest
import settings_table
import switchml
from documented import tables

NUMBER = re.compile(r"(?<![\w.])\d+(?:\.\d+)?")


def documented(page, kind, name):
    """name -> its row of a table whose first column is so called: the first such row."""
    found = {}
    for rows in tables(page):
        for row in rows if kind in rows[0] else ():
            for option in re.findall(name, row[kind]):
                found.setdefault(option, row)
    return found


def differences(name, row, default, allowed):
    """What is wrong with the row of an option."""
    text = " ".join(row.values())
    defaults = row.get("default", "").replace("`", "")
    if default and default != defaults and default not in defaults.split(", "):
        yield f"{name}: the default is {default}, not {defaults}"
    for number in set(NUMBER.findall(allowed)) - set(NUMBER.findall(text)):
        yield f"{name}: {number}, of {allowed}, is missing"


def told(program):
    """name -> (default, what is allowed), from --help."""
    path = lab.program(program)
    if path is None:
        pytest.skip(f"{program} is not built")
    text = subprocess.run([path, "--help"], capture_output=True, text=True, check=True, timeout=60).stdout
    found = {}
    for option in ("\n" + text.split("\n\n")[1]).split("\n  --")[1:]:
        name, about = re.match(r"([a-z-]+)(.*)", " ".join(option.split())).groups()
        about, _, default = about.partition(" (default ")
        found[name] = (default.rstrip(")"), about.rpartition(": ")[2] if ": " in about else "")
    return found


@pytest.mark.parametrize(
    "program, page", [("switchml-switchd", "docs/operations.md"), ("switchml-controller", "docs/controller.md")]
)
def test_options_are_documented(program, page):
    found, known = told(program), documented(page, "option", r"`--([a-z-]+)")
    assert set(found) <= set(known), "each option has a row"
    assert set(known) <= set(found) | set(told("switchml-switchd")), "and each row an option"
    wrong = [each for name, about in found.items() for each in differences("--" + name, known[name], *about)]
    assert not wrong, f"{page}: {'; '.join(wrong)}"


def test_settings_are_documented():
    page = settings_table.PAGE.read_text()
    assert settings_table.written(page) == page, "tests/python/settings_table.py --write"
    settings = {row["name"].upper() for row in switchml.settings()}
    assert set(settings_table.SECTIONS) < {name.lower() for name in settings}
    assert set(documented("README.md", "variable", r"`SWITCHML_([A-Z_]+)")) < settings, "README has some of them"


def test_counters_are_documented():
    table = (lab.ROOT / "backend" / "base" / "counters.h").read_text()
    found, known = (
        set(re.findall(r"^  X\((\w+), ", table, re.M)),
        documented("docs/troubleshooting.md", "counter", r"`(\w+)`"),
    )
    assert len(found) > 30, "the table has the form that this test reads"
    assert found == set(known), "each counter has a row under Counters, and each row a counter"
