"""Plans as JSON, for programs; docs/planning.md has the format."""

import json

from .errors import PlanError
from .jobs import Job
from .plan import Assignment, Plan, Share, Tree

FORMAT, VERSION = "switchml-plan", 1


def plan_to_json(plan):
    return {
        "format": FORMAT,
        "version": VERSION,
        "way": plan.way,
        "least": plan.least,
        "bound": plan.bound,
        "jobs": [_assignment(one) for one in plan.assignments],
        "links": _links(plan),
        "aggregators": [
            {"name": name, "load": load, "capacity": plan.topology.nodes[name].capacity}
            for name, load in plan.aggregator_loads().items()
        ],
    }


def _assignment(one):
    job = one.job
    return {
        "name": job.name,
        "workers": list(job.workers),
        "weight": job.weight,
        "root": job.root,
        "limit": job.limit,
        "rate": one.rate,
        "reason": one.reason,
        "shares": [
            {
                "rate": share.rate,
                "fraction": share.rate / one.rate,
                "root": share.tree.root,
                "edges": [
                    {"child": child, "parent": route[-1], "route": list(route)}
                    for child, route in share.tree.routes.items()
                ],
            }
            for share in one.shares
        ],
    }


def _links(plan):
    loads = plan.link_loads()
    return [
        {
            "ends": list(link.ends),
            "ports": list(link.ports),
            "capacity": list(link.speeds),
            "load": [loads[link.ends], loads[link.ends[::-1]]],
        }
        for link in plan.topology.links.values()
    ]


def write_plan(plan, path):
    text = json.dumps(plan_to_json(plan), indent=1) + "\n"
    try:
        path.write_text(text, encoding="utf-8")
    except OSError as error:
        raise PlanError(f"{path}: cannot be written: {error.strerror}") from error


def read_plan(path, topology):
    """What write_plan() wrote. Its trees are kept as they are, whether they hold in the topology or not."""
    try:
        content = json.loads(path.read_text(encoding="utf-8"))
    except OSError as error:
        raise PlanError(f"{path}: cannot be read: {error.strerror}") from error
    except json.JSONDecodeError as error:
        raise PlanError(f"{path}:{error.lineno}: is not JSON: {error.msg}") from error
    except UnicodeDecodeError as error:
        raise PlanError(f"{path}: is not text in UTF-8") from error
    found = (content.get("format"), content.get("version")) if isinstance(content, dict) else (None, None)
    if found != (FORMAT, VERSION):
        raise PlanError(f'{path}: format and version {found}: allowed are "{FORMAT}" and {VERSION}')
    try:
        return _plan(content, topology)
    except (KeyError, TypeError, ValueError, AttributeError, IndexError) as error:
        raise PlanError(f"{path}: is no plan: {type(error).__name__}: {error}") from error


def _plan(content, topology):
    assignments = []
    for one in content["jobs"]:
        job = Job(one["name"], tuple(one["workers"]), one["weight"], one["root"], one["limit"])
        shares = tuple(Share(float(share["rate"]), _tree(share, job)) for share in one["shares"])
        assignments.append(Assignment(job, shares, one["reason"]))
    return Plan(topology, tuple(assignments), content["way"], content["bound"])


def _tree(share, job):
    """ValueError if it is none: programs follow parents until the root."""
    routes = {edge["child"]: tuple(edge["route"]) for edge in share["edges"]}
    root, parents = share["root"], {route[-1] for route in routes.values()}
    for child, route in routes.items():
        if len(route) < 2 or route[0] != child or not all(isinstance(name, str) for name in route):
            raise ValueError(f"route {list(route)} of {child}")
        at, steps = child, 0
        while at in routes and steps <= len(routes):
            at, steps = routes[at][-1], steps + 1
        if at != root:
            raise ValueError(f"{child} does not lead to the root {root}")
    if set(routes) - parents != set(job.workers):
        raise ValueError(f"the leaves of a tree of job {job.name} are not its workers")
    return Tree(root, routes)
