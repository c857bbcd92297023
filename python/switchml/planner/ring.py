"""What a ring of each job's workers reaches on the same links, for comparison.

Each worker sends to the next 2 (n - 1) / n bits for each bit of the tensor. Workers follow each other rack by rack; the
racks are in the order of a walk over the topology. Routes have the fewest links, and go one way only."""

import networkx
import numpy


def ring_rates(topology, jobs):
    """{job: bits/s}, max-min fair; a job whose workers cannot reach each other has 0."""
    graph = _graph(topology)
    uses = {job.name: _crossings(topology, graph, job) for job in jobs}
    rates = {job.name: 0.0 for job in jobs if uses[job.name] is None}
    left = {way: topology.speed(*way) for link in topology.links.values() for way in (link.ends, link.ends[::-1])}
    rising = {job.name: job for job in jobs if uses[job.name] is not None}
    level = 0.0
    while rising:
        step, full = _step(rising, uses, left, level)
        level += step
        for way in left:
            left[way] -= step * sum(job.weight * uses[name].get(way, 0.0) for name, job in rising.items())
        for name in [name for name, job in rising.items() if full(name, job)]:
            rates[name] = level * rising.pop(name).weight
    return rates


def ring_order(topology, job):
    """The job's workers as they follow each other."""
    return _order(_graph(topology), job)


def _graph(topology):
    graph = networkx.DiGraph()
    graph.add_nodes_from(topology.nodes)
    for link in topology.links.values():
        graph.add_edge(*link.ends)
        graph.add_edge(*link.ends[::-1])
    return graph


def _crossings(topology, graph, job):
    """{(start, end): bits over the link for each bit of the tensor}"""
    if any(name not in topology.nodes for name in job.workers):
        return None
    order = _order(graph, job)
    share = 2 * (len(order) - 1) / len(order)
    forwarding = {name for name, node in topology.nodes.items() if node.forwards}
    inner = graph.subgraph(forwarding).copy()
    found: dict = {}
    for worker, following in zip(order, order[1:] + order[:1]):
        ways = [*graph.out_edges(worker), *graph.in_edges(following)]
        inner.add_edges_from(way for way in ways if all(end in forwarding or end in (worker, following) for end in way))
        try:
            route = networkx.shortest_path(inner, worker, following)
        except networkx.NetworkXNoPath:
            return None
        inner.remove_nodes_from((worker, following))
        for way in zip(route, route[1:]):
            found[way] = found.get(way, 0.0) + share
    return found


def _order(graph, job):
    walk = {name: place for place, name in enumerate(networkx.dfs_preorder_nodes(graph, job.workers[0]))}
    return sorted(job.workers, key=lambda name: (walk.get(name, len(walk)), name))


def _step(rising, uses, left, level):
    """How far the level can rise, and which jobs are at their end then."""
    limits = {name: job.limit / job.weight - level for name, job in rising.items() if job.limit is not None}
    rising_uses: dict = {}
    for name, job in rising.items():
        for way, count in uses[name].items():
            rising_uses[way] = rising_uses.get(way, 0.0) + count * job.weight
    room = {way: left[way] / count for way, count in rising_uses.items()}
    step = max(0.0, float(numpy.min([*room.values(), *limits.values()])))
    slack = step + 1e-9 * (step + level)

    def full(name, job):
        return limits.get(name, numpy.inf) <= slack or any(room[way] <= slack for way in uses[name])

    return step, full
