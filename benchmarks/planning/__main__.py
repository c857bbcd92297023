"""The example of docs/planning.md for real: a planner's topology in network namespaces, and the rate of all-reduces by
each way.

    python benchmarks/planning --json out/planning.json --svg out/planning.svg       # 5 minutes, as root
    python benchmarks/planning --ways planned --unit 5 --size 4M --iters 1
    python benchmarks/planning --draw out/planning.json --svg out/planning.svg       # measures nothing

Each worker of the job is a process of torch in a namespace, each switch one that forwards IP, each aggregator a
switchml-switchd whose link takes in contributions at its capacity. Links have a rate both ways. Routes are pinned along
the plan's, and a controller carries the plan out. Ways: none (a parameter server; each worker by one route of its own),
nearest, planned, and a ring of Gloo.

A rate is a rank's tensor bytes over the slowest rank's time, in units: one unit is --unit Mbit/s of payload, and stands
for 1 Gbit/s of the topology. Links are as much faster as the headers of switchml take (1474 of 1408 bytes; of Gloo's
TCP 1514 of 1448, and acknowledgements). Every result is verified.
"""

import argparse
import pathlib
import statistics
import sys
import tempfile

HERE = pathlib.Path(__file__).resolve().parent
sys.path.insert(0, str(HERE.parent / "common"))
import drawing  # noqa: E402
import limits  # noqa: E402
import options  # noqa: E402
import places  # noqa: E402
import report  # noqa: E402
import repository  # noqa: E402
import star  # noqa: E402

import lab  # noqa: E402

EXAMPLE = repository.ROOT / "examples" / "planning"
WAYS = ("none", "nearest", "planned", "ring")
NAMES = {"none": "a parameter server", "nearest": "the nearest switch", "planned": "planned", "ring": "a ring (Gloo)"}
MTU, PAYLOAD = 1500, 1408
OVERHEAD = limits.packets_bytes(PAYLOAD, PAYLOAD, limits.UDP + limits.SWITCHML["exact"], MTU) / PAYLOAD
GIGA = 1e9  # bit/s of the topology that are a unit
SLOWEST = 0.3  # units: a call that is slower is given up
JOINING = 180.0  # seconds
NEEDED = ("numpy", "scipy", "networkx", "yaml", "grpc", "google.protobuf", "torch")


def way(text):
    return text if text in WAYS else options.refuse(text, ", ".join(WAYS))


def parse():
    parser = argparse.ArgumentParser(
        prog="benchmarks/planning", description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("--ways", type=options.list_of(way), default=list(WAYS), help=f"default: {','.join(WAYS)}")
    parser.add_argument("--unit", type=options.number(0.5, 1000), default=2.0, help="Mbit/s of a unit; default: 2")
    parser.add_argument("--size", type=options.byte_size, default=6 << 20, help="bytes of a tensor; default: 6M")
    parser.add_argument(
        "--iters", type=options.number(1, 1000, int), default=3, help="timed calls of a way; default: 3"
    )
    parser.add_argument(
        "--topology", type=pathlib.Path, default=EXAMPLE / "topology.yaml", help="default: the example's"
    )
    parser.add_argument("--jobs", type=pathlib.Path, default=EXAMPLE / "jobs.yaml", help="the first job is measured")
    parser.add_argument("--json", type=pathlib.Path, help="write all figures here")
    parser.add_argument("--svg", type=pathlib.Path, help="draw measured rates beside the model's")
    parser.add_argument("--draw", type=pathlib.Path, metavar="FILE", help="an earlier --json: draw it, measure nothing")
    return parser.parse_args()


def check():
    """Ends the program with what is missing."""
    places.check_network(MTU)
    if lab.program("switchml-controller") is None:
        sys.exit("error: switchml-controller is not built: docs/controller.md says what it needs")
    if not (lab.build_folder() / "python" / "switchml").exists():
        sys.exit(f"error: {lab.build_folder()}/python has no switchml: make setup, or set SWITCHML_TEST_BUILD")
    try:
        for name in NEEDED:
            __import__(name)
    except ImportError as error:
        sys.exit(f"error: {error}: {sys.executable} -m pip install numpy scipy networkx pyyaml grpcio protobuf")


def load_planner():
    sys.path.insert(0, str(lab.build_folder() / "python"))
    from _switchml_entry import load_planner

    return load_planner("planner", str(repository.ROOT / "python" / "switchml" / "planner"))


def measure(network, job, plan, name, arguments):
    """A row: rates of the calls in units, and what the ranks say."""
    if plan is not None:
        network.carry_out(plan)
    sessions = job.run(JOINING, "join", "gloo" if plan is None else "switchml")
    most = arguments.size * 8 / (arguments.unit * 1e6) / SLOWEST * (arguments.iters + 1)
    answers = job.run(60 + most, "measure", arguments.size, arguments.iters)
    job.run(JOINING, "part")
    seconds = [max(each) for each in zip(*(answer["seconds"] for answer in answers))]
    return row_of(name, seconds, answers, sessions[0], arguments)


def row_of(name, seconds, answers, session, arguments):
    moved = answers[0]["moved"]
    return {
        "way": name,
        "seconds": seconds,
        "rate": arguments.size * 8 / statistics.median(seconds) / (arguments.unit * 1e6),
        "busy": moved["busy"] / max(1, moved["ticks"]),
        "again": sum(answer["counters"].get("retransmissions", 0) for answer in answers),
        "session": session,
    }


def run(arguments):
    import planned_ways
    import planned_network

    planner = load_planner()
    from planner import ring

    topology = planner.read_topology(arguments.topology)
    job = planner.read_jobs(arguments.jobs, topology)[0]
    rows, text = [], arguments.topology.read_text()
    scale = planned_network.Scale(arguments.unit, GIGA, OVERHEAD)
    with tempfile.TemporaryDirectory(prefix="switchml-bench-") as folder:
        with planned_network.PlannedNetwork(
            pathlib.Path(folder), topology, planned_ways.addresses_of(text), text, scale
        ) as made:
            made.hosts = [made.spaces[name] for name in ring.ring_order(topology, job)]
            ranks = star.Job(made, program=HERE / "gradient_rank.py", PYTHONPATH=f"{lab.build_folder()}/python")
            for name in arguments.ways:
                plan, expected = planned_ways.plan_of(planner, topology, job, name)
                row = measure(made, ranks, plan, name, arguments) | {"model": expected / GIGA}
                rows.append(row)
                print(
                    f"{NAMES[name]}: {row['rate']:.3f} of {row['model']:.3f}, {report.format_seconds(max(row['seconds']))}",
                    flush=True,
                )
            ranks.end()
    return rows


def table(rows):
    print()
    headings = ["way", "model", "measured", "of the model", "of the wire", "seconds", "sent again", "machine busy"]
    lines = [
        [
            NAMES[row["way"]],
            f"{row['model']:.3f}",
            f"{row['rate']:.3f}",
            f"{row['rate'] / row['model']:.1%}",
            f"{row['rate'] / row['model'] / OVERHEAD:.1%}",
            " ".join(f"{each:.2f}" for each in row["seconds"]),
            str(row["again"]) if row["way"] != "ring" else "-",
            f"{row['busy']:.0%}",
        ]
        for row in rows
    ]
    report.print_columns(headings, lines)


def main():
    arguments = parse()
    if arguments.svg:
        drawing.need_matplotlib()  # or ends before anything is measured
    if arguments.draw:
        content = repository.read(arguments.draw, "planning", "--draw")
    else:
        check()
        rows = run(arguments)
        table(rows)
        content = {**repository.circumstances("planning"), "unit": arguments.unit, "size": arguments.size, "rows": rows}
        if arguments.json:
            repository.write(arguments.json, content)
    if arguments.svg:
        import rate_bars

        rate_bars.draw(content, NAMES, arguments.svg)
    return 0


if __name__ == "__main__":
    places.run(main)
