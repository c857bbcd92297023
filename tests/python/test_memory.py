"""Ranks of one host reduce in memory that they share: with the bits of a switch in software, and but for sums of floats
those of one that adds integers; and when ranks die or stop."""

import os
import pathlib
import signal
import time

import pytest
import torch
import torch.distributed as dist

import harness
from failing import TIMEOUT, check_all, check_death, doomed_pool, open_on_each, rank_calls, rank_warm_up, timed
from oracle import digest, values

pytestmark = pytest.mark.skipif(harness.BACKEND == "gloo", reason="Gloo knows nothing of this")

MEMORY, SWITCH = {"SWITCHML_TRANSPORT": "shm"}, {"SWITCHML_TRANSPORT": "udp"}
INTEGERS = {**SWITCH, "SWITCHML_PRECISION": "integer"}
TYPES = (torch.float32, torch.float16, torch.bfloat16, torch.int64, torch.int32, torch.int16, torch.int8, torch.uint8)
OPERATIONS = ("SUM", "MIN", "MAX", "AVG", "PRODUCT", "BAND", "BOR", "BXOR")
SIZES = (1, 255, 257, 32768, 32769, 300001)  # around a block and around a chunk of memory


def session():
    import switchml

    return switchml.stats()["session"]["transport"]


def integers_are_exact(kind, name):
    """Whether a switch does it that adds integers, and without rounding."""
    return name in ("SUM", "MIN", "MAX") and kind != torch.float64 and not (name == "SUM" and kind.is_floating_point)


def rank_reduces(seed, all_of_them):
    """Digests of the bits of every type, size and operation: of those that a switch of integers does exactly, and of
    the others."""
    results = {True: [], False: []}
    for number, kind in enumerate((*TYPES, torch.float64)):
        for size in SIZES:
            for name in OPERATIONS[: 5 if kind.is_floating_point else None]:
                if not (all_of_them or integers_are_exact(kind, name)):
                    continue
                mine = values((size,), kind, dist.get_rank(), seed + number)
                if kind.is_floating_point and size > 300:
                    mine[size // 2 + dist.get_rank()] = float("inf")
                    mine[7] = float("nan") if dist.get_rank() == 0 else 1.0
                dist.all_reduce(mine, op=getattr(dist.ReduceOp, name))
                results[integers_are_exact(kind, name)].append(mine)
    return session(), digest(*results[True]), digest(*results[False])


@pytest.mark.parametrize("size", (2, 3, 8))
def test_a_switch_gives_the_same_bits(size):
    found = {}
    for name, environment in (("shm", MEMORY), ("udp", SWITCH), ("integers", INTEGERS)):
        with harness.fresh_pool(size, environment=environment, with_gloo=False) as own:
            outcomes = own.run(rank_reduces, 11, name != "integers")
        assert len(set(outcomes)) == 1, "ranks ended with different bits"
        transport, *found[name] = outcomes[0]
        assert transport == ("shm" if name == "shm" else "udp")
    assert found["shm"] == found["udp"]
    assert found["shm"][0] == found["integers"][0]


def rank_large(elements):
    import switchml

    before = switchml.stats()["memory_bytes"]
    tensor = torch.full((elements,), float(dist.get_rank() + 1))
    dist.all_reduce(tensor)
    total = dist.get_world_size() * (dist.get_world_size() + 1) // 2
    assert tensor.eq(float(total)).all()
    return before, switchml.stats()["memory_bytes"], switchml.stats()["packets_sent"]


def holds_segment(pid):
    return "memfd:switchml" in pathlib.Path(f"/proc/{pid}/maps").read_text()


def descriptors(pid):
    """What a rank's descriptors of segments are called."""
    links = (f"/proc/{pid}/fd/{number}" for number in os.listdir(f"/proc/{pid}/fd"))
    return [name for name in (os.readlink(link) for link in links if os.path.islink(link)) if "memfd:switchml" in name]


def rank_forks():
    """Whether a child, a data loader's worker, say, has the segment too."""
    read, write = os.pipe()
    if os.fork() == 0:
        os.write(write, b"1" if holds_segment(os.getpid()) else b"0")
        os._exit(0)
    return os.read(read, 1) == b"1"


@pytest.mark.parametrize("size, mebibytes", ((2, 17), (12, 33)))
def test_memory_is_bounded_and_the_ranks_alone_have_it(size, mebibytes):
    with harness.fresh_pool(size, environment=MEMORY, with_gloo=False) as own:
        for before, after, packets in own.run(rank_large, 20_000_000 // size):
            assert before == after <= mebibytes * 2**20
            assert packets == 0
        assert all(holds_segment(own.pid(rank)) for rank in range(size))
        assert not any(descriptors(own.pid(rank)) for rank in range(size)), "nobody else can open it"
        assert not any(own.run(rank_forks)), "the kernel frees it with the last rank"


@pytest.mark.parametrize("victim", (0, 3))
def test_a_rank_that_is_killed_while_it_adds_is_named(victim):
    with doomed_pool(4, environment=MEMORY) as own:
        own.run(rank_warm_up)
        own.start(rank_calls, elements=4_000_000)
        check_death(own, victim)


def rank_checked_sums(over):
    """Until there is that file; the longest that one took, its check included."""
    calls, longest = 0, 0.0
    while True:
        begin = time.monotonic()
        tensor = torch.full((1_000_000,), float(dist.get_rank() + calls))
        dist.all_reduce(tensor)
        expected = sum(rank + calls for rank in range(dist.get_world_size()))
        assert tensor.eq(float(expected)).all(), f"call {calls}"
        calls += 1
        said = torch.tensor([int(over.exists())])
        dist.all_reduce(said, op=dist.ReduceOp.MAX)
        longest = max(longest, time.monotonic() - begin)
        harness.advance()
        if said.item():
            return longest


@pytest.mark.parametrize("victim", (0, 1))
def test_a_rank_that_is_stopped_for_a_moment_costs_time_only(victim, tmp_path):
    with doomed_pool(3, environment=MEMORY) as own:
        own.run(rank_warm_up)
        own.start(rank_checked_sums, tmp_path / "over")
        for _ in range(3):
            own.await_progress(own.steps()[victim] + 2)
            own.kill(victim, signal.SIGSTOP)
            time.sleep(0.4)
            own.kill(victim, signal.SIGCONT)
        (tmp_path / "over").touch()
        assert all(longest > 0.2 for longest in own.finish()), "the stop was not felt"


def rank_calls_once(elements):
    return timed(dist.all_reduce, torch.ones(elements))


@pytest.mark.parametrize("elements", (4, 300_000))
def test_what_a_rank_gave_up_succeeds_on_none(elements):
    with doomed_pool(2, environment=MEMORY, group_timeout=TIMEOUT) as own:
        own.run(rank_warm_up)
        early = own.run(rank_calls_once, elements, ranks=[0])
        check_all(early, "did not complete before its timeout", "no contribution from rank 1")
        check_all(own.run(rank_calls_once, elements, ranks=[1]), "rank 0 gave up", "timeout")


def test_memory_and_a_switch_exclude_each_other(tmp_path):
    environment = {**MEMORY, "SWITCHML_SWITCH": "127.0.0.1:4800"}
    check_all(open_on_each(tmp_path, 2, [environment] * 2), "SWITCHML_TRANSPORT", "SWITCHML_SWITCH")


def test_ranks_that_disagree_are_told(tmp_path):
    check_all(open_on_each(tmp_path, 2, [MEMORY, SWITCH]), "SWITCHML_TRANSPORT", "shm", "udp")
