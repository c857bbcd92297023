"""Groups that open while ranks are late."""

import os
import pathlib
import re
import signal
import socket
import time

import pytest
import torch
import torch.distributed as dist

import harness
from failing import GROUP_IS_OVER, LONG, TIMEOUT, check_all, doomed_pool, timed

pytestmark = pytest.mark.skipif(harness.BACKEND == "gloo", reason="the settings are ours")

SEARCH = 6.0  # seconds that a switch may be looked for
RANKS = 3


def settings(transport):
    return {"SWITCHML_CONNECT_TIMEOUT": str(SEARCH), "SWITCHML_TRANSPORT": transport}


def await_hellos(folder, count):
    """Until so many ranks have left the first word of an opening in the group's store, a file."""
    store, end = pathlib.Path(folder, "store"), time.monotonic() + 60
    while not store.exists() or len(set(re.findall(rb"[!-~]*switchml/hello/\d", store.read_bytes()))) < count:
        assert time.monotonic() < end, "the ranks do not open a group"
        time.sleep(0.01)


def rank_open(rank, size, folder, timeout):
    dist.init_process_group(
        harness.BACKEND,
        init_method=f"file://{folder}/store",
        rank=rank,
        world_size=size,
        timeout=harness.seconds(timeout),
    )
    return rank_sum(None)


def rank_sum(group):
    total = torch.ones(100)
    dist.all_reduce(total, group=group)
    return float(total[0])


def rank_open_another():
    return rank_sum(dist.new_group(list(range(RANKS))))


@pytest.mark.parametrize("late", (0, 2))
@pytest.mark.parametrize("transport", ("udp", "auto"))
def test_a_rank_may_come_later_than_a_switch(tmp_path, transport, late):
    """Ranks wait for ranks as long as the group's timeout says, however short the time is that a switch has."""
    with doomed_pool(RANKS, environment=settings(transport), join_group=False) as own:
        for rank in range(RANKS):
            if rank != late:
                own.start(rank_open, rank, RANKS, str(tmp_path), 60, ranks=[rank])
        await_hellos(tmp_path, RANKS - 1)
        time.sleep(1.25 * SEARCH)
        own.start(rank_open, late, RANKS, str(tmp_path), 60, ranks=[late])
        assert own.finish() == [RANKS] * RANKS


@pytest.mark.parametrize("transport", ("udp", "auto"))
def test_a_rank_may_come_to_a_new_group_later_than_a_switch(transport):
    with doomed_pool(RANKS, environment=settings(transport), group_timeout=60) as own:
        own.run(rank_sum, None)
        own.start(rank_open_another, ranks=[0, 1])
        await_hellos(own.folder, RANKS + 2)
        time.sleep(1.25 * SEARCH)
        own.start(rank_open_another, ranks=[2])
        assert own.finish() == [RANKS] * RANKS


def rank_miss_one(rank, folder):
    return timed(rank_open, rank, RANKS, folder, TIMEOUT)


@pytest.mark.parametrize("transport", ("udp", "auto"))
def test_a_rank_that_never_comes_is_named_after_the_groups_timeout(tmp_path, transport):
    environment = {**settings(transport), "SWITCHML_CONNECT_TIMEOUT": "0.5"}
    with doomed_pool(RANKS - 1, environment=environment, join_group=False) as own:
        for rank in range(RANKS - 1):
            own.start(rank_miss_one, rank, str(tmp_path), ranks=[rank])
        outcomes = own.finish()
    check_all(outcomes, "rank 2 of default did not come within")
    assert all(took > 0.8 * TIMEOUT for _, took in outcomes), outcomes


class DeadlyStore(dist.Store):
    """Ends this process in place of its nth word."""

    def __init__(self, below, word):
        super().__init__()
        self.below, self.left = below, word

    def add(self, key, amount):
        return self.below.add(key, amount)

    def get(self, key):
        return self.below.get(key)

    def check(self, keys):
        return self.below.check(keys)

    def set(self, key, value):
        self.left -= 1
        if self.left == 0:
            os.kill(os.getpid(), signal.SIGKILL)
        self.below.set(key, value)


def rank_open_part(members, victim, word):
    torch_groups = dist.distributed_c10d
    if dist.get_rank() == victim:
        stores = torch_groups._world.pg_map if hasattr(torch_groups, "_world") else torch_groups._pg_map
        world = torch_groups._get_default_group()
        stores[world] = (stores[world][0], DeadlyStore(stores[world][1], word))
    return timed(dist.new_group, members)


@pytest.mark.parametrize("transport, victim, word", (("auto", 1, 2), ("auto", 2, 3), ("udp", 1, 4), ("udp", 2, 2)))
def test_a_rank_that_dies_while_a_new_group_opens_is_named_at_once(transport, victim, word):
    """By what knows that first: another group, in which it may have another number, or the opening itself."""
    members = [1, 2]
    with doomed_pool(RANKS, environment=settings(transport)) as own:
        own.run(rank_sum, None)
        own.start(rank_open_part, members, victim, word)
        living = [rank for rank in range(RANKS) if rank != victim]
        outcomes = own.finish(living)
        died = own.ranks[victim][0]
        died.join(60)
        assert died.exitcode == -signal.SIGKILL, "its store has nothing of what it says"
    number = members.index(victim)
    said = (f"rank {number} is gone, as group default knows: rank {victim} (", f"rank {number} (", "rank 0 is gone: ")
    check_all([outcome for rank, outcome in zip(living, outcomes) if rank in members], said, "its process has ended")


def rank_open_first(rank, place, victim, word):
    """`place`: of the store; a file, or a port of rank 0."""
    if isinstance(place, int):
        store = dist.TCPStore("127.0.0.1", place, RANKS, rank == 0, timeout=harness.seconds(LONG))
    else:
        store = dist.FileStore(place, RANKS)
    store = DeadlyStore(store, word) if rank == victim else store
    options = {"store": store, "rank": rank, "world_size": RANKS, "timeout": harness.seconds(LONG)}
    return timed(dist.init_process_group, harness.BACKEND, **options)


@pytest.mark.parametrize("kind, victim, word", (("file", 1, 2), ("file", 0, 3), ("tcp", 0, 4), ("tcp", 2, 3)))
def test_a_rank_that_dies_while_the_first_group_opens_is_named_at_once(tmp_path, kind, victim, word):
    """By the ranks that wait for it, though no group knows of it; also where the store dies with it."""
    place = str(tmp_path / "store") if kind == "file" else harness.free_port(socket.SOCK_STREAM)
    with doomed_pool(RANKS, join_group=False) as own:
        for rank in range(RANKS):
            own.start(rank_open_first, rank, place, victim, word, ranks=[rank])
        outcomes = own.finish([rank for rank in range(RANKS) if rank != victim])
    check_all(outcomes, (f"rank {victim} (", f"rank {victim} is gone"), "is gone: its process has ended", GROUP_IS_OVER)
