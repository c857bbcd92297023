"""Trees in large topologies, one after the other: each is cheap under prices that grow with the load.

A resource's price grows exponentially with its load over its capacity, so a tree goes around what is full. A tree is
built from the workers towards its root: each contribution goes to a neighbour that is nearer to the root (by prices),
and where several of a tree meet at an aggregator, they are combined if that is cheaper."""

import heapq
import math

import numpy
from scipy.sparse import csr_matrix
from scipy.sparse.csgraph import dijkstra

from .columns import make_column

STEEP = 25.0  # how fast prices grow: e to this power, from empty to full
MANY = 4  # workers of a rack, which may be combined at several neighbours
MOST_POWER = 40.0  # of e: beyond, all is as bad
LEAST = 1e-10  # of the highest price: each link costs that much, so that distances differ from node to node


class Builder:
    """Loads are in bits/s, of resources as Network numbers them."""

    def __init__(self, network, combines=True):
        """`combines`: whether anything but roots does."""
        self.network = network
        self.combines = [combines and node.aggregates for node in network.topology.nodes.values()]
        self.load = numpy.zeros(len(network.capacity))
        inner = numpy.flatnonzero(network.forwards[network.starts] & network.forwards[network.ends])
        starts, ends = network.starts[inner], network.ends[inner]
        # Distances are searched from the root. What does not forward has links only as the root.
        out = [
            (node, other, network.link_at[node, other])
            for node in network.aggregators
            if not network.forwards[node]
            for other in network.neighbours[node]
            if network.forwards[other]
        ]
        self._rows = numpy.concatenate([starts, ends, [node for node, _, _ in out]]).astype(int)
        self._places = numpy.concatenate([ends, starts, [other for _, other, _ in out]]).astype(int)
        self._links = numpy.concatenate([inner, inner, [link for _, _, link in out]]).astype(int)
        leads = network.forwards.copy()
        leads[network.aggregators] = True
        self.near = [
            [(other, network.link_at[node, other]) for other in neighbours if leads[other]]
            for node, neighbours in enumerate(network.neighbours)
        ]
        self.capacity = network.capacity.tolist()

    def prices(self, resources, rate):
        """Of one more contribution of this rate."""
        capacity = self.network.capacity[resources]
        power = STEEP * (self.load[resources] + rate) / capacity
        return rate / capacity * numpy.exp(numpy.minimum(power, MOST_POWER))

    def distances(self, roots, rate):
        """Of every node to each root, by the prices of links."""
        price = self.prices(self._links, rate)
        price += LEAST * max(price.max(initial=0.0), 1.0)
        size = len(self.network.names)
        graph = csr_matrix((price, (self._rows, self._places)), shape=(size, size))
        return dijkstra(graph, indices=roots)

    def best_root(self, candidates, groups, rate):
        """(root, distances to it)"""
        sources = [source for source, _ in groups if self.network.forwards[source]]
        distances = self.distances(candidates, rate)
        costs = distances[:, sources].sum(axis=1)
        costs = costs + 2 * self.prices([self.network.intake(root) for root in candidates], rate)
        best = int(costs.argmin())
        return candidates[best], distances[best]

    def add(self, column, rate):
        self.load[column.resources] += column.uses * rate

    def remove(self, column, rate):
        self.load[column.resources] = numpy.maximum(self.load[column.resources] - column.uses * rate, 0.0)

    def build(self, number, groups, root, distance, rate):
        """The column of a tree, whose load is added."""
        return _Tree(self, groups, root, distance.tolist(), rate).column(number)


class _Tree:
    def __init__(self, builder, groups, root, distance, rate):
        self.builder, self.network = builder, builder.network
        self.root, self.distance, self.rate = root, distance, rate
        self.load = builder.load.tolist()  # numbers of a list are quicker, one by one
        self.arrived: dict = {}  # node: [route so far, ...]
        self.routes: dict = {}
        self.access: list = []  # links of workers to their racks
        self.combining: set = set()  # nodes that have to
        self.end_price = self._price(self.network.intake(root), rate)
        for source, workers in groups:
            self.access += [builder.network.link_at[one, source] for one in workers if one != source]
            routes = [(one,) if one == source else (one, source) for one in workers]
            self.arrived.setdefault(source, []).extend(self._spread(source, routes))

    def column(self, number):
        load, network = self.load, self.network
        waiting = [(-self.distance[node], node) for node in self.arrived]
        heapq.heapify(waiting)
        while waiting:
            _, node = heapq.heappop(waiting)
            if node == self.root:
                continue
            for route in self._combined(node, self.arrived.pop(node)):
                following = self._step(node)
                if following not in self.arrived:
                    self.arrived[following] = []
                    heapq.heappush(waiting, (-self.distance[following], following))
                self.arrived[following].append((*route, following))
        for route in self.arrived[self.root]:
            self.routes[route[0]] = route
        load[network.intake(self.root)] += self.rate * len(self.arrived[self.root])
        column = make_column(network, number, self.root, self.routes)
        for link in self.access:
            load[link] += self.rate
        self.builder.load = numpy.array(load)
        return column

    def _spread(self, source, routes):
        """What stays with the rack. Where its workers are many, some are combined at neighbours that are farther from the
        root, if that is cheaper; the sum comes back."""
        if len(routes) < MANY or source == self.root:
            return routes
        here = self.distance[source]
        near = [
            (other, link)
            for other, link in self.builder.near[source]
            if self.builder.combines[other] and here < self.distance[other] < math.inf
        ]
        counts = self._counts(source, near, len(routes))
        for (other, link), count in zip(near, counts):
            if count > 1:
                self.load[link] += self.rate * count
                self.combining.add(other)
                self.arrived.setdefault(other, []).extend((*route, other) for route in routes[-count:])
                routes = routes[:-count]
        return routes

    def _counts(self, source, near, count):
        """How many contributions go to each neighbour: each of them where it is cheapest."""
        onward = self._price(self._next(source)[1], self.rate) + self.end_price
        combines = self.builder.combines[source]
        counts = [0] * len(near)
        stay = 0
        costs = [self._at_neighbour(source, each, 0) for each in near]
        for _ in range(count):
            own = self._marginal(self.network.intake(source), stay) if combines else (stay + 1) * onward
            best = min(range(len(near)), key=costs.__getitem__, default=-1)
            if best < 0 or own <= costs[best]:
                stay += 1
            else:
                counts[best] += 1
                costs[best] = self._at_neighbour(source, near[best], counts[best])
        return counts

    def _at_neighbour(self, source, neighbour, count):
        """The cost of one contribution more; the first pays for the way back."""
        other, link = neighbour
        back = 0.0 if count else self.distance[other] - self.distance[source] + self.end_price
        return self._marginal(link, count) + self._marginal(self.network.intake(other), count) + back

    def _marginal(self, resource, count):
        """The price of one contribution more than these."""
        return self._price(resource, self.rate, count + 1)

    def _price(self, resource, rate, count=1):
        """As Builder.prices(), of the last of so many."""
        capacity = self.builder.capacity[resource]
        power = STEEP * (self.load[resource] + rate * count) / capacity
        return rate / capacity * math.exp(power if power < MOST_POWER else MOST_POWER)

    def _combined(self, node, routes):
        """What goes on from here."""
        count = len(routes)
        if count < 2 or not self.builder.combines[node]:
            return routes
        intake = self.network.intake(node)
        other, link = self._next(node)
        onward = self.distance[other] + self.end_price
        if node in self.combining:
            return self._together(node, routes)
        together = self._price(intake, self.rate * count) + self._price(link, self.rate) + onward
        if together >= self._price(link, self.rate * count) + count * onward:
            return routes
        return self._together(node, routes)

    def _together(self, node, routes):
        self.load[self.network.intake(node)] += self.rate * len(routes)
        for route in routes:
            self.routes[route[0]] = route
        return [(node,)]

    def _step(self, node):
        """To the next node on the cheapest way to the root; the link's load is added."""
        other, link = self._next(node)
        self.load[link] += self.rate
        return other

    def _next(self, node):
        """(node, link)"""
        distance = self.distance
        here = distance[node]
        best, chosen = math.inf, (-1, -1)
        for other, link in self.builder.near[node]:
            if distance[other] < here and distance[other] < best:
                cost = distance[other] + self._price(link, self.rate)
                if cost < best:
                    best, chosen = cost, (other, link)
        return chosen
