"""Trainings with the hooks of switchml.hooks, beside float32: what each worker sends and each part's answer is rounded,
with error feedback; the mean is exact. All parameters are one bucket, of which the workers' parts are whole blocks."""

import statistics
import sys

import numpy
import report
from arithmetic import HOOKS

SEEDS = 3
EXACT = "float32"


class Hook:
    """The means of one training's steps, as hooks.py makes them."""

    def __init__(self, arithmetic, name):
        self.arithmetic, self.name = arithmetic, name
        self.errors = None

    def sum_of(self, found):
        """[workers, elements] to the mean that all workers get, times the workers."""
        workers, elements = found.shape
        if self.errors is None:
            self.errors = numpy.zeros((workers + 1, elements), numpy.float32)
        terms = numpy.stack([self.narrow(each, errors) for each, errors in zip(found, self.errors)])
        mean = self.arithmetic.exact(terms.astype(numpy.float64), "float32", 1) / workers  # a power of two
        return self.narrow(mean, self.errors[-1]).astype(numpy.float64) * workers

    def narrow(self, values, errors):
        return self.arithmetic.narrow(values.astype(numpy.float32), errors, self.name)


def run(arithmetic, arguments):
    import training

    rows = []
    for network in arguments.networks:
        task = training.NETWORKS[network](arguments.steps)
        for seed in range(arguments.seed, arguments.seed + SEEDS):
            for way in (EXACT, *HOOKS):
                exact = lambda found: arithmetic.exact(found, "float32", 1)
                sum_of = exact if way == EXACT else Hook(arithmetic, way).sum_of
                losses = training.losses_of(task, sum_of, arguments.training_workers, seed)
                rows.append(
                    {
                        "network": network,
                        "way": way,
                        "seed": seed,
                        "workers": arguments.training_workers,
                        "losses": losses,
                        "end": training.last(losses),
                    }
                )
                print(f"trained: {network}, {way}, seed {seed}", file=sys.stderr, flush=True)
    return rows


def ends_of(rows, network, way):
    return [row["end"] for row in rows if (row["network"], row["way"]) == (network, way)]


def print_rows(rows):
    print(f"\nnarrow gradients, {rows[0]['workers']} workers, {len(rows[0]['losses'])} steps: mean loss of the last 50")
    cells = []
    for network, way in dict.fromkeys((row["network"], row["way"]) for row in rows):
        ends, exact = ends_of(rows, network, way), ends_of(rows, network, EXACT)
        mean = statistics.fmean(ends)
        apart = max((a - b for a, b in zip(ends, exact)), key=abs)
        within = "yes" if min(exact) <= mean <= max(exact) else "no"
        cells.append([network, way, *(f"{end:.4f}" for end in ends), f"{mean:.4f}", f"{apart:+.4f}", within])
    seeds = list(dict.fromkeys(row["seed"] for row in rows))
    report.print_columns(
        ["network", "gradients", *(f"seed {seed}" for seed in seeds), "mean", "furthest from float32", "mean between float32's"],
        cells,
    )  # fmt: skip
