"""Links that go down and come back: shorter than SWITCHML_FAILURE_TIMEOUT costs time only, longer is an error that
names who is gone."""

import time

import pytest
import star

PATIENCE = 7.0  # SWITCHML_FAILURE_TIMEOUT where it is to pass
SHORT = 3.0  # seconds: time for a probe a second, and for ARP, whose own questions come every second
GENEROUS = 120.0  # seconds for whatever must come, on a busy machine


@pytest.fixture
def network(tmp_path):
    with star.Star(tmp_path) as network:
        yield network


def end_of(network, who):
    """What to take down: a host's own device, so that it has no route either, or the bridge's end of its link."""
    return {
        "rank 2": (network.hosts[2], "data"),
        "rank 0": (network.bridge, "r0"),
        "the switch": (network.bridge, "switch"),
        "the switch's device": (network.switch, "data"),
    }[who]


def await_datagrams(network, count):
    """Until so many more have reached hosts."""
    before, end = network.counts()["received"], time.monotonic() + GENEROUS
    while network.counts()["received"] < before + count:
        assert time.monotonic() < end, "nothing goes on"
        time.sleep(0.05)


def test_short_cuts_cost_only_time(network):
    """In the middle of all-reduces one after the other is out for a while; every sum before, then and after is
    right."""
    job = star.Job(network, SWITCHML_FAILURE_TIMEOUT=str(GENEROUS))
    for who in ("rank 2", "rank 0", "the switch"):
        over = network.folder / f"over {who}"
        job.tell("soak", str(over), 7)
        job.await_calls()
        end = end_of(network, who)
        network.cut(*end)
        time.sleep(SHORT)
        network.heal(*end)
        await_datagrams(network, 2000)
        over.touch()
        ranks = job.collect(GENEROUS)
        assert all(rank["witness_failures"] == 0 for rank in ranks), (who, ranks)
        assert all(rank["retransmissions"] + rank["repeats_waiting"] > 0 for rank in ranks), (who, ranks)
    job.end()


@pytest.mark.parametrize("who", ("rank 2", "the switch"))
def test_long_cuts_end_in_errors_that_name_who_is_gone(network, who):
    job = star.Job(network, SWITCHML_FAILURE_TIMEOUT=str(PATIENCE))
    job.tell("until_error", GENEROUS)
    job.await_calls()
    cut = time.monotonic()
    network.cut(*end_of(network, who))
    answers = job.collect(GENEROUS)
    for rank, answer in enumerate(answers):
        assert "message" in answer, f"rank {rank}: {answer}"
        late = answer["at"] - cut
        assert PATIENCE / 2 < late < GENEROUS / 2, f"rank {rank}, {late:.1f} s: {answer['message']}"
        # The rank that is cut off hears of nobody.
        alone = who == f"rank {rank}"
        named = ("the switch", "rank 0") if alone else (who,)
        assert any(name in answer["message"] for name in named), f"rank {rank}: {answer['message']}"
    network.heal(*end_of(network, who))
    job.end()


def test_with_fallback_the_ranks_go_on_and_come_back(network):
    """The switch's link, then its own device, is down until all go on over Gloo; it still knows the session that was
    lost."""
    job = star.Job(network, SWITCHML_FAILURE_TIMEOUT="3", SWITCHML_ON_SWITCH_FAILURE="fallback")
    for who in ("the switch", "the switch's device"):
        end = end_of(network, who)
        for used in (False, True):
            job.tell("until_switch", used, GENEROUS)
            job.await_calls()
            (network.heal if used else network.cut)(*end)
            calls = job.collect(2 * GENEROUS)
            assert calls[0] > 0 and len(set(calls)) == 1, f"{who}, used {used}: {calls}"
    job.end()
