"""A topology as arrays: nodes and links by number, and what each can carry."""

import numpy
from scipy.sparse import csr_matrix
from scipy.sparse.csgraph import connected_components

from .topology import WORKER


class Network:
    """Resources are numbered: links first, then nodes (of which only aggregators take contributions in). Results go the
    way of contributions back, so a link is loaded alike in both directions, and its slower one counts."""

    def __init__(self, topology):
        self.topology = topology
        self.names = list(topology.nodes)
        self.number = {name: number for number, name in enumerate(self.names)}
        nodes = list(topology.nodes.values())
        self.forwards = numpy.array([node.forwards and node.kind != WORKER for node in nodes], dtype=bool)
        self.aggregators = [number for number, node in enumerate(nodes) if node.aggregates]
        links = list(topology.links.values())
        self.starts = numpy.array([self.number[link.ends[0]] for link in links], dtype=int)
        self.ends = numpy.array([self.number[link.ends[1]] for link in links], dtype=int)
        self.capacity = numpy.array(
            [link.least for link in links] + [numpy.inf if node.capacity is None else node.capacity for node in nodes],
            dtype=float,
        )
        self.link_at: dict = {}
        self.neighbours: list = [[] for _ in nodes]
        for link, (start, end) in enumerate(zip(self.starts.tolist(), self.ends.tolist())):
            self.link_at[start, end] = self.link_at[end, start] = link
            self.neighbours[start].append(end)
            self.neighbours[end].append(start)

        self._parts = self._forwarding_parts()

    def _forwarding_parts(self):
        """For each node the connected parts of forwarding nodes that it is in, or beside."""
        kept = self.forwards[self.starts] & self.forwards[self.ends]
        size = len(self.names)
        graph = csr_matrix((numpy.ones(kept.sum()), (self.starts[kept], self.ends[kept])), shape=(size, size))
        labels = connected_components(graph, directed=False)[1].tolist()
        return [
            {labels[node]} if forwards else {labels[other] for other in near if self.forwards[other]}
            for node, (forwards, near) in enumerate(zip(self.forwards.tolist(), self.neighbours))
        ]

    def reaches(self, one, other):
        """Whether there is a route between them."""
        return one == other or not self._parts[one].isdisjoint(self._parts[other]) or (one, other) in self.link_at

    def reached_by_all(self, ends):
        """The aggregators to which there is a route from each of these nodes."""
        common = set.intersection(*(self._parts[end] for end in ends)) if ends else set()
        return [
            node
            for node in self.aggregators
            if not common.isdisjoint(self._parts[node]) or all(self.reaches(end, node) for end in ends)
        ]

    @property
    def links(self):
        return len(self.starts)

    def intake(self, node):
        """The number of the resource: what the node takes in."""
        return self.links + node

    def links_of(self, route):
        return [self.link_at[pair] for pair in zip(route, route[1:])]

    def groups(self, job):
        """[(source, [worker, ...])]: workers of one rack are alike. The source of a worker with one link, to a switch,
        is that switch; any other is a source of its own."""
        found: dict = {}
        for name in job.workers:
            worker = self.number.get(name)
            if worker is None:
                continue
            near = self.neighbours[worker]
            source = near[0] if len(near) == 1 and self.forwards[near[0]] else worker
            found.setdefault(source, []).append(worker)
        return list(found.items())
