"""At most K shares of each job, of the trees that the linear program has.

Where its optimum has more, K of a job's trees are drawn at random, with their rates as probabilities (randomized
rounding, as GRID has it), and the rates are solved again. Where trees are few, a program with whole numbers looks for
the best ones; the better result counts."""

import numpy

from .whole import MOST_COLUMNS, highest_level

DRAWS = 16


def choose(program, rates, shares, most, seed):
    """(rates of jobs, columns, their rates)"""
    used = [column for column, share in zip(program.columns, shares) if share > 0]
    best = rates, used, [share for share in shares if share > 0]
    if most is None or _most_of_a_job(used) <= most:
        return best
    found = [solve_with(program, columns) for columns in _draws(program, shares, most, seed)]
    if len(program.columns) <= MOST_COLUMNS:
        picked = highest_level(program, most)
        if picked:
            found.append(solve_with(program, picked))
    return max(found, key=lambda one: fairness(one[0], program.weights))


def fairness(rates, weights):
    """Compares as max-min fairness does: the least rate / weight first. Rounded: solvers have tolerances."""
    levels = sorted(numpy.asarray(rates) / weights)
    return [float(f"{level:.6g}") for level in levels]


def _most_of_a_job(columns):
    numbers = [column.job for column in columns]
    return max(map(numbers.count, numbers), default=0)


def solve_with(program, columns):
    """(rates of jobs, columns, their rates) with these columns alone."""
    smaller = program.with_columns(columns)
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
