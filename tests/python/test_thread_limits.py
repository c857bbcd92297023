"""A rank for which the system makes no more threads: an error in our words on all ranks, never the end of the
process."""

import ctypes
import os
import resource

import pytest
import torch.distributed as dist

import harness
from failing import check_all, doomed_pool, timed
from test_opening import rank_sum

pytestmark = [
    pytest.mark.skipif(harness.BACKEND == "gloo", reason="the words are ours"),
    pytest.mark.skipif(
        harness.TORCH < (2, 3), reason="Gloo is made at once, and Gloo has its own words for a thread too many"
    ),
    pytest.mark.skipif(os.geteuid() != 0, reason="needs a user of its own, whose threads are counted: run as root"),
]

RANKS = 3
USER = 100_000 + os.getpid() % 1_000_000  # of nobody else, so that all its threads are the rank's
MOST = 16  # more threads than a group takes
REFUSED = "the system gives no thread for "
#: Old Gloo makes its threads with the group, and ends the process where one of several is refused.
GLOO_AT_ONCE = "lazy_init" not in (dist.ProcessGroupGloo.create_device.__doc__ or "")


class Capabilities(ctypes.Structure):
    """What capget and capset take: a header of two words, and the sets, of two words each, of this process."""

    _fields_ = [("version", ctypes.c_uint32), ("pid", ctypes.c_int), ("words", ctypes.c_uint32 * 6)]

    def call(self, name):
        libc = ctypes.CDLL(None, use_errno=True)
        if getattr(libc, name)(ctypes.byref(self), ctypes.byref(self, Capabilities.words.offset)) != 0:
            raise OSError(ctypes.get_errno(), name)


def limit_threads(more):
    """From now on this process gets so many threads more. It stays root, for files and for the others' memory, but is
    no more exempt, and the kernel counts its threads for a user that nobody else is."""
    os.setresuid(USER, 0, 0)
    mine = Capabilities(version=0x20080522, pid=0)
    mine.call("capget")
    for word in (0, 1):  # effective, permitted
        mine.words[word] &= ~(1 << 21 | 1 << 24)  # CAP_SYS_ADMIN, CAP_SYS_RESOURCE
    mine.call("capset")
    now = len(os.listdir("/proc/self/task"))
    resource.setrlimit(resource.RLIMIT_NPROC, (now + more, now + more))


def rank_new_group(victim, more):
    if dist.get_rank() == victim:
        limit_threads(more)
    group = None

    def open_group():
        nonlocal group
        group = dist.new_group()

    message, took = timed(open_group)
    return message, took, group and rank_sum(group)


@pytest.mark.parametrize("victim", (0, 1))
@pytest.mark.parametrize("transport", ("udp", "auto"))
def test_a_thread_that_cannot_be_made_when_a_group_opens_is_an_error_of_all(transport, victim):
    """The rank gets one more each time, until it has enough."""
    refused, outcomes = set(), []
    for more in range(MOST):
        with doomed_pool(RANKS, environment={"SWITCHML_TRANSPORT": transport}) as own:
            outcomes = own.run(rank_new_group, victim, more)
        if all(message is None for message, *_ in outcomes):
            break
        check_all([(message, took) for message, took, _ in outcomes], REFUSED, "allowed by ulimit -u")
        for rank, (message, *_) in enumerate(outcomes):  # what rank 0 finds out for all is said without its name
            assert victim == 0 or (f"rank {victim}: {REFUSED}" in message) == (rank != victim), outcomes
        refused.add(outcomes[victim][0].split(REFUSED)[1].split(";")[0])
        if GLOO_AT_ONCE and "the watch over the ranks" in refused:  # our last one
            break
    assert GLOO_AT_ONCE or [total for *_, total in outcomes] == [RANKS] * RANKS, outcomes
    assert refused >= {"the completion of calls", "the watch over the ranks"}, refused
    assert "an engine" in refused or transport == "auto", (
        refused
    )  # which takes the place of the one that hands memory out
