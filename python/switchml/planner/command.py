"""Plans in-network aggregation: for each job, which aggregators combine which share of its gradients, over which links.

switchml-plan topology.yaml --jobs jobs.yaml
switchml-plan topology.yaml --jobs jobs.yaml --compare --svg plan.svg
switchml-plan topology.yaml --jobs jobs.yaml --json plan.json
switchml-plan topology.yaml --jobs jobs.yaml --failed S2 --keep plan.json --json next.json
switchml-plan topology.yaml --jobs jobs.yaml --controller 192.0.2.1:48880 --token-file token --watch"""

import argparse
import pathlib
import sys
import warnings

from _switchml_entry import until_written

from .carry import Controller, carry_out
from .draw import draw_plans
from .errors import PlanError, PlanWarning
from .jobs_file import read_jobs
from .plan_json import read_plan, write_plan
from .planning import SHARES, WAYS, Options, plan
from .replanning import moved_shares, replan
from .ring import ring_rates
from .table import comparison_table, plan_table
from .topology_file import read_topology
from .watch import Watch


def parse(arguments):
    parser = argparse.ArgumentParser(
        prog="switchml-plan", description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("topology", type=pathlib.Path, help="the controller's topology file")
    parser.add_argument("--jobs", type=pathlib.Path, required=True, metavar="FILE", help="the jobs to plan")
    parser.add_argument("--way", choices=WAYS, default="planned", help="how to choose trees (default: planned)")
    parser.add_argument(
        "--shares", type=_shares, default=SHARES, metavar="K", help=f"at most so many of each job; all: as many as the best plan needs (default: {SHARES})"
    )  # fmt: skip
    parser.add_argument(
        "--routes", type=_routes, default="any", metavar="ROUTES", help="any, shortest, or a number: the k shortest simple routes (default: any)"
    )  # fmt: skip
    parser.add_argument("--seed", type=_seed, default=1, metavar="N", help="of what is drawn at random (default: 1)")
    parser.add_argument(
        "--failed", action="append", default=[], metavar="NAME", help="a switch, a worker or a link (A-B) that has failed; may be repeated"
    )  # fmt: skip
    parser.add_argument("--keep", type=pathlib.Path, metavar="FILE", help="a plan (--json) of which to keep what holds")
    parser.add_argument("--compare", action="store_true", help="also plan in the other ways, and show all rates")
    parser.add_argument("--json", type=pathlib.Path, metavar="FILE", help="write the plan for programs")
    parser.add_argument("--svg", type=pathlib.Path, metavar="FILE", help="draw the plan; with --compare, all ways")
    parser.add_argument("--controller", metavar="ADDRESS:PORT", help="have this controller open sessions by the plan")
    parser.add_argument("--token-file", type=pathlib.Path, metavar="FILE", help="its token: the first word of the file")
    parser.add_argument(
        "--ca", type=pathlib.Path, metavar="FILE", help="the authority of its certificate (PEM); without it no TLS"
    )
    parser.add_argument(
        "--watch", action="store_true", help="stay, and plan anew when a switch is lost or back, or a file changes"
    )
    options = parser.parse_args(arguments)
    for name in ("token_file", "ca", "watch"):
        if getattr(options, name) and not options.controller:
            parser.error(f"--{name.replace('_', '-')} goes with --controller")
    if options.watch and (options.way != "planned" or options.shares is None):
        parser.error("--watch goes with --way planned and a number of --shares")
    if options.keep and options.way != "planned":
        parser.error(f"--keep goes with --way planned, not with {options.way}")
    if options.svg and options.svg.suffix != ".svg":
        parser.error(f"--svg {options.svg} is not allowed: use a name that ends in .svg")
    return options


def _shares(text):
    if text == "all":
        return None
    return _number(text, 1, 64, "1 to 64, or all")


def _routes(text):
    if text in ("any", "shortest"):
        return text
    return _number(text, 1, 64, "any, shortest, or 1 to 64")


def _seed(text):
    return _number(text, 0, 2**32 - 1, "0 to 4294967295")


def _number(text, low, high, allowed):
    if not (text.isascii() and text.isdigit()) or not low <= int(text) <= high:
        raise argparse.ArgumentTypeError(f"{text} is not allowed: use {allowed}")
    return int(text)


def _failed(topology, names):
    """Names of nodes, and pairs of names."""
    found = []
    for name in names:
        cuts = [(name[:at], name[at + 1 :]) for at, letter in enumerate(name) if letter == "-"]
        link = next((cut for cut in cuts if topology.link(*cut)), None)
        if name not in topology.nodes and not link:
            raise PlanError(f"--failed {name}: is no switch, worker or link (A-B) of the topology")
        found.append(name if name in topology.nodes else link)
    return topology.without(*found)


def run(arguments):
    options = parse(arguments)
    topology = read_topology(options.topology)
    jobs = read_jobs(options.jobs, topology)
    kept = read_plan(options.keep, topology) if options.keep else None
    topology = _failed(topology, options.failed)
    settings = Options(options.shares, options.routes, options.seed)
    chosen = replan(kept, topology, jobs, settings) if kept else plan(topology, jobs, options.way, settings)
    print(plan_table(chosen))
    if kept:
        moved = moved_shares(kept, chosen)
        print(f"\nkept from {options.keep}: {len(chosen.shares()) - len(moved)} of {len(chosen.shares())} shares")
    plans = [chosen]
    if options.compare:
        plans = [
            chosen if way == chosen.way else plan(topology, jobs, way, settings)
            for way in ("none", "nearest", "planned")
        ]
        print("\n" + comparison_table(plans, ring_rates(topology, jobs)))
    if options.json:
        write_plan(chosen, options.json)
    if options.svg:
        draw_plans(plans, options.svg)
    if options.controller:
        with Controller(options.controller, _token(options.token_file), options.ca) as controller:
            _carry(controller, chosen, options, settings)
    return 0


def _carry(controller, chosen, options, settings):
    if not options.watch:
        carry_out(chosen, controller)
        print(f"\ncontroller {options.controller} opens sessions by this plan from now on")
        return

    def read(lost):
        topology = read_topology(options.topology)
        jobs = read_jobs(options.jobs, topology)
        return _failed(topology, [*options.failed, *(name for name in lost if name in topology.nodes)]), jobs

    def say(text):
        print(f"\n{text}", flush=True)

    watch = Watch(controller, (options.topology, options.jobs), read, settings, say, _complain)
    watch.begin(chosen)
    say(f"controller {options.controller} opens sessions by this plan, and by those that follow")
    try:
        watch.run()
    except KeyboardInterrupt:
        say("no plans any more")


def _token(path):
    if path is None:
        return ""
    try:
        words = path.read_text(encoding="utf-8").split()
    except (OSError, UnicodeDecodeError) as error:
        raise PlanError(f"--token-file {path}: cannot be read: {error}") from error
    if not words:
        raise PlanError(f"--token-file {path}: is empty; allowed is a file whose first word is the token")
    return words[0]


def main(arguments=None):
    try:
        with warnings.catch_warnings():
            warnings.simplefilter("ignore", PlanWarning)  # the table has them
            return until_written("switchml-plan", lambda: run(arguments))
    except PlanError as error:
        _complain(error)
        return 2


def _complain(error):
    print(f"switchml-plan: {error}", file=sys.stderr, flush=True)
