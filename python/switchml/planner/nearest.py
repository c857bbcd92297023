"""The way "nearest", for comparison: each worker at its nearest aggregator, whose sum goes straight to the root.

All jobs' rates rise together. When an aggregator can take no more in, what is left of its workers' gradients goes on
from there by other trees: to the next nearest aggregator that can, at last the root. When a link is full, the jobs that
cross it are done. Routes have the fewest links."""

import numpy

from .columns import make_column
from .pricing import Pricer
from .routes import make_routes

FULL = 1e-9  # of a capacity


class _Filling:
    def __init__(self, network, pricers, jobs, most):
        self.network, self.jobs, self.most = network, jobs, most
        self.left = network.capacity.copy()
        self.columns: list = []
        self.rates: list = []
        self.now = {number: _Nearest(network, pricer) for number, pricer in enumerate(pricers)}
        self.reached = numpy.zeros(len(jobs))

    def run(self):
        while self.now:
            trees = {number: self.now[number].column(number, self.left) for number in list(self.now)}
            self._drop([number for number, tree in trees.items() if tree is None])
            growing = {number: tree for number, tree in trees.items() if tree is not None}
            if growing:
                self._grow(growing)
        return self.columns, self.rates

    def _drop(self, numbers):
        for number in numbers:
            del self.now[number]

    def _grow(self, trees):
        uses = numpy.zeros(len(self.left))
        for number, tree in trees.items():
            uses[tree.resources] += tree.uses * self.jobs[number].weight
        crossed = uses > 0
        step = (self.left[crossed] / uses[crossed]).min(initial=numpy.inf)
        for number in trees:
            job = self.jobs[number]
            if job.limit is not None:
                step = min(step, (job.limit - self.reached[number]) / job.weight)
        if not numpy.isfinite(step):
            raise RuntimeError("no link has a capacity")
        self._take(trees, uses, step)
        self._drop([number for number in trees if self._done(number, trees[number])])

    def _take(self, trees, uses, step):
        for number, tree in trees.items():
            rate = step * self.jobs[number].weight
            self.reached[number] += rate
            if rate > 0:
                self.columns.append(tree)
                self.rates.append(rate)
        self.left = numpy.maximum(self.left - uses * step, 0.0)
        self.left[self.left < FULL * self.network.capacity] = 0.0

    def _done(self, number, tree):
        limit = self.jobs[number].limit
        links = tree.resources[tree.resources < self.network.links]
        trees = sum(column.job == number for column in self.columns)
        return (
            (self.left[links] <= 0).any()
            or (limit is not None and self.reached[number] >= limit * (1 - FULL))
            or (self.most is not None and trees >= self.most)
        )


class _Nearest:
    """Of one job: its aggregators by distance from each source."""

    def __init__(self, network, pricer):
        self.network, self.pricer = network, pricer
        self.nodes = pricer.aggregators
        sources = [source for source, _ in pricer.groups]
        hops = numpy.ones(len(network.capacity))
        self.root = pricer.root
        if self.root is None:
            far = make_routes(network, sources, self.nodes, "any").cheapest(hops)
            weights = [float(len(workers)) for _, workers in pricer.groups]
            self.root = self.nodes[int(numpy.round(weights @ far, 3).argmin())]
        self.routes = make_routes(network, [*sources, self.root], self.nodes, "any")
        far = numpy.round(self.routes.cheapest(hops))
        self.order = {source: numpy.lexsort((far[-1], row)) for source, row in zip(sources, far)}

    def _nearest(self, source, left):
        """The nearest aggregator that can take more in; of several, the nearest to the root."""
        order = (self.nodes[place] for place in self.order[source])
        return next((node for node in order if left[self.network.intake(node)] > 0), None)

    def column(self, number, left):
        """None: the root can take no more in."""
        routes: dict = {}
        for source, workers in self.pricer.groups:
            target = self._nearest(source, left)
            if target is None or left[self.network.intake(self.root)] <= 0:
                return None
            route = self.routes.route(source, target)
            routes.update({one: route if one == source else (one, *route) for one in workers})
            if target != self.root:
                routes[target] = self.routes.route(self.root, target)[::-1]
        column = make_column(self.network, number, self.root, routes)
        return None if (left[column.resources] <= 0).any() else column


def nearest(network, pricers: list[Pricer], jobs, most):
    """(columns, their rates)"""
    return _Filling(network, pricers, jobs, most).run()
