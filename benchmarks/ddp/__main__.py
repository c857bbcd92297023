"""Step time of DistributedDataParallel, or of fully_shard with --sharded, over switchml and over Gloo, interleaved, on
a network of rate-limited links (as root).

    python benchmarks/ddp --model bert --scale 0.1 --ranks 4 --rate 200 --balance --json out/ddp.json

The model has the parameters of ResNet-50 (25.6 million) or BERT-base (109 million); its computing takes --compute
seconds a step, a third of it forward, and is waiting: see model.py. --scale makes tensors and buckets smaller alike.
"Exposed" is what a step takes longer than one without communication. --balance looks for the computing time at which
Gloo exposes as much as the step computes: where half of its step is communication. With --sharded a block has the
elements of a bucket (sharded.py). With --no-switch each host adds a part; without it switchml-switchd adds, whose link
carries as much as all others. Gradients are verified before and after; a time is that of the slowest rank.
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
import shapes  # noqa: E402
import star  # noqa: E402

ALONE = "compute"
PROBES, PROBE_STEPS, CLOSE = (
    5,
    3,
    0.05,
)  # of the search for the balance: turns at most, steps in each, how near is near enough


def model_name(text):
    return text if text in shapes.MODELS else options.refuse(text, " or ".join(shapes.MODELS))


def parse():
    parser = argparse.ArgumentParser(
        prog="benchmarks/ddp", description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument(
        "--model", type=options.list_of(model_name), default=list(shapes.MODELS), help="default: resnet50,bert"
    )
    parser.add_argument(
        "--scale", type=options.number(0.001, 1), default=1.0, help="of the tensors' first dimensions; default: 1"
    )
    parser.add_argument("--ranks", type=options.list_of(options.rank_count), default=[4], help="default: 4")
    parser.add_argument(
        "--rate",
        type=options.list_of(options.link_rate),
        default=[200],
        help="Mbit/s of a link, each way; default: 200",
    )
    parser.add_argument("--mtu", type=options.link_mtu, default=1500, help="default: 1500")
    parser.add_argument(
        "--compute", type=options.number(0, 600), default=0.5, help="seconds that a step computes; default: 0.5"
    )
    parser.add_argument(
        "--balance", action="store_true", help="find --compute such that Gloo spends half of the step communicating"
    )
    parser.add_argument(
        "--sharded", action="store_true", help="fully_shard (FSDP2) in place of DistributedDataParallel"
    )
    parser.add_argument(
        "--no-switch", action="store_true", help="no switch is named: each host embeds one for its part"
    )
    parser.add_argument(
        "--steps", type=options.number(1, 100000, int), default=7, help="timed steps of each kind; default: 7"
    )
    parser.add_argument(
        "--backends",
        type=options.list_of(options.backend),
        default=list(options.BACKENDS),
        help="default: switchml,gloo; a ratio is that of the first two",
    )
    parser.add_argument("--json", type=pathlib.Path, help="write all figures here")
    arguments = parser.parse_args()
    if arguments.balance and "gloo" not in arguments.backends:
        parser.error("--balance needs gloo among --backends")
    return arguments


def steps(job, compute, kinds, count, checked=False):
    """{kind: sorted seconds of the slowest rank}"""
    ranks = job.run(places.PATIENCE, "steps", compute, kinds, count, checked)
    return {kind: sorted(map(max, zip(*(rank[kind] for rank in ranks)))) for kind in kinds}


def balance(job):
    """Seconds of computing. More of it hides more of the communication, second for second where that is the longer of
    the two: then the mean of what was tried and what it exposed is all but the answer."""
    compute = statistics.median(steps(job, 0.0, ["gloo"], PROBE_STEPS)["gloo"]) / 2
    for _ in range(PROBES):
        times = steps(job, compute, [ALONE, "gloo"], PROBE_STEPS)
        alone, whole = (statistics.median(times[kind]) for kind in (ALONE, "gloo"))
        print(
            f"  balance: {report.format_seconds(compute)} of computing, Gloo exposes {report.format_seconds(whole - alone)}",
            flush=True,
        )
        if abs(whole - 2 * alone) < CLOSE * whole:
            break
        compute = max(0.0, compute + (whole - 2 * alone) / 2)
    return compute


def run(model, ranks, rate, arguments):
    with places.network(ranks, rate, arguments.mtu) as place:
        named = {"SWITCHML_SWITCH": ""} if arguments.no_switch else {}
        job = star.Job(place, program=HERE / "worker.py", OMP_NUM_THREADS="1", **named)
        opened = job.run(places.PATIENCE, "open", model, arguments.scale, arguments.backends, arguments.sharded)[0]
        compute = balance(job) if arguments.balance else arguments.compute
        seconds = steps(job, compute, [ALONE, *arguments.backends], arguments.steps, checked=True)
        job.end()
    alone = statistics.median(seconds[ALONE])
    exposed = {name: statistics.median(seconds[name]) - alone for name in arguments.backends}
    return {
        "model": model,
        "scale": arguments.scale,
        "sharded": arguments.sharded,
        "no_switch": arguments.no_switch,
        "ranks": ranks,
        "rate": rate,
        "mtu": arguments.mtu,
        "compute": compute,
        **opened,
        "seconds": seconds,
        "exposed_seconds": exposed,
    }


def print_run(run, backends):
    print(
        f"\n{run['model']}{', sharded' if run['sharded'] else ''} at scale {run['scale']:g}: {run['tensors']} tensors, {run['elements']:,} elements "
        f"({report.format_bytes(run['elements'] * 4)}), {run['ranks']} ranks, links of {run['rate']} Mbit/s, torch {run['torch']}; "
        f"gradients verified"
    )
    rows = []
    for kind, seconds in run["seconds"].items():
        exposed = run["exposed_seconds"].get(kind)
        median = statistics.median(seconds)
        rows.append(
            [
                kind,
                report.format_seconds(median),
                report.format_seconds(seconds[-1]),
                "-" if exposed is None else report.format_seconds(exposed),
                "-" if exposed is None else f"{exposed / median:.0%}",
            ]
        )
    report.print_columns(["step", "p50", "longest", "exposed communication", "of the step"], rows)
    if len(backends) > 1:
        first, second = backends[:2]
        ratios = (
            statistics.median(run["seconds"][first]) / statistics.median(run["seconds"][second]),
            run["exposed_seconds"][first] / run["exposed_seconds"][second],
        )
        print(f"{first} over {second}: step {ratios[0]:.2f}, exposed communication {ratios[1]:.2f}\n", flush=True)


def main():
    arguments = parse()
    places.check_network(arguments.mtu)
    content = {**repository.circumstances("ddp"), "backends": arguments.backends, "runs": []}
    for model in arguments.model:
        for ranks in arguments.ranks:
            for rate in arguments.rate:
                content["runs"].append(run(model, ranks, rate, arguments))
                print_run(content["runs"][-1], arguments.backends)
    if arguments.json:
        repository.write(arguments.json, content)
    return 0


if __name__ == "__main__":
    places.run(main)
