"""What encryption between hosts costs: an encrypted group beside a plain one, in the same processes, by turns.

    python benchmarks/encryption --json out/encryption.json
    python benchmarks/encryption --rates none --sizes 1M,25M --transports tcp

Two hosts are namespaces of this machine, and each has an embedded switch. Their links are limited to --rates Mbit/s,
or not at all. Between two all-reduces each rank computes for --gap us of processor time, and writes its tensor. A round
has a block of calls of each group, which begin by turns; results are verified. Ratios are those of a round, and in the
table their medians: "speed" is plain over encrypted time (the median of the calls), "CPU" encrypted over plain
processor time of the ranks' processes, without what they compute and write.
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

HOSTS, MTU = 2, 1500
TRANSPORTS = ("udp", "tcp")
PLAIN, SEALED = "off", "on"


def transport(text):
    return text if text in TRANSPORTS else options.refuse(text, " or ".join(TRANSPORTS))


def parse():
    parser = argparse.ArgumentParser(
        prog="benchmarks/encryption", description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument(
        "--rates",
        type=options.list_of(options.rate_or_none),
        default=[100, 0],
        help="of a link, Mbit/s, or none; default: 100,none",
    )
    parser.add_argument(
        "--transports", type=options.list_of(transport), default=list(TRANSPORTS), help="default: udp,tcp"
    )
    parser.add_argument(
        "--sizes",
        type=options.list_of(options.byte_size),
        default=[16 << 10, 64 << 10, 1 << 20, 25 << 20],
        help="default: 16K,64K,1M,25M",
    )
    parser.add_argument(
        "--gap",
        type=options.number(0, 1000000, int, " us"),
        default=1000,
        help="of computation between calls; default: 1000",
    )
    parser.add_argument("--seconds", type=options.number(0.01, 600), default=1.0, help="about, of a block; default: 1")
    parser.add_argument("--rounds", type=options.number(1, 1000, int), default=7, help="default: 7")
    parser.add_argument("--json", type=pathlib.Path, help="write all figures here")
    return parser.parse_args()


def ratios(of_ranks):
    """(speed, processor time) of the encrypted group over the plain one, of each round."""
    speeds, costs = [], []
    for blocks in zip(*of_ranks):  # of one round, a rank each
        seconds = {
            name: statistics.median(sum((each[name]["seconds"] for each in blocks), [])) for name in (PLAIN, SEALED)
        }
        cpu = {name: sum(each[name]["cpu"] for each in blocks) for name in (PLAIN, SEALED)}
        speeds.append(seconds[PLAIN] / seconds[SEALED])
        costs.append(cpu[SEALED] / cpu[PLAIN])
    return speeds, costs


def row_of(size, of_ranks):
    speeds, costs = ratios(of_ranks)
    blocks = [block for rounds in of_ranks for block in rounds]
    found = {"bytes": size, "speed": statistics.median(speeds), "cpu_ratio": statistics.median(costs)}
    for name in (PLAIN, SEALED):
        found[name] = {
            "seconds": statistics.median(sum((each[name]["seconds"] for each in blocks), [])),
            "cpu_per_byte": statistics.median(each[name]["cpu"] / len(each[name]["seconds"]) / size for each in blocks),
        }
    return {**found, "speeds": speeds, "cpu_ratios": costs}


def run(rate, carrier, arguments):
    settings = {"SWITCHML_SWITCH": "", "SWITCHML_TRANSPORT": carrier, "OMP_NUM_THREADS": "1"}
    with places.network(HOSTS, rate, MTU, offload=not rate) as place:
        job = star.Job(place, program=HERE / "worker.py", **settings)
        opened = job.run(places.PATIENCE, "open")[0]
        rows = []
        for size in arguments.sizes:
            how = (size, arguments.gap, arguments.seconds, arguments.rounds)
            rows.append(row_of(size, job.run(places.PATIENCE, "measure", *how)))
        job.end()
    return {"rate": rate, "transport": carrier, **opened, "rows": rows}


def show(measured):
    limit = f"links of {measured['rate']} Mbit/s" if measured["rate"] else "links without a limit"
    print(f"\n{HOSTS} hosts, {limit}, {measured['transport']}, torch {measured['torch']}")
    rows = [
        [
            report.format_bytes(row["bytes"]),
            *(report.format_seconds(row[name]["seconds"]) for name in (PLAIN, SEALED)),
            f"{row['speed']:.3f}",
            *(f"{1e9 * row[name]['cpu_per_byte']:.2f}" for name in (PLAIN, SEALED)),
            f"{row['cpu_ratio']:.2f}",
        ]
        for row in measured["rows"]
    ]
    report.print_columns(["size", "plain p50", "encrypted", "speed", "CPU ns/B", "encrypted", "CPU"], rows)
    sys.stdout.flush()


def main():
    arguments = parse()
    places.check_network(MTU)
    content = {**repository.circumstances("encryption"), "runs": []}
    for rate in arguments.rates:
        for carrier in arguments.transports:
            content["runs"].append(run(rate, carrier, arguments))
            show(content["runs"][-1])
    if arguments.json:
        repository.write(arguments.json, content)
    return 0


if __name__ == "__main__":
    places.run(main)
