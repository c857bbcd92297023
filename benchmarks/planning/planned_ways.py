"""What the planner says of the ways that are measured. Pure."""

import dataclasses


def addresses_of(text):
    """{node: address} of a topology file's switches and workers."""
    import yaml

    content = yaml.safe_load(text)
    found = {switch["name"]: switch["address"] for switch in content["switches"] if "address" in switch}
    return found | {worker["name"]: worker["addresses"][0] for worker in content["workers"]}


def plan_of(planner, topology, job, way):
    """(plan or None, the rate of the model in bit/s). Without aggregation, several shares would send between the same
    two addresses over different links: there, each worker has one route instead, which is as good in the example."""
    from planner import ring

    if way == "ring":
        return None, ring.ring_rates(topology, [job])[job.name]
    plan = planner.plan(topology, [job], way)
    return (one_route_each(plan) if way == "none" else plan), plan.assignments[0].rate


def one_route_each(plan):
    """The same plan with one share: its workers are dealt out over the routes of all its shares, to where links have
    most room left: first those that have the fewest routes."""
    (assignment,) = plan.assignments
    trees = [share.tree for share in assignment.shares]
    choices = {worker: {tree.routes[worker] for tree in trees} for worker in assignment.job.workers}
    load, routes = {}, {}
    for worker in sorted(choices, key=lambda name: len(choices[name])):
        routes[worker] = min(sorted(choices[worker]), key=lambda route: fullest(plan.topology, load, route))
        for way in zip(routes[worker], routes[worker][1:]):
            load[way] = load.get(way, 0) + 1
    share = dataclasses.replace(
        assignment.shares[0], rate=assignment.rate, tree=dataclasses.replace(trees[0], routes=routes)
    )
    return dataclasses.replace(plan, assignments=[dataclasses.replace(assignment, shares=[share])])


def fullest(topology, load, route):
    """(part of the fullest link with one more worker, links)"""
    parts = [(load.get(way, 0) + 1) / topology.speed(*way) for way in zip(route, route[1:])]
    return max(parts), len(route)
