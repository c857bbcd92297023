"""The jobs file; docs/planning.md describes it."""

from .jobs import Job
from .yaml_nodes import YamlFile

JOB_KEYS = "name workers weight root limit".split()


def read_jobs(path, topology):
    file = YamlFile(path)
    top = file.mapping(file.root, "the file of jobs", ["jobs"])
    nodes = file.items(file.required(file.root, top, "the file of jobs", "jobs"), "jobs")
    if not nodes:
        file.fail(top["jobs"], "jobs: there is none; at least one is needed")
    jobs: dict = {}
    for node in nodes:
        job = _job(file, node, topology, jobs)
        jobs[job.name] = job
    return list(jobs.values())


def _job(file, node, topology, others):
    values = file.mapping(node, "a job", JOB_KEYS)
    place = file.required(node, values, "a job", "name")
    name = file.text(place, "name")
    if name in others:
        file.fail(place, f'job name "{name}" is used twice')
    what = f'job "{name}"'
    return Job(
        name,
        _workers(file, file.required(node, values, what, "workers"), what, topology),
        file.positive(values["weight"], f"{what}: weight") if "weight" in values else 1.0,
        _root(file, values["root"], what, topology) if "root" in values else None,
        file.speed(values["limit"], f"{what}: limit") if "limit" in values else None,
    )


def _workers(file, node, what, topology):
    names: dict = {}
    for item in file.items(node, f"{what}: workers"):
        name = file.text(item, f"{what}: worker")
        found = topology.nodes.get(name)
        if not found or found.kind != "worker":
            file.fail(item, f'{what}: worker "{name}" is no worker of the topology')
        if name in names:
            file.fail(item, f'{what}: worker "{name}" is listed twice')
        names[name] = True
    if len(names) < 2:
        file.fail(node, f"{what}: workers: there are {len(names)}; allowed are 2 or more")
    return tuple(names)


def _root(file, node, what, topology):
    name = file.text(node, f"{what}: root")
    if name not in topology.nodes or not topology.nodes[name].aggregates:
        allowed = ", ".join(topology.aggregators[:20]) or "none: no switch aggregates"
        file.fail(node, f'{what}: root "{name}" is no aggregator of the topology; allowed are {allowed}')
    return name
