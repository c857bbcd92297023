"""Plans: per job its shares, each with a rate and a tree. Values only, and what follows from them."""

import dataclasses

from .jobs import Job
from .topology import Topology


@dataclasses.dataclass(frozen=True)
class Tree:
    """routes[child]: the nodes from the child to its parent, both included. The root is the one parent without."""

    root: str
    routes: dict

    def parent(self, child):
        return self.routes[child][-1]

    def children(self):
        """{aggregator: number of its children}"""
        counts: dict = {}
        for route in self.routes.values():
            counts[route[-1]] = counts.get(route[-1], 0) + 1
        return counts

    def crossings(self):
        """{(start, end): how many contributions and results cross the link this way}"""
        counts: dict = {}
        for route in self.routes.values():
            for start, end in zip(route, route[1:]):
                for way in ((start, end), (end, start)):
                    counts[way] = counts.get(way, 0) + 1
        return counts

    def holds_in(self, topology):
        """Whether everything that it uses is there, and does what it must."""
        return all(_route_holds(topology, route) for route in self.routes.values())

    def key(self):
        return self.root, tuple(sorted(self.routes.items()))


def _route_holds(topology, route):
    return (
        all(name in topology.nodes for name in route)
        and all(topology.link(*pair) for pair in zip(route, route[1:]))
        and all(topology.nodes[name].forwards for name in route[1:-1])
        and topology.nodes[route[-1]].aggregates
    )


@dataclasses.dataclass(frozen=True)
class Share:
    rate: float  # bits/s
    tree: Tree


@dataclasses.dataclass(frozen=True)
class Assignment:
    job: Job
    shares: tuple
    reason: str = ""  # why there is no share

    @property
    def rate(self):
        return sum(share.rate for share in self.shares)


@dataclasses.dataclass(frozen=True)
class Plan:
    topology: Topology
    assignments: tuple
    way: str = "planned"
    bound: float | None = None  # of the least rate / weight, over all jobs that can be planned; None: not known

    @property
    def jobs(self):
        return [assignment.job for assignment in self.assignments]

    @property
    def least(self):
        """What planning maximises first: the least rate / weight of the jobs that have a tree."""
        return min((one.rate / one.job.weight for one in self.assignments if one.shares), default=0.0)

    def link_loads(self):
        """{(start, end): bits/s}, for each link both ways."""
        loads: dict = {}
        for link in self.topology.links.values():
            loads[link.ends] = loads[link.ends[::-1]] = 0.0
        for share in self.shares():
            for way, count in share.tree.crossings().items():
                loads[way] += count * share.rate
        return loads

    def aggregator_loads(self):
        """{aggregator: bits/s that it takes in}"""
        loads = dict.fromkeys(self.topology.aggregators, 0.0)
        for share in self.shares():
            for name, count in share.tree.children().items():
                loads[name] += count * share.rate
        return loads

    def shares(self):
        return [share for one in self.assignments for share in one.shares]
