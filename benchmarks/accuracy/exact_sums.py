"""The exact sum, independent of the arithmetic that ships: a few float64 numbers for each element, which add up to it
without any rounding. math.fsum is the correctly rounded sum of its terms."""

import math

import numpy


def exact_sum(columns):
    """columns: [workers, elements]. For each element a list of float64, largest first, whose real sum is the exact
    sum: each is the rounded remainder, until the remainder is 0. An empty list is 0."""
    found = []
    for terms in numpy.asarray(columns, numpy.float64).T.tolist():
        parts = []
        while remainder := math.fsum(terms):
            parts.append(remainder)
            terms.append(-remainder)
        found.append(parts)
    return found


def largest(parts):
    """The exact sums, correctly rounded to float64."""
    return numpy.array([each[0] if each else 0.0 for each in parts])


def units(values, form):
    """The units in the last place of the type, at these float64."""
    return numpy.ldexp(1.0, numpy.maximum(numpy.frexp(values)[1] - form.precision, form.least))


def rounded(values, rests, form):
    """Rounded to the type, to nearest even. rests: what is left of a number beside its float64 in `values`."""
    unit = units(values, form)
    scaled = values / unit
    whole = numpy.floor(scaled)
    # Only in the middle between two numbers of the type does the rest matter.
    middle = (scaled - whole == 0.5) & (rests != 0)
    found = numpy.where(middle, whole + (rests > 0), numpy.rint(scaled)) * unit
    return numpy.where(abs(found) > form.largest, numpy.copysign(numpy.inf, found), found)


def nearest(parts, form):
    """The exact sums, rounded once."""
    return rounded(largest(parts), numpy.array([each[1] if len(each) > 1 else 0.0 for each in parts]), form)


def errors(parts, results):
    """Result less exact sum, correctly rounded."""
    return numpy.array([-math.fsum([*each, -result]) for each, result in zip(parts, results.tolist())])
