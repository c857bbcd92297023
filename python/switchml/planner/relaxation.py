"""An upper bound of the level (the least rate / weight) that any plan can have: a linear program over a family of sets.

Words, for a job of rate r and a set with N of its workers, all summed over the job's trees with their rates:

    m  what crosses the boundary                     q  what aggregators of the set take in
    a  the rate of trees that have aggregators there R  the rate of trees that have their root there
    i  what comes into the set from outside

Each worker and each aggregator but the root sends one contribution. It is taken in within the set, or crosses the
boundary; what comes in from outside crosses it, too, and is taken in:

    q + m >= N r + a - R + 2 i        (q, a, R: of all that is in the set)
    m >= r                            if there are workers on both sides
    q <= N a + i, a <= r              (q, a: of the set's own aggregators, those of no smaller set)

At a rack, a = q / N is the least. Where racks are many, those of a pod share one constraint, and each rack's boundary
bounds the jobs that have workers on both sides."""

import dataclasses

import numpy
from scipy.optimize import linprog
from scipy.sparse import coo_matrix

from .hierarchy import Family

MOST_PAIRS = 1500  # of jobs and racks, before racks of a pod are taken together


@dataclasses.dataclass
class Area:
    """Racks (one, or all of a pod), or a larger set."""

    racks: list  # sets; empty: a larger set
    children: list  # areas
    boundary: float
    intake: float  # without that of children
    members: set
    outside: bool = True  # whether anything is


class _Rows:
    """sum of coefficient x variable <= bound"""

    def __init__(self):
        self.entries: list = []
        self.bounds: list = []

    def add(self, terms, bound=0.0):
        self.entries += [(len(self.bounds), variable, value) for variable, value in terms]
        self.bounds.append(bound)


def _areas(sets, together):
    """Smaller ones first."""
    children: list = [[] for _ in sets]
    for place, one in enumerate(sets):
        if one.parent >= 0:
            children[one.parent].append(place)
    areas: list = []
    area_of: dict = {}
    for place, one in enumerate(sets):
        racks = [child for child in children[place] if not children[child]]
        for group in [racks] if together else [[rack] for rack in racks]:
            if group:
                area_of.update(dict.fromkeys(group, len(areas)))
                areas.append(_racks(sets, group))
        if children[place] or one.parent < 0:
            inner = sorted({area_of[child] for child in children[place]})
            area_of[place] = len(areas)
            areas.append(Area([], inner, one.boundary, one.intake, set(one.members), one.parent >= 0))
    return areas


def _racks(sets, group):
    boundary = sum(sets[rack].boundary for rack in group)
    intake = sum(sets[rack].intake for rack in group)
    return Area(group, [], boundary, intake, {node for rack in group for node in sets[rack].members})


def _shared_workers(network, jobs):
    """The level that workers' links allow: each carries the rates of all its jobs."""
    weights: dict = {}
    for job in jobs:
        for name in job.workers:
            weights[name] = weights.get(name, 0.0) + job.weight
    levels = [numpy.inf]
    for name, weight in weights.items():
        worker = network.number[name]
        links = [network.link_at[worker, other] for other in network.neighbours[worker]]
        levels.append(float(network.capacity[links].sum()) / weight)
    return min(levels)


class Relaxation:
    def __init__(self, network, jobs, limits):
        """`limits`: what each job can have at most, bits/s; infinite: no limit."""
        self.network, self.jobs = network, jobs
        self.sets = Family(network).sets
        self.unit = float(network.capacity[numpy.isfinite(network.capacity)].max(initial=1.0))
        own = min((limit / job.weight for job, limit in zip(jobs, limits)), default=numpy.inf)
        self.top = min(own, _shared_workers(network, jobs)) / self.unit
        self.count = 1  # variables: the level is 0
        self.rows = _Rows()
        self.workers = [self._workers(job) for job in jobs]
        racks = {place for place, one in enumerate(self.sets)} - {one.parent for one in self.sets}
        pairs = len(racks) * len(jobs)
        self.areas = _areas(self.sets, pairs > MOST_PAIRS)
        self.crossing: list = [[] for _ in self.areas]  # variables
        self.taken: list = [[] for _ in self.areas]
        for number, job in enumerate(self.jobs):
            self._job(number, job)
        self._capacities()

    def level(self):
        """The bound, bits/s; infinite where nothing bounds."""
        row, place, value = zip(*self.rows.entries)
        matrix = coo_matrix((value, (row, place)), shape=(len(self.rows.bounds), self.count)).tocsr()
        cost = numpy.zeros(self.count)
        cost[0] = -1.0
        bounds = [(0, self.top if numpy.isfinite(self.top) else None)] + [(0, None)] * (self.count - 1)
        solved = linprog(cost, A_ub=matrix, b_ub=self.rows.bounds, bounds=bounds, method="highs")
        return numpy.inf if solved.x is None else float(solved.x[0]) * self.unit

    def _workers(self, job):
        """How many are in each set."""
        members = {self.network.number[name] for name in job.workers}
        return [len(members.intersection(one.members)) for one in self.sets]

    def _new(self):
        self.count += 1
        return self.count - 1

    def _capacities(self):
        for place, area in enumerate(self.areas):
            for variables, capacity in ((self.crossing[place], area.boundary), (self.taken[place], area.intake)):
                if variables and numpy.isfinite(capacity):
                    self.rows.add([(variable, 1.0) for variable in variables], capacity / self.unit)
            for rack in area.racks:
                both = [job for job, each in zip(self.jobs, self.workers) if 0 < each[rack] < len(job.workers)]
                self.rows.add([(0, sum(job.weight for job in both))], self.sets[rack].boundary / self.unit)

    def _job(self, number, job):
        root = None if job.root is None else self.network.number[job.root]
        names = {self.network.number[name] for name in job.workers}
        roots: list = []
        within: list = []  # of each area: [(variable, coefficient)] of q - a + R
        for place, area in enumerate(self.areas):
            terms = [term for child in area.children for term in within[child]]
            if root is None or root in area.members:
                roots.append(self._new())
                terms.append((roots[-1], 1.0))
            own, comes = (self._racks if area.racks else self._larger)(place, number, job, len(names & area.members))
            within.append(terms + own)
            self._balance(place, number, job, len(names & area.members), within[-1], comes)
        self.rows.add([(variable, 1.0) for variable in roots] + [(0, -job.weight)])

    def _classes(self, place, number):
        """{workers of the job in a rack: how many racks}"""
        found: dict = {}
        for rack in self.areas[place].racks:
            workers = self.workers[number][rack]
            found[workers] = found.get(workers, 0) + 1
        return found

    def _racks(self, place, number, job, count):
        """(terms of q - a, the variable i)"""
        if not self.areas[place].intake > 0:
            return [], None
        comes = self._new()
        self.taken[place].append(comes)
        terms = [(comes, 1.0)]
        for workers, racks in sorted(self._classes(place, number).items()):
            if workers:
                taken = self._new()
                self.taken[place].append(taken)
                self.rows.add([(taken, 1.0), (0, -workers * racks * job.weight)])
                terms.append((taken, 1.0 - 1.0 / workers))
        return terms, comes

    def _larger(self, place, number, job, count):
        if not self.areas[place].intake > 0:
            return [], None
        taken, used, comes = self._new(), self._new(), self._new()
        self.taken[place].append(taken)
        self.rows.add([(taken, 1.0), (used, -float(count)), (comes, -1.0)])
        self.rows.add([(used, 1.0), (0, -job.weight)])
        if not self.areas[place].outside:
            self.rows.add([(comes, 1.0)])
        return [(taken, 1.0), (used, -1.0)], comes

    def _balance(self, place, number, job, count, within, comes):
        """q + m >= N r + a - R + 2 i, and m >= r."""
        area = self.areas[place]
        terms = [(variable, -value) for variable, value in within] + [(0, count * job.weight)]
        if comes is not None:
            terms.append((comes, 2.0))
        if not area.outside:
            self.rows.add(terms)
            return
        crosses = self._new()
        self.crossing[place].append(crosses)
        self.rows.add([*terms, (crosses, -1.0)])
        if area.racks:
            parts = self._classes(place, number)
            cut = sum(racks for workers, racks in parts.items() if 0 < workers < len(job.workers))
        else:
            cut = int(0 < count < len(job.workers))
        self.rows.add([(crosses, -1.0), (0, cut * job.weight)])
