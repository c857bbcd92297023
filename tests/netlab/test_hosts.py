"""Hosts with several ranks each: the ranks of a host share memory and are one worker of the switch."""

import signal
import time

import pytest
import star

RATE = 50
RANKS_OF_A_HOST = 3
SECONDS = 3.0
GENEROUS = 120.0  # seconds for whatever must come, on a busy machine; also the group's timeout


@pytest.fixture(scope="module")
def network(tmp_path_factory):
    with star.Star(tmp_path_factory.mktemp("hosts"), ranks=2, rate=RATE) as network:
        yield network


def job_on(network, name, per_host=RANKS_OF_A_HOST, transport="auto", precision="auto"):
    """With rank N on host N / per_host."""
    return star.Job(network, name, per_host=per_host, SWITCHML_TRANSPORT=transport, SWITCHML_PRECISION=precision)


def total(ranks, counter):
    return sum(rank[counter] for rank in ranks)


@pytest.mark.parametrize("precision", ("auto", "exact", "integer"))
@pytest.mark.parametrize("weather", ({}, {"lose": 1e-2, "copy": 1e-2, "hold_back": 1e-2}), ids=("quiet", "loss"))
def test_every_bit_is_right(network, weather, precision):
    job = job_on(network, f"bits-{precision}{len(weather)}", precision=precision)
    assert [rank["transport"] for rank in job.run(GENEROUS, "session")] == ["shm+udp"] * (2 * RANKS_OF_A_HOST)
    network.disturb(**weather)
    ranks = job.run(GENEROUS, "soak", SECONDS, 3)
    network.disturb()
    assert all(rank["calls"] > 10 and rank["witness_failures"] == 0 for rank in ranks), ranks
    senders = [rank for rank in ranks if rank["packets_sent"] > 0]
    assert len(senders) == 2 * RANKS_OF_A_HOST, "each rank takes its turn"
    if weather:
        assert total(ranks, "retransmissions") > 0, ranks
    job.end()


def test_widened_terms_do_not_become_integers(network):
    job = job_on(network, "narrow", precision="integer")
    job.run(GENEROUS, "narrow_sums", 1)
    job.end()


def test_a_host_sends_once_for_all_its_ranks(network):
    """As many packets leave a host of three ranks as one of a single rank, but for chunks that announce collectives."""
    elements, sent = 2 * 2**20, {}
    for per_host in (1, RANKS_OF_A_HOST):
        job = job_on(network, f"once{per_host}", per_host)
        ranks = job.run(120, "timed", elements, 2)
        again = total(ranks, "retransmissions") + total(ranks, "repeats_waiting")
        sent[per_host] = total(ranks, "packets_sent") - again
        job.end()
    assert 0.99 < sent[RANKS_OF_A_HOST] / sent[1] < 1.02, sent


@pytest.mark.parametrize("victim", (0, 1, 4))
def test_a_killed_rank_is_named_by_all_others(network, victim):
    job = job_on(network, f"kill{victim}")
    job.tell("until_error", GENEROUS)
    job.await_calls()
    killed = time.monotonic()
    job.ranks[victim].send_signal(signal.SIGKILL)
    job.ranks[victim].wait()
    others = [rank for rank in range(len(job.ranks)) if rank != victim]
    for rank, answer in job.answers_of(others, GENEROUS).items():
        assert "message" in answer, f"rank {rank}: {answer}"
        assert f"rank {victim} " in answer["message"], f"rank {rank}: {answer['message']}"
        assert answer["at"] - killed < GENEROUS / 2, f"rank {rank}, {answer['at'] - killed:.1f} s: {answer['message']}"
    for rank in others:
        job.ranks[rank].kill()
        job.ranks[rank].wait()


def test_without_shared_memory_every_rank_sends_by_itself(network):
    job = job_on(network, "flat", transport="udp")
    assert {rank["transport"] for rank in job.run(GENEROUS, "session")} == {"udp"}
    ranks = job.run(GENEROUS, "soak", 1.0, 3)
    assert total(ranks, "elements_summed_in_memory") == 0 < total(ranks, "elements_summed_by_switch")
    job.end()
