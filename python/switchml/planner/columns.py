"""Columns of the linear program: a tree of a job, and what a rate of 1 through it takes of each resource."""

import dataclasses

import numpy

from .plan import Tree


@dataclasses.dataclass(frozen=True, eq=False)
class Column:
    job: int
    root: int
    routes: dict  # child: nodes from it to its parent, as numbers
    resources: numpy.ndarray
    uses: numpy.ndarray

    def tree(self, network):
        names = network.names
        return Tree(
            names[self.root],
            {names[child]: tuple(names[node] for node in route) for child, route in self.routes.items()},
        )

    def key(self):
        return self.job, self.root, tuple(sorted(self.routes.items()))


def rates_of_jobs(columns, rates, jobs):
    """Summed over the columns of each of so many jobs."""
    found = numpy.zeros(jobs)
    numpy.add.at(found, numpy.array([column.job for column in columns], dtype=int), rates)
    return found


def make_column(network, job, root, routes):
    counts: dict = {}
    for route in routes.values():
        for resource in [*network.links_of(route), network.intake(route[-1])]:
            counts[resource] = counts.get(resource, 0) + 1
    used = sorted(counts)
    return Column(job, root, routes, numpy.array(used, dtype=int), numpy.array([float(counts[one]) for one in used]))


def column_of(network, job, tree):
    """Of a tree by names that holds in the network's topology."""
    number = network.number
    routes = {number[child]: tuple(number[name] for name in route) for child, route in tree.routes.items()}
    return make_column(network, job, number[tree.root], routes)
