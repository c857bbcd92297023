"""A path that holds more chunks than a session has slots by default: the session gets as many as keep it full."""

import pathlib
import statistics
import sys

import pytest
import star

RELAY = pathlib.Path(__file__).with_name("relay.py")
FAR = star.PORT + 1
RATE, DELAY = 50, 0.02  # Mbit/s; seconds each way: 170 chunks of 1408 bytes
ELEMENTS = 1 << 20
TRIES = 5  # times and paths are measured: a machine that is busy with other things may spoil one measurement
GENEROUS = 120.0  # seconds for whatever must come, on a busy machine


def opened(network, name, **settings):
    """What the session of a job with these settings is like, and the median of the times that all-reduces take."""
    job = star.Job(network, name, **settings)
    slots = {session["slots"] for session in job.run(GENEROUS, "session")}
    seconds = [statistics.median(rank["seconds"]) for rank in job.run(GENEROUS, "timed", ELEMENTS, 3)]
    job.end()
    return slots, max(seconds)


@pytest.fixture
def far(tmp_path):
    """(network, address of its switch behind the relay)"""
    network = star.Star(tmp_path, ranks=2, rate=RATE)
    try:
        relay = network.start(
            "relay", sys.executable, RELAY, star.SWITCH, FAR, star.PORT, DELAY, namespace=network.switch
        )
        network.await_line("relay", relay, "relaying")
        yield network, f"{star.SWITCH}:{FAR}"
    finally:
        network.close()


def test_a_long_path_gets_more_slots(far):
    network, address = far
    given = []
    for turn in range(TRIES):
        given += opened(network, f"many{turn}", SWITCHML_SWITCH=address)[0]
        if given[-1] > 200:
            break
    assert 200 < given[-1] <= 744, f"{given}; 1 MiB of 1408 bytes each are 744"


def test_they_keep_it_full(far, quiet_machine, capsys):
    network, address = far
    for turn in range(TRIES):
        few, slow = opened(network, f"few{turn}", SWITCHML_SWITCH=address, SWITCHML_SLOTS="128")
        many, fast = opened(network, f"many{turn}", SWITCHML_SWITCH=address)
        assert few == {128} and len(many) == 1, (few, many)
        if fast < 0.75 * slow:
            break
    with capsys.disabled():
        print(
            f"\n4 MiB of float32, 2 ranks, links of {RATE} Mbit/s, {DELAY * 1e3:.0f} ms each way: {slow:.2f} s with 128 slots, "
            f"{fast:.2f} s with {many}"
        )
    assert fast < 0.75 * slow, (fast, slow)


def test_a_short_path_that_is_slow_does_not(tmp_path):
    network = star.Star(tmp_path, ranks=2, rate=RATE)
    try:
        assert any(opened(network, f"short{turn}")[0] == {128} for turn in range(TRIES))
    finally:
        network.close()
