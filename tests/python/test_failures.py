"""Bad input and failing peers: an exception on every live rank, in time, that says what is wrong; no hang, no wrong
sum."""

import contextlib
import os
import signal
import subprocess
import sys
import threading
import time
from unittest import mock

import pytest
import torch
import torch.distributed as dist

import harness
from failing import (
    CALLS,
    FALLBACK,
    IN_TIME,
    LONG,
    PATIENCE,
    TIMEOUT,
    aborted_during,
    check_all,
    check_death,
    doomed_pool,
    rank_calls,
    rank_sums_through_a_stop,
    rank_sums_until,
    rank_warm_up,
    standalone_switch,
    timed,
    with_switch,
)
from harness import free_port
from oracle import check_reduction, digest, values

pytestmark = pytest.mark.skipif(harness.BACKEND == "gloo", reason="Gloo promises nothing of this")


# ---- ranks that die, stop or do not come ----


def rank_has_child():
    """A data loader's worker, say, that outlives its parent for a while; its pid."""
    pid = os.fork()
    if pid == 0:
        time.sleep(2 * PATIENCE)
        os._exit(0)
    return pid


DEATHS = (
    (0, "all_reduce"),
    (2, "all_reduce"),
    (0, "broadcast"),
    (1, "scatter"),
    (2, "all_gather"),
    (0, "all_to_all"),
    (2, "all_to_all"),
    (2, "messages"),
)


@pytest.mark.parametrize("victim, call", DEATHS)
def test_a_killed_rank_is_named_by_the_others_long_before_the_timeout(victim, call):
    """Rank 0 hosts the switch, the others do not. Whatever goes through the switch, through memory or through Gloo."""
    with doomed_pool(3) as own:
        own.run(rank_warm_up)
        children = own.run(rank_has_child)
        try:
            own.start(rank_calls, call)
            check_death(own, victim)
        finally:
            for pid in children:
                os.kill(pid, signal.SIGKILL)


def test_a_rank_that_dies_between_calls_fails_the_next_one():
    with doomed_pool(3) as own:
        own.run(rank_warm_up)
        own.kill(1)
        own.ranks[1][0].join()
        check_all(own.run(rank_calls, ranks=[0, 2]), "rank 1", "is gone")


def rank_make_groups(count):
    for _ in range(count):
        dist.barrier(group=dist.new_group())


def rank_destroy_all():
    before = time.monotonic()
    dist.destroy_process_group()
    return time.monotonic() - before


def test_nothing_waits_for_a_dead_rank_to_leave_its_groups():
    """Without this the rank that has the switches would wait two seconds for each of its groups."""
    with doomed_pool(3) as own:
        own.run(rank_make_groups, 30)
        own.kill(1)
        own.ranks[1][0].join()
        check_all(own.run(rank_calls, ranks=[0, 2]), "rank 1", "is gone")
        assert max(own.run(rank_destroy_all, ranks=[0, 2])) < 30


def rank_leave():
    dist.destroy_process_group()


@pytest.mark.parametrize("call", ("all_reduce", "all_gather", "all_to_all"))
def test_a_rank_that_leaves_is_not_waited_for(call):
    with doomed_pool(3) as own:
        own.run(rank_warm_up)
        own.run(rank_leave, ranks=[2])
        check_all(own.run(rank_calls, call, ranks=[0, 1]), "cannot complete", "rank 2 (left the session)")


def rank_one_call(name="all_reduce"):
    return timed(CALLS[name], torch.ones(100))


@pytest.mark.parametrize("call", ("all_reduce", "broadcast", "all_gather", "all_to_all", "barrier"))
def test_a_rank_that_never_calls_is_named(call):
    with doomed_pool(3, group_timeout=TIMEOUT) as own:
        own.run(rank_warm_up)
        check_all(own.run(rank_one_call, call, ranks=(0, 2)), "rank 1")


# ---- monitored barriers ----


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


@pytest.mark.parametrize("first_call", (True, False), ids=("first call", "later call"))
@pytest.mark.parametrize("missing", ((1,), (1, 3), (2, 3)), ids=str)
@pytest.mark.parametrize("wait_all_ranks", (False, True), ids=("first missing", "all missing"))
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


def rank_open(rank, folder, size, environment, timeout):
    """Makes a group and uses it; what goes wrong may show at either."""
    os.environ.update(environment or {})

    def open_and_use():
        dist.init_process_group(
            harness.BACKEND,
            init_method=f"file://{folder}/store",
            rank=rank,
            world_size=size,
            timeout=harness.seconds(timeout),
        )
        dist.all_reduce(torch.ones(10))

    return timed(open_and_use)


def test_a_group_that_is_too_large_is_refused_before_anybody_waits(tmp_path):
    check_all(open_on_each(tmp_path, 129, [{}]), "rank 0 of 129", "a group has 1 to 128 ranks")


def open_on_each(folder, size, environments, timeout=LONG):
    """What each of len(environments) ranks of a group of `size` meets."""
    with doomed_pool(len(environments), join_group=False) as own:
        for rank, environment in enumerate(environments):
            own.start(rank_open, rank, str(folder), size, environment, timeout, ranks=[rank])
        return own.finish()


def test_a_rank_that_never_joins_ends_in_an_error(tmp_path):
    check_all(open_on_each(tmp_path, 3, [{}, {}], TIMEOUT))


STOP = 1.0  # seconds
#: For the bits of a switch, where other tests let ranks share memory.
EMBEDDED = {"SWITCHML_TRANSPORT": "udp"}


@pytest.mark.parametrize("victim", (0, 1))
def test_a_stopped_rank_that_goes_on_costs_time_only(victim):
    with doomed_pool(3) as own:
        own.run(rank_warm_up)
        own.start(rank_sums_through_a_stop, 0.8 * STOP)
        own.await_progress()
        own.kill(victim, signal.SIGSTOP)
        time.sleep(STOP)
        own.kill(victim, signal.SIGCONT)
        assert own.finish() == [0, 0, 0], "the switch was lost"


def name_the_rank_stopped_for_good(own, victim):
    """Its connections live and its host acknowledges: only its silence tells."""
    own.start(rank_calls)
    own.await_progress()
    own.kill(victim, signal.SIGSTOP)
    check_all(own.finish([rank for rank in range(3) if rank != victim]), f"rank {victim}")


def test_a_rank_that_is_stopped_for_good_is_named_by_the_others():
    with doomed_pool(3, group_timeout=TIMEOUT) as own:
        own.run(rank_warm_up)
        name_the_rank_stopped_for_good(own, 2)


@pytest.mark.parametrize("transport", ("udp", "shm"))
def test_a_rank_that_is_awaited_for_long_is_named_in_the_log_once(transport):
    said = "waits in call 2, all_reduce(SUM, float32, 1000 elements): no contribution from rank 1 for "
    with doomed_pool(3, environment={"SWITCHML_TRANSPORT": transport, "SWITCHML_SLOW_WARNING": "1"}) as own:
        own.run(rank_warm_up)
        own.start(rank_warm_up, ranks=[0, 2])
        end = time.monotonic() + IN_TIME
        while not all(said in own.log(rank) for rank in (0, 2)):
            assert time.monotonic() < end, own.log(0) + own.log(2)
            time.sleep(0.05)
        time.sleep(2.5)  # in which it is not said again
        own.start(rank_warm_up, ranks=[1])
        own.finish()
        assert [own.log(rank, 1000).count(said) for rank in (0, 2)] == [1, 1]
        counters = own.run(rank_statistics)
    for rank in (0, 2):
        assert (counters[rank]["repeats_waiting"] > 0) == (transport == "udp"), counters[rank]


# ---- the switch ----


@contextlib.contextmanager
def ranks_and_switch(size, settings=None, **kwargs):
    """Ranks that have used their own standalone switch, and that switch."""
    port = free_port()
    with standalone_switch(port) as switch:
        with doomed_pool(size, environment={**with_switch(f"127.0.0.1:{port}"), **(settings or {})}, **kwargs) as own:
            own.run(rank_warm_up)
            yield own, switch, f"127.0.0.1:{port}"


def rank_sum_and_groups():
    rank_warm_up()
    pair = dist.new_group([0, 1])
    if dist.get_rank() < 2:
        total = torch.ones(10)
        dist.all_reduce(total, group=pair)
        assert total.eq(2).all()
    inputs = [values((200000,), torch.float32, rank, 7) for rank in range(dist.get_world_size())]
    for _ in range(30):
        mine = inputs[dist.get_rank()].clone()
        dist.all_reduce(mine)
        check_reduction(mine, inputs, "SUM")
    return digest(mine)


def test_a_standalone_switch_serves_groups():
    port = free_port()
    with standalone_switch(port):
        for _ in range(2):  # a second job finds the switch as the first did
            with doomed_pool(3, environment=with_switch(f"127.0.0.1:{port}")) as own:
                alone = own.run(rank_sum_and_groups)
                own.close()
    with doomed_pool(3, environment=EMBEDDED) as own:
        assert own.run(rank_sum_and_groups) == alone, "the bits depend on where the switch runs"


def test_a_killed_switch_is_named_on_every_rank():
    with ranks_and_switch(3) as (own, switch, address):
        own.start(rank_calls)
        own.await_progress()
        switch.kill()
        check_all(own.finish(), "switch", address)


def test_a_switch_that_stops_for_a_moment_costs_time_only():
    with ranks_and_switch(3) as (own, switch, _):
        own.start(rank_sums_through_a_stop, 0.8 * 2 * STOP)
        own.await_progress()
        switch.send_signal(signal.SIGSTOP)
        time.sleep(2 * STOP)
        switch.send_signal(signal.SIGCONT)
        assert own.finish() == [0, 0, 0], "the switch was lost"


def test_rank_0_that_is_stopped_for_good_is_named_too():
    """Where it does not host the switch."""
    with ranks_and_switch(3, group_timeout=TIMEOUT) as (own, _, _):
        name_the_rank_stopped_for_good(own, 0)


def test_a_silent_switch_is_given_up():
    with ranks_and_switch(3, {"SWITCHML_FAILURE_TIMEOUT": "2"}) as (own, switch, address):
        switch.send_signal(signal.SIGSTOP)
        try:
            check_all(own.run(rank_calls), "switch", address, "has not answered for 2")
        finally:
            switch.send_signal(signal.SIGCONT)


def test_a_restarted_switch_knows_no_session():
    port = free_port()
    with contextlib.ExitStack() as stack:
        first = stack.enter_context(standalone_switch(port))
        own = stack.enter_context(doomed_pool(2, environment=with_switch(f"127.0.0.1:{port}")))
        own.run(rank_warm_up)
        first.kill()
        first.wait()
        stack.enter_context(standalone_switch(port))
        check_all(own.run(rank_calls), f"127.0.0.1:{port}", "no longer knows this session")


# ---- going on without the switch ----


def rank_sums_over_a_lost_switch(count, steps, seed, switch=None, last=None):
    """(digests of all results, whether this rank ended without the switch). Rank 0 kills that process in the middle of
    call `last`."""
    import switchml

    digests = []
    for step in range(steps):
        dtype = (torch.float32, torch.int32, torch.float16, torch.bfloat16, torch.int64)[step % 5]
        op = dist.ReduceOp.MAX if step % 7 == 3 and dtype != torch.int64 else dist.ReduceOp.SUM
        inputs = [values((count + step,), dtype, rank, seed + step) for rank in range(dist.get_world_size())]
        mine = inputs[dist.get_rank()].clone()
        work = dist.all_reduce(mine, op=op, async_op=True)
        if step == last and dist.get_rank() == 0:
            os.kill(switch, signal.SIGKILL)
        work.wait()
        check_reduction(mine, inputs, "MAX" if op == dist.ReduceOp.MAX else "SUM")
        digests.append(digest(mine))
    total = [torch.zeros(1) for _ in range(dist.get_world_size())]
    dist.all_gather(total, torch.tensor([float(dist.get_rank())]))  # Gloo behind a precheck
    dist.barrier()
    assert [float(t) for t in total] == list(range(dist.get_world_size()))
    return digests, switchml.stats()["without_switch"]


@pytest.mark.parametrize(
    "size, shards, precision", ((2, "1", "auto"), (2, "2", "integer"), (4, "1", "integer"), (4, "2", "auto"))
)
def test_a_killed_switch_costs_a_moment_with_fallback(size, shards, precision):
    """What is under way is completed, on every rank and to the bit, and so is what follows. Nobody waits for a timeout:
    none is shorter than what a call of the pool may take."""
    count, steps = 300000, 12
    with doomed_pool(size, environment={**EMBEDDED, "SWITCHML_PRECISION": precision}) as own:
        expected = own.run(rank_sums_over_a_lost_switch, count, steps, 5)
    assert not any(moved for _, moved in expected)
    settings = {
        **FALLBACK,
        "SWITCHML_SHARDS": shards,
        "SWITCHML_PRECISION": precision,
        "SWITCHML_FAILURE_TIMEOUT": "600",
    }
    for last in (1, 5):
        with ranks_and_switch(size, settings) as (own, switch, _):
            outcomes = own.run(rank_sums_over_a_lost_switch, count, steps, 5, switch.pid, last)
            own.close()
        assert [d for d, _ in outcomes] == [d for d, _ in expected], "the bits depend on who adds"
        assert all(moved for _, moved in outcomes), "nobody has noticed"


@contextlib.contextmanager
def ranks_without_their_switch(size, **kwargs):
    with ranks_and_switch(size, FALLBACK, **kwargs) as (own, switch, _):
        switch.kill()
        own.run(rank_warm_up)
        yield own


def rank_timed_sum():
    """The time begins before the test hears of it."""
    begin = time.monotonic()
    harness.advance()
    message, _ = timed(rank_warm_up)
    return message, time.monotonic() - begin


@pytest.mark.parametrize("shards", ("1", "2"))
def test_the_switch_is_used_again_when_it_returns(shards):
    port = free_port()
    settings = {**with_switch(f"127.0.0.1:{port}"), **FALLBACK, "SWITCHML_SHARDS": shards}
    with contextlib.ExitStack() as stack:
        switch = stack.enter_context(standalone_switch(port))
        own = stack.enter_context(doomed_pool(3, environment=settings))
        own.run(rank_warm_up)
        for loss in range(2):
            switch.kill()
            switch.wait()
            assert len(set(own.run(rank_sums_until, 1, 10 * loss))) == 1
            switch = stack.enter_context(standalone_switch(port))
            assert len(set(own.run(rank_sums_until, 0, 10 * loss))) == 1
            own.run(rank_warm_up)
            switch.send_signal(signal.SIGSTOP)
            os.waitid(os.P_PID, switch.pid, os.WSTOPPED | os.WNOWAIT)
            own.start(rank_timed_sum)
            own.await_progress()
            time.sleep(0.7)
            switch.send_signal(signal.SIGCONT)
            for message, took in own.finish():
                assert message is None and took > 0.5, f"something else adds: {message}, {took} s"
        own.close()


def test_a_killed_rank_is_named_after_a_fallback_too():
    with ranks_without_their_switch(3) as own:
        own.start(rank_calls)
        own.await_progress()
        own.kill(1)
        check_all(own.finish([0, 2]), "rank 1", "is gone")


def test_a_late_rank_is_named_after_a_fallback_too():
    with ranks_without_their_switch(3, group_timeout=TIMEOUT) as own:
        check_all(own.run(rank_one_call, ranks=[0, 1]), "no contribution from rank 2 for")


def test_a_rank_that_left_is_named_after_a_fallback_too():
    with ranks_without_their_switch(3) as own:
        own.run(rank_leave, ranks=[2])
        check_all(own.run(rank_calls, ranks=[0, 1]), "rank 2 (left the session)")


def test_a_stopped_rank_delays_the_fallback_only():
    with ranks_and_switch(3, FALLBACK) as (own, switch, _):
        own.start(rank_sums_through_a_stop, 0.8 * 4 * STOP)
        own.await_progress()
        own.kill(1, signal.SIGSTOP)
        switch.kill()
        time.sleep(4 * STOP)
        own.kill(1, signal.SIGCONT)
        assert own.finish() == [1, 1, 1], "the ranks still believe in the switch"


def test_a_missing_switch_is_named(tmp_path):
    address = f"127.0.0.1:{free_port()}"
    check_all(
        open_on_each(tmp_path, 2, [{**with_switch(address), "SWITCHML_CONNECT_TIMEOUT": str(TIMEOUT)}] * 2), address
    )


@pytest.mark.parametrize("address", ("here", "127.0.0.1:", "127.0.0.1:70000", ":", "[::1:5"))
def test_a_wrong_address_is_refused(address, tmp_path):
    check_all(open_on_each(tmp_path, 2, [with_switch(address)] * 2), "SWITCHML_SWITCH", address)


BAD_SETTINGS = {
    "SWITCHML_TRANSPORT": ("carrier-pigeon", "auto, shm, udp, tcp or rdma"),
    "SWITCHML_PAYLOAD": ("300", "256"),
    "SWITCHML_SLOTS": ("3", "4096"),
    "SWITCHML_SHARDS": ("17", "16"),
    "SWITCHML_KERNELS": ("mmx", "scalar"),
    "SWITCHML_CONNECT_TIMEOUT": ("soon", "3600"),
    "SWITCHML_FAILURE_TIMEOUT": ("0", "3600"),
    "SWITCHML_SLOW_WARNING": ("0", "86400"),
    "SWITCHML_ON_SWITCH_FAILURE": ("panic", "fallback"),
    "SWITCHML_RTO_MIN": ("-1", "60000"),
    "SWITCHML_RTO_MAX": ("1e9", "60000"),
    "SWITCHML_CONGESTION_CONTROL": ("reno", "cubic"),
    "SWITCHML_LOG_LEVEL": ("loud", "warning"),
    "SWITCHML_FAULTS": ("send_loss=2", "send_loss"),
    "SWITCHML_RDMA_DEVICE": ("mlx5_0:0", "DEVICE:PORT"),
    "SWITCHML_INTERFACE": ("no-such-interface0", "interface"),
}


@pytest.mark.parametrize("name", BAD_SETTINGS)
def test_a_bad_setting_is_refused_with_what_is_allowed(name, tmp_path):
    value, allowed = BAD_SETTINGS[name]
    outcomes = open_on_each(tmp_path, 2, [{name: value}] * 2)
    # Only rank 0, which announces an embedded switch, uses the interface; the other is told what rank 0 found.
    check_all(outcomes[:1] if name == "SWITCHML_INTERFACE" else outcomes, name, value, allowed)
    check_all(outcomes)


@pytest.mark.parametrize("victim", (0, 1))
def test_a_setting_that_is_bad_on_one_rank_is_told_to_all(victim, tmp_path):
    settings = [{}, {}, {}]
    settings[victim] = {"SWITCHML_SLOTS": "many"}
    outcomes = open_on_each(tmp_path, 3, settings)
    check_all(outcomes, "SWITCHML_SLOTS", "many")
    for rank, (message, _) in enumerate(outcomes):
        assert (f"rank {victim}: " in message) == (rank != victim), outcomes


def test_settings_that_differ_between_ranks_are_named(tmp_path):
    outcomes = open_on_each(tmp_path, 2, [{"SWITCHML_PAYLOAD": "1024"}, {"SWITCHML_PAYLOAD": "2048"}])
    check_all(outcomes, "payload")


@pytest.mark.parametrize("name, one, other", (("SHARDS", "1", "2"), ("ON_SWITCH_FAILURE", "error", "fallback")))
def test_other_settings_that_differ_are_named_too(name, one, other, tmp_path):
    name = f"SWITCHML_{name}"
    check_all(open_on_each(tmp_path, 2, [{name: one}, {name: other}]), name, "rank 1", "rank 0")


# ---- a lossy network ----

FAULTS = "seed={seed},send_loss=0.02,receive_loss=0.02,duplicate=0.02,delay=0.02"


def rank_through_faults():
    digests = []
    for seed, (dtype, count) in enumerate(
        ((torch.float32, 150000), (torch.int32, 5000), (torch.float16, 70000), (torch.float32, 3), (torch.int64, 9000))
    ):
        inputs = [values((count,), dtype, rank, seed) for rank in range(dist.get_world_size())]
        if seed == 0:
            inputs[0][1000] = float("inf")
        mine = inputs[dist.get_rank()].clone()
        dist.all_reduce(mine)
        if seed:
            check_reduction(mine, inputs, "SUM")
        digests.append(digest(mine))
    import switchml

    return digests, switchml.stats()["retransmissions"]


@pytest.mark.parametrize("seed, payload", ((1, "1024"), (2, "1408")))
def test_a_lossy_network_gives_the_same_bits(seed, payload):
    with doomed_pool(3, environment=EMBEDDED) as own:
        clean = own.run(rank_through_faults)
    # Small packets, so that there are thousands to lose.
    with doomed_pool(3, environment={**EMBEDDED, "SWITCHML_PAYLOAD": payload}) as own:
        clean_small = own.run(rank_through_faults)
    lossy_environment = {"SWITCHML_PAYLOAD": payload, "SWITCHML_FAULTS": FAULTS.format(seed=seed)}
    with doomed_pool(3, environment=lossy_environment) as own:
        lossy = own.run(rank_through_faults)
    assert [d for d, _ in lossy] == [d for d, _ in clean_small], "loss changed the result"
    assert [d for d, _ in clean_small] == [d for d, _ in clean], "the payload size changed the result"
    assert sum(again for _, again in lossy) > 0, "nothing was lost: the test tests nothing"


def rank_through_damage():
    """True, or the text of the error that the group ends in; a wrong sum raises."""
    for seed in range(20):
        inputs = [values((20000,), torch.int32, rank, seed) for rank in range(dist.get_world_size())]
        mine = inputs[dist.get_rank()].clone()
        message = harness.caught(dist.all_reduce, mine)
        if message:
            return message
        check_reduction(mine, inputs, "SUM")
    return True


DAMAGE = {**EMBEDDED, "SWITCHML_PAYLOAD": "1024", "SWITCHML_FAULTS": "seed=3,corrupt=0.02"}


def test_damaged_integers_end_in_an_error_never_in_a_wrong_sum():
    """A bit that flips before the switch has summed cannot be repaired by anybody; it must be seen."""
    with doomed_pool(3, environment={**DAMAGE, "SWITCHML_PRECISION": "integer"}) as own:
        outcomes = own.run(rank_through_damage)
    assert all(outcome is not True for outcome in outcomes), "nothing was damaged: the test tests nothing"
    assert any("damaged" in outcome for outcome in outcomes), outcomes


def rank_statistics(group=None):
    import switchml

    return switchml.stats(group)


def test_damaged_elements_are_sent_again():
    """Whoever receives a packet sees by its checksum that it is damaged."""
    with doomed_pool(3, environment=DAMAGE) as own:
        assert own.run(rank_through_damage) == [True] * 3
        statistics = own.run(rank_statistics)
    assert statistics[0]["switch"]["dropped_checksum"] > 0, "nothing was damaged: the test tests nothing"
    assert sum(rank["retransmissions"] for rank in statistics) > 0


def rank_groups_through_damage(place):
    """How many damaged requests the switch has dropped, if it is one of ours."""
    dropped = 0
    for seed in range(6):
        damage = {**place, "SWITCHML_FAULTS": f"seed={seed},corrupt=0.2"}
        with mock.patch.dict(os.environ, damage):
            group = dist.new_group()
        if damage["SWITCHML_PRECISION"] == "exact":
            mine = torch.arange(1000.0) + dist.get_rank()
            dist.all_reduce(mine, group=group)
            assert mine.tolist() == [2.0 * i + 1 for i in range(1000)]
        dropped += rank_statistics(group).get("switch", {}).get("control_malformed", 0)
        dist.destroy_process_group(group)
    return dropped


@pytest.mark.parametrize("precision", ("exact", "integer"))
@pytest.mark.parametrize("place", ("embedded", "switchml-switchd"))
def test_damaged_requests_are_sent_again(place, precision):
    """Groups open and close though every fifth packet of theirs is damaged, among them what they ask of the switch."""
    settings = {**EMBEDDED, "SWITCHML_PRECISION": precision}
    with contextlib.ExitStack() as stack:
        if place != "embedded":
            port = free_port()
            stack.enter_context(standalone_switch(port))
            settings |= with_switch(f"127.0.0.1:{port}")
        own = stack.enter_context(doomed_pool(2, environment=EMBEDDED))
        dropped = own.run(rank_groups_through_damage, settings)
    assert place != "embedded" or sum(dropped) > 0, "nothing was damaged: the test tests nothing"


# ---- the end of a process ----

EXIT_SCRIPT = """
import os, sys, torch, torch.distributed as dist
import {backend}
dist.init_process_group("{backend}", init_method="file://{folder}/exit", rank=int(sys.argv[1]), world_size=2)
group = dist.new_group([0, 1])
x = torch.ones(1000)
dist.all_reduce(x)
dist.all_reduce(x, group=group)
kept = dist.all_reduce(torch.ones(100000), async_op=True)
{end}
print("end", x[0].item(), flush=True)
"""


@pytest.mark.parametrize(
    "end",
    ("kept.wait()", "", "dist.destroy_process_group()", "raise SystemExit(print('end', x[0].item()))"),
    ids=("no destroy", "work in flight", "destroy with work in flight", "exit"),
)
def test_a_process_ends_with_its_script(end, tmp_path):
    script = EXIT_SCRIPT.format(backend=harness.BACKEND, folder=tmp_path, end=end)
    environment = {**os.environ, "GLOO_SOCKET_IFNAME": "lo", "SWITCHML_INTERFACE": "lo", "OMP_NUM_THREADS": "1"}
    pipes = {"stdout": subprocess.PIPE, "stderr": subprocess.PIPE, "text": True}
    ranks = [subprocess.Popen([sys.executable, "-c", script, str(rank)], env=environment, **pipes) for rank in range(2)]
    try:
        for rank, process in enumerate(ranks):
            out, err = process.communicate(timeout=PATIENCE)
            assert "end 4.0" in out, err
            assert process.returncode == 0, (rank, process.returncode, err)
    finally:
        for process in ranks:
            if process.poll() is None:
                process.kill()
                process.wait()


# ---- bad arguments ----


def rank_bad_arguments():
    results = {
        "broadcast from a rank that does not exist": harness.caught(dist.broadcast, torch.ones(3), 7),
        "gather lists of a wrong length": harness.caught(dist.all_gather, [torch.ones(3)], torch.ones(3)),
        "outputs of a wrong shape": harness.caught(dist.all_gather, [torch.ones(2), torch.ones(3)], torch.ones(3)),
        "an operation that bits have and floats lack": harness.caught(
            dist.all_reduce, torch.ones(3), dist.ReduceOp.BXOR
        ),
    }
    dist.barrier()
    rank_warm_up()  # the group still works
    return results


def test_bad_arguments_are_refused_and_leave_the_group_usable():
    with doomed_pool(2) as own:
        for rank, results in enumerate(own.run(rank_bad_arguments)):
            for what, message in results.items():
                assert message, f"rank {rank}: no error for {what}"
