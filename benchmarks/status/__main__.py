"""What `python -m switchml status` takes: how soon it names a rank that is stopped, and what its pages cost a call.

    python benchmarks/status --ranks 2,32 --trials 50 --json out/status.json

Each trial stops a rank, lets all others call all_reduce, runs the command, and lets the rank go on: the call must end
with the right sum. For the cost, two ranks, where they are all, call all_reduce of 4 KiB, and train with DDP, in two
groups by turns, one of which has no page.
"""

import argparse
import pathlib
import statistics
import sys

HERE = pathlib.Path(__file__).resolve().parent
sys.path.insert(0, str(HERE.parent / "common"))
import launch  # noqa: E402
import options  # noqa: E402
import places  # noqa: E402
import report  # noqa: E402
import repository  # noqa: E402

CALLED = {"calls": "4 KiB, p50", "steps": "a DDP step, 25 MiB of gradients"}


def parse():
    parser = argparse.ArgumentParser(
        prog="benchmarks/status", description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("--ranks", type=options.list_of(options.rank_count), default=[2, 32], help="default: 2,32")
    parser.add_argument("--trials", type=options.number(1, 1000, int), default=50, help="default: 50")
    parser.add_argument(
        "--rounds", type=options.number(1, 10000, int), default=400, help="of 60 calls, or a step; default: 400"
    )
    parser.add_argument("--json", type=pathlib.Path, help="write all figures here")
    arguments = parser.parse_args()
    arguments.backends = ["switchml"]
    return arguments


def run(ranks, arguments):
    what = {"trials": arguments.trials, "rounds": arguments.rounds, "backends": arguments.backends}
    return launch.run(HERE / "worker.py", ranks, what)


def show(measured):
    row = measured["rows"][0]
    named, took = row["named"], row["seconds"]
    print(f"\n{measured['ranks']} ranks of one host, torch {measured['torch']}")
    print(f"a stopped rank is named in {named} of {len(took)} trials, after")
    print(f"{report.format_seconds(statistics.median(took))} in the median, {report.format_seconds(max(took))} at most")
    for what, costs in row["costs"].items():
        times = {name: report.format_seconds(statistics.median(costs[name])) for name in ("with_page", "without_page")}
        print(f"{CALLED[what]}: {times['with_page']}, without a page {times['without_page']}: {costs['cost']:.4f} x")
    sys.stdout.flush()


def main():
    return repository.measure("status", parse(), run, show)


if __name__ == "__main__":
    places.run(main)
