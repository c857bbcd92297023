"""benchmarks/accuracy: exact sums are those of fractions.Fraction, what adds is what ships, a wrong sum ends it."""

import fractions
import json
import subprocess
import sys
import types

from benchmark_tools import BENCHMARKS

import arithmetic
import numpy
import exact_sums
import pytest
import repository
import sums

LIBRARY = repository.built("benchmarks/accuracy/libbench_accuracy.so")
needs_library = pytest.mark.skipif(not LIBRARY.exists(), reason=f"{LIBRARY} is not built")


def accuracy(*arguments):
    return subprocess.run(
        [sys.executable, str(BENCHMARKS / "accuracy"), *map(str, arguments)],
        capture_output=True,
        text=True,
        timeout=300,
    )


def awkward(workers, elements, form):
    """Of all magnitudes that a type has without overflow, with sums that cancel, lie between two numbers, or are 0."""
    random = numpy.random.default_rng(7)
    spread = min(30, -form.least) // 2
    values = random.standard_normal((workers, elements)) * 2.0 ** random.integers(-spread, 8, (workers, elements))
    values[:, 0] = 0
    values[:2, 1:9] = numpy.array([[1.0], [2.0**-form.precision]])  # the middle between 1 and what follows it
    values[2:, 1:5] = 0  # a tie
    values[1, 9:20] = -values[0, 9:20]
    return exact_sums.rounded(values, 0.0, form)


def fraction_sums(values):
    return [sum(map(fractions.Fraction, column)) for column in values.T.tolist()]


def nearest_of(truth, form):
    """By the definition: of the numbers of the type around the truth the nearer one, or the even one."""
    unit = fractions.Fraction(2) ** form.least
    while abs(truth) >= unit * 2**form.precision:
        unit *= 2
    return float(round(truth / unit) * unit)


@pytest.mark.parametrize("kind", arithmetic.FORMATS)
def test_exact_sums_are_those_of_fractions(kind):
    form = arithmetic.FORMATS[kind]
    values = awkward(7, 64, form)
    truth = fraction_sums(values)
    parts = exact_sums.exact_sum(values)
    assert [sum(map(fractions.Fraction, each)) for each in parts] == truth
    assert exact_sums.nearest(parts, form).tolist() == [nearest_of(each, form) for each in truth]
    results = numpy.linspace(-1, 1, 64)
    expected = [float(fractions.Fraction(result) - each) for result, each in zip(results.tolist(), truth)]
    assert exact_sums.errors(parts, results).tolist() == expected


@needs_library
@pytest.mark.parametrize("kind", arithmetic.FORMATS)
def test_every_level_rounds_the_exact_sum_once(kind):
    form, ours = arithmetic.FORMATS[kind], arithmetic.Arithmetic()
    values = awkward(8, 64, form)

    def add(columns):
        return numpy.array([nearest_of(each, form) for each in fraction_sums(columns)])

    tree = {1: values, 2: [add(values[:2]), add(values[2:5]), add(values[5:])]}
    tree[3] = [add(numpy.array([add(part[:2]), add(part[2:])])) for part in (values[:4], values[4:])]
    for levels, below in tree.items():
        assert ours.exact(values, kind, levels).tolist() == add(numpy.array(below)).tolist()
    chain = values[0]
    for value in values[1:]:
        chain = add(numpy.array([chain, value]))
    assert ours.ring(values, kind).tolist() == chain.tolist()


@needs_library
def test_integers_stay_within_their_bound_in_every_tree():
    ours, form = arithmetic.Arithmetic(), arithmetic.FORMATS["float32"]
    assert [ours.magnitude_bits(n) for n in (2, 128, 1024)] == [30, 24, 20] and ours.max_workers == 128
    values = awkward(8, 300, form)
    results, words, lost = ours.integer(values, "float32", [1, 2, 3])
    assert len(words) == 300 and lost > 0
    parts = exact_sums.exact_sum(values)
    sums.check_bound(values, parts, results, ours.magnitude_bits(8), form)
    with pytest.raises(ValueError, match="8 workers: an integer sum is farther than"):
        sums.check_bound(values, parts, results + 2.0**-10, ours.magnitude_bits(8), form)


def test_a_sum_that_is_not_rounded_once_is_an_error():
    form = arithmetic.FORMATS["float16"]
    values = awkward(3, 64, form)
    parts = exact_sums.exact_sum(values)
    for shift in (0.0, 1.0):
        ours = types.SimpleNamespace(max_workers=3, exact=lambda *_: exact_sums.nearest(parts, form) + shift)
        if not shift:
            assert sums.flat(ours, values, "float16", parts) is not None
            continue
        with pytest.raises(ValueError, match="float16, 3 workers: a sum in one level is not the exact sum"):
            sums.flat(ours, values, "float16", parts)


def test_measures_of_errors():
    form = arithmetic.FORMATS["float16"]
    found = sums.measure([[1.0], [3.0], [], [4.0]], numpy.array([1.0 + 2**-10, 3.0, 0.0, 0.0]), form)
    assert (found["median_ulps"], found["max_ulps"], found["zeros"]) == (1.0, 1024.0, 1)
    assert found["l2"] == pytest.approx((16 + 2**-20) ** 0.5 / 26**0.5)
    with pytest.raises(ValueError, match="passes the largest number of its type"):
        sums.measure([[1.0]], numpy.array([numpy.inf]), form)


@needs_library
@pytest.mark.slow
def test_a_small_run_and_its_pictures(tmp_path):
    file = tmp_path / "accuracy.json"
    done = accuracy("--workers", "2,9", "--elements", 300, "--distributions", "normal,heavy,mixed,cancelling",
                    "--networks", "text", "--steps", 3, "--types", "float32,bfloat16", "--json", file)  # fmt: skip
    assert done.returncode == 0, done.stderr
    content = json.loads(file.read_text())
    assert content["benchmark"] == "accuracy" and len(content["sums"]) == 16
    for row in content["sums"]:
        assert list(row["ways"]) == ["1", "2", "3", "4", "ring", "integer"]
        assert row["ways"]["1"]["max_ulps"] <= 0.5
        assert row["workers"] > 2 or row["ways"]["4"] == row["ways"]["1"] == row["ways"]["ring"]
    assert all(row["ways"]["4"]["l2"] > row["ways"]["1"]["l2"] for row in content["sums"] if row["workers"] == 9)
    losses = {row["way"]: row["losses"] for row in content["training"]}
    assert len(losses) == 9 and losses["float32, 1 level"] == pytest.approx(losses["float64 sums"], rel=1e-4)
    assert all(f"trained: text, {way}" in done.stderr and way in done.stdout for way in losses)
    narrow = {(row["way"], row["seed"]): row["losses"] for row in content["narrow"]}
    assert len(narrow) == 12 and len({losses[-1] for losses in map(tuple, narrow.values())}) == 12
    for (way, seed), found in narrow.items():
        assert found == pytest.approx(narrow["float32", seed], rel=1e-2), way

    pytest.importorskip("matplotlib")
    pictures = []
    for folder in (tmp_path / "a", tmp_path / "b"):
        drawn = accuracy("--from", file, "--figures", folder)
        assert drawn.returncode == 0, drawn.stderr
        pictures.append([(folder / name).read_bytes() for name in ("accuracy.svg", "training.svg", "narrow.svg")])
    assert pictures[0] == pictures[1] and b"bfloat16, cancelling" in pictures[0][0]


@pytest.mark.parametrize(
    "arguments, error",
    [
        (("--workers", "1"), "'1' is not allowed: use a whole number from 2 to 1024"),
        (("--levels", "0"), "'0' is not allowed: use a whole number from 1 to 8"),
        (("--types", "int32"), "'int32' is not allowed: use float32, float16, bfloat16"),
        (("--distributions", "flat"), "'flat' is not allowed: use normal, heavy, mixed, cancelling, gradients"),
        (("--training-workers", "12"), "'12' is not allowed: use 2, 4, 8, 16, 32 or 64"),
        (("--from", "/nowhere/x.json"), "--from /nowhere/x.json: not a result of benchmarks/accuracy"),
    ],
)
def test_what_cannot_be_is_refused_by_name(arguments, error):
    done = accuracy(*arguments)
    assert done.returncode != 0 and error in done.stderr
