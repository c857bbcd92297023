"""replan(): another plan when a switch or a link has failed, or jobs have come or gone. Trees that still hold are kept
where that costs no rate."""

import numpy

from .choose import choose, fairness, solve_with
from .columns import column_of, rates_of_jobs
from .generate import Generator
from .large import Large
from .planning import Options, Task
from .whole import MOST_COLUMNS, fewest_new


def replan(old, topology, jobs, options=None):
    """`old`: a plan. `topology` and `jobs`: what there is now."""
    options = options or Options()
    task = Task(topology, jobs, "planned", options)
    if not task.jobs:
        return task.assemble([], [], None)
    kept = _holding(old, task)
    if not task.is_large:
        return _small(task, kept)
    had = {one.job.name: len(one.shares) for one in old.assignments}
    return _large(task, kept, [had.get(job.name, 0) for job in task.jobs])


def moved_shares(old, new):
    """[(job, share)] of the new plan whose trees the old one does not have."""
    known = {one.job.name: {share.tree.key() for share in one.shares} for one in old.assignments}
    return [
        (one.job, share)
        for one in new.assignments
        for share in one.shares
        if share.tree.key() not in known.get(one.job.name, set())
    ]


def _holding(old, task):
    """Columns of the old plan's trees that still are trees of a job."""
    before = {one.job.name: one for one in old.assignments}
    found = []
    for number, job in enumerate(task.jobs):
        one = before.get(job.name)
        if one is None or set(one.job.workers) != set(job.workers):
            continue
        for share in one.shares:
            if share.tree.holds_in(task.topology) and job.root in (None, share.tree.root):
                found.append(column_of(task.network, number, share.tree))
    return found


def _small(task, kept):
    """Among all columns that were generated, the fewest new ones that give the best rates."""
    program = task.program()
    for column in kept:
        program.add(column)
    generator = Generator(program, task.pricers)
    rates, shares = program.solve(generator)
    options = task.options
    best = choose(program, rates, shares, options.shares, options.seed)
    for columns in _selections(program, best[1], {column.key() for column in kept}, best[0], options.shares):
        found = solve_with(program, columns)
        if fairness(found[0], program.weights) >= fairness(best[0], program.weights):
            best = found
            break
    return task.assemble(best[1], best[2], task.bound(generator))


def _selections(program, fresh, kept, rates, most):
    """Columns that may give these rates with few new ones."""
    columns = program.columns
    if len(columns) > MOST_COLUMNS:
        columns = [column for column in columns if column.key() in kept] + fresh
    smaller = program.with_columns(columns)
    old = numpy.array([column.key() in kept for column in smaller.columns])
    picked = fewest_new(smaller, old, rates / program.unit, most)
    return [picked] if picked else []


def _large(task, kept, before):
    """Jobs keep what holds, and get trees for the rest: first as many as they had (`before`), then as many as they may
    have. Where that costs a job rate, it gets those of a new plan, one job after the other."""
    fresh = Large(task.network, task.pricers, task.jobs, task.options)
    columns, rates = fresh.plan()
    weights = numpy.array([job.weight for job in task.jobs])
    best = fairness(rates_of_jobs(columns, rates, len(weights)), weights)
    full = [fresh.shares] * len(weights)
    anew: set = set()
    for wanted in [[min(had or most, most) for had, most in zip(before, full)], *[full] * len(weights)]:
        large = Large(task.network, task.pricers, task.jobs, task.options, bound=fresh.bound)
        held = [column for column in kept if column.job not in anew]
        held += [column for column in columns if column.job in anew]
        mixed, mixed_rates = large.complete(held, wanted)
        sums = rates_of_jobs(mixed, mixed_rates, len(weights))
        if fairness(sums, weights) >= best:
            return task.assemble(mixed, mixed_rates, fresh.bound)
        if wanted is full:
            levels = numpy.where(numpy.isin(numpy.arange(len(weights)), list(anew)), numpy.inf, sums / weights)
            anew.add(int(levels.argmin()))
    return task.assemble(columns, rates, fresh.bound)
