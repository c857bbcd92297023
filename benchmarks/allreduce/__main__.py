"""All-reduce: switchml and Gloo side by side, alternating within one run, on the same processes and buffers.

    python benchmarks/allreduce --ranks 2,4,8 --json out/allreduce.json
    python benchmarks/allreduce --network --rate 100 --sizes 1M,8M --loss 0,0.01 --json out/network.json
    python benchmarks/allreduce --network --sizes 4K --behind 8M         # how long a small tensor waits for a large one
    python benchmarks/allreduce --network --no-switch --types float32,bfloat16    # every host is the switch of a part

Without --network all ranks are processes of this host. With it (as root) each has a host of its own, a network
namespace behind a link whose rate is limited both ways, and so has switchml-switchd, whose link carries as much as all
others together; with --no-switch each host adds a part instead. --loss drops that part of the datagrams that arrive at
each host, of both backends. The first and the last call of each size are verified on both backends, against sums known
beforehand. A time is that of the slowest rank. The ratio is switchml's median over Gloo's: below 1, switchml is faster.
"""

import argparse
import itertools
import pathlib
import sys

HERE = pathlib.Path(__file__).resolve().parent
sys.path.insert(0, str(HERE.parent / "common"))
import limits  # noqa: E402
import options  # noqa: E402
import places  # noqa: E402
import report  # noqa: E402
import repository  # noqa: E402
import star  # noqa: E402

SIZES = "4,64,1K,4K,16K,64K,256K,1M,4M,16M,64M,256M"
NETWORK_SIZES = "64K,1M,8M"
NETWORK_ONLY = {"rate": [100], "loss": [0.0], "mtu": 1500, "per_host": 1, "no_switch": False, "offload": False}
NO_SESSION = {"payload": 0, "precision": "", "transport": "", "embedded": 0}


def parse():
    parser = argparse.ArgumentParser(
        prog="benchmarks/allreduce", description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("--ranks", type=options.list_of(options.rank_count), default=[2, 4, 8], help="default: 2,4,8")
    parser.add_argument(
        "--sizes",
        type=options.list_of(options.byte_size),
        help=f"bytes of a tensor; default: {SIZES}; with --network {NETWORK_SIZES}",
    )
    parser.add_argument(
        "--types",
        type=options.list_of(options.element_type),
        default=["float32"],
        help=f"of elements, of {', '.join(options.TYPES)}; default: float32",
    )
    parser.add_argument(
        "--payload",
        type=options.list_of(options.payload),
        default=[None],
        help="bytes of payload of a switchml packet (SWITCHML_PAYLOAD), like auto,1024; default: as the environment says",
    )
    parser.add_argument(
        "--backends",
        type=options.list_of(options.backend),
        default=list(options.BACKENDS),
        help="default: switchml,gloo; a ratio is that of the first two",
    )
    parser.add_argument(
        "--iters",
        type=options.number(0, 1000000, int),
        default=0,
        help="timed calls per size and backend; default 0: by --seconds, at least 5",
    )
    parser.add_argument(
        "--seconds", type=options.number(0.01, 3600), default=2.0, help="time to spend per size and backend; default: 2"
    )
    parser.add_argument("--transport", default="", help="sets SWITCHML_TRANSPORT")
    parser.add_argument(
        "--behind",
        type=options.byte_size,
        default=0,
        help="call each all-reduce right after an asynchronous one of so many bytes; that one is not in the time",
    )
    parser.add_argument(
        "--arena", action="store_true", help="tensors of switchml.empty(), which are read and written where they are"
    )
    parser.add_argument(
        "--zeros",
        type=options.list_of(options.zeros),
        default=[0.0],
        help="this part of each rank's blocks of 256 elements is zero, at random places; default: 0",
    )
    parser.add_argument("--json", type=pathlib.Path, help="write all figures here")
    parser.add_argument(
        "--network", action="store_true", help="over a network of rate-limited links, where namespaces can be made"
    )
    network = parser.add_argument_group("with --network")
    network.add_argument(
        "--rate",
        type=options.list_of(options.rate_or_none),
        help="Mbit/s of a link, each way; none: no limit; default: 100",
    )
    network.add_argument(
        "--loss", type=options.list_of(options.loss), help="fraction lost at the end of each link; default: 0"
    )
    network.add_argument("--mtu", type=options.link_mtu, help="default: 1500")
    network.add_argument("--per-host", type=options.number(1, 64, int), help="ranks on each host; default: 1")
    network.add_argument(
        "--no-switch", action="store_true", default=None, help="no switch is named: each host embeds one for its part"
    )
    network.add_argument(
        "--offload",
        action="store_true",
        default=None,
        help="links take bursts of segments as one, as cards do that cut them themselves: less CPU time, above all Gloo's; "
        "not with --loss",
    )
    arguments = parser.parse_args()
    for name, preset in NETWORK_ONLY.items():
        if getattr(arguments, name) is None:
            setattr(arguments, name, preset)
        elif not arguments.network:
            parser.error(f"--{name.replace('_', '-')} needs --network")
    if arguments.arena and (arguments.network or "switchml" not in arguments.backends):
        parser.error("--arena is not allowed with --network, nor without the backend switchml")
    for ranks in arguments.ranks:
        if ranks % arguments.per_host or ranks // arguments.per_host < 1 + (arguments.per_host > 1):
            parser.error(
                f"--ranks {ranks} is not allowed with --per-host {arguments.per_host}: use two or more hosts' worth"
            )
    if 0 in arguments.rate and any(arguments.loss):
        parser.error("--rate none is not allowed with --loss")
    if arguments.offload and any(arguments.loss):
        parser.error("--offload is not allowed with --loss: what leaves as one cannot be lost one by one")
    arguments.sizes = arguments.sizes or options.list_of(options.byte_size)(
        NETWORK_SIZES if arguments.network else SIZES
    )
    for size, name in itertools.product((*arguments.sizes, arguments.behind), arguments.types):
        if size % options.TYPES[name]:
            parser.error(
                f"a tensor of {size} bytes is not allowed with --types {name}: use multiples of {options.TYPES[name]}"
            )
    return arguments


def merge(ranks, per_host, over_tcp):
    """One row of what all ranks measured: a time is the slowest's, counters are sums."""
    backends, calls = ranks[0]["seconds"], len(next(iter(ranks[0]["seconds"].values())))
    totals = {name: [rank["totals"][name] for rank in ranks] for name in backends}
    counters = {name: sum(rank["counters"][name] for rank in ranks) for name in ranks[0]["counters"]}
    again = {
        name: sum(one["tcp_repeats"] for one in totals[name][::per_host]) for name in backends
    }  # a host counts for all its ranks
    again.update(
        {"switchml": counters["retransmissions"] + over_tcp * again["switchml"]} if "switchml" in backends else {}
    )
    return {
        "calls": calls,
        "seconds": {name: sorted(map(max, zip(*(rank["seconds"][name] for rank in ranks)))) for name in backends},
        "cpu_seconds": {name: sum(one["cpu_seconds"] for one in totals[name]) for name in backends},
        "machine": {
            name: {
                what: totals[name][0][what] / max(1, totals[name][0]["ticks"]) for what in ("busy", "nice", "softirq")
            }
            for name in backends
        },
        "again": {name: again[name] for name in backends},
        "counters": counters,
        "memory": {name: max(rank["memory"][name] for rank in ranks) for name in ranks[0]["memory"]},
    }


def measure(job, row, payload, rate, ranks, arguments):
    """Completes a row that says what is to be measured."""
    if row["loss"]:
        job.star.disturb(lose=row["loss"])
    answers = job.run(
        places.PATIENCE,
        "measure",
        row["bytes"],
        row["type"],
        payload,
        arguments.seconds,
        arguments.iters,
        arguments.behind,
        arguments.arena,
        row["zeros"],
    )
    if row["loss"]:
        job.star.disturb()
    row.update(merge(answers, arguments.per_host, row["transport"].endswith("tcp")))
    if rate:
        row["limit_seconds"] = {
            name: limits.seconds(
                name,
                row["bytes"],
                options.TYPES[row["type"]],
                ranks,
                ranks // arguments.per_host,
                rate,
                arguments.mtu,
                row,
            )
            for name in arguments.backends
        }
    print(
        f"  {ranks} ranks, {row['type']}, {report.format_bytes(row['bytes'])}, loss {row['loss']:.2%}, zeros {row['zeros']:.0%}, payload {row['payload'] or '-'}: "
        f"verified, {row['calls']} calls",
        flush=True,
    )
    return row


def settings(arguments):
    return {
        "OMP_NUM_THREADS": "1",
        **({"SWITCHML_TRANSPORT": arguments.transport} if arguments.transport else {}),
        **({"SWITCHML_SWITCH": ""} if arguments.no_switch else {}),
    }


def run(ranks, rate, arguments):
    """All rows of one number of ranks on one network, whose rate is 0 where there is no limit, or on this host."""
    made = (
        places.network(ranks // arguments.per_host, rate, arguments.mtu, arguments.offload)
        if arguments.network
        else places.one_host(ranks)
    )
    with made as place:
        job = star.Job(place, program=HERE / "worker.py", per_host=arguments.per_host, **settings(arguments))
        opened = job.run(
            places.PATIENCE, "open", arguments.backends, arguments.payload, arguments.types, arguments.network
        )[0]
        rows = [
            measure(
                job, dict(bytes=size, type=kind, loss=loss, zeros=zeros, **session), payload, rate, ranks, arguments
            )
            for payload, session in zip(arguments.payload, opened["sessions"] or [NO_SESSION])
            for kind in arguments.types
            for size in arguments.sizes
            for loss in arguments.loss
            for zeros in arguments.zeros
        ]
        job.end()
    return {
        "ranks": ranks,
        "behind": arguments.behind,
        "arena": arguments.arena,
        "per_host": arguments.per_host,
        "rate": rate,
        "mtu": arguments.mtu if arguments.network else 0,
        "no_switch": arguments.no_switch,
        "offload": arguments.offload,
        "torch": opened["torch"],
        "rows": rows,
    }


def main():
    arguments = parse()
    rates = arguments.rate if arguments.network else [0]
    if arguments.network:
        places.check_network(arguments.mtu, any(arguments.loss))
    content = {**repository.circumstances("allreduce"), "backends": arguments.backends, "runs": []}
    for ranks in arguments.ranks:
        for rate in rates:
            content["runs"].append(run(ranks, rate, arguments))
            report.print_run(content["runs"][-1], arguments.backends)
    if arguments.json:
        repository.write(arguments.json, content)
    return 0


if __name__ == "__main__":
    places.run(main)
