"""monitored_barrier where a rank does not come: all are told which, and the group goes on."""

import threading

import pytest
import torch.distributed as dist

import harness
from failing import IN_TIME, PATIENCE, TIMEOUT, aborted_during, check_all, doomed_pool, rank_warm_up, timed

pytestmark = pytest.mark.skipif(harness.BACKEND == "gloo", reason="Gloo promises nothing of this")


def rank_monitored(timeout, wait_all_ranks=False):
    harness.advance()
    return timed(dist.monitored_barrier, timeout=harness.seconds(timeout), wait_all_ranks=wait_all_ranks)


def monitored(own, timeout, wait_all_ranks, living):
    """What each of the living meets, of which rank 0 waits so long for those that do not come, and begins when the
    others are there."""
    own.start(rank_monitored, IN_TIME, wait_all_ranks, ranks=living[1:])
    own.await_progress(ranks=living[1:])
    own.start(rank_monitored, timeout, wait_all_ranks, ranks=living[:1])
    return own.finish(living)


def rank_pass_monitored():
    dist.monitored_barrier(timeout=harness.seconds(PATIENCE))
    rank_warm_up()


@pytest.mark.parametrize(
    "missing, wait_all_ranks, first_call",
    (((1,), True, True), ((1, 3), False, False), ((1, 3), True, False), ((2, 3), False, True)),
    ids=str,
)
def test_a_monitored_barrier_names_who_is_missing_and_the_group_goes_on(missing, wait_all_ranks, first_call):
    said = "Ranks " + ", ".join(map(str, missing)) if wait_all_ranks else f"Rank {missing[0]}"
    said += " failed to pass monitoredBarrier in 500 ms"
    living = [rank for rank in range(4) if rank not in missing]
    with doomed_pool(4) as own:
        if not first_call:
            own.run(rank_pass_monitored)
        outcomes = monitored(own, 0.5, wait_all_ranks, living)
        check_all(outcomes, said, "(group ")
        for rank, (message, _) in list(zip(living, outcomes))[1:]:
            assert f"Rank {rank} successfully reached monitoredBarrier, but received errors" in message
        # The late ones are told at once, whatever their timeout, and all are in step again.
        check_all(own.run(rank_monitored, 60, ranks=missing), said)
        own.run(rank_pass_monitored)
        own.close()


def test_a_monitored_barrier_without_rank_0_says_so():
    with doomed_pool(3) as own:
        check_all(own.run(rank_monitored, 0.5, ranks=(1, 2)), "Rank 0 did not come in 500 ms")
        check_all(
            own.run(rank_monitored, 60, True, ranks=(0,)), "Ranks 1, 2 failed to pass monitoredBarrier", "given up"
        )
        own.run(rank_pass_monitored)
        own.close()


def rank_monitored_default(wait_all_ranks):
    return timed(dist.monitored_barrier, wait_all_ranks=wait_all_ranks)


def test_a_monitored_barrier_takes_the_groups_timeout():
    with doomed_pool(3, group_timeout=TIMEOUT) as own:
        own.run(rank_warm_up)
        outcomes = own.run(rank_monitored_default, True, ranks=(0, 1))
        check_all(outcomes, f"Ranks 2 failed to pass monitoredBarrier in {TIMEOUT * 1000:.0f} ms")
        assert all(took > 0.9 * TIMEOUT for _, took in outcomes)


def test_a_monitored_barrier_names_a_killed_rank():
    with doomed_pool(3) as own:
        own.run(rank_warm_up)
        own.kill(2)
        check_all(monitored(own, 0.5, False, (0, 1)), "Rank 2 failed to pass monitoredBarrier in 500 ms")


def rank_other_threads_run():
    """(the error, how often another thread of this process ran meanwhile)"""
    turns, end = [], threading.Event()

    def count():
        while not end.wait(0.01):
            turns.append(None)

    counter = threading.Thread(target=count)
    counter.start()
    outcome = rank_monitored(1.0)
    end.set()
    counter.join()
    return outcome, len(turns)


def test_a_monitored_barrier_lets_other_threads_run():
    with doomed_pool(3) as own:
        results = own.run(rank_other_threads_run, ranks=(0, 1))
    check_all([outcome for outcome, _ in results], "Rank 2")
    assert all(turns >= 5 for _, turns in results), results


def rank_abort_monitored():
    """Rank 0 waits for rank 1, which never comes."""
    return aborted_during(dist.monitored_barrier, timeout=harness.seconds(60))


def test_abort_ends_a_monitored_barrier():
    with doomed_pool(2) as own:
        (outcome,) = own.run(rank_abort_monitored, ranks=(0,))
        if outcome is None:
            pytest.skip("this PyTorch cannot abort a group from Python")
        check_all([outcome], "aborted")
        check_all(own.run(rank_monitored, 60, ranks=(1,)), "aborted")  # rank 0 told the store
