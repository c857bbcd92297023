"""Where packets must go so that they take a plan's links: per router, which neighbour is next from one address to
another. Pure."""

import collections


class Ambiguous(ValueError):
    """Two trees of a plan send between the same two addresses over different links."""


def neighbours_of(links):
    """{node: its neighbours, in the order of the links}"""
    found = collections.defaultdict(list)
    for here, there in links:
        found[here].append(there)
        found[there].append(here)
    return dict(found)


def next_hops(links, forwards):
    """{(node, destination): neighbour}, over the fewest links; of several the first. Nodes that are not in `forwards`
    are ends only."""
    neighbours, hops = neighbours_of(links), {}
    for destination in neighbours:
        reached, queue = {destination}, collections.deque([destination])
        while queue:
            at = queue.popleft()
            for node in neighbours[at] if at == destination or at in forwards else ():
                if node not in reached:
                    reached.add(node)
                    hops[node, destination] = at
                    queue.append(node)
    return hops


def pins(shares):
    """{(node, source, destination): neighbour} of the routes of a plan's trees, contributions and results. Each share
    is {child: route to its parent}, the child first."""
    found = {}
    for routes in shares:
        for route in routes.values():
            for way in (route, route[::-1]):
                for at, following in zip(way, way[1:]):
                    if found.setdefault((at, way[0], way[-1]), following) != following:
                        raise Ambiguous(
                            f"from {way[0]} to {way[-1]} by {following} and by {found[at, way[0], way[-1]]}"
                        )
    return found
