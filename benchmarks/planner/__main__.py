"""Plans jobs in a fat-tree of 1,000 switches and 10,000 workers: processor time, and the least rate beside the bound.

    python benchmarks/planner
    python benchmarks/planner --placement packed --capacity 1.6T --seeds 1:3 --out out/planner.json

Jobs have equal numbers of workers, on hosts at random ("scattered"), or in racks at random ("packed"). Time is that of
one core, without reading files. Needs the packages of `pip install switchml[planner]`.
"""

import argparse
import json
import os
import pathlib
import statistics
import sys
import time

for _name in ("OMP_NUM_THREADS", "OPENBLAS_NUM_THREADS"):
    os.environ.setdefault(_name, "1")
ROOT = pathlib.Path(__file__).resolve().parent.parent.parent
sys.path.insert(0, str(ROOT / "python"))
from _switchml_entry import load_planner  # noqa: E402

PACKAGES = "numpy scipy networkx pyyaml"


def load():
    if "planner" in sys.modules:
        return sys.modules["planner"]
    try:
        return load_planner("planner", str(ROOT / "python" / "switchml" / "planner"))
    except ImportError as error:
        sys.exit(f"error: {error}: {sys.executable} -m pip install {PACKAGES}")


def seeds(text):
    first, _, last = text.partition(":")
    if not first.isdigit() or not (last or first).isdigit() or int(last or first) < int(first):
        raise argparse.ArgumentTypeError(f"{text} is not allowed: use FIRST:LAST, as in 1:5")
    return range(int(first), int(last or first) + 1)


def capacity(text):
    load()
    from planner.errors import PlanError
    from planner.speeds import parse_speed

    try:
        return None if text == "none" else parse_speed(text)
    except PlanError as error:
        raise argparse.ArgumentTypeError(f"{error}, or none") from error


def parse():
    parser = argparse.ArgumentParser(
        prog="benchmarks/planner", description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("--placement", choices=("scattered", "packed"), default="scattered")
    parser.add_argument("--capacity", type=capacity, default=3.2e12, help="of each switch, or none (default: 3.2T)")
    parser.add_argument("--uplink", type=capacity, default=100e9, help="of an edge switch's links up (default: 100G)")
    parser.add_argument("--jobs", type=int, choices=range(1, 201), default=20, metavar="1..200", help="default: 20")
    parser.add_argument("--shares", type=int, choices=range(1, 65), default=4, metavar="1..64", help="default: 4")
    parser.add_argument("--seeds", type=seeds, default=range(1, 6), help="of placements (default: 1:5)")
    parser.add_argument("--out", type=pathlib.Path, help="JSON file to write")
    return parser.parse_args()


def measure(planner, topology, jobs, options):
    begin = time.process_time()
    plan = planner.plan(topology, jobs, options=options)
    return {"seconds": time.process_time() - begin, "least": plan.least, "bound": plan.bound}


def main():
    arguments = parse()
    planner = load()
    import fat_tree

    tree = fat_tree.FatTree(capacity=arguments.capacity, edge_speed=arguments.uplink)
    topology = tree.topology()
    print(f"{len(topology.aggregators)} switches, {len(topology.workers)} workers, {arguments.jobs} jobs")
    rows = []
    for seed in arguments.seeds:
        jobs = fat_tree.place_jobs(topology, arguments.jobs, seed, arguments.placement)
        row = measure(planner, topology, jobs, planner.Options(arguments.shares, seed=seed))
        rows.append({"seed": seed, **row})
        part = row["least"] / row["bound"]
        print(
            f"seed {seed}: {row['seconds']:.2f} s, {row['least'] / 1e9:.2f}G of {row['bound'] / 1e9:.2f}G: {part:.2%}"
        )
    median = statistics.median(row["least"] / row["bound"] for row in rows)
    print(f"median: {statistics.median(row['seconds'] for row in rows):.2f} s, {median:.2%} of the bound")
    if arguments.out:
        arguments.out.parent.mkdir(parents=True, exist_ok=True)
        arguments.out.write_text(json.dumps({"rows": rows}, indent=1) + "\n")
    return 0


if __name__ == "__main__":
    sys.exit(main())
