"""All-reduces over a network that loses, repeats and reorders datagrams: every bit as in exact.py, and the goodput that
is left."""

import collections
import statistics
import time

import pytest
import star

RATE = 50  # Mbit/s of a rank's link: two cores carry twice as much for 4 ranks and the switch
SECONDS = 4.0
QUIET = {}
WEATHERS = {
    "0.01% lost": {"lose": 1e-4},
    "0.1% lost": {"lose": 1e-3},
    "1% lost": {"lose": 1e-2},
    "5% lost": {"lose": 5e-2},
    "1% repeated, 1% late": {"copy": 1e-2, "hold_back": 1e-2},
    "1% lost, 2% repeated, 2% late": {"lose": 1e-2, "copy": 2e-2, "hold_back": 2e-2},
}


PRECISIONS = ("auto", "integer")


@pytest.fixture(scope="module", params=PRECISIONS)
def job(request, tmp_path_factory):
    with star.Star(tmp_path_factory.mktemp("soak"), rate=RATE) as network:
        yield star.Job(network, SWITCHML_PRECISION=request.param)


def moved(before, after):
    return {name: after[name] - before[name] for name in before}


def soak(job, weather, seconds, seed):
    """(all-reduces of each rank, what its network did to them, what the ranks counted)"""
    job.star.disturb(**weather)
    before = job.star.counts()
    ranks = job.run(seconds + 120, "soak", seconds, seed)
    faults = moved(before, job.star.counts())
    job.star.disturb(**QUIET)
    return ranks[0]["calls"], faults, {name: sum(rank[name] for rank in ranks) for name in ranks[0]}


def check_faults(weather, faults, ranks):
    """What was to happen has happened, as often as it should: the numbers that are lost are the same in each run, how
    many are sent is not."""
    for cause, count, out_of in (
        ("lose", "lost", "received"),
        ("copy", "copied", "sent"),
        ("hold_back", "held_back", "sent"),
    ):
        expected = weather.get(cause, 0) * (faults[out_of] - faults["copied"])
        assert abs(faults[count] - expected) <= 3 + 6 * expected**0.5, f"{count}: {faults}, expected {expected:.0f}"
    if "hold_back" in weather:
        # Only what stands in a queue is overtaken, and windows that losses have shrunk leave it empty mostly.
        assert faults["overtaken"] > faults["held_back"] / 20, faults
    if "copy" in weather:
        assert ranks["results_duplicate"] + ranks["results_stale"] > 0, ranks
    if "lose" in weather:
        assert faults["lost"] > 0 and ranks["retransmissions"] > 0, (faults, ranks)
    assert ranks["witness_failures"] == 0, ranks


def test_every_bit_is_right_whatever_the_network_does(job, soak_minutes, capsys):
    end, turn, totals = (
        time.monotonic() + 60 * (soak_minutes or 0) / len(PRECISIONS),
        0,
        {name: collections.Counter() for name in WEATHERS},
    )
    while turn == 0 or time.monotonic() < end:
        for name, weather in WEATHERS.items():
            turn += 1
            calls, faults, ranks = soak(job, weather, SECONDS if soak_minutes is None else 20.0, turn)
            assert calls > 0
            check_faults(weather, faults, ranks)
            totals[name].update(faults, calls=calls, again=ranks["retransmissions"])
    with capsys.disabled():
        for name, total in totals.items():
            print(
                f"\n{name}: {total['calls']} all-reduces, every bit right on every rank; of {total['received']} datagrams {total['lost']} "
                f"lost, {total['copied']} repeated, {total['held_back']} late; {total['again']} sent again",
                end="",
            )


# ---- goodput ----

TARGETS = {"0.1% lost": 0.95, "1% lost": 0.85}
ROUNDS = 9  # of each weather, interleaved; so many whatever they show
MEBIBYTES = 64


def seconds_of(job, weather, elements):
    """One all-reduce, until the last rank has it."""
    job.star.disturb(**weather)
    before = job.star.counts()
    took = max(rank["seconds"][0] for rank in job.run(120, "timed", elements, 1))
    assert weather == QUIET or moved(before, job.star.counts())["lost"] > 0
    job.star.disturb(**QUIET)
    return took


def test_goodput_under_loss(job, quiet_machine, capsys):
    """Of the lossless network's, medians."""
    job.run(120, "timed", 2**18, 1)
    times = {name: [] for name in ("lossless", *TARGETS)}
    for _ in range(ROUNDS):
        for name, taken in times.items():
            taken.append(seconds_of(job, WEATHERS.get(name, QUIET), MEBIBYTES * 2**18))
    medians = {name: statistics.median(taken) for name, taken in times.items()}
    ratios = {name: medians["lossless"] / medians[name] for name in TARGETS}
    rate = MEBIBYTES * 2**20 * 8 / 1e6 / medians["lossless"]
    with capsys.disabled():
        print(
            f"\n{MEBIBYTES} MiB of float32, {job.star.size} ranks, links of {RATE} Mbit/s: lossless {rate:.1f} Mbit/s, "
            + ", ".join(f"{name}: {ratio:.3f} of it" for name, ratio in ratios.items())
            + f" (medians of {ROUNDS})",
            end="",
        )
    assert all(ratios[name] >= target for name, target in TARGETS.items()), f"{ratios}, seconds: {times}"
