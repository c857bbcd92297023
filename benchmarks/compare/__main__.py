"""Compares two JSON files of benchmarks/allreduce: the ratio of medians, new over old, for every size both have.

    python benchmarks/compare old.json new.json [--worse 1.2]

Below 1 the new one is faster. With --worse, exit status 1 if a ratio is above it.
"""
import argparse
import json
import pathlib
import sys

sys.path.insert(0, str(pathlib.Path(__file__).resolve().parent.parent / "allreduce"))
import report  # noqa: E402


def medians(path):
    """{(ranks, bytes, backend): median seconds} of a file."""
    try:
        content = json.loads(pathlib.Path(path).read_text())
        return {(run["ranks"], row["bytes"], backend): report.quantile(seconds, 0.5)
                for run in content["runs"] for row in run["rows"] for backend, seconds in row["seconds"].items()}
    except (OSError, ValueError, KeyError, TypeError) as error:
        raise SystemExit(f"{path}: not a result of benchmarks/allreduce ({type(error).__name__}: {error})")


def main():
    parser = argparse.ArgumentParser(prog="benchmarks/compare", description=__doc__,
                                     formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("old")
    parser.add_argument("new")
    parser.add_argument("--worse", type=float, help="fail if a ratio is above this")
    arguments = parser.parse_args()
    old, new = medians(arguments.old), medians(arguments.new)
    common = sorted(old.keys() & new.keys())
    if not common:
        raise SystemExit(f"{arguments.old} and {arguments.new} have no size, backend and number of ranks in common")
    ratios = {key: new[key] / old[key] for key in common}
    rows = [[str(key[0]), report.format_bytes(key[1]), key[2], report.format_seconds(old[key]),
             report.format_seconds(new[key]), f"{ratios[key]:.2f}"] for key in common]
    report.print_columns(["ranks", "size", "backend", "old p50", "new p50", "new/old"], rows)
    if arguments.worse and max(ratios.values()) > arguments.worse:
        print(f"worse than {arguments.worse}: {sum(ratio > arguments.worse for ratio in ratios.values())} of {len(ratios)}")
        return 1
    return 0


if __name__ == "__main__":
    sys.exit(main())
