"""Errors of sums against the exact sum, by depth, workers, type and distribution."""

import fractions

import numpy
import exact_sums
import report
from arithmetic import FORMATS

BLOCK = 256  # elements that share an exponent
SAMPLE = 16  # elements of each case whose exact sum is compared with that of fractions


def normal(workers, elements, random):
    return random.standard_normal((workers, elements))


def heavy(workers, elements, random):
    return random.standard_t(2, (workers, elements))


def mixed(workers, elements, random):
    """Elements of one block differ by up to a million, alike on all workers."""
    return random.standard_normal((workers, elements)) * 10.0 ** random.uniform(-6, 0, elements)


def cancelling(workers, elements, random):
    """What half of the workers have, the other half takes away, but for a thirty-second."""
    values = random.standard_normal((workers, elements)) / 32
    half = workers // 2
    large = random.standard_normal((half, elements))
    values[:half] += large
    values[half : 2 * half] -= large
    return values


def gradients(workers, elements, random):
    import training

    return training.gradients(workers, elements, int(random.integers(1 << 31)))


DISTRIBUTIONS = {"normal": normal, "heavy": heavy, "mixed": mixed, "cancelling": cancelling, "gradients": gradients}


def check_sample(values, parts):
    """ValueError if what `exact_sums` says is not the exact sum."""
    for i in range(0, len(parts), max(1, len(parts) // SAMPLE)):
        truth = sum(fractions.Fraction(value) for value in values[:, i].tolist())
        if truth != sum(fractions.Fraction(part) for part in parts[i]):
            raise ValueError(f"element {i}: the exact sum is not that of fractions.Fraction")


def measure(parts, results, form):
    """Errors of one way. Units in the last place are those of elements whose exact sum is not 0."""
    if not numpy.isfinite(results).all():
        raise ValueError("a sum passes the largest number of its type: use fewer workers or another distribution")
    error = exact_sums.errors(parts, results)
    truth = exact_sums.largest(parts)
    in_units = abs(error / exact_sums.units(truth, form))[truth != 0]
    return {
        "l2": float(numpy.linalg.norm(error) / (numpy.linalg.norm(truth) or 1.0)),
        "max_ulps": float(in_units.max(initial=0.0)),
        "median_ulps": float(numpy.median(in_units)) if in_units.size else 0.0,
        "rms_ulps": float(numpy.sqrt(numpy.mean(in_units**2))) if in_units.size else 0.0,
        "zeros": int(numpy.count_nonzero((results == 0) & (exact_sums.nearest(parts, form) != 0))),
    }


def flat(arithmetic, values, kind, parts):
    """One level: the exact sum, rounded once. More workers than a node takes have no other."""
    rounded = exact_sums.nearest(parts, FORMATS[kind])
    if len(values) <= arithmetic.max_workers:
        found = arithmetic.exact(values, kind, 1)
        if not numpy.array_equal(found, rounded):
            raise ValueError(f"{kind}, {len(values)} workers: a sum in one level is not the exact sum, rounded once")
    return rounded


def check_bound(values, parts, results, bits, form):
    """ValueError if the sum of an integer switch is farther away than docs/collectives.md says."""
    error = abs(exact_sums.errors(parts, results))
    for begin in range(0, values.shape[1], BLOCK):
        block = slice(begin, begin + BLOCK)
        bound = len(values) * 2.0**-bits * abs(values[:, block]).max()
        if (error[block] > bound + exact_sums.units(exact_sums.largest(parts[block]), form)).any():
            raise ValueError(f"{len(values)} workers: an integer sum is farther than {bound} from the exact one")


def case(arithmetic, kind, distribution, workers, levels, elements, seed):
    form = FORMATS[kind]
    random = numpy.random.default_rng([seed, workers, list(DISTRIBUTIONS).index(distribution)])
    values = exact_sums.rounded(DISTRIBUTIONS[distribution](workers, elements, random), 0.0, form)
    parts = exact_sums.exact_sum(values)
    check_sample(values, parts)
    ways = {
        str(level): arithmetic.exact(values, kind, level) if level > 1 else flat(arithmetic, values, kind, parts)
        for level in levels
    }
    ways["ring"] = arithmetic.ring(values, kind)
    ways["integer"], _, lost = arithmetic.integer(values, kind, levels)
    bits = arithmetic.magnitude_bits(workers)
    check_bound(values, parts, ways["integer"], bits, form)
    return {
        "type": kind,
        "distribution": distribution,
        "workers": workers,
        "elements": elements,
        "bits": bits,
        "lost": lost / max(1, numpy.count_nonzero(values)),  # of the workers' elements that are not 0
        "ways": {way: measure(parts, results, form) for way, results in ways.items()},
    }


def run(arithmetic, arguments):
    return [
        case(arithmetic, kind, distribution, workers, arguments.levels, arguments.elements, arguments.seed)
        for kind in arguments.types
        for distribution in arguments.distributions
        for workers in arguments.workers
    ]


def print_rows(rows):
    ways = list(rows[0]["ways"])
    headings = [f"{way} level{'s' * (way != '1')}" if way.isdigit() else way for way in ways]
    for title, cell in (
        ("relative L2 error of the sum", lambda found: f"{found['l2']:.1e}"),
        ("median / largest error in units in the last place", lambda found: ulps(found)),
    ):
        print(f"\n{title}, {rows[0]['elements']} elements")
        cells = [
            [
                row["type"],
                row["distribution"],
                str(row["workers"]),
                *[cell(row["ways"][way]) for way in ways],
                str(row["bits"]),
                f"{row['lost']:.2%}",
                str(row["ways"]["integer"]["zeros"]),
            ]
            for row in rows
        ]
        report.print_columns(["type", "distribution", "workers", *headings, "bits", "words 0", "sums 0"], cells)


def ulps(found):
    return f"{found['median_ulps']:.2g} / {found['max_ulps']:.3g}"
