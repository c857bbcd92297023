"""Where nodes are in a picture: a tidy tree, from the root down."""


def places(topology, top, shown):
    """{name: (x, y)}: rows are distances from `top`; what is below a node is under it. `shown`: names."""
    parents, order = {top: ""}, [top]
    neighbours = _neighbours(topology, shown)
    for name in order:
        for other in neighbours[name]:
            if other not in parents:
                parents[other] = name
                order.append(other)
    rest = [name for name in shown if name not in parents]  # what failures cut off
    children: dict = {name: [] for name in [*order, *rest]}
    for name in order[1:]:
        children[parents[name]].append(name)
    found: dict = {}
    right = _place(top, 0, 0.0, children, found)
    for name in rest:
        found[name] = (right, 0.0)
        right += 1.0
    return found


def _neighbours(topology, shown):
    """Switches first: workers hang to the right of them."""
    found: dict = {name: [] for name in shown}
    for link in topology.links.values():
        one, other = link.ends
        if one in found and other in found:
            found[one].append(other)
            found[other].append(one)
    for name in found:
        found[name].sort(key=lambda other: topology.nodes[other].kind == "worker")
    return found


def _place(name, row, left, children, found):
    """The right edge of what is below."""
    right = left
    for child in children[name]:
        right = _place(child, row + 1, right, children, found)
    if right == left:
        right = left + 1.0
    inner = [found[child][0] for child in children[name]] or [left]
    found[name] = ((min(inner) + max(inner)) / 2, -float(row))
    return right
