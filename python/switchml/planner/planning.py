"""plan(): a topology and jobs in, a plan out."""

import dataclasses

import numpy

from .choose import choose
from .fair import Program
from .generate import Generator
from .large import Large, least_limit
from .nearest import nearest
from .network import Network
from .plan import Assignment, Plan, Share
from .pricing import Pricer
from .relaxation import Relaxation

WAYS = ("planned", "nearest", "none")
SHARES = 4
MOST_AGGREGATORS = 40  # for column generation


@dataclasses.dataclass(frozen=True)
class Options:
    shares: int | None = SHARES  # at most, of each job; None: as many as the best plan needs
    routes: str | int = "any"  # or "shortest", or a number: the k shortest simple ones
    seed: int = 1


def plan(topology, jobs, way="planned", options=None):
    options = options or Options()
    network = Network(topology)
    pricers, reasons = _pricers(network, jobs, options, single=way == "none")
    planned = [jobs[pricer.number] for pricer in pricers]
    if not planned:
        return assemble(network, jobs, [], [], reasons, way, None)
    for number, pricer in enumerate(pricers):
        pricer.number = number
    if way == "nearest":
        columns, column_rates = nearest(network, pricers, planned, options.shares)
        return assemble(network, jobs, columns, column_rates, reasons, way, None, planned)
    columns, column_rates, bound = _planned(network, pricers, planned, way, options)
    return assemble(network, jobs, columns, column_rates, reasons, way, bound_of(bound, planned), planned)


def _planned(network, pricers, planned, way, options):
    """(columns, their rates, bound)"""
    if way == "planned" and options.routes == "any" and _is_large(pricers):
        large = Large(network, pricers, planned, options)
        return *large.plan(), large.bound
    program = Program(network.capacity, [job.weight for job in planned], [job.limit for job in planned])
    generator = Generator(program, pricers)
    rates, shares = program.solve(generator)
    _, columns, column_rates = choose(program, rates, shares, options.shares, options.seed)
    bound = generator.bound
    if not generator.exact:
        bound = min(bound, Relaxation(network, planned, [least_limit(network, job) for job in planned]).level())
    return columns, column_rates, bound


def _is_large(pricers):
    """Where subsets of aggregators are too many to search through."""
    return max(len(pricer.aggregators) for pricer in pricers) > MOST_AGGREGATORS


def _pricers(network, jobs, options, single):
    pricers, reasons = [], {}
    for number, job in enumerate(jobs):
        pricer = Pricer(network, number, job, options.routes, single)
        if pricer.reason:
            reasons[job.name] = pricer.reason
        else:
            pricers.append(pricer)
    return pricers, reasons


def bound_of(bound, jobs):
    limits = [job.limit / job.weight for job in jobs if job.limit is not None]
    found = min([bound, *limits])
    return float(found) if numpy.isfinite(found) else None


def assemble(network, jobs, columns, rates, reasons, way, bound, planned=None):
    """`columns` count jobs as `planned` does, or as `jobs`."""
    planned = planned or jobs
    shares: dict = {job.name: [] for job in jobs}
    for column, rate in zip(columns, rates):
        shares[planned[column.job].name].append(Share(float(rate), column.tree(network)))
    return Plan(
        network.topology,
        tuple(
            Assignment(job, tuple(sorted(shares[job.name], key=lambda one: -one.rate)), reasons.get(job.name, ""))
            for job in jobs
        ),
        way,
        bound,
    )
