#!/usr/bin/env python3
"""Sums the results of ctest (gtest cases, not executables) and pytest into one closing line.

Exit status 1 if anything failed, if a result file is missing, or if nothing ran.
"""

import argparse
import collections
import pathlib
import sys
import xml.etree.ElementTree as ElementTree

# Tests of ctest whose output is worth reading when they pass: what the simulator's seeds had to bear, and how each
# planted bug was noticed.
TOLD = ("sim_seeds", "sim_mutants")


def outcome(case):
    """Of one <testcase> as ctest, gtest and pytest write it."""
    if case.find("failure") is not None or case.find("error") is not None or case.get("status") == "fail":
        return "failed"
    if (
        case.find("skipped") is not None
        or case.get("status") in ("notrun", "disabled")
        or case.get("result") == "skipped"
    ):
        return "skipped"
    return "passed"


def read_cases(path):
    """Outcomes of the test cases in a JUnit file; a missing or broken file is one failure."""
    try:
        return collections.Counter(outcome(case) for case in ElementTree.parse(path).iter("testcase"))
    except (OSError, ElementTree.ParseError) as error:
        print(f"no results in {path}: {error}")
        return collections.Counter(failed=1)


def read_ctest(folder):
    """Of a results folder that run_gtests left: the cases of each gtest executable, or the executable as one case."""
    try:
        executables = list(ElementTree.parse(folder / "ctest.xml").iter("testcase"))
    except (OSError, ElementTree.ParseError) as error:
        print(f"no results in {folder}/ctest.xml: {error}")
        return collections.Counter(failed=1)
    total: collections.Counter = collections.Counter()
    for executable in executables:
        name, result = executable.get("name"), outcome(executable)
        cases_file = folder / f"{name}.xml"
        cases = read_cases(cases_file) if cases_file.exists() else collections.Counter({result: 1})
        if name in TOLD and result == "passed":
            print(f"{name} ({folder.parent.name}):\n{executable.findtext('system-out', '').rstrip()}")
        if result == "failed" and not cases["failed"]:
            print(f"{name}: failed although every case in it passed (crash, leak or time limit)")
            cases["failed"] += 1
        total += cases
    return total


def line(count):
    return f"{count['passed']} passed, {count['failed']} failed, {count['skipped']} skipped"


def main():
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--ctest", type=pathlib.Path, action="append", default=[], help="a build's results folder")
    parser.add_argument("--pytest", type=pathlib.Path, action="append", default=[], help="a JUnit file of pytest")
    arguments = parser.parse_args()
    total: collections.Counter = collections.Counter()
    for kind, paths, read in (("gtest", arguments.ctest, read_ctest), ("pytest", arguments.pytest, read_cases)):
        for path in paths:
            count = read(path)
            print(f"{kind} ({path.parent.name}): {line(count)}")
            total += count
    print(line(total))
    return 1 if total["failed"] or not total["passed"] else 0


if __name__ == "__main__":
    sys.exit(main())
