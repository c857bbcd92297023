"""Whether a plan keeps to the rules: computed from trees and routes alone, without the planner's code."""

TOLERANCE = 1e-9  # relative


def violations(plan, most=None):
    """What is wrong with it, as texts."""
    wrong = []
    links = {ends: 0.0 for link in plan.topology.links.values() for ends in (link.ends, link.ends[::-1])}
    intakes = {name: 0.0 for name in plan.topology.nodes}
    for assignment in plan.assignments:
        job = assignment.job
        rate = sum(share.rate for share in assignment.shares)
        if job.limit is not None and rate > job.limit * (1 + TOLERANCE):
            wrong.append(f"{job.name}: rate {rate} above its limit {job.limit}")
        if most is not None and len(assignment.shares) > most:
            wrong.append(f"{job.name}: {len(assignment.shares)} shares")
        if bool(assignment.shares) == bool(assignment.reason):
            wrong.append(f"{job.name}: shares {len(assignment.shares)}, reason {assignment.reason!r}")
        for share in assignment.shares:
            wrong += [f"{job.name}: {text}" for text in broken_tree(plan.topology, job, share.tree)]
            if not share.rate > 0:
                wrong.append(f"{job.name}: rate {share.rate}")
            for route in share.tree.routes.values():
                intakes[route[-1]] += share.rate
                for start, end in zip(route, route[1:]):
                    links[start, end] += share.rate
                    links[end, start] += share.rate
    return wrong + exceeded(plan.topology, links, intakes)


def exceeded(topology, links, intakes):
    found = []
    for (start, end), load in links.items():
        link = topology.links[frozenset((start, end))]
        capacity = link.speeds[0 if link.ends == (start, end) else 1]
        if load > capacity * (1 + TOLERANCE):
            found.append(f"link {start}->{end}: {load} of {capacity}")
    for name, load in intakes.items():
        capacity = topology.nodes[name].capacity
        if capacity is not None and load > capacity * (1 + TOLERANCE):
            found.append(f"aggregator {name}: {load} of {capacity}")
    return found


def broken_tree(topology, job, tree):
    found = []
    if job.root is not None and tree.root != job.root:
        found.append(f"root {tree.root}, not {job.root}")
    for child, route in tree.routes.items():
        found += broken_route(topology, child, route)
        if topology.nodes[child].kind == "worker" and child not in job.workers:
            found.append(f"worker {child} is none of the job")
        steps, at = 0, child
        while at in tree.routes and steps <= len(tree.routes):
            at, steps = tree.routes[at][-1], steps + 1
        if at != tree.root:
            found.append(f"{child} does not lead to the root")
    missing = set(job.workers) - set(tree.routes)
    if missing or tree.root in tree.routes:
        found.append(f"no route from {missing}, or one from the root")
    parents = {route[-1] for route in tree.routes.values()}
    idle = [child for child in tree.routes if child not in job.workers and child not in parents]
    if idle or tree.root not in parents:
        found.append(f"aggregators without children: {idle}")
    return found


def broken_route(topology, child, route):
    if len(route) < 2 or route[0] != child or len(set(route)) != len(route):
        return [f"route {route} of {child}"]
    found = [f"no link {pair}" for pair in zip(route, route[1:]) if frozenset(pair) not in topology.links]
    found += [f"{node} does not forward" for node in route[1:-1] if not topology.nodes[node].forwards]
    if not topology.nodes[route[-1]].aggregates:
        found.append(f"{route[-1]} does not aggregate")
    return found
