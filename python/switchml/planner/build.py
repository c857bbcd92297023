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
MOST_POWER = 40.0  # of e: beyond, all is as bad
LEAST = 1e-10  # of the highest price: each link costs that much, so that distances differ from node to node


class Builder:
    """Loads are in bits/s, of resources as Network numbers them."""

    def __init__(self, network, combines=True):
        """`combines`: whether anything but roots does."""
        self.network = network
        self.combines = [combines and node.aggregates for node in network.topology.nodes.values()]
        self.load = numpy.zeros(len(network.capacity))
        self.switches = numpy.flatnonzero(network.forwards)
        inner = network.forwards[network.starts] & network.forwards[network.ends]
        self.inner = numpy.flatnonzero(inner)
        starts, ends = network.starts[self.inner], network.ends[self.inner]
        self._rows, self._places = numpy.concatenate([starts, ends]), numpy.concatenate([ends, starts])
        self.near = [
            [(other, network.link_at[node, other]) for other in neighbours if network.forwards[other]]
            for node, neighbours in enumerate(network.neighbours)
        ]
        self.capacity = network.capacity.tolist()

    def prices(self, resources, rate):
        """Of one more contribution of this rate."""
        capacity = self.network.capacity[resources]
        power = STEEP * (self.load[resources] + rate) / capacity
        return numpy.where(numpy.isinf(capacity), 0.0, rate / capacity * numpy.exp(numpy.minimum(power, MOST_POWER)))

    def price(self, resource, rate):
        capacity = self.capacity[resource]
        if math.isinf(capacity):
            return 0.0
        return rate / capacity * math.exp(min(STEEP * (self.load[resource] + rate) / capacity, MOST_POWER))

    def distances(self, roots, rate):
        """Of every node to each root, by the prices of links."""
        price = self.prices(self.inner, rate)
        price += LEAST * max(price.max(initial=0.0), 1.0)
        size = len(self.network.names)
        graph = csr_matrix((numpy.concatenate([price, price]), (self._rows, self._places)), shape=(size, size))
        return dijkstra(graph, indices=roots)

    def best_root(self, candidates, groups, rate):
        """(root, distances to it)"""
        sources = [source for source, _ in groups]
        distances = self.distances(candidates, rate)
        costs = distances[:, sources].sum(axis=1)
        costs = costs + [2 * self.price(self.network.intake(root), rate) for root in candidates]
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
        self.arrived: dict = {}  # node: [route so far, ...]
        self.routes: dict = {}
        for source, workers in groups:
            routes = [(one,) if one == source else (one, source) for one in workers]
            self.arrived.setdefault(source, []).extend(routes)
        self.end_price = builder.price(self.network.intake(root), rate)

    def column(self, number):
        load, network = self.builder.load, self.network
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
        access = [network.link_at[route[:2]] for route in self.routes.values() if not network.forwards[route[0]]]
        load[access] += self.rate
        return column

    def _combined(self, node, routes):
        """What goes on from here."""
        count, builder = len(routes), self.builder
        if count < 2 or not builder.combines[node]:
            return routes
        intake = self.network.intake(node)
        other, link = self._next(node)
        onward = self.distance[other] + self.end_price
        together = builder.price(intake, self.rate * count) + builder.price(link, self.rate) + onward
        if together >= builder.price(link, self.rate * count) + count * onward:
            return routes
        builder.load[intake] += self.rate * count
        for route in routes:
            self.routes[route[0]] = route
        return [(node,)]

    def _step(self, node):
        """To the next node on the cheapest way to the root; the link's load is added."""
        other, link = self._next(node)
        self.builder.load[link] += self.rate
        return other

    def _next(self, node):
        """(node, link)"""
        builder, distance = self.builder, self.distance
        here = distance[node]
        best, chosen = math.inf, (-1, -1)
        for other, link in builder.near[node]:
            if distance[other] < here and distance[other] < best:
                cost = distance[other] + builder.price(link, self.rate)
                if cost < best:
                    best, chosen = cost, (other, link)
        return chosen
