"""Rates when trees are given: max-min fair, the least rate / weight first, then the next, by linear programs.

A stage raises the level t of all jobs that are not fixed yet. Jobs whose constraint has a positive dual price at the
optimum can have no more in any optimum: they are fixed, and the next stage raises the others."""

import dataclasses

import numpy
from scipy.optimize import linprog
from scipy.sparse import coo_matrix

from .columns import rates_of_jobs

POSITIVE = 1e-7  # of dual prices, which are scaled so that those of a stage's jobs sum to 1
SLACK = 1e-9  # by which a fixed rate may be missed: solvers have tolerances


@dataclasses.dataclass
class Stage:
    level: float
    rates: numpy.ndarray  # of columns
    job_prices: numpy.ndarray
    prices: numpy.ndarray  # of resources


class Program:
    """Rates are in units of `unit`, so that numbers are near 1. Infinite capacities have no row."""

    def __init__(self, capacity, weights, limits):
        finite = capacity[numpy.isfinite(capacity)]
        self.unit = float(finite.max()) if len(finite) else 1.0
        self.capacity = capacity / self.unit
        self.weights = numpy.array(weights, dtype=float)
        self.limits = numpy.array([numpy.inf if one is None else one / self.unit for one in limits])
        self.columns: list = []
        self._keys: set = set()

    def add(self, column):
        """False: it is there."""
        key = column.key()
        if key in self._keys:
            return False
        self._keys.add(key)
        self.columns.append(column)
        return True

    def with_columns(self, columns):
        """The same jobs and capacities, with these columns alone."""
        limits = [None if numpy.isinf(limit) else limit * self.unit for limit in self.limits]
        other = Program(self.capacity * self.unit, self.weights, limits)
        for column in columns:
            other.add(column)
        return other

    # ---- a linear program: variables are the level and the columns' rates; rows are jobs, then resources ----

    def matrix(self, columns, weights):
        jobs = len(self.weights)
        rows = [numpy.flatnonzero(weights)]
        places = [numpy.zeros(len(rows[0]), dtype=int)]
        values = [weights[rows[0]]]
        for place, column in enumerate(columns, 1):
            bounded = numpy.isfinite(self.capacity[column.resources])
            rows += [[column.job], jobs + column.resources[bounded]]
            places.append(numpy.full(1 + bounded.sum(), place))
            values += [[-1.0], column.uses[bounded]]
        row = numpy.concatenate(rows).astype(int)
        used, row = numpy.unique(numpy.concatenate([numpy.arange(jobs), row]), return_inverse=True)
        shape = len(used), len(columns) + 1
        matrix = coo_matrix((numpy.concatenate(values), (row[jobs:], numpy.concatenate(places))), shape=shape)
        return matrix.tocsr(), used[jobs:] - jobs

    def stage(self, fixed):
        """`fixed`: rates of jobs, NaN where a job is to be raised: that is done as far as the least limit. None: the
        solver has failed."""
        raised = numpy.isnan(fixed)
        weights = numpy.where(raised, self.weights, 0.0)
        matrix, used = self.matrix(self.columns, weights)
        bound = numpy.concatenate([-numpy.where(raised, 0.0, fixed), self.capacity[used]])
        top = (self.limits / self.weights)[raised].min()
        cost = numpy.concatenate([[-1.0], numpy.zeros(len(self.columns))])
        bounds = [(0, top if numpy.isfinite(top) else None)] + [(0, None)] * len(self.columns)
        solved = _solved(cost, matrix, bound, bounds)
        if solved is None:
            return None
        duals = numpy.maximum(-solved.ineqlin.marginals, 0.0)
        prices = numpy.zeros(len(self.capacity))
        prices[used] = duals[len(self.weights) :]
        return Stage(float(solved.x[0]), solved.x[1:], duals[: len(self.weights)], prices)

    def frugal(self, rates):
        """The columns' rates that give the jobs these, with the least load on what has little capacity."""
        matrix, used = self.matrix(self.columns, numpy.zeros(len(self.weights)))
        cost = [(column.uses / self.capacity[column.resources]).sum() + 1e-3 for column in self.columns]
        bound = numpy.concatenate([-rates * (1 - SLACK), self.capacity[used]])
        solved = _solved(numpy.array([0.0, *cost]), matrix, bound, [(0, None)] * (len(self.columns) + 1))
        return None if solved is None else solved.x[1:]

    def solve(self, generate=None):
        """(rates of jobs, rates of columns), in bits/s. `generate(stage)` adds columns that pay, and says whether there
        were any."""
        fixed = numpy.full(len(self.weights), numpy.nan)
        shares = numpy.zeros(len(self.columns))
        while numpy.isnan(fixed).any():
            stage = self._raised(fixed, generate)
            if stage is None:
                return self._as_they_are(shares)
            self._fix(fixed, stage)
            shares = self._padded(stage.rates)
        frugal = self.frugal(fixed)
        shares = self._exact(fixed, shares if frugal is None else frugal)
        return fixed * self.unit, shares * self.unit

    def _raised(self, fixed, generate):
        stage = self.stage(fixed)
        while stage and generate and generate(stage, fixed):
            stage = self.stage(fixed) or stage
        return stage

    def _padded(self, shares):
        """With the columns that have come since: they have no rate."""
        return numpy.concatenate([shares, numpy.zeros(len(self.columns) - len(shares))])

    def _as_they_are(self, shares):
        """Where the solver fails: rates of the last stage, or equal ones. They may be unfair, but never too much."""
        shares = self._padded(shares)
        for job in range(len(self.weights)):
            own = [place for place, column in enumerate(self.columns) if column.job == job]
            if not shares[own].any():
                shares[own] = self.weights[job]
        rates = rates_of_jobs(self.columns, shares, len(self.weights))
        shares = self._exact(numpy.minimum(rates, self.limits), shares)
        return rates_of_jobs(self.columns, shares, len(self.weights)) * self.unit, shares * self.unit

    def _fix(self, fixed, stage):
        raised = numpy.flatnonzero(numpy.isnan(fixed))
        at_limit = [job for job in raised if stage.level * self.weights[job] >= self.limits[job] * (1 - SLACK)]
        priced = [job for job in raised if stage.job_prices[job] * self.weights[job] > POSITIVE]
        # Without either, numbers have failed: all that is left is fixed, which costs fairness and never a capacity.
        for job in sorted({*at_limit, *priced}) or raised:
            fixed[job] = stage.level * self.weights[job] * (1 - SLACK)

    def _exact(self, rates, shares):
        """Nothing above its rate, and no capacity exceeded by a rounding error."""
        shares = numpy.where(shares > 1e-9 * self._of_jobs(rates), shares, 0.0)
        sums = rates_of_jobs(self.columns, shares, len(rates))
        factor = numpy.where(sums > rates, rates / numpy.where(sums > 0, sums, 1), 1.0)
        shares = shares * self._of_jobs(factor)
        loads = numpy.zeros(len(self.capacity))
        for column, share in zip(self.columns, shares):
            loads[column.resources] += column.uses * share
        worst = (loads / self.capacity).max(initial=0.0)
        return shares / worst if worst > 1 else shares

    def _of_jobs(self, values):
        return values[[column.job for column in self.columns]] if self.columns else numpy.zeros(0)


def _solved(cost, matrix, bound, bounds):
    """What is not solved in one way may be in another: coefficients are sums of many, and solvers have tolerances."""
    for method in ("highs", "highs-ipm", "highs-ds"):
        solved = linprog(cost, A_ub=matrix, b_ub=bound, bounds=bounds, method=method)
        if solved.status == 0:
            return solved
    return None
