"""Compares a branch with its base, or two JSON files of benchmarks/allreduce.

    python benchmarks/compare --base main                    # the C++ core: a minute or two
    python benchmarks/compare --base main --what allreduce   # over PyTorch: builds the base's module first
    python benchmarks/compare old.json new.json [--worse 1.2]

--base builds that revision in a temporary folder and runs base and branch interleaved, so that whatever else the
machine does hits both alike. It prints the medians of each round's ratios, branch over base: below 1 the branch is
faster. Results are verified on both; times decide nothing: the status is 0 unless a result is wrong or a program of the
branch fails. Where there is nothing to compare with it says so.

Of two files it prints the ratio of medians, new over old, for whatever both have measured; with --worse, status 1 if a
ratio is above it.
"""

import argparse
import pathlib
import sys

HERE = pathlib.Path(__file__).resolve().parent
sys.path[:0] = [str(HERE), str(HERE.parent / "common")]
import branch  # noqa: E402
import options  # noqa: E402
import report  # noqa: E402


def medians(path):
    """{report.key: median seconds} of a file."""
    return {report.key(run, row, backend): report.median(row, backend) for run, row, backend in report.rows_of(path)}


def without_payload(found):
    """The same without payloads, which files of older versions do not have; where there are several for one key, none
    of them."""
    shorter = [(key._replace(payload=0), seconds) for key, seconds in found.items()]
    keys = [key for key, _ in shorter]
    return {key: seconds for key, seconds in shorter if keys.count(key) == 1}


def compare_files(old_path, new_path, worse):
    old, new = medians(old_path), medians(new_path)
    if not all(any(key.payload for key in found) for found in (old, new)):
        old, new = without_payload(old), without_payload(new)
    common = sorted(old.keys() & new.keys())
    if not common:
        raise SystemExit(f"{old_path} and {new_path} have no measurement in common ({', '.join(report.KEY_HEADINGS)})")
    ratios = {key: new[key] / old[key] for key in common}
    rows = [
        [*report.key_cells(key), report.format_seconds(old[key]), report.format_seconds(new[key]), f"{ratios[key]:.2f}"]
        for key in common
    ]
    report.print_columns([*report.KEY_HEADINGS, "old p50", "new p50", "new/old"], rows)
    if worse and max(ratios.values()) > worse:
        print(f"worse than {worse}: {sum(ratio > worse for ratio in ratios.values())} of {len(ratios)}")
        return 1
    return 0


def what(text):
    return text if text in branch.SUBJECTS else options.refuse(text, " or ".join(branch.SUBJECTS))


def parse():
    parser = argparse.ArgumentParser(
        prog="benchmarks/compare", description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("files", nargs="*", metavar="FILE", help="two JSON files: old and new")
    parser.add_argument("--worse", type=float, help="of two files: fail if a ratio is above this")
    parser.add_argument(
        "--base",
        help="a git revision; a folder with a tree of this project; or auto: where the branch left the published main",
    )
    with_base = parser.add_argument_group("with --base")
    with_base.add_argument("--what", type=what, default="core", help="core (default) or allreduce")
    with_base.add_argument(
        "--rounds", type=options.number(1, 1000, int), default=7, help="of base and branch, interleaved; default: 7"
    )
    with_base.add_argument(
        "--limit",
        type=options.number(1, 36000),
        default=90.0,
        help="seconds after which no further round begins; default: 90",
    )
    with_base.add_argument(
        "--build-limit",
        type=options.number(1, 36000),
        default=1800.0,
        help="seconds in which the base must be built; default: 1800",
    )
    with_base.add_argument(
        "--ranks", type=options.list_of(options.rank_count), default=[2, 4], help="of allreduce; default: 2,4"
    )
    with_base.add_argument(
        "--sizes",
        type=options.list_of(options.byte_size),
        default=[4096, 1 << 20, 16 << 20],
        help="of allreduce; default: 4K,1M,16M",
    )
    arguments = parser.parse_args()
    if bool(arguments.base) == bool(arguments.files) or len(arguments.files) not in (0, 2):
        parser.error("two files are needed, or --base")
    return arguments


def main():
    arguments = parse()
    if arguments.files:
        return compare_files(*arguments.files, arguments.worse)
    return branch.compare(arguments)


if __name__ == "__main__":
    sys.exit(main())
