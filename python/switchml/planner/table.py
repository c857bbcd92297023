"""A plan as text, for people."""

from .speeds import format_speed

MOST_NAMES = 8  # of the children of an aggregator
MOST_LINES = 20  # of links, of aggregators, and of a tree


def plan_table(plan):
    lines = [_head(plan), ""]
    for assignment in plan.assignments:
        lines += _assignment(assignment)
    return "\n".join([*lines, "", *_links(plan), "", *_aggregators(plan)])


def _head(plan):
    bound = f"; no plan can have more than {format_speed(plan.bound)}" if plan.bound else ""
    return f"{plan.way}: the least rate is {format_speed(plan.least)}{bound}"


def _assignment(one):
    job = one.job
    weight = f", weight {job.weight:g}" if job.weight != 1 else ""
    if not one.shares:
        return [f"job {job.name}{weight}: no plan: {one.reason}"]
    lines = [f"job {job.name}{weight}: {format_speed(one.rate)}"]
    for number, share in enumerate(one.shares, 1):
        part = 100 * share.rate / one.rate
        lines.append(f"  share {number}: {format_speed(share.rate)}, {part:.4g} % of every tensor")
        lines += _limited([f"    {line}" for line in _tree(share.tree)], "aggregators")
    return lines


def _tree(tree):
    """Who sends to whom, the root first."""
    children: dict = {}
    for child, route in tree.routes.items():
        passed = f" (by {', '.join(route[1:-1])})" if len(route) > 2 else ""
        children.setdefault(route[-1], []).append(child + passed)
    order = [tree.root] + [name for name in children if name != tree.root]
    return [
        f"{_names(children[name])} {'send' if len(children[name]) > 1 else 'sends'} to {name}"
        + ", the root" * (name == tree.root)
        for name in order
    ]


def _names(names):
    shown = ", ".join(names[:MOST_NAMES])
    return shown + (f" and {len(names) - MOST_NAMES} more" if len(names) > MOST_NAMES else "")


def _limited(lines, what):
    if len(lines) <= MOST_LINES:
        return lines
    return [*lines[:MOST_LINES], f"    and {len(lines) - MOST_LINES} {what} more (--json has all)"]


def _links(plan):
    loads = plan.link_loads()
    rows = []
    for link in plan.topology.links.values():
        use = max(loads[way] / plan.topology.speed(*way) for way in (link.ends, link.ends[::-1]))
        if use > 0:
            load = format_speed(loads[link.ends])
            rows.append((use, f"{'-'.join(link.ends)}", f"{load}/{format_speed(link.least)}", f"{100 * use:.3g} %"))
    return _rows("links, load/capacity each way, the fullest first", rows, "links")


def _aggregators(plan):
    rows = []
    for name, load in plan.aggregator_loads().items():
        capacity = plan.topology.nodes[name].capacity
        if load > 0:
            use = load / capacity if capacity else 0.0
            shown = format_speed(capacity) if capacity else "no bound"
            rows.append((use, name, f"{format_speed(load)}/{shown}", f"{100 * use:.3g} %" if capacity else ""))
    return _rows("aggregators, what they take in/capacity", rows, "aggregators")


def _rows(title, rows, what):
    rows = sorted(rows, key=lambda row: -round(row[0], 9))
    widths = [max([len(row[place]) for row in rows[:MOST_LINES]], default=0) for place in (1, 2)]
    lines = [f"  {row[1]:{widths[0]}}  {row[2]:>{widths[1]}}  {row[3]:>6}".rstrip() for row in rows]
    return [f"{title}:", *_limited(lines, what)]


def comparison_table(plans, ring):
    """`plans`: of all ways; `ring`: {job: rate}"""
    names = [one.job.name for one in plans[0].assignments]
    width = max(map(len, ["job", *names]))
    ways = [plan.way for plan in plans] + ["ring"]
    lines = [f"{'job':{width}}  " + "  ".join(f"{way:>8}" for way in ways)]
    for place, name in enumerate(names):
        rates = [plan.assignments[place].rate for plan in plans] + [ring[name]]
        lines.append(f"{name:{width}}  " + "  ".join(f"{format_speed(rate):>8}" for rate in rates))
    return "\n".join(lines)
