"""Plans of large topologies: the relaxation gives the level to aim at and says where racks combine; trees are drawn at
random after it, repaired by building those anew that cross what is overloaded, and rates are solved with the trees
fixed."""

import random

import numpy

from .build import Builder
from .fair import Program
from .relaxation import Relaxation

SHARES = 8  # of a job, where any number is allowed
ROOTS = 8  # that are compared for a tree
PASSES = 3
REPAIRS = 2  # for each tree, where there are so many contributions of workers in all trees:
MOST_WORK = 40_000
MOST_REPAIRS = 20  # for each tree, where there are fewer contributions
SHARP = 60.0  # how much more a resource counts that is fuller: e to this power for all of its capacity
SMALLER = 0.6  # each share of a job than the one before
HIGHER = 1.05  # than what was reached: the next aim


class Large:
    def __init__(self, network, pricers, jobs, options, bound=None, combines=True):
        self.network, self.jobs = network, jobs
        self.groups = [network.groups(job) for job in jobs]
        self.roots = [pricer.aggregators if pricer.root is None else [pricer.root] for pricer in pricers]
        self.limits = [least_limit(network, job) for job in jobs]
        self.shares = options.shares or SHARES
        self.dice = random.Random(options.seed)
        self.builder = Builder(network, combines)
        self.bound = Relaxation(network, jobs, self.limits).level() if bound is None else bound
        self.trees: dict = {}  # (job, share): column

    def complete(self, held, wanted):
        """(columns, their rates): these columns, and trees around them until each job has as many as wanted."""
        rates = self._aims()
        counts = [0] * len(self.jobs)
        for column in held:
            self.trees[column.job, counts[column.job]] = column
            counts[column.job] += 1
            self.builder.add(column, rates[column.job] * self._part(counts[column.job] - 1))
        self._build(
            [(number, share) for number, count in enumerate(counts) for share in range(count, wanted[number])], rates
        )
        return self._rates(list(self.trees.values()))

    def _aims(self):
        level = self._aim()
        return [min(limit, level * job.weight) for job, limit in zip(self.jobs, self.limits)]

    def _part(self, share):
        """Of a job's rate. Small shares fit where large ones leave room on a link."""
        return SMALLER**share * (1 - SMALLER) / (1 - SMALLER**self.shares)

    def plan(self):
        """(columns, their rates)"""
        rates = self._aims()
        work = self.shares * sum(len(job.workers) for job in self.jobs)
        best: dict = {}
        best_level, level = 0.0, 1.0  # levels are in units of the bound
        for _ in range(PASSES):
            self._pass([level * rate for rate in rates])
            reached = level / self._use()
            if reached > best_level:
                best, best_level = dict(self.trees), reached
            if best_level >= 1 - 1e-9:
                return self._rates(list(best.values()))
            lower = min(1.0, HIGHER * best_level)
            self.builder.load *= lower / level
            level = lower
        repairs = min(REPAIRS * MOST_WORK / max(work, 1), MOST_REPAIRS)
        self._repair([level * rate for rate in rates], int(repairs * len(self.trees)))
        return self._rates(list(self.trees.values()))

    def _use(self):
        return float((self.builder.load / self.network.capacity).max())

    def _repair(self, rates, count):
        """Builds trees anew that cross what is fullest, and keeps what makes that less full."""
        builder = self.builder
        cost = self._cost()
        for _ in range(count):
            fullest = int((builder.load / self.network.capacity).argmax())
            users = [key for key, column in self.trees.items() if fullest in column.resources]
            key = users[self.dice.randrange(len(users))]
            old, load = self.trees[key], builder.load.copy()
            self._build([key], rates)
            after = self._cost()
            if after < cost:
                cost = after
            else:
                self.trees[key], builder.load = old, load

    def _cost(self):
        return float(numpy.exp(SHARP * (self.builder.load / self.network.capacity - 1)).sum())

    def _aim(self):
        if numpy.isfinite(self.bound):
            return self.bound
        return float(self.network.capacity[: self.network.links].max())

    def _pass(self, rates):
        """Each tree once, anew."""
        keys = [(number, share) for share in range(self.shares) for number in range(len(self.jobs))]
        self.dice.shuffle(keys)
        keys.sort(key=lambda key: key[1])  # large ones first
        self._build(keys, rates)

    def _build(self, keys, rates):
        for number, share in keys:
            rate = rates[number] * self._part(share)
            old = self.trees.get((number, share))
            if old:
                self.builder.remove(old, rate)
            candidates = self._candidates(number, old)
            root, distance = self.builder.best_root(candidates, self.groups[number], rate)
            self.trees[number, share] = self.builder.build(number, self.groups[number], root, distance, rate)

    def _candidates(self, number, old):
        roots = self.roots[number]
        if len(roots) <= ROOTS:
            return roots
        picked = self.dice.sample(roots, ROOTS)
        return picked + [old.root] if old and old.root not in picked else picked

    def _rates(self, columns):
        program = Program(self.network.capacity, [job.weight for job in self.jobs], self.limits)
        for column in columns:
            program.add(column)
        _, rates = program.solve()
        kept = [(column, float(rate)) for column, rate in zip(program.columns, rates) if rate > 0]
        return [column for column, _ in kept], [rate for _, rate in kept]


def least_limit(network, job):
    """The least of the job's own limit and those of workers' only links."""
    least = numpy.inf if job.limit is None else job.limit
    for name in job.workers:
        worker = network.number[name]
        near = network.neighbours[worker]
        if len(near) == 1:
            least = min(least, network.capacity[network.link_at[worker, near[0]]])
    return float(least)
