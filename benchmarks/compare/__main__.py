"""Compares two JSON files of benchmarks/allreduce: the ratio of medians, new over old, for whatever both have measured.

    python benchmarks/compare old.json new.json [--worse 1.2]

Below 1 the new one is faster. With --worse, exit status 1 if a ratio is above it.
"""
import argparse
import pathlib
import sys

sys.path.insert(0, str(pathlib.Path(__file__).resolve().parent.parent / "common"))
import report  # noqa: E402


def medians(path):
    """{report.key: median seconds} of a file."""
    return {report.key(run, row, backend): report.median(row, backend) for run, row, backend in report.rows_of(path)}


def without_payload(found):
    """The same without payloads, which files of older versions do not have; where there are several for one key, none of them."""
    shorter = [(key[:3] + (0,) + key[4:], seconds) for key, seconds in found.items()]
    keys = [key for key, _ in shorter]
    return {key: seconds for key, seconds in shorter if keys.count(key) == 1}


def main():
    parser = argparse.ArgumentParser(prog="benchmarks/compare", description=__doc__,
                                     formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("old")
    parser.add_argument("new")
    parser.add_argument("--worse", type=float, help="fail if a ratio is above this")
    arguments = parser.parse_args()
    old, new = medians(arguments.old), medians(arguments.new)
    if not all(any(key[3] for key in found) for found in (old, new)):
        old, new = without_payload(old), without_payload(new)
    common = sorted(old.keys() & new.keys())
    if not common:
        raise SystemExit(f"{arguments.old} and {arguments.new} have no measurement in common ({', '.join(report.KEY_HEADINGS)})")
    ratios = {key: new[key] / old[key] for key in common}
    rows = [[*report.key_cells(key), report.format_seconds(old[key]), report.format_seconds(new[key]), f"{ratios[key]:.2f}"]
            for key in common]
    report.print_columns([*report.KEY_HEADINGS, "old p50", "new p50", "new/old"], rows)
    if arguments.worse and max(ratios.values()) > arguments.worse:
        print(f"worse than {arguments.worse}: {sum(ratio > arguments.worse for ratio in ratios.values())} of {len(ratios)}")
        return 1
    return 0


if __name__ == "__main__":
    sys.exit(main())
