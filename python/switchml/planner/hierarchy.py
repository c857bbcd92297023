"""A family of sets of nodes, each within another or apart: racks, pods, everything.

Whatever leaves a set crosses its boundary. So the sets form a tree whose edges carry at most what the boundaries do,
and whose nodes take in at most what their aggregators do together: a relaxation of the topology that is small."""

import dataclasses

import numpy
from scipy.sparse import csr_matrix
from scipy.sparse.csgraph import connected_components


@dataclasses.dataclass
class Set:
    members: list  # nodes, those of smaller sets included
    parent: int = -1  # -1: everything
    boundary: float = 0.0  # bits/s, of the links that leave it
    intake: float = 0.0  # bits/s, of its aggregators that are in no smaller set


class Family:
    """Racks are switches with workers, one by one. Then come the connected parts of all switches up to a distance from
    racks, for each distance."""

    def __init__(self, network):
        self.network = network
        self.sets: list[Set] = []
        self.of_node = numpy.full(len(network.names), -1)  # the smallest set
        tiers = self._tiers()
        for tier in range(-1, int(tiers.max(initial=0)) + 1):
            for part in self._parts(tiers, tier):
                self._add(part)
        self._add(list(range(len(network.names))))
        self._boundaries()

    def _tiers(self):
        """Of switches: 0 with workers. Others' tiers are their distances; -1: not reached, or a worker."""
        network = self.network
        tiers = numpy.full(len(network.names), -1)
        wave = [
            node
            for node in numpy.flatnonzero(network.forwards)
            if any(self._is_worker(other) for other in network.neighbours[node])
        ]
        tier = 0
        while wave:
            tiers[wave] = tier
            wave = sorted(
                {
                    other
                    for node in wave
                    for other in network.neighbours[node]
                    if tiers[other] < 0 and not self._is_worker(other)
                }
            )
            tier += 1
        return tiers

    def _is_worker(self, node):
        return self.network.topology.nodes[self.network.names[node]].kind == "worker"

    def _parts(self, tiers, tier):
        """Of the switches of these tiers, with their workers; tier -1: each rack alone."""
        network = self.network
        inside = tiers <= max(tier, 0)
        inside &= tiers >= 0
        if tier < 0:
            parts = [[int(node)] for node in numpy.flatnonzero(inside)]
        else:
            kept = inside[network.starts] & inside[network.ends]
            size = len(network.names)
            graph = csr_matrix((numpy.ones(kept.sum()), (network.starts[kept], network.ends[kept])), shape=(size, size))
            _, labels = connected_components(graph, directed=False)
            found: dict = {}
            for node in numpy.flatnonzero(inside):
                found.setdefault(labels[node], []).append(int(node))
            parts = list(found.values())
        return [part + self._workers_of(part) for part in parts]

    def _workers_of(self, part):
        network = self.network
        near = {other for node in part for other in network.neighbours[node] if self._is_worker(other)}
        within = set(part)
        return sorted(worker for worker in near if within.issuperset(network.neighbours[worker]))

    def _add(self, members):
        below = {int(self.of_node[node]) for node in members}
        tops = {self._top(place) for place in below - {-1}}
        if len(tops) == 1 and -1 not in below:
            return  # it is there
        place = len(self.sets)
        self.sets.append(Set(members))
        for child in tops:
            self.sets[child].parent = place
        self.of_node[[node for node in members if self.of_node[node] < 0]] = place

    def _top(self, place):
        while self.sets[place].parent >= 0:
            place = self.sets[place].parent
        return place

    def _boundaries(self):
        network = self.network
        for place, one in enumerate(self.sets):
            inside = numpy.zeros(len(network.names), dtype=bool)
            inside[one.members] = True
            crossing = inside[network.starts] != inside[network.ends]
            one.boundary = float(network.capacity[: network.links][crossing].sum())
            own = [node for node in network.aggregators if self.of_node[node] == place]
            one.intake = float(sum(network.capacity[network.intake(node)] for node in own))
