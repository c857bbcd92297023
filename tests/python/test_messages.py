"""Messages, through memory and between hosts: what is an error there, and what becomes of ranks that fail."""

import signal
import time

import pytest
import torch
import torch.distributed as dist

import harness
from failing import IN_TIME, TIMEOUT, aborted_during, check_all, doomed_pool, rank_warm_up, timed
from oracle import check_equal, values

pytestmark = pytest.mark.skipif(harness.BACKEND == "gloo", reason="Gloo promises nothing of this")

LARGE = 4 << 20  # elements: more than what is on its way at once


@pytest.fixture(params=("shm", "udp"), ids=("memory", "hosts"))
def transport(request):
    return request.param


@pytest.fixture(params=("shm", "udp", "sealed"), ids=("memory", "hosts", "sealed"))
def way(request):
    """As transport, and between hosts that encrypt."""
    return request.param


def pool(size, transport="shm"):
    return harness.pool(size, transport=transport)


def doomed(size, way, **kwargs):
    encryption = {"SWITCHML_ENCRYPTION": "on"} if way == "sealed" else {}
    transport = {"SWITCHML_TRANSPORT": "udp" if way == "sealed" else way}
    return doomed_pool(size, environment={**transport, **encryption}, **kwargs)


# ---- what is an error of one call ----


def rank_sizes(sent, wanted):
    """What the receiver gets, what the sender does, and that both go on."""
    rank, said = dist.get_rank(), None
    if rank == 0:
        dist.send(torch.ones(sent), 1, tag=3)
        dist.send(torch.ones(wanted), 1, tag=3)
    elif rank == 1:
        buffer = torch.zeros(wanted)
        said = harness.caught(dist.recv, buffer, 0, tag=3)
        assert not buffer.any()
        dist.recv(buffer, 0, tag=3)
        assert buffer.all()
    rank_warm_up()
    return said


@pytest.mark.parametrize("sent, wanted", ((20, 10), (10, 20), (0, 1), (1, 0), (50000, 10), (10, 50000)))
def test_sizes_that_differ_are_an_error_of_the_receiver(transport, sent, wanted):
    said = pool(2, transport).run(rank_sizes, sent, wanted)[1]
    assert f"recv of {4 * wanted} bytes from rank 0 with tag 3 got a message of {4 * sent} bytes from rank 0" in said


def rank_sends_to_itself():
    group = dist.distributed_c10d._get_default_group()
    backend = group._get_backend(torch.device("cpu")) if hasattr(group, "_get_backend") else group
    return [
        harness.caught(lambda: backend.send([torch.ones(1)], dist.get_rank(), 0)),
        harness.caught(lambda: backend.recv([torch.ones(1)], dist.get_rank(), 0)),
    ]


def test_no_rank_sends_to_itself(transport):
    for rank, texts in enumerate(pool(2, transport).run(rank_sends_to_itself)):
        assert all(f"invalid rank: {rank}" in text for text in texts), texts


# ---- the order of messages from any rank ----


def rank_any_in_order(rounds):
    """Rank 0 receives from any; rank 1 sends, then tells rank 2, which sends; and the other way round."""
    rank = dist.get_rank()
    for first, second in ((1, 2), (2, 1)) * rounds:
        if rank == first:
            dist.send(torch.tensor([first]), 0, tag=5)
            dist.send(torch.tensor([0]), second, tag=6)
        elif rank == second:
            dist.recv(torch.tensor([0]), first, tag=6)
            dist.send(torch.tensor([second]), 0, tag=5)
        else:
            for wanted in (first, second):
                buffer = torch.tensor([0])
                work = dist.irecv(buffer, tag=5)
                work.wait()
                assert (int(buffer), work._source_rank()) == (wanted, wanted)


def test_what_was_sent_first_is_received_first_from_any():
    pool(3).run(rank_any_in_order, 50)


# ---- tensors that ranks share ----


def rank_arena():
    import switchml

    other = 1 - dist.get_rank()
    mine, its = switchml.empty(LARGE), switchml.empty(LARGE)
    mine.copy_(values((LARGE,), torch.float32, dist.get_rank()))
    for work in (dist.isend(mine, other), dist.irecv(its, other)):
        work.wait()
    check_equal(its, values((LARGE,), torch.float32, other), "a tensor that ranks share")


def test_tensors_that_ranks_share():
    pool(2).run(rank_arena)


def rank_counts():
    import switchml

    before = switchml.stats()["bytes_moved_in_memory"]
    if dist.get_rank() == 0:
        dist.send(torch.ones(1000), 1)
    else:
        dist.recv(torch.ones(1000), 0)
    return switchml.stats()["bytes_moved_in_memory"] - before


def test_bytes_are_counted_where_they_are_received():
    assert pool(2).run(rank_counts) == [0, 4000]


# ---- ranks that die, stop, leave or do not send ----


def call_of(kind, elements, peer):
    """Ends when rank `peer` does its part, which it does not."""
    tensor = torch.ones(elements)
    if kind == "send":
        return dist.send(tensor, peer)
    return dist.recv(tensor, None if kind == "any" else peer, tag=9)


def rank_waits(kind, peer):
    harness.advance()
    return timed(call_of, kind, LARGE, peer)


@pytest.mark.parametrize("kind", ("send", "recv", "any"))
@pytest.mark.parametrize("victim", (0, 2))
def test_a_killed_rank_is_named_by_who_waits_for_it(way, victim, kind):
    with doomed(3, way) as own:
        own.run(rank_warm_up)
        waiting = [rank for rank in range(3) if rank != victim]
        own.start(rank_waits, kind, victim, ranks=waiting)
        own.await_progress(1, waiting)
        time.sleep(0.1)  # mostly they sleep then
        own.kill(victim)
        check_all(own.finish(waiting), f"rank {victim}", "is gone: its process has ended")


def rank_streams(peer):
    """Messages both ways until one fails."""
    while True:
        mine, its = torch.ones(LARGE), torch.zeros(LARGE)

        def exchange():
            for work in (dist.isend(mine, peer), dist.irecv(its, peer)):
                work.wait()

        outcome = timed(exchange)
        if outcome[0]:
            return outcome
        assert its.all()
        harness.advance()


@pytest.mark.parametrize("victim", (0, 1))
def test_a_rank_that_is_killed_in_the_middle_of_messages(way, victim):
    with doomed(2, way) as own:
        own.start(rank_streams, 0, ranks=[1])
        own.start(rank_streams, 1, ranks=[0])
        own.await_progress(3)
        own.kill(victim)
        check_all(own.finish([1 - victim]), f"rank {victim}", "is gone: its process has ended")


def rank_receives_much(peer):
    buffer = torch.zeros(LARGE)
    dist.recv(buffer, peer)
    return float(buffer.min())


def rank_sends_much(peer, by_way_of):
    """To a rank that is stopped meanwhile; others hear from this one all the same."""
    work = dist.isend(torch.full((LARGE,), 3.0), peer)
    harness.advance()
    for i in range(20):
        dist.send(torch.full((LARGE // 8,), float(i)), by_way_of, tag=1)
    harness.advance()
    work.wait()


def rank_hears(peer):
    for i in range(20):
        buffer = torch.zeros(LARGE // 8)
        dist.recv(buffer, peer, tag=1)
        assert buffer.eq(i).all()


def test_a_suspended_rank_holds_nobody_else_up(transport):
    with doomed(3, transport) as own:
        own.run(rank_warm_up)
        own.kill(1, signal.SIGSTOP)
        try:
            own.start(rank_sends_much, 1, 2, ranks=[0])
            own.run(rank_hears, 0, ranks=[2])
            own.await_progress(2, [0])
        finally:
            own.kill(1, signal.SIGCONT)
        assert own.run(rank_receives_much, 0, ranks=[1]) == [3.0]
        own.finish([0])
        own.close()


@pytest.mark.parametrize("kind, call, said", (
    ("send", f"send of {4 * LARGE} bytes to rank 1 with tag 0", "rank 1 has not asked for it"),
    ("recv", f"recv of {4 * LARGE} bytes from rank 1 with tag 9", "rank 1 has not sent it"),
    ("any", f"recv of {4 * LARGE} bytes from any rank with tag 9", "no rank has sent such a message"),
))  # fmt: skip
def test_a_timeout_names_the_call_and_what_it_waited_for(transport, kind, call, said):
    with doomed(2, transport, group_timeout=TIMEOUT) as own:
        check_all(own.run(rank_waits, kind, 1, ranks=[0]), call, "did not complete before its timeout", said)
        check_all([own.run(rank_reduces, ranks=[1])[0]], "rank 0 gave up", call)


def rank_reduces():
    return timed(dist.all_reduce, torch.ones(4))


def rank_leaves():
    dist.destroy_process_group()


@pytest.mark.parametrize("kind", ("send", "recv"))
def test_a_rank_that_leaves_is_named_by_who_waits_for_it(way, kind):
    with doomed(3, way) as own:
        own.run(rank_warm_up)
        own.start(rank_waits, kind, 1, ranks=[0])
        own.await_progress(1, [0])
        own.run(rank_leaves, ranks=[1])
        check_all(own.finish([0]), "rank 1 left the session")
        own.start(rank_streams_once, 2, ranks=[0])
        own.run(rank_streams_once, 0, ranks=[2])
        own.finish([0])


def rank_streams_once(peer):
    """The others go on with each other."""
    its = torch.zeros(LARGE)
    for work in (dist.isend(torch.ones(LARGE), peer), dist.irecv(its, peer)):
        work.wait()
    assert its.all()


def rank_destroys_while_it_waits():
    works = [dist.irecv(torch.zeros(4), 1), dist.irecv(torch.zeros(4), tag=1), dist.isend(torch.zeros(LARGE), 1)]
    begin = time.monotonic()
    dist.destroy_process_group()
    return [harness.caught(work.wait) for work in works], time.monotonic() - begin


def test_destroying_a_group_ends_what_waits(transport):
    with doomed(2, transport) as own:
        ((texts, took),) = own.run(rank_destroys_while_it_waits, ranks=[0])
        assert took < IN_TIME and all("the process group was shut down" in (text or "") for text in texts), texts
        check_all(own.run(rank_waits, "recv", 0, ranks=[1]), "rank 0 left the session")


def rank_aborts(kind):
    return aborted_during(call_of, kind, LARGE, 1 - dist.get_rank())


@pytest.mark.parametrize("kind", ("send", "recv", "any"))
def test_aborting_a_group_ends_what_waits(transport, kind):
    with doomed(2, transport) as own:
        outcomes = own.run(rank_aborts, kind, ranks=[0])
        if outcomes != [None]:
            check_all(outcomes, "was aborted")


def rank_sends_and_leaves():
    """What is short is the receiver's already; nobody waits for it."""
    if dist.get_rank() == 0:
        dist.send(torch.full((1000,), 3.0), 1)
        dist.destroy_process_group()
        return 3.0
    buffer = torch.zeros(1000)
    dist.recv(buffer, 0)
    return float(buffer.min())


def test_what_was_sent_comes_though_its_sender_has_left(way):
    with doomed(2, way) as own:
        own.run(rank_sends_and_leaves, ranks=[0])
        assert own.run(rank_sends_and_leaves, ranks=[1]) == [3.0]


def rank_receives_in_a_child():
    from test_fork import outcome, start_child

    def body():
        for call in (lambda: dist.send(torch.ones(1), 1), lambda: dist.recv(torch.ones(1), 1)):
            assert "was forked" in (harness.caught(call) or "")

    return outcome(start_child(body))


def test_a_forked_child_has_no_messages(transport):
    assert pool(2, transport).run(rank_receives_in_a_child, ranks=[0]) == [0]
