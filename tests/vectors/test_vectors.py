"""Every vector on every data plane that is asked for, and random sequences on the software switch."""

import pathlib

import pytest

from vectors import generate, parse, runner, targets

FILES = sorted(pathlib.Path(__file__).resolve().parent.glob("*.txt"))


@pytest.mark.parametrize("path", FILES, ids=lambda path: path.stem)
def test_vector(path, target):
    vector = parse.load(path)
    reason = target.capabilities.lacks(vector.needs)
    if reason:
        pytest.skip(f"{target.name}: {reason}")
    runner.Runner(target).run(vector)


# Small and large sessions, chunks of any length and of the payload's; the name of a failing test is what repeats it.
RANDOM = [(seed, 300, (2, 8, 33, 128)[seed % 4], (256, 1024, 2048)[seed % 3], seed % 5 == 0) for seed in range(1, 31)]


@pytest.mark.parametrize(
    "options", RANDOM, ids=lambda o: f"seed{o[0]}-packets{o[1]}-workers{o[2]}-payload{o[3]}-full{o[4]:d}"
)
def test_random_sequence(options, softswitches, tmp_path):
    path = tmp_path / "random.txt"
    path.write_text(generate.Generator(*options).text("repeat it with generate.py"), encoding="utf-8")
    for whole in (False, True) if options[4] else (False,):
        runner.Runner(softswitches[whole]).run(parse.load(path))


def test_the_same_seed_gives_the_same_sequence():
    texts = [generate.Generator(seed, 100).text("") for seed in (5, 5, 6)]
    assert texts[0] == texts[1] != texts[2]


def test_random_sequences_reach_every_counter():
    counted = set()
    for options in RANDOM:
        for line in generate.Generator(*options).text("").splitlines():
            if line.startswith("count "):
                counted.update(line.split()[1::2])
    assert counted == set(targets.COUNTERS)
