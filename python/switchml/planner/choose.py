"""At most K shares of each job, of the trees that the linear program has.

Where its optimum has more, K of a job's trees are drawn at random, with their rates as probabilities (randomized
rounding, as GRID has it), and the rates are solved again. Where trees are few, a program with whole numbers looks for
the best ones; the better result counts."""

import numpy
from scipy.optimize import Bounds, LinearConstraint, milp
from scipy.sparse import coo_matrix

from .fair import Program

DRAWS = 16
MOST_COLUMNS = 120  # for whole numbers
NODES = 300  # of branch and bound: a number, not a time, so that a plan can be repeated


def choose(program, rates, shares, most, seed):
    """(rates of jobs, columns, their rates)"""
    used = [column for column, share in zip(program.columns, shares) if share > 0]
    best = rates, used, [share for share in shares if share > 0]
    if most is None or _most_of_a_job(used) <= most:
        return best
    found = [_solve(program, columns) for columns in _draws(program, shares, most, seed)]
    if len(program.columns) <= MOST_COLUMNS:
        picked = _whole(program, most)
        if picked:
            found.append(_solve(program, picked))
    return max(found, key=lambda one: fairness(one[0], program.weights))


def fairness(rates, weights):
    """Compares as max-min fairness does: the least rate / weight first. Rounded: solvers have tolerances."""
    levels = sorted(numpy.asarray(rates) / weights)
    return [float(f"{level:.6g}") for level in levels]


def _most_of_a_job(columns):
    numbers = [column.job for column in columns]
    return max(map(numbers.count, numbers), default=0)


def _solve(program, columns):
    limits = [None if numpy.isinf(limit) else limit * program.unit for limit in program.limits]
    smaller = Program(program.capacity * program.unit, program.weights, limits)
    for column in columns:
        smaller.add(column)
    rates, shares = smaller.solve()
    kept = [(column, share) for column, share in zip(smaller.columns, shares) if share > 0]
    return rates, [column for column, _ in kept], [share for _, share in kept]


def _draws(program, shares, most, seed):
    """Sets of columns: first the K of the highest rate of each job, then at random."""
    random = numpy.random.default_rng(seed)
    places: dict = {}
    for place, (column, share) in enumerate(zip(program.columns, shares)):
        if share > 0:
            places.setdefault(column.job, []).append(place)
    for draw in range(DRAWS + 1):
        chosen: list = []
        for of_job in places.values():
            rates = shares[of_job]
            if len(of_job) <= most:
                chosen += of_job
            elif draw == 0:
                chosen += [of_job[at] for at in numpy.argsort(-rates, kind="stable")[:most]]
            else:
                chosen += random.choice(of_job, most, replace=False, p=rates / rates.sum()).tolist()
        yield [program.columns[place] for place in sorted(chosen)]


def _whole(program, most):
    """The columns of the highest level: variables are the level, the columns' rates, and whether each is used."""
    columns, jobs = program.columns, len(program.weights)
    count = len(columns)
    matrix, used = program._matrix(columns, program.weights)
    rows = matrix.shape[0]
    entries = [(row, place, value) for row, place, value in zip(*_triples(matrix))]
    upper = [0.0] * jobs + program.capacity[used].tolist()
    for place, column in enumerate(columns):  # rate <= what the tree can carry at most, if used
        most_rate = (program.capacity[column.resources] / column.uses).min()
        entries += [(rows + place, 1 + place, 1.0), (rows + place, 1 + count + place, -most_rate)]
        upper.append(0.0)
        entries.append((rows + count + column.job, 1 + count + place, 1.0))
    upper += [float(most)] * jobs
    row, place, value = zip(*entries)
    whole = coo_matrix((value, (row, place)), shape=(rows + count + jobs, 1 + 2 * count)).tocsr()
    top = (program.limits / program.weights).min()
    solved = milp(
        numpy.concatenate([[-1.0], numpy.zeros(2 * count)]),
        constraints=LinearConstraint(whole, ub=numpy.array(upper)),
        integrality=numpy.concatenate([numpy.zeros(1 + count), numpy.ones(count)]),
        bounds=_bounds(top, count),
        options={"node_limit": NODES, "mip_rel_gap": 1e-6},
    )
    if solved.x is None:
        return []
    return [column for column, use in zip(columns, solved.x[1 + count :]) if use > 0.5]


def _triples(matrix):
    found = matrix.tocoo()
    return found.row.tolist(), found.col.tolist(), found.data.tolist()


def _bounds(top, count):
    return Bounds(
        numpy.zeros(1 + 2 * count), numpy.concatenate([[top], numpy.full(count, numpy.inf), numpy.ones(count)])
    )
