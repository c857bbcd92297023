"""The cheapest tree of a job under prices of resources: what column generation asks for."""

import numpy

from .columns import make_column
from .routes import make_routes
from .subsets import Costs, every_subset, search

EXACT = 12  # with so many aggregators all subsets are looked at: 4,096


class Pricer:
    """`single`: trees of the root alone, as without aggregation in the network."""

    def __init__(self, network, job, kind="any", single=False):
        self.network, self.single = network, single
        self.groups = network.groups(job)
        self.root = None if job.root is None else network.number.get(job.root)
        self.aggregators = self._usable()
        self.exact = single or len(self.aggregators) <= EXACT
        self.reason = self._reason(job)
        self.kind = kind

    def prepare(self):
        """Before trees are priced."""
        self.routes = make_routes(self.network, [*self.aggregators, *self._sources()], self.aggregators, self.kind)
        self.counts = numpy.array([float(len(workers)) for _, workers in self.groups])
        self.place = None if self.root is None else self.aggregators.index(self.root)
        self.masks = self._masks()

    def _sources(self):
        return [source for source, _ in self.groups]

    def _usable(self):
        """Aggregators that each worker, and the root, can reach."""
        network = self.network
        ends = self._sources() + ([] if self.root is None else [self.root])
        usable = network.reached_by_all(ends)
        if self.single and self.root is not None:
            usable = [node for node in usable if node == self.root]
        return usable

    def _reason(self, job):
        missing = [name for name in job.workers if name not in self.network.number]
        if missing:
            return f"worker {missing[0]} is not there"
        if job.root is None:
            return "" if self.aggregators else "there is no aggregator that all its workers reach"
        if self.root not in self.network.aggregators:
            return f"root {job.root} is not there, or does not aggregate"
        far = [workers[0] for source, workers in self.groups if not self.network.reaches(source, self.root)]
        return f"worker {self.network.names[far[0]]} has no route to root {job.root}" if far else ""

    def _masks(self):
        count = len(self.aggregators)
        return every_subset(count, self.place) if self.exact and not self.single else None

    def cheapest(self, number, prices):
        """(cost, column of job `number`): the least that a rate of 1 can cost, and the tree."""
        between_and_attach = self.routes.cheapest(prices)
        count = len(self.aggregators)
        intake = prices[[self.network.intake(node) for node in self.aggregators]]
        costs = Costs(between_and_attach[:count], between_and_attach[count:], self.counts, intake)
        if self.single:
            mask = numpy.arange(count) == costs.singles().argmin()
        elif self.masks is not None:
            values = costs.of(self.masks, self.place)
            mask = self.masks[values.argmin()]
        else:
            _, mask = search(costs, count, self.place)
        mask = self._pruned(costs, mask)
        column = self._column(number, *costs.tree(mask, self.place))
        return float(prices[column.resources] @ column.uses), column

    def _pruned(self, costs, mask):
        """Without aggregators that have nothing to combine, unless that costs more."""
        while True:
            root, parents, attached = costs.tree(mask, self.place)
            children = numpy.zeros(len(mask))
            for parent in parents.values():
                children[parent] += 1
            for parent, count in zip(attached, self.counts):
                children[parent] += count
            idle = [one for one in numpy.flatnonzero(mask) if children[one] < 2 and one != self.place]
            smaller = mask.copy()
            smaller[idle[:1]] = False
            if not idle or not smaller.any():
                return mask
            before, after = costs.of(numpy.stack([mask, smaller]), self.place)
            if not after <= before * (1 + 1e-12):
                return mask
            mask = smaller

    def _column(self, number, root, parents, attached):
        nodes, network = self.aggregators, self.network
        routes = {nodes[child]: self.routes.route(nodes[child], nodes[parent]) for child, parent in parents.items()}
        for (source, workers), parent in zip(self.groups, attached):
            route = self.routes.route(source, nodes[parent])
            for worker in workers:
                routes[worker] = route if worker == source else (worker, *route)
        return make_column(network, number, nodes[root], routes)
