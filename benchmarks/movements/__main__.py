"""Collectives that move tensors, and reduce_scatter: switchml and Gloo interleaved, on the same processes and buffers.

    python benchmarks/movements --ranks 2,4,8 --json out/movements.json
    python benchmarks/movements --collectives broadcast,all_gather --sizes 4K,64M
    python benchmarks/movements --network --no-switch --rate 250 --sizes 4M   # every host is the switch of a part

Without --network all ranks are processes of this host. With it (as root) each has a host of its own, a network
namespace behind a link whose rate is limited both ways, and so has switchml-switchd, whose link carries as much as all
others together; with --no-switch each host adds a part instead. "one_after_another" is an all_gather_into_tensor and
then a reduce_scatter_tensor, "together" both under way at once. A size is that of the whole: what a root has, or a rank
gathers, or gives away. The first and the last call of each are verified. A time is that of the slowest rank; speed is
Gloo's median over switchml's: above 1, switchml is faster.
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

COLLECTIVES = (
    "broadcast",
    "all_gather",
    "all_gather_into_tensor",
    "gather",
    "scatter",
    "all_to_all_single",
    "reduce_scatter_tensor",
    "one_after_another",
    "together",
)
SIZES = "4K,64K,1M,16M,64M"


def collective(text):
    return text if text in COLLECTIVES else options.refuse(text, ", ".join(COLLECTIVES))


def parse():
    parser = argparse.ArgumentParser(
        prog="benchmarks/movements", description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("--ranks", type=options.list_of(options.rank_count), default=[2, 4, 8], help="default: 2,4,8")
    parser.add_argument(
        "--sizes",
        type=options.list_of(options.byte_size),
        default=options.list_of(options.byte_size)(SIZES),
        help=f"default: {SIZES}",
    )
    parser.add_argument(
        "--collectives", type=options.list_of(collective), default=list(COLLECTIVES), help="default: all of them"
    )
    parser.add_argument(
        "--seconds",
        type=options.number(0.01, 3600),
        default=0.5,
        help="time to spend per collective, size and backend; default: 0.5",
    )
    parser.add_argument(
        "--network", action="store_true", help="over a network of rate-limited links, where namespaces can be made"
    )
    parser.add_argument(
        "--rate", type=options.link_rate, help="with --network: Mbit/s of a link, each way; default: 100"
    )
    parser.add_argument(
        "--no-switch", action="store_true", help="with --network: no switch is named: each host embeds one for its part"
    )
    parser.add_argument("--json", type=pathlib.Path, help="write all figures here")
    arguments = parser.parse_args()
    if (arguments.rate or arguments.no_switch) and not arguments.network:
        parser.error("--rate and --no-switch need --network")
    arguments.rate = (arguments.rate or 100) if arguments.network else 0
    return arguments


def merged(ranks):
    """{backend: sorted times of the slowest ranks}"""
    return {name: sorted(map(max, zip(*(rank[name] for rank in ranks)))) for name in ranks[0]}


def run(ranks, arguments):
    with places.network(ranks, arguments.rate, 1500) if arguments.rate else places.one_host(ranks) as place:
        named = {"SWITCHML_SWITCH": ""} if arguments.no_switch else {}
        job = star.Job(place, program=HERE / "worker.py", OMP_NUM_THREADS="1", **named)
        opened = job.run(places.PATIENCE, "open", arguments.network)[0]
        rows = [
            {
                "collective": name,
                "bytes": size,
                "seconds": merged(job.run(places.PATIENCE, "measure", name, size, arguments.seconds)),
            }
            for name in arguments.collectives
            for size in arguments.sizes
        ]
        job.end()
    return {"ranks": ranks, "rate": arguments.rate, **opened, "rows": rows}


def speed(row):
    return statistics.median(row["seconds"]["gloo"]) / statistics.median(row["seconds"]["switchml"])


def show(measured):
    where = f"on {report.links(measured['rate'])}" if measured["rate"] else "of one host"
    print(f"\n{measured['ranks']} ranks {where}, transport {measured['transport']}, torch {measured['torch']}")
    rows = [
        [
            row["collective"],
            report.format_bytes(row["bytes"]),
            str(len(row["seconds"]["gloo"])),
            *(
                report.format_seconds(part)
                for name in ("switchml", "gloo")
                for part in (report.median(row, name), report.quantile(row["seconds"][name], 0.99))
            ),
            f"{speed(row):.2f}",
        ]
        for row in measured["rows"]
    ]
    report.print_columns(["collective", "size", "calls", "switchml p50", "p99", "gloo p50", "p99", "speed"], rows)
    sys.stdout.flush()


def main():
    arguments = parse()
    if arguments.network:
        places.check_network(1500)
    return repository.measure("movements", arguments, run, show)


if __name__ == "__main__":
    places.run(main)
