"""torchft over this backend, with the real package: `make test-clients`."""

import collections
import contextlib
import importlib.metadata
import itertools
import multiprocessing
import os
import random
import re
import runpy
import sys
import threading
import time
from concurrent.futures import ThreadPoolExecutor
from datetime import timedelta

import pytest
import torch
import torch.distributed as dist

import lab

# Benchmarks have the folder of the package switchml on the path, where a module has that name.
INSTALLED = {each.name.lower() for each in importlib.metadata.distributions() if each.name}
pytestmark = pytest.mark.skipif(
    not INSTALLED & {"torchft", "torchft-nightly", "torchft_nightly"},
    reason="torchft is not installed: make test-clients",
)

PATIENCE = 120
LINE = re.compile(r"step (\d+), (\d) replicas: (\w+)")
Step = collections.namedtuple("Step", "number replicas outcome")


# ---- replicas that are killed ----


def replica_main(output, lighthouse, environment):
    """Runs the example in this process, which has a store of its own as torchrun would give it."""
    os.dup2(output.fileno(), 1)
    sys.stdout = os.fdopen(1, "w")
    store = dist.TCPStore("localhost", 0, is_master=True, wait_for_workers=False)
    os.environ |= environment | {"TORCHFT_LIGHTHOUSE": lighthouse, "RANK": "0", "WORLD_SIZE": "1"}
    os.environ |= {"MASTER_ADDR": "localhost", "MASTER_PORT": str(store.port)}
    sys.argv = ["with_torchft.py", str(10**9)]
    runpy.run_path(str(lab.ROOT / "examples" / "with_torchft.py"), run_name="__main__")


class Replica:
    """A process that trains, and the steps that it has told."""

    def __init__(self, context, lighthouse, environment):
        output, theirs = context.Pipe(duplex=False)
        self.steps = []
        self.changed = threading.Condition()
        self.process = context.Process(target=replica_main, args=(theirs, lighthouse, environment), daemon=True)
        self.process.start()
        theirs.close()
        self.reader = threading.Thread(target=self.read, args=(output,))
        self.reader.start()

    def read(self, output):
        with output, open(output.fileno(), closefd=False) as lines:
            for line in lines:
                told = LINE.fullmatch(line.rstrip("\n"))
                if told:  # a killed process may leave half a line
                    with self.changed:
                        self.steps.append(Step(int(told[1]), int(told[2]), told[3]))
                        self.changed.notify_all()

    def wait_for_pair(self, since):
        """Until it has made three steps with another replica after its step number `since`."""

        def made():
            return sum(step.replicas == 2 and step.outcome != "lost" for step in self.steps[since:]) >= 3

        with self.changed:
            assert self.changed.wait_for(made, PATIENCE), (self.process.exitcode, self.steps[-10:])

    def kill(self):
        self.process.kill()
        self.process.join()
        self.reader.join()


@contextlib.contextmanager
def lighthouse():
    from torchft.coordination import LighthouseServer

    # A dead replica is waited for until its heartbeats are missed.
    server = LighthouseServer(bind="[::]:0", min_replicas=1, join_timeout_ms=60000, heartbeat_timeout_ms=1500)
    yield server.address()
    server.shutdown()


@pytest.mark.parametrize("transport, kills", (("auto", 20), ("udp", 5)))
def test_a_killed_replica_costs_at_most_a_step(transport, kills):
    chance = random.Random(transport)
    context = multiprocessing.get_context("forkserver")
    context.set_forkserver_preload(["torchft", "switchml.torchft"])
    environment = {"SWITCHML_TRANSPORT": transport, "OMP_NUM_THREADS": "1"}
    with lighthouse() as address:
        replicas = [Replica(context, address, environment) for _ in range(2)]
        lives, seen = list(replicas), [0, 0]
        try:
            for _ in range(kills):
                for replica, since in zip(replicas, seen):
                    replica.wait_for_pair(since)
                time.sleep(chance.random() / 20)  # the moment of the kill: a few steps
                victim = chance.randrange(2)
                replicas[victim].kill()
                replicas[victim] = Replica(context, address, environment)
                lives.append(replicas[victim])
                seen = [len(replicas[0].steps), len(replicas[1].steps)]
            for replica, since in zip(replicas, seen):
                replica.wait_for_pair(since)
        finally:
            for replica in replicas:
                replica.kill()
    check(lives, kills)


def check(lives, kills):
    outcomes, lost = collections.defaultdict(set), 0
    for life in lives:
        for step in life.steps:
            if step.outcome != "lost":
                outcomes[step.number].add(step.outcome)
        # Between two kills is a stretch of steps of both replicas: what is lost in a row is what one kill has cost.
        runs = [len(list(run)) for gone, run in itertools.groupby(life.steps, lambda s: s.outcome == "lost") if gone]
        assert max(runs, default=0) <= 1, life.steps
        lost += sum(runs)
    assert all(len(hashes) == 1 for hashes in outcomes.values()), "weights differ"
    assert sorted(outcomes) == list(range(1, max(outcomes) + 1)), "a step that was made is gone"
    assert lost <= kills
    print(f"{kills} kills, {len(outcomes)} steps, {lost} lost")


# ---- the group by itself ----


def configure(group, store, name, rank, size):
    """As a manager of torchft 0.2 does, or one of its nightly builds."""
    address = f"localhost:{store.port}/{name}"
    if hasattr(group, "configure"):
        group.configure(address, "replica", rank, size)
    else:
        from torchft.process_group import reconfigure_with_store

        reconfigure_with_store(group, address, rank, size)


def total(group, mine):
    tensor = torch.full((1000,), float(mine))
    group.allreduce([tensor], dist.ReduceOp.SUM).wait()
    assert tensor.eq(tensor[0]).all()
    return tensor[0].item()


@pytest.fixture
def groups():
    from switchml.torchft import ProcessGroupSwitchML

    made = [ProcessGroupSwitchML(timedelta(seconds=PATIENCE), {"slots": 16}) for _ in range(3)]
    yield made
    for group in made:
        group.shutdown()


@pytest.fixture
def store():
    return dist.TCPStore("localhost", 0, is_master=True, wait_for_workers=False)


def on_all(groups, function):
    """What function(group, rank) returns, each in a thread."""
    with ThreadPoolExecutor(len(groups)) as threads:
        return list(threads.map(function, groups, range(len(groups))))


def test_members_come_and_go(groups, store):
    def quorum(name, ranks):
        """Size and sum of what the groups with these ranks give; each other rank is left behind."""

        def join(group, number):
            configure(group, store, name, ranks[number], len(ranks))
            return group.size(), total(group, number + 1)

        return on_all(groups[: len(ranks)], join)

    assert quorum("all", [0, 1, 2]) == [(3, 6.0)] * 3
    assert quorum("two, in another order", [1, 0]) == [(2, 3.0)] * 2
    assert quorum("one", [0]) == [(1, 1.0)]
    assert quorum("all again", [2, 0, 1]) == [(3, 6.0)] * 3
    assert groups[0].getBackendName() == "torchft-switchml"


def test_an_abort_is_an_error_until_the_next_quorum(groups, store):
    pair = groups[:2]
    on_all(pair, lambda group, rank: configure(group, store, "before", rank, 2))
    work = pair[0].allreduce([torch.ones(5)], dist.ReduceOp.SUM)
    assert pair[0].errored() is None
    pair[0].abort()
    with pytest.raises(dist.DistBackendError, match="aborted"):
        work.wait()
    assert "aborted" in str(pair[0].errored())
    assert on_all(pair, lambda group, rank: (configure(group, store, "next", rank, 2), total(group, 1))[1]) == [2, 2]
    assert pair[0].errored() is None


def test_a_timeout_holds_for_the_group_that_is_there(groups, store):
    pair = groups[:2]
    on_all(pair, lambda group, rank: configure(group, store, "slow", rank, 2))
    pair[0].set_timeout(timedelta(milliseconds=50))
    with pytest.raises(dist.DistBackendError, match="timeout"):
        pair[0].allreduce([torch.ones(5)], dist.ReduceOp.SUM).wait()
    assert pair[0].errored() is None  # the call has told it
