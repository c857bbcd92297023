"""plan(): a topology and jobs in, a plan out."""

import dataclasses
import warnings

import numpy

from .choose import choose
from .errors import PlanWarning
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
MOST_AGGREGATORS = 40  # of a job, for column generation


@dataclasses.dataclass(frozen=True)
class Options:
    shares: int | None = SHARES  # at most, of each job; None: as many as the best plan needs
    routes: str | int = "any"  # or "shortest", or a number: the k shortest simple ones
    seed: int = 1


class Task:
    """What plan() and replan() work on: the jobs that can be planned, and why others cannot."""

    def __init__(self, topology, jobs, way, options):
        self.topology, self.all_jobs, self.way, self.options = topology, jobs, way, options
        self.network = Network(topology)
        found = [Pricer(self.network, job, options.routes, single=way == "none") for job in jobs]
        self.reasons = {job.name: pricer.reason for job, pricer in zip(jobs, found) if pricer.reason}
        for name, reason in self.reasons.items():
            warnings.warn(f'job "{name}" has no plan: {reason}', PlanWarning, stacklevel=3)  # of who calls plan()
        self.jobs = [job for job in jobs if job.name not in self.reasons]
        self.pricers = [pricer for pricer in found if not pricer.reason]

    @property
    def is_large(self):
        """Where subsets of aggregators are too many to search through."""
        sizes = [len(pricer.aggregators) for pricer in self.pricers]
        return self.options.routes == "any" and max(sizes, default=0) > MOST_AGGREGATORS

    def program(self):
        return Program(self.network.capacity, [job.weight for job in self.jobs], [job.limit for job in self.jobs])

    def bound(self, generator):
        if generator.exact:
            return generator.bound
        limits = [least_limit(self.network, job) for job in self.jobs]
        return min(generator.bound, Relaxation(self.network, self.jobs, limits).level())

    def assemble(self, columns, rates, bound):
        shares: dict = {job.name: [] for job in self.all_jobs}
        for column, rate in zip(columns, rates):
            shares[self.jobs[column.job].name].append(Share(float(rate), column.tree(self.network)))
        assignments = tuple(
            Assignment(job, tuple(sorted(shares[job.name], key=_order)), self.reasons.get(job.name, ""))
            for job in self.all_jobs
        )
        limits = [job.limit / job.weight for job in self.jobs if job.limit is not None]
        least = min([numpy.inf if bound is None else bound, *limits])
        known = bound is not None and numpy.isfinite(least)
        return Plan(self.topology, assignments, self.way, float(least) if known else None)


def _order(share):
    return -share.rate


def plan(topology, jobs, way="planned", options=None):
    """`jobs`: a list of Job. `way`: one of WAYS."""
    options = options or Options()
    task = Task(topology, jobs, way, options)
    if not task.jobs:
        return task.assemble([], [], None)
    if way == "nearest":
        columns, rates = nearest(task.network, task.pricers, task.jobs, options.shares)
        return task.assemble(columns, rates, None)
    if task.is_large:
        large = Large(task.network, task.pricers, task.jobs, options, combines=way == "planned")
        columns, rates = large.plan()
        return task.assemble(columns, rates, large.bound)
    program = task.program()
    generator = Generator(program, task.pricers)
    best_rates, best_shares = program.solve(generator)
    _, columns, rates = choose(program, best_rates, best_shares, options.shares, options.seed)
    return task.assemble(columns, rates, task.bound(generator))
