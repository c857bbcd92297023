"""One rank of a test: python rank.py RANK SIZE STORE. It does what star.Job tells it: the functions of `CALLS`."""

import datetime
import os
import sys
import time

import torch
import torch.distributed as dist

import exact
import told


def differences(before):
    """What the counters of this rank have moved by."""
    now = counters()
    return {name: now[name] - before[name] for name in now}


def counters():
    import switchml

    return {name: value for name, value in switchml.stats().items() if isinstance(value, int)}


def any_rank_says(mine):
    """The same on all."""
    said = torch.tensor([int(mine)], dtype=torch.int32)
    dist.all_reduce(said, op=dist.ReduceOp.MAX)
    return bool(said)


def cases(seed):
    import switchml

    added = exact.added_by(switchml.stats()["session"], int(os.environ["RANKS_OF_A_HOST"]))
    return exact.cases(dist.get_rank(), dist.get_world_size(), seed, added)


def moves_exactly():
    """Whether what moves goes as reductions do, and not through Gloo (docs/collectives.md)."""
    import switchml

    session = switchml.stats()["session"]
    return session["precision"] == "exact"


def moved(case, turn):
    """A broadcast, an all_gather or a scatter of the case's tensors: where it is wrong."""
    rank, root = dist.get_rank(), turn // 3 % case.size
    got, expected = torch.zeros_like(case.mine), case.inputs[root]
    if turn % 3 == 0:
        got = expected.clone() if rank == root else got
        dist.broadcast(got, root)
    elif turn % 3 == 1:
        parts = [torch.zeros_like(case.mine) for _ in case.inputs]
        dist.all_gather(parts, case.mine)
        got, expected = torch.cat(parts), torch.cat(case.inputs)
    else:
        dist.scatter(got, case.inputs if rank == root else None, root)
        expected = case.mine
    return exact.difference(got, expected)


def soak(until, seed):
    """All-reduces of every shape, and what moves exactly, round after round, each checked to the bit: once at least,
    and so many seconds, or until there is a file of that name."""
    shapes, moves = cases(seed), moves_exactly()
    dist.barrier()
    begin, calls, turn, before = time.monotonic(), 0, 0, counters()
    while turn == 0 or not any_rank_says(
        os.path.exists(until) if isinstance(until, str) else time.monotonic() > begin + until
    ):
        for case in shapes:
            tensor, expected = case.changed(turn)
            dist.all_reduce(tensor)
            wrong = exact.difference(tensor, expected)
            calls += 1
            wrong = wrong or moves and moved(case, turn + calls)
            assert not wrong, f"seed {seed}, turn {turn}, call {calls}: {wrong}"
        turn += 1
        if turn == 1:
            print("under way", flush=True)
    moved_by = differences(before)
    return {"calls": calls, **moved_by}


def marked(values):
    """Reductions, moves and messages of tensors in which these float32 repeat; of messages, minus these."""
    mark = torch.tensor(values).repeat(25_000)
    rank, size, got = dist.get_rank(), dist.get_world_size(), mark.clone()
    dist.all_reduce(got)
    assert torch.equal(got, size * mark)
    got = mark.clone() if rank == 0 else torch.zeros_like(mark)
    dist.broadcast(got, 0)
    assert torch.equal(got, mark)
    sent = dist.isend(-mark, (rank + 1) % size)
    dist.recv(got, (rank - 1) % size)
    sent.wait()
    assert torch.equal(got, -mark)


def drops():
    """What the switch that this rank embeds has dropped of encrypted links."""
    import switchml

    counters = switchml.stats()["switch"]
    return {name: counters[name] for name in ("dropped_plain", "dropped_forged", "dropped_replayed")}


def timed(elements, times):
    """Seconds of each of so many all-reduces of float32."""
    tensor, took, before = torch.full((elements,), float(dist.get_rank() + 1)), [], counters()
    for _ in range(times):
        tensor.fill_(float(dist.get_rank() + 1))
        dist.barrier()
        started = time.monotonic()
        dist.all_reduce(tensor)
        took.append(time.monotonic() - started)
        assert bool((tensor == sum(range(1, dist.get_world_size() + 1))).all())
    return {"seconds": took, **differences(before)}


def narrow_sums(rounds):
    """Sums of narrow terms to float32, each checked to the bit, by hosts that round once each."""
    import switchml

    import narrow

    session, of_a_host = switchml.stats()["session"], int(os.environ["RANKS_OF_A_HOST"])
    calls, rank, size = 0, dist.get_rank(), dist.get_world_size()
    for turn in range(rounds):
        for kind, length in narrow.cases():
            inputs = [narrow.given(kind, r, length, turn) for r in range(size)]
            output = torch.zeros(length)
            switchml.all_reduce(inputs[rank][0], output, format=narrow.format_of(kind))
            values = [values for _, values in inputs]
            hosts = 1 if session["transport"] in ("udp", "tcp") else of_a_host
            wrong = exact.difference(output, narrow.sum_by_hosts(values, hosts))
            assert not wrong, f"{kind}, {length} elements: {wrong}"
            calls += 1
    return {"calls": calls}


def reduce_scatters(kind, elements, times):
    """So many of them, of so many elements in all."""
    import switchml

    import narrow

    part = torch.zeros(elements // dist.get_world_size())
    for _ in range(times):
        if kind == "float32":
            dist.reduce_scatter_tensor(part, torch.ones(elements))
        else:
            terms, _ = narrow.given(kind, dist.get_rank(), elements, 1)
            switchml.reduce_scatter(terms, part, format=narrow.format_of(kind))


def until_error(seconds):
    """Checked all-reduces until one fails: what it says and when, by the clock that all processes of this machine
    share."""
    shapes, moves, end, calls = cases(1)[:6], moves_exactly(), time.monotonic() + seconds, 0
    try:
        while not any_rank_says(time.monotonic() > end):
            for case in shapes:
                tensor, expected = case.changed(calls)
                dist.all_reduce(tensor)
                calls += 1
                wrong = exact.difference(tensor, expected) or moves and moved(case, calls)
                if wrong:
                    return {"wrong": wrong}
            if calls == len(shapes):
                print("under way", flush=True)
    except (RuntimeError, ValueError) as error:
        return {"message": str(error), "at": time.monotonic(), "calls": calls}
    return {"calls": calls}


def until_switch(used, seconds):
    """Checked all-reduces until every rank uses the switch, or none does."""
    import switchml

    shapes, end, calls = cases(2)[:6], time.monotonic() + seconds, 0
    while any_rank_says(bool(switchml.stats()["without_switch"]) == used):
        assert time.monotonic() < end, f"not within {seconds} s: {switchml.stats()}"
        for case in shapes:
            tensor, expected = case.changed(calls)
            dist.all_reduce(tensor)
            wrong = exact.difference(tensor, expected)
            assert not wrong, wrong
            calls += 1
        if calls == len(shapes):
            print("under way", flush=True)
    return calls


def session():
    """What the group's session is like, and the seconds that it takes to open another."""
    import switchml

    dist.barrier()
    started = time.monotonic()
    other = dist.new_group()
    dist.barrier(group=other)
    return {"seconds": time.monotonic() - started, **switchml.stats()["session"]}


CALLS = {
    call.__name__: call
    for call in (soak, marked, drops, timed, narrow_sums, reduce_scatters, until_error, until_switch, session)
}


def main():
    rank, size, store = int(sys.argv[1]), int(sys.argv[2]), sys.argv[3]
    torch.set_num_threads(1)
    import switchml  # noqa: F401  before PyTorch 2.5 nothing else registers the backend

    dist.init_process_group(
        "switchml", init_method=f"file://{store}", rank=rank, world_size=size, timeout=datetime.timedelta(seconds=120)
    )
    told.serve(CALLS)
    dist.destroy_process_group()


if __name__ == "__main__":
    main()
