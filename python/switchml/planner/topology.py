"""What there is: nodes and links. Values only; topology_file.py reads them."""

import dataclasses

from .errors import PlanError

SWITCH, WORKER = "switch", "worker"


@dataclasses.dataclass(frozen=True)
class Node:
    name: str
    kind: str = SWITCH
    aggregates: bool = True  # it can combine contributions
    forwards: bool = True  # others' routes may pass it
    capacity: float | None = None  # of contributions it takes in, bits/s; None: no bound

    @classmethod
    def worker(cls, name):
        return cls(name, WORKER, aggregates=False, forwards=False)


@dataclasses.dataclass(frozen=True)
class Link:
    ends: tuple  # two names
    speeds: tuple  # bits/s: from the first end to the second, and back
    ports: tuple = (0, 0)  # at each end; 0: not known

    @property
    def least(self):
        """A route goes one way and its results the other, so the slower direction bounds both."""
        return min(self.speeds)


class Topology:
    """Nodes by name and links by their ends, in the order of the file: whatever is planned follows that order."""

    def __init__(self, nodes, links):
        self.nodes = {node.name: node for node in nodes}
        self.links = {frozenset(link.ends): link for link in links}

    @property
    def workers(self):
        return [name for name, node in self.nodes.items() if node.kind == WORKER]

    @property
    def aggregators(self):
        return [name for name, node in self.nodes.items() if node.aggregates]

    def link(self, one, other):
        return self.links.get(frozenset((one, other)))

    def speed(self, start, end):
        """Of the link in this direction."""
        link = self.links[frozenset((start, end))]
        return link.speeds[0] if link.ends[0] == start else link.speeds[1]

    def without(self, *failed):
        """What is left when nodes (names) and links (pairs of names) have failed."""
        for item in failed:
            if not (item in self.nodes if isinstance(item, str) else frozenset(item) in self.links):
                raise PlanError(f"{item!r} has not failed: the topology has no such node or link")
        links = {frozenset(item) for item in failed if not isinstance(item, str)}
        names = {item for item in failed if isinstance(item, str)}
        return Topology(
            [node for node in self.nodes.values() if node.name not in names],
            [link for ends, link in self.links.items() if ends not in links and not ends & names],
        )
