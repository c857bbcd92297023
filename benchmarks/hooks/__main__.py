"""Gradients in 8 and 16 bits over links: bytes and times of switchml.hooks beside those of float32, interleaved.

    python benchmarks/hooks --json out/hooks.json
    python benchmarks/hooks --ranks 2 --size 16M --rate 250 --hooks bf16,fp8

Each rank has a host of its own, a network namespace behind a link whose rate is limited both ways, and each host adds a
part (as root). A step has the gradients of --size bytes of float32, in two buckets that are both on their way at once.
Bytes are those that a host's link sends, with headers and repeats, of the host that sends most. The mean of the first
and the last step of each way is verified.
"""

import argparse
import pathlib
import statistics
import sys

HERE = pathlib.Path(__file__).resolve().parent
sys.path.insert(0, str(HERE.parent / "common"))
import options  # noqa: E402
import places  # noqa: E402
import report  # noqa: E402
import repository  # noqa: E402
import star  # noqa: E402

HOOKS = ("bf16", "fp8", "int8")
FLOAT32 = "float32"


def hook(text):
    return text if text in HOOKS else options.refuse(text, ", ".join(HOOKS))


def parse():
    parser = argparse.ArgumentParser(
        prog="benchmarks/hooks", description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("--ranks", type=options.list_of(options.rank_count), default=[2, 4, 8], help="default: 2,4,8")
    parser.add_argument("--size", type=options.byte_size, default=1 << 23, help="bytes of float32; default: 8M")
    parser.add_argument("--hooks", type=options.list_of(hook), default=list(HOOKS), help="default: all of them")
    parser.add_argument("--steps", type=options.number(1, 1000, int), default=5, help="of each way; default: 5")
    parser.add_argument("--rate", type=options.link_rate, default=100, help="Mbit/s of a link, each way; default: 100")
    parser.add_argument("--transport", choices=("auto", "udp", "tcp"), default="auto", help="default: auto")
    parser.add_argument("--json", type=pathlib.Path, help="write all figures here")
    return parser.parse_args()


def run(ranks, arguments):
    settings = {"SWITCHML_SWITCH": "", "SWITCHML_TRANSPORT": arguments.transport, "OMP_NUM_THREADS": "1"}
    with places.network(ranks, arguments.rate, 1500) as place:
        job = star.Job(place, program=HERE / "worker.py", **settings)
        opened = job.run(places.PATIENCE, "open", arguments.hooks)[0]
        found = job.run(places.PATIENCE, "measure", arguments.size, arguments.steps)
        job.end()
    rows = [
        {
            "way": way,
            "seconds": sorted(map(max, zip(*(rank[way]["seconds"] for rank in found)))),
            "bytes": max(rank[way]["bytes"] for rank in found) / arguments.steps,
        }
        for way in (FLOAT32, *arguments.hooks)
    ]
    return {"ranks": ranks, "rate": arguments.rate, "size": arguments.size, **opened, "rows": rows}


def ratios(measured):
    """{hook: (its bytes over float32's, its time over float32's)}"""
    exact, *others = measured["rows"]
    time = {row["way"]: statistics.median(row["seconds"]) for row in measured["rows"]}
    return {row["way"]: (row["bytes"] / exact["bytes"], time[row["way"]] / time[FLOAT32]) for row in others}


def show(measured):
    size = report.format_bytes(measured["size"])
    print(f"\n{measured['ranks']} ranks on {report.links(measured['rate'])}, {size}, transport {measured['transport']}")
    of_float32 = {FLOAT32: (1.0, 1.0), **ratios(measured)}
    cells = [
        [
            row["way"],
            f"{row['bytes'] / 1e6:.2f}",
            report.format_seconds(statistics.median(row["seconds"])),
            *(f"{ratio:.3f}" for ratio in of_float32[row["way"]]),
        ]
        for row in measured["rows"]
    ]
    report.print_columns(["gradients", "MB a step", "time p50", "bytes over float32's", "time over float32's"], cells)
    sys.stdout.flush()


def main():
    arguments = parse()
    places.check_network(1500)
    return repository.measure("hooks", arguments, run, show)


if __name__ == "__main__":
    places.run(main)
