"""What tests of failures share: groups with a short timeout, and checks of what each rank raised and when."""

import contextlib
import os
import select
import shutil
import signal
import subprocess
import sys
import threading
import time

import torch
import torch.distributed as dist

import harness
from harness import fresh_pool
from oracle import check_reduction, values

LONG = 600.0  # seconds that groups of these tests allow, which nothing may wait for
IN_TIME = LONG / 10  # by when an exception must have come, on a busy machine
TIMEOUT = 6.0  # seconds that groups allow whose timeout is to pass: enough to be made in on a busy machine
PATIENCE = 120.0  # seconds that a rank goes on while it waits to see what the test does
#: The class of the error, whose base is dist.DistError.
GROUP_IS_OVER = "DistBackendError: " if harness.TORCH >= (2, 0) else "Error: "
STOP = 1.0  # seconds that a process is stopped which goes on
FALLBACK = {"SWITCHML_ON_SWITCH_FAILURE": "fallback"}
#: For the bits of a switch, where other tests let ranks share memory.
EMBEDDED = {"SWITCHML_TRANSPORT": "udp"}


def timed(function, *args, **kwargs):
    """(text of the exception or None, seconds it took)"""
    started = time.monotonic()
    return harness.caught(function, *args, **kwargs), time.monotonic() - started


def check_all(outcomes, *texts):
    """Every rank raised in time, and every message holds every text (an alternative of texts, where a tuple)."""
    for rank, (message, took) in enumerate(outcomes):
        assert message, f"rank {rank} saw no error; all: {outcomes}"
        assert took < IN_TIME, f"rank {rank} took {took:.1f} s to say: {message}"
        for text in texts:
            choices = text if isinstance(text, tuple) else (text,)
            said = any(choice.lower() in message.lower() for choice in choices)
            assert said, f"rank {rank} says nothing of {text!r}: {message}"


def check_death(own, victim):
    """Kills a rank in the middle of `rank_calls`: the others name it long before their group's timeout."""
    own.await_progress(2)
    own.kill(victim)
    outcomes = own.finish([rank for rank in range(own.size) if rank != victim])
    check_all(outcomes, f"rank {victim}", "is gone: its process has ended", GROUP_IS_OVER)


def name_the_rank_stopped_for_good(own, victim):
    """Its connections live and its host acknowledges: only its silence tells."""
    own.start(rank_calls)
    own.await_progress()
    own.kill(victim, signal.SIGSTOP)
    check_all(own.finish([rank for rank in range(3) if rank != victim]), f"rank {victim}")


def rank_statistics(group=None):
    import switchml

    return switchml.stats(group)


@contextlib.contextmanager
def doomed_pool(size, **kwargs):
    with fresh_pool(size, with_gloo=False, **{"group_timeout": LONG, **kwargs}) as own:
        yield own


def pass_on(tensor):
    """To the next rank, from the one before."""
    rank, size = dist.get_rank(), dist.get_world_size()
    sent = dist.isend(tensor, (rank + 1) % size)
    dist.recv(torch.empty_like(tensor), (rank - 1) % size)
    sent.wait()


def copies(tensor):
    return [tensor.clone() for _ in range(dist.get_world_size())]


#: What a rank may be in the midst of, by name: functions of a tensor.
CALLS = {
    "all_reduce": dist.all_reduce,
    "broadcast": lambda tensor: dist.broadcast(tensor, 1),
    "all_gather": lambda tensor: dist.all_gather(copies(tensor), tensor),
    "scatter": lambda tensor: dist.scatter(tensor, copies(tensor) if dist.get_rank() == 1 else None, 1),
    "all_to_all": lambda tensor: dist.all_to_all(copies(tensor), copies(tensor)),
    "barrier": lambda tensor: dist.barrier(),
    "messages": pass_on,
}


def rank_calls(name="all_reduce", elements=50000):
    """Calls until one fails: its error, and how long it took."""
    call = CALLS[name]
    deadline = time.monotonic() + PATIENCE
    while time.monotonic() < deadline:
        message, took = timed(call, torch.ones(elements))
        if message:
            return message, took
        harness.advance()
    return None, PATIENCE


def rank_one_call(name="all_reduce"):
    return timed(CALLS[name], torch.ones(100))


def rank_leave():
    dist.destroy_process_group()


def rank_warm_up():
    total = torch.ones(1000)
    dist.all_reduce(total)
    assert total.eq(dist.get_world_size()).all()


def rank_sums_until(without, seed):
    """Sums until every rank is without the switch, or has one; how many there were."""
    import switchml

    for step in range(100000):
        inputs = [
            values((50000 + step % 7,), torch.float32, rank, seed + step) for rank in range(dist.get_world_size())
        ]
        mine = inputs[dist.get_rank()].clone()
        dist.all_reduce(mine)
        check_reduction(mine, inputs, "SUM")
        seen = torch.tensor([int(switchml.stats()["without_switch"] == without)])
        dist.all_reduce(seen)
        if int(seen) == dist.get_world_size():
            return step
    raise AssertionError(f"without_switch never became {without} on all ranks")


def rank_sums_through_a_stop(least, patience=PATIENCE):
    """Sums until a call of some rank took at least so many seconds, which nothing but the test's own stop makes it do,
    and a few more; whether this rank ended without the switch."""
    import switchml

    longest, after, end = 0.0, 0, time.monotonic() + patience
    inputs = [values((200000,), torch.float32, rank, 7) for rank in range(dist.get_world_size())]
    while after < 5:
        mine, said = inputs[dist.get_rank()].clone(), torch.tensor([int(longest >= least), int(time.monotonic() > end)])
        started = time.monotonic()
        dist.all_reduce(mine)
        dist.all_reduce(said, op=dist.ReduceOp.MAX)
        longest = max(longest, time.monotonic() - started)
        harness.advance()
        check_reduction(mine, inputs, "SUM")
        after += int(said[0])
        assert said[0] or not said[1], f"no call took {least} s (the longest {longest:.2f}): the test tests nothing"
    return switchml.stats()["without_switch"]


def aborted_during(function, *args, **kwargs):
    """What `function` raises when another thread aborts the group half a second later, and after how long; None where
    this PyTorch cannot abort a group from Python."""
    group = dist.distributed_c10d._get_default_group()
    backend = group._get_backend(torch.device("cpu")) if hasattr(group, "_get_backend") else group
    if not hasattr(backend, "abort"):
        return None
    timer = threading.Timer(0.5, backend.abort)
    timer.start()
    outcome = timed(function, *args, **kwargs)
    timer.join()
    return outcome


# ---- a switch of its own process ----


def switchd_path():
    """switchml-switchd: on PATH, beside this Python, in the package, or in a build folder named by SWITCHML_BUILD."""
    places = [os.environ.get("PATH", ""), os.path.dirname(sys.executable)]
    if os.environ.get("SWITCHML_BUILD"):
        places += [os.environ["SWITCHML_BUILD"], os.path.join(os.environ["SWITCHML_BUILD"], "bin")]
    harness.load_backend()
    package = os.path.dirname(sys.modules["switchml"].__file__)
    places += [package, os.path.join(package, "bin")]
    return shutil.which("switchml-switchd", path=os.pathsep.join(places))


@contextlib.contextmanager
def standalone_switch(port, *options):
    path = switchd_path()
    assert path, "switchml-switchd is neither on PATH nor in the package"
    command = [path, "--listen", f"127.0.0.1:{port}", *options]
    process = subprocess.Popen(command, stdout=subprocess.PIPE, stderr=subprocess.STDOUT, bufsize=0)
    try:
        said = b"nothing"
        while b"listening on" not in said:  # a warning may come first
            ready, _, _ = select.select([process.stdout], [], [], IN_TIME)
            last, said = said, process.stdout.readline() if ready else b""
            assert said, f"switchml-switchd does not listen; it said {last}"
        yield process
    finally:
        if process.poll() is None:
            process.terminate()
        assert process.wait(IN_TIME) in (0, -signal.SIGKILL), "SIGTERM must end the switch cleanly"
        process.stdout.close()


def with_switch(address):
    return {"SWITCHML_SWITCH": address, "SWITCHML_CONNECT_TIMEOUT": str(IN_TIME)}


# ---- groups that do not open ----


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


def open_on_each(folder, size, environments, timeout=LONG):
    """What each of len(environments) ranks of a group of `size` meets."""
    with doomed_pool(len(environments), join_group=False) as own:
        for rank, environment in enumerate(environments):
            own.start(rank_open, rank, str(folder), size, environment, timeout, ranks=[rank])
        return own.finish()
