"""Routes between sources and aggregators: the cheapest under prices of links. Only nodes that forward are passed.

`routes` is "any" (every route), "shortest" (those of the fewest links), or a number: the k shortest simple ones."""

import itertools

import networkx
import numpy
from scipy.sparse import csr_matrix
from scipy.sparse.csgraph import dijkstra

TIE = 1e-9  # the price of a link of price 0: fewer links win, and to scipy a 0 is no link


class Routes:
    """sources and targets: numbers of nodes."""

    def __init__(self, network, sources, targets):
        self.network = network
        self.sources, self.targets = list(sources), list(targets)

    def cheapest(self, prices):
        """The costs of all pairs, sources x targets; route() then has the routes."""
        raise NotImplementedError

    def route(self, source, target):
        raise NotImplementedError


class AnyRoutes(Routes):
    """What does not forward is two nodes: routes end in the first, and start at the second."""

    def __init__(self, network, sources, targets):
        super().__init__(network, sources, targets)
        count = len(network.names)
        start_at = numpy.where(network.forwards, numpy.arange(count), numpy.arange(count) + count)
        one, other = network.starts, network.ends
        self._rows = numpy.concatenate([start_at[one], start_at[other]])
        self._places = numpy.concatenate([other, one])
        self._begin = start_at[self.sources] if self.sources else numpy.zeros(0, dtype=int)
        self._size = 2 * count

    def cheapest(self, prices):
        price = prices[: self.network.links] + TIE
        graph = csr_matrix(
            (numpy.concatenate([price, price]), (self._rows, self._places)), shape=(self._size, self._size)
        )
        costs, self._before = dijkstra(graph, indices=self._begin, return_predecessors=True)
        found = costs[:, self.targets]
        found[numpy.equal.outer(self.sources, self.targets)] = 0.0  # itself, also where it does not forward
        return found

    def route(self, source, target):
        place, count = self.sources.index(source), len(self.network.names)
        if source == target:
            return (source,)
        nodes = [target]
        while nodes[-1] % count != source:
            nodes.append(int(self._before[place, nodes[-1]]))
        return tuple(node % count for node in reversed(nodes))


class ListedRoutes(Routes):
    """A few routes of each pair, found once."""

    def __init__(self, network, sources, targets, kind):
        super().__init__(network, sources, targets)
        graph = networkx.Graph()
        graph.add_nodes_from(range(len(network.names)))
        graph.add_edges_from(zip(network.starts.tolist(), network.ends.tolist()))
        self._routes = {
            (source, target): self._between(graph, source, target, kind)
            for source in self.sources
            for target in self.targets
        }

    def _between(self, graph, source, target, kind):
        if source == target:
            return [((source,), [])]
        passed = [node for node in graph if self.network.forwards[node] or node in (source, target)]
        found: list = []
        try:
            for route in networkx.shortest_simple_paths(graph.subgraph(passed), source, target):
                if len(found) == kind or (kind == "shortest" and found and len(route) > len(found[0][0])):
                    break
                found.append((tuple(route), self.network.links_of(route)))
        except networkx.NetworkXNoPath:
            pass
        return sorted(found, key=lambda item: (len(item[0]), item[0]))

    def cheapest(self, prices):
        self._best: dict = {}
        costs = numpy.full((len(self.sources), len(self.targets)), numpy.inf)
        pairs = itertools.product(self.sources, self.targets)
        for place, pair in zip(itertools.product(*map(range, costs.shape)), pairs):
            priced = [(prices[links].sum() + TIE * len(links), at) for at, (_, links) in enumerate(self._routes[pair])]
            if priced:
                costs[place], at = min(priced)
                self._best[pair] = self._routes[pair][at][0]
        return costs

    def route(self, source, target):
        return self._best[source, target]


def make_routes(network, sources, targets, kind):
    if kind == "any":
        return AnyRoutes(network, sources, targets)
    return ListedRoutes(network, sources, targets, kind)
