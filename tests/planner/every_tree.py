"""The best plan of a small case by looking at every tree with every route: nothing of the planner's code, and another
way to fair rates (a job is fixed when a program that raises it alone cannot)."""

import itertools

import numpy
from scipy.optimize import linprog

MOST = 60_000  # trees of a job


def best_rates(topology, jobs):
    """Rates of the jobs in max-min fair order, or None where there are too many trees."""
    columns = []
    for number, job in enumerate(jobs):
        loads = _loads_of_all_trees(topology, job)
        if not loads or len(loads) > MOST:
            return None
        columns += [(number, load) for load in _least(loads)]
    return _fair(topology, jobs, columns)


def _simple_routes(topology, start, end):
    found, stack = [], [(start,)]
    while stack:
        route = stack.pop()
        if route[-1] == end:
            found.append(route)
        elif route[-1] == start or topology.nodes[route[-1]].forwards:
            for ends in topology.links:
                if route[-1] in ends:
                    (other,) = ends - {route[-1]}
                    if other not in route:
                        stack.append((*route, other))
    return found


def _loads_of_all_trees(topology, job):
    """{load: a tuple of (resource, count)}: trees of the same load are the same to a program."""
    loads = set()
    for count in range(1, len(topology.aggregators) + 1):
        for used in itertools.combinations(topology.aggregators, count):
            for root in used if job.root is None else [job.root] if job.root in used else []:
                loads |= _loads_with(topology, job, used, root)
                if len(loads) > MOST:
                    return loads
    return loads


def _loads_with(topology, job, used, root):
    children = [*job.workers, *(one for one in used if one != root)]
    found = set()
    for parents in itertools.product(used, repeat=len(children)):
        if all(_reaches(dict(zip(children, parents)), child, root) for child in children):
            routes = [_simple_routes(topology, child, parent) for child, parent in zip(children, parents)]
            for chosen in itertools.product(*routes):
                found.add(_load(chosen))
                if len(found) > MOST:
                    return found
    return found


def _reaches(parents, child, root):
    for _ in range(len(parents) + 1):
        if child == root:
            return True
        child = parents[child]
    return False


def _load(routes):
    counts: dict = {}
    for route in routes:
        counts[route[-1]] = counts.get(route[-1], 0) + 1
        for start, end in zip(route, route[1:]):
            for way in ((start, end), (end, start)):
                counts[way] = counts.get(way, 0) + 1
    return frozenset(counts.items())


def _least(loads):
    """Without those that another is nowhere above."""
    kept: list = []
    for load in sorted(loads, key=lambda one: (sum(count for _, count in one), sorted(map(str, one)))):
        counts = dict(load)
        if not any(all(counts.get(name, 0) >= count for name, count in other.items()) for other in kept):
            kept.append(counts)
    return kept


def _fair(topology, jobs, columns):
    capacities = _capacities(topology)
    fixed: dict = {}
    while len(fixed) < len(jobs):
        level = _solve(jobs, columns, capacities, fixed, None, None)
        for number in [number for number in range(len(jobs)) if number not in fixed]:
            most = _solve(jobs, columns, capacities, fixed, number, level)
            if most <= level * jobs[number].weight * (1 + 1e-6):
                fixed[number] = level * jobs[number].weight
    return [fixed[number] for number in range(len(jobs))]


def _capacities(topology):
    found = {name: node.capacity for name, node in topology.nodes.items() if node.capacity is not None}
    for link in topology.links.values():
        found[link.ends], found[link.ends[::-1]] = link.speeds
    return found


def _solve(jobs, columns, capacities, fixed, alone, level):
    """The highest level of all that are not fixed; or with `alone`, its highest rate while they keep the level."""
    names = list(capacities)
    matrix = numpy.zeros((len(names) + len(jobs), len(columns) + 1))
    bound = [capacities[name] / 1e9 for name in names]
    for place, (_, counts) in enumerate(columns):
        for row, name in enumerate(names):
            matrix[row, place] = counts.get(name, 0)
    for number, job in enumerate(jobs):
        row = len(names) + number
        for place, (owner, _) in enumerate(columns):
            matrix[row, place] = -1.0 * (owner == number)
        if number in fixed:
            bound.append(-fixed[number] / 1e9 * (1 - 1e-9))
        elif level is None:
            matrix[row, -1] = job.weight
            bound.append(0.0)
        else:
            bound.append(-level * job.weight / 1e9 * (1 - 1e-9))
    limits = [(number, job.limit / 1e9) for number, job in enumerate(jobs) if job.limit is not None]
    rows = [[-value for value in matrix[len(names) + number, :-1]] + [0.0] for number, _ in limits]
    cost = numpy.zeros(len(columns) + 1)
    if alone is None:
        cost[-1] = -1.0
    else:
        cost[:-1] = matrix[len(names) + alone, :-1]
    solved = linprog(
        cost, A_ub=numpy.vstack([matrix, *rows]), b_ub=bound + [limit for _, limit in limits], method="highs-ipm"
    )
    assert solved.x is not None, solved.message
    return -solved.fun * 1e9
