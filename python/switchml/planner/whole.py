"""Programs with whole numbers: which of the columns to use. Variables are the level, the columns' rates, and for each
column whether it is used."""

import numpy
from scipy.optimize import Bounds, LinearConstraint, milp
from scipy.sparse import coo_matrix

MOST_COLUMNS = 120
NODES = 300  # of branch and bound: a number, not a time, so that a plan can be repeated
SLACK = 1e-7  # by which rates that are asked for may be missed


def highest_level(program, most):
    """The columns, at most so many of each job, that give the highest level. None: not found."""
    count = len(program.columns)
    cost = numpy.concatenate([[-1.0], numpy.zeros(2 * count)])
    top = float((program.limits / program.weights).min())
    return _solve(program, program.weights, numpy.zeros(len(program.weights)), most, cost, top)


def fewest_new(program, old, rates, most):
    """The columns that give the jobs these rates (in the program's unit), with the fewest that are not `old` (for each
    column, whether it is)."""
    count = len(program.columns)
    cost = numpy.concatenate([numpy.zeros(1 + count), numpy.where(old, 1e-3, 1.0)])
    least = numpy.asarray(rates) * (1 - SLACK)
    return _solve(program, numpy.zeros(len(program.weights)), least, most, cost, 0.0)


def _solve(program, weights, least, most, cost, top):
    matrix, upper = _constraints(program, weights, least, most)
    count = len(program.columns)
    solved = milp(
        cost,
        constraints=LinearConstraint(matrix, ub=upper),
        integrality=numpy.concatenate([numpy.zeros(1 + count), numpy.ones(count)]),
        bounds=Bounds(
            numpy.zeros(1 + 2 * count), numpy.concatenate([[top], numpy.full(count, numpy.inf), numpy.ones(count)])
        ),
        options={"node_limit": NODES, "mip_rel_gap": 1e-6},
    )
    if solved.x is None:
        return None
    return [column for column, use in zip(program.columns, solved.x[1 + count :]) if use > 0.5]


def _constraints(program, weights, least, most):
    jobs, count = len(program.weights), len(program.columns)
    matrix, used = program.matrix(program.columns, weights)
    rows = matrix.shape[0]
    found = matrix.tocoo()
    entries = list(zip(found.row.tolist(), found.col.tolist(), found.data.tolist()))
    upper = (-least).tolist() + program.capacity[used].tolist()
    for place, column in enumerate(program.columns):
        carried = float((program.capacity[column.resources] / column.uses).min())  # at most, if it is used
        entries += [(rows + place, 1 + place, 1.0), (rows + place, 1 + count + place, -carried)]
        upper.append(0.0)
    if most is not None:
        entries += [(rows + count + column.job, 1 + count + place, 1.0) for place, column in enumerate(program.columns)]
        upper += [float(most)] * jobs
    row, column_of, value = zip(*entries)
    return coo_matrix((value, (row, column_of)), shape=(len(upper), 1 + 2 * count)).tocsr(), numpy.array(upper)
