"""A plan as a picture: links with load/capacity, aggregators with what they take in."""

import sys

from .errors import PlanError
from .layout import places

# A picture that is checked in changes only where its plan does.
REPEATABLE = {"svg.hashsalt": "switchml", "svg.fonttype": "none", "font.size": 7}
MOST_WORKERS = 60  # more are not shown
MOST_SWITCHES = 120
IDLE, PLAIN, COMBINED, FULL = "#cccccc", "#3182bd", "#08519c", "#a63603"
LEGEND = (
    "arrows: contributions, sums come back the other way; load/capacity in Gbit/s; dotted: workers' gradients; "
    "solid: sums of aggregators too; red: full"
)
TITLES = {"none": "none: all workers straight to the root", "nearest": "nearest aggregator", "planned": "planned"}


def draw_plans(plans, path):
    """Side by side."""
    pyplot = _pyplot()
    topology = plans[0].topology
    shown = _shown(topology)
    with pyplot.rc_context(REPEATABLE):
        drawn = [places(topology, _top(plan), shown) for plan in plans]
        width = max(max(xs) - min(xs) + 1 for xs in ([x for x, _ in place.values()] for place in drawn))
        height = 1.2 * (1 - min(y for place in drawn for _, y in place.values())) + 0.6
        size = (max(3.6, 0.62 * width) * len(plans), height)
        figure, axes = pyplot.subplots(1, len(plans), figsize=size, squeeze=False)
        for axis, plan, place in zip(axes.flat, plans, drawn):
            _draw(axis, plan, place)
        figure.supxlabel(LEGEND, fontsize=6.5, color="#444444")
        figure.tight_layout()
        try:
            undated = {"Date": None, "Creator": None} if path.suffix == ".svg" else None
            figure.savefig(path, metadata=undated)
        except OSError as error:
            raise PlanError(f"{path}: cannot be written: {error.strerror}") from error
        finally:
            pyplot.close(figure)


def _pyplot():
    try:
        import matplotlib
    except ImportError as error:
        raise PlanError(
            f"a picture: {error}: {sys.executable} -m pip install matplotlib, or for Debian's Python apt-get install "
            "python3-matplotlib"
        ) from error
    matplotlib.use("Agg")
    from matplotlib import pyplot

    return pyplot


def _shown(topology):
    switches = [name for name in topology.nodes if topology.nodes[name].kind == "switch"]
    if len(switches) > MOST_SWITCHES:
        raise PlanError(f"a picture of {len(switches)} switches: allowed are {MOST_SWITCHES} or fewer; leave --svg out")
    return switches + (topology.workers if len(topology.workers) <= MOST_WORKERS else [])


def _top(plan):
    """The root of the largest share; where there is none, that which a job names, or the first switch."""
    shares = sorted(plan.shares(), key=lambda share: -share.rate)
    named = [job.root for job in plan.jobs if job.root in plan.topology.nodes]
    return shares[0].tree.root if shares else (named or list(plan.topology.nodes))[0]


def _draw(axis, plan, place):
    flows, sums = _flows(plan)
    loads = plan.link_loads()
    for link in plan.topology.links.values():
        if all(end in place for end in link.ends):
            _link(axis, plan, link, loads[link.ends], place, flows, sums)
    intake = plan.aggregator_loads()
    roots = {share.tree.root for share in plan.shares()}
    for name in place:
        _node(axis, plan.topology.nodes[name], place[name], intake.get(name), name in roots)
    axis.set_title(f"{TITLES[plan.way]}: {plan.least / 1e9:.4g} Gbit/s", fontsize=8)
    axis.margins(0.08)
    axis.axis("off")


def _flows(plan):
    """Two of {(start, end)}: which way contributions go, and over which those of an aggregator do."""
    flows: set = set()
    sums: set = set()
    for share in plan.shares():
        for child, route in share.tree.routes.items():
            flows.update(zip(route, route[1:]))
            if plan.topology.nodes[child].aggregates:
                sums.update(zip(route, route[1:]))
    return flows, sums


def _link(axis, plan, link, load, place, flows, sums):
    (x, y), (x2, y2) = place[link.ends[0]], place[link.ends[1]]
    sums = link.ends in sums or link.ends[::-1] in sums
    full = load >= link.least * (1 - 1e-6)
    colour = IDLE if not load else FULL if full else COMBINED if sums else PLAIN
    axis.plot([x, x2], [y, y2], color=colour, linestyle="-" if sums or not load else ":", linewidth=1.4, zorder=1)
    for start, end in (link.ends, link.ends[::-1]):
        if (start, end) in flows:
            _arrow(axis, place[start], place[end], colour)
    text = f"{load / 1e9:.3g}/{link.least / 1e9:.3g}"
    worker = any(plan.topology.nodes[end].kind == "worker" for end in link.ends)
    at = 0.5 if not worker else 0.62 if y2 < y else 0.38  # near the worker
    axis.text(
        x + (x2 - x) * at, y + (y2 - y) * at, text, ha="center", va="center",
        fontsize=5 if worker else 6.5, color=colour if load else "grey", zorder=2,
        bbox={"facecolor": "white", "edgecolor": "none", "pad": 0.6},
    )  # fmt: skip


def _arrow(axis, start, end, colour):
    """A head on the way, between the link's label and its end."""
    tail, head = (tuple(a + (b - a) * part for a, b in zip(start, end)) for part in (0.7, 0.75))
    axis.annotate(
        "", head, tail, arrowprops={"arrowstyle": "-|>", "color": colour, "shrinkA": 0, "shrinkB": 0}, zorder=2
    )


def _node(axis, node, place, intake, root):
    x, y = place
    worker = node.kind == "worker"
    text = node.name + ", root" * root
    if intake:
        text += f"\n{intake / 1e9:.3g}" + (f"/{node.capacity / 1e9:.3g}" if node.capacity else "")
    fill = "#f0f0f0" if worker or not node.aggregates else "#9ecae1" if intake else "#deebf7"
    shape = "circle,pad=0.2" if worker else "round,pad=0.35" if node.forwards else "square,pad=0.35"
    axis.text(
        x, y, text, ha="center", va="center", fontsize=5.5 if worker else 7, zorder=3,
        bbox={"boxstyle": shape, "facecolor": fill, "edgecolor": "#555555", "linewidth": 1.6 if root else 0.6},
    )  # fmt: skip
