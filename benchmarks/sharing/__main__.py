"""Jobs that share one link of limited rate, and TCP beside them: what each gets.

    python benchmarks/sharing --json out/sharing.json                          # 2 minutes, as root
    python benchmarks/sharing --mixtures 4 --control off --seconds 10

Each job is two ranks of torch on both sides of the link, in network namespaces; a switchml-switchd adds for all of
them. Each does all-reduces one after the other, and every result is verified. What a job or a flow gets is what ended
while all were under way, without headers. Jain's index is 1 where all get the same, and 1/n where one of n gets all.
"""

import argparse
import contextlib
import itertools
import json
import pathlib
import sys
import tempfile
import time

HERE = pathlib.Path(__file__).resolve().parent
sys.path.insert(0, str(HERE.parent / "common"))
import options  # noqa: E402
import places  # noqa: E402
import report  # noqa: E402
import repository  # noqa: E402
import star  # noqa: E402

import lab  # noqa: E402

TCP_PORT = 5001
WIRE = {"switchml": 1474 / 1408, "tcp": 1514 / 1448}  # bytes on the wire of a byte that arrives, at an MTU of 1500
STARTING = 2.0  # seconds until all begin
GENEROUS = 120.0  # seconds for what must come


def mixture(text):
    jobs, _, flows = text.partition("+")
    if not (jobs.isdigit() and 1 <= int(jobs) <= 16 and (flows or "0").isdigit() and int(flows or 0) <= 16):
        options.refuse(text, "JOBS or JOBS+FLOWS, with 1 to 16 jobs and up to 16 flows of TCP")
    return int(jobs), int(flows or 0)


def control(text):
    return text if text in ("cubic", "off") else options.refuse(text, "cubic, off")


def parse():
    parser = argparse.ArgumentParser(
        prog="benchmarks/sharing", description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("--mixtures", type=options.list_of(mixture), default=[(4, 0), (2, 1)],
                        help="jobs, or jobs and flows of TCP; default: 4,2+1")  # fmt: skip
    parser.add_argument("--control", type=options.list_of(control), default=["off", "cubic"],
                        help="SWITCHML_CONGESTION_CONTROL; default: off,cubic")  # fmt: skip
    parser.add_argument("--tcp-control", default="cubic", help="congestion control of TCP's flows; default: cubic")
    parser.add_argument("--rate", type=options.number(1, 10000), default=100.0, help="Mbit/s; default: 100")
    parser.add_argument("--queue", type=options.byte_size, default=128 << 10, help="bytes; default: 128K")
    parser.add_argument("--size", type=options.byte_size, default=1 << 20, help="bytes of a tensor; default: 1M")
    parser.add_argument("--settling", type=options.number(0, 600), default=5.0, help="seconds; default: 5")
    parser.add_argument("--seconds", type=options.number(1, 600), default=15.0, help="default: 15")
    parser.add_argument("--json", type=pathlib.Path, help="write all figures here")
    return parser.parse_args()


def start_tcp(network, pair, control, begin, end):
    """The name of the log in which the receiver says what has come."""
    left, right = network.pairs[pair]
    name, address = f"tcp{pair}", network.right_address(pair)
    receiver = network.start(name, sys.executable, HERE / "tcp_flow.py", "receive", address, TCP_PORT, namespace=right)
    network.await_line(name, receiver, "listening")
    network.start(f"send{pair}", sys.executable, HERE / "tcp_flow.py", "send", address, TCP_PORT, control, begin, end,
                  namespace=left)  # fmt: skip
    return name


def received_between(lines, begin, end):
    """Bytes, from what the receiver has said."""
    said = [json.loads(line) for line in lines if line.startswith("[")]
    inside = [amount for at, amount in said if begin <= at <= end]
    if len(inside) < 2:
        raise lab.LabError(f"a flow of TCP brought nothing: {lines[-3:]}")
    return inside[-1] - inside[0]


def finished_between(ended, begin, end, size):
    """Bytes of the calls that ended then, those under way at either moment in part."""
    total = 0.0
    for before, after in itertools.pairwise(ended):
        total += size * max(0.0, min(after, end) - max(before, begin)) / (after - before)
    return total


def measure(mixture, setting, arguments):
    import shared_link

    jobs, flows = mixture
    with contextlib.ExitStack() as stack:
        folder = stack.enter_context(tempfile.TemporaryDirectory(prefix="switchml-bench-"))
        network = stack.enter_context(
            shared_link.SharedLink(pathlib.Path(folder), jobs + flows, arguments.rate, arguments.queue)
        )
        made = []
        for number in range(jobs):
            network.hosts = network.pairs[number]
            made.append(star.Job(network, f"job{number}-", program=HERE / "sharing_rank.py",
                                 PYTHONPATH=f"{lab.build_folder()}/python",
                                 SWITCHML_CONGESTION_CONTROL=setting))  # fmt: skip
        sessions = [job.run(GENEROUS, "join")[0] for job in made]
        begin = time.monotonic() + STARTING
        first, last = begin + arguments.settling, begin + arguments.settling + arguments.seconds
        for job in made:
            job.tell("run", arguments.size, begin, last)
        logs = [start_tcp(network, jobs + number, arguments.tcp_control, begin, last) for number in range(flows)]
        time.sleep(max(0.0, first - time.monotonic()))
        before = network.counts()
        time.sleep(max(0.0, last - time.monotonic()))
        after = network.counts()
        answers = [job.collect(arguments.seconds + GENEROUS)[0] for job in made]
        rates = [finished_between(answer["ended"], first, last, arguments.size) for answer in answers]
        rates += [received_between(network.log(name).splitlines(), first, last) for name in logs]
        for job in made:
            job.end()
    rates = [each * 8 / (last - first) / 1e6 for each in rates]
    link = [{name: there[name] - here[name] for name in here} for here, there in zip(before, after)]
    return {
        "jobs": jobs,
        "tcp": flows,
        "control": setting,
        "rates": rates,
        "jain": report.jain(rates),
        "used": max(each["bytes"] for each in link) * 8 / (last - first) / (arguments.rate * 1e6),
        "lost": sum(each["drops"] for each in link) / max(1, sum(each["packets"] + each["drops"] for each in link)),
        "goodput": (sum(rates[:jobs]) * WIRE["switchml"] + sum(rates[jobs:]) * WIRE["tcp"]) / arguments.rate,
        "counters": [answer["counters"] for answer in answers],
        "session": sessions[0],
    }


def main():
    arguments = parse()
    places.check_network(1500)
    rows = []
    for mixed, setting in itertools.product(arguments.mixtures, arguments.control):
        rows.append(measure(mixed, setting, arguments))
        print(".", end="", flush=True)
    print("\n")
    report.print_columns(
        ["jobs", "TCP", "control", "Mbit/s of each", "Jain", "link used", "of use", "packets lost", "sent again"],
        [
            [
                str(row["jobs"]), str(row["tcp"]), row["control"], " ".join(f"{rate:.1f}" for rate in row["rates"]),
                f"{row['jain']:.3f}", f"{row['used']:.1%}", f"{row['goodput']:.1%}", f"{row['lost']:.2%}",
                " ".join(str(each.get("retransmissions", 0)) for each in row["counters"]),
            ]
            for row in rows
        ],
    )  # fmt: skip
    if arguments.json:
        settings = {
            name: getattr(arguments, name) for name in ("rate", "queue", "size", "settling", "seconds", "tcp_control")
        }
        repository.write(arguments.json, {**repository.circumstances("sharing"), **settings, "rows": rows})
    return 0


if __name__ == "__main__":
    places.run(main)
