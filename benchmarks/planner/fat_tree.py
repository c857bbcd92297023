"""Fat-trees of any size, and jobs placed in them at random."""

import dataclasses
import random

from planner import Job, Link, Node, Topology


@dataclasses.dataclass(frozen=True)
class FatTree:
    """In each pod every edge switch has a link to every aggregation switch. Core switches come in planes: aggregation
    switch i of each pod has a link to each core switch of plane i. Speeds are in bits/s."""

    pods: int = 20
    edges: int = 20  # of a pod
    planes: int = 20  # aggregation switches of a pod
    cores: int = 10  # of a plane
    hosts: int = 25  # of an edge switch
    host_speed: float = 100e9
    edge_speed: float = 100e9
    core_speed: float = 100e9
    capacity: float | None = 1.6e12

    def topology(self):
        nodes, links = [], []
        for plane in range(self.planes):
            nodes += [self._switch(f"core{plane}.{core}") for core in range(self.cores)]
        for pod in range(self.pods):
            for plane in range(self.planes):
                nodes.append(self._switch(f"pod{pod}.up{plane}"))
                for core in range(self.cores):
                    links.append(self._link(f"pod{pod}.up{plane}", f"core{plane}.{core}", self.core_speed))
            for edge in range(self.edges):
                name = f"pod{pod}.edge{edge}"
                nodes.append(self._switch(name))
                links += [self._link(name, f"pod{pod}.up{plane}", self.edge_speed) for plane in range(self.planes)]
                for host in range(self.hosts):
                    nodes.append(Node.worker(f"{name}.host{host}"))
                    links.append(self._link(f"{name}.host{host}", name, self.host_speed))
        return Topology(nodes, links)

    def _switch(self, name):
        return Node(name, capacity=self.capacity)

    def _link(self, one, other, speed):
        return Link((one, other), (speed, speed))


def place_jobs(topology, count, seed, placement="scattered"):
    """`count` jobs of one size that have all workers between them: on hosts at random, or "packed" into racks in a
    random order."""
    dice = random.Random(seed)
    workers = list(topology.workers)
    if placement == "scattered":
        dice.shuffle(workers)
    else:
        racks: dict = {}
        for name in workers:
            racks.setdefault(name.rpartition(".")[0], []).append(name)
        order = list(racks.values())
        dice.shuffle(order)
        workers = [name for rack in order for name in rack]
    size = len(workers) // count
    return [Job(f"job{number}", tuple(workers[number * size :][:size])) for number in range(count)]
