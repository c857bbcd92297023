"""Ranks for tests: pools of persistent processes that run functions in step, bounded in time.

A `Pool` forks its ranks from the pytest process, which has imported torch already but never starts one of its threads
or groups; that makes a fresh pool a matter of a tenth of a second instead of seconds. Each rank has the group under
test as its default group and, as `gloo()`, a Gloo group to compare with. Test modules pass module-level functions; what
they return comes back as a list indexed by rank.

A rank that raises, dies or overruns ends the pool: the others are killed by pid, and the error carries the traceback
and the end of the rank's stderr. `pool(size)` then makes a new one.
"""

import contextlib
import datetime
import faulthandler
import importlib
import multiprocessing
import multiprocessing.connection
import os
import pickle
import random
import signal
import socket
import subprocess
import sys
import tempfile
import time
import traceback

import torch
import torch.distributed as dist

#: The backend under test. "gloo" lets the tests themselves be tried without it.
BACKEND = os.environ.get("SWITCHML_TEST_BACKEND", "switchml")
TORCH = tuple(int(part) for part in torch.__version__.split("+")[0].split("a")[0].split(".")[:2])

GROUP_TIMEOUT = 30.0  # seconds a collective may take before the group gives up
CALL_TIMEOUT = 180.0  # seconds a function shipped to a pool may take

_context = multiprocessing.get_context("fork")
_rank_state = {}


def load_backend():
    """Registers the backend under test; torch before 2.5 does not load it by itself."""
    if BACKEND != "gloo":
        importlib.import_module(BACKEND)


# ---- inside a rank ----


def gloo():
    """The Gloo group over all ranks of the pool."""
    return _rank_state["gloo"]


def this_rank():
    """Its number in the pool, also where it has joined no group."""
    return _rank_state["place"][1]


def advance(steps=1):
    """Tells the test, which `Pool.await_progress` keeps waiting, that this rank has come so many steps further."""
    pool, rank = _rank_state["place"]
    pool.progress[rank] += steps


def seconds(value):
    return datetime.timedelta(seconds=value)


def caught(function, *args, **kwargs):
    """The text of the exception that a call ends in, or None."""
    try:
        result = function(*args, **kwargs)
        if isinstance(result, dist.Work if hasattr(dist, "Work") else ()):
            result.wait()
    except Exception as error:
        return f"{type(error).__name__}: {error}"
    return None


class RankMain:
    """What a forked rank does until it is told to stop."""

    def __init__(self, pool, rank, connection):
        self.pool, self.rank, self.connection = pool, rank, connection

    def run(self):
        self.redirect_output()
        os.environ.update(self.pool.environment)
        torch.set_num_threads(1)
        _rank_state["place"] = self.pool, self.rank
        self.serve_one(self.join)
        while True:
            request = self.connection.recv_bytes()
            function, args, kwargs = pickle.loads(request)
            if function is None:
                break
            self.serve_one(lambda: function(*args, **kwargs))
        self.serve_one(self.leave)

    def redirect_output(self):
        log = os.open(self.pool.log_path(self.rank), os.O_WRONLY | os.O_CREAT | os.O_TRUNC, 0o600)
        for stream in (1, 2):
            os.dup2(log, stream)
        sys.stdout = os.fdopen(os.dup(1), "w", buffering=1)
        sys.stderr = os.fdopen(os.dup(2), "w", buffering=1)
        faulthandler.enable(sys.stderr)
        faulthandler.register(signal.SIGUSR1, sys.stderr)

    def join(self):
        if not self.pool.join_group:
            return
        dist.init_process_group(
            self.pool.backend,
            init_method=f"file://{self.pool.folder}/store",
            rank=self.rank,
            world_size=self.pool.size,
            timeout=seconds(self.pool.group_timeout),
        )
        if self.pool.with_gloo:
            _rank_state["gloo"] = dist.new_group(backend="gloo")

    def leave(self):
        _rank_state.clear()
        if dist.is_initialized():
            dist.destroy_process_group()

    def serve_one(self, function):
        try:
            answer = (True, function())
        except BaseException:
            answer = (False, traceback.format_exc())
        try:
            payload = pickle.dumps(answer)
        except Exception:
            payload = pickle.dumps((False, traceback.format_exc()))
        self.connection.send_bytes(payload)


# ---- in the pytest process ----


class PoolError(AssertionError):
    """At least one rank failed; the text says which and how."""


class Pool:
    """`size` ranks. environment: what each rank sets first; join_group=False leaves the group to the function."""

    def __init__(
        self, size, environment=None, group_timeout=GROUP_TIMEOUT, with_gloo=True, join_group=True, backend=None
    ):
        self.size = size
        self.backend = backend or BACKEND
        self.environment = {"GLOO_SOCKET_IFNAME": "lo", "SWITCHML_INTERFACE": "lo", **(environment or {})}
        self.group_timeout = group_timeout
        self.with_gloo = with_gloo
        self.join_group = join_group
        self.alive = True
        self._folder = tempfile.TemporaryDirectory(prefix="switchml-test-")
        self.folder = self._folder.name
        self.ranks = []
        self.progress, self._begun = (
            _context.RawArray("Q", size),
            [0] * size,
        )  # steps of each rank, and how many before its last call
        load_backend()
        for rank in range(size):
            ours, theirs = _context.Pipe()
            process = _context.Process(target=self._rank_main, args=(rank, theirs), daemon=True)
            process.start()
            theirs.close()
            self.ranks.append((process, ours))
        self._collect(range(size), CALL_TIMEOUT)

    def _rank_main(self, rank, connection):
        for _, other in self.ranks:
            other.close()
        RankMain(self, rank, connection).run()

    def log_path(self, rank):
        return os.path.join(self.folder, f"rank{rank}.log")

    def pid(self, rank):
        return self.ranks[rank][0].pid

    def start(self, function, *args, ranks=None, **kwargs):
        """Ships a call to the ranks (all, or some) and returns at once; `finish` collects."""
        for rank in self._which(ranks):
            self._begun[rank] = self.progress[rank]
            self.ranks[rank][1].send_bytes(pickle.dumps((function, args, kwargs)))

    def finish(self, ranks=None, timeout=CALL_TIMEOUT):
        __tracebackhide__ = True
        return self._collect(self._which(ranks), timeout)

    def steps(self):
        """How often each rank has called `advance` in the call that was shipped to it last."""
        return [made - before for made, before in zip(self.progress, self._begun)]

    def await_progress(self, steps=1, ranks=None):
        """Waits until each of the ranks has made so many `steps`, or has ended its call."""
        deadline, waiting = time.monotonic() + CALL_TIMEOUT, set(self._which(ranks))
        while waiting:
            assert time.monotonic() < deadline, f"ranks {waiting} make no progress: {self.steps()}"
            time.sleep(0.002)
            waiting -= {rank for rank in waiting if self.steps()[rank] >= steps or self.ranks[rank][1].poll()}

    def run(self, function, *args, ranks=None, timeout=CALL_TIMEOUT, **kwargs):
        __tracebackhide__ = True
        self.start(function, *args, ranks=ranks, **kwargs)
        return self.finish(ranks, timeout)

    def kill(self, rank, number=signal.SIGKILL):
        os.kill(self.pid(rank), number)

    def close(self):
        """Destroys the groups and ends the ranks; an error or a hang on the way is an error of the test."""
        if not self.alive:
            return
        self.start(None)
        self._collect(range(self.size), CALL_TIMEOUT)
        self.alive = False
        for process, connection in self.ranks:
            process.join(60)
            connection.close()
        hung = [rank for rank, (process, _) in enumerate(self.ranks) if process.exitcode is None]
        if hung:
            self._fail([f"rank {rank} did not exit after destroy_process_group" for rank in hung])
        self._folder.cleanup()

    def abandon(self):
        """Kills what is left, for pools whose test killed or stopped ranks."""
        self.alive = False
        for process, connection in self.ranks:
            if process.exitcode is None:
                process.kill()
            process.join(10)
            connection.close()
        self._folder.cleanup()

    def _which(self, ranks):
        return list(range(self.size)) if ranks is None else list(ranks)

    def _collect(self, ranks, timeout):
        __tracebackhide__ = True
        deadline = time.monotonic() + timeout
        results, problems = {}, []
        waiting = {self.ranks[rank][1]: rank for rank in ranks}
        while waiting and not (problems and time.monotonic() > deadline):
            ready = multiprocessing.connection.wait(list(waiting), max(0.0, deadline - time.monotonic()))
            if not ready:
                break
            for connection in ready:
                rank = waiting.pop(connection)
                good, value = self._receive(rank, connection)
                if good:
                    results[rank] = value
                else:
                    problems.append(value)
                    deadline = min(deadline, time.monotonic() + 20)  # the others are probably stuck
        problems += [self._hung(rank) for rank in waiting.values()]
        if problems:
            self._fail(problems)
        return [results[rank] for rank in ranks]

    def _receive(self, rank, connection):
        try:
            good, value = pickle.loads(connection.recv_bytes())
        except (EOFError, OSError):
            process = self.ranks[rank][0]
            process.join(5)
            return False, f"rank {rank} died with exit code {process.exitcode}; its stderr ends:\n{self.log(rank)}"
        return good, value if good else f"rank {rank} raised:\n{value}\nits stderr ends:\n{self.log(rank)}"

    def _hung(self, rank):
        with contextlib.suppress(ProcessLookupError):
            self.kill(rank, signal.SIGUSR1)  # faulthandler writes where it is
        time.sleep(0.3)
        return f"rank {rank} gave no answer in time; its stderr ends:\n{self.log(rank)}"

    def log(self, rank, lines=25):
        try:
            with open(self.log_path(rank), errors="replace") as stream:
                # A rank is forked from pytest: those frames are at the bottom of each of its stacks.
                noise = ("/_pytest/", "/pluggy/", "/pytest/", "runpy", "Extension modules", "/multiprocessing/")
                return "".join([line for line in stream if not any(text in line for text in noise)][-lines:])
        except OSError:
            return ""

    def _fail(self, problems):
        __tracebackhide__ = True  # for pytest: what the ranks say is what matters
        self.abandon()
        raise PoolError("\n----\n".join(problems))


_pools = {}


def pool(size, precision="auto", transport=None):
    """The shared pool of that size whose ranks have that SWITCHML_PRECISION, made on first use and again after a
    failure. transport: SWITCHML_TRANSPORT, if not that of the tests."""
    key = size, precision, transport
    if key not in _pools or not _pools[key].alive:
        named = {"SWITCHML_TRANSPORT": transport} if transport else {}
        _pools[key] = Pool(size, environment={"SWITCHML_PRECISION": precision, **named})
    return _pools[key]


def close_pools():
    for shared in list(_pools.values()):
        shared.close()
    _pools.clear()


@contextlib.contextmanager
def fresh_pool(size, **kwargs):
    """A pool of its own for a test that changes the environment or harms its ranks."""
    own = Pool(size, **kwargs)
    try:
        yield own
    finally:
        own.abandon()


#: Below those that the kernel gives by itself, to whatever runs beside a test between the choice and the use.
PORTS = range(10_000, 29_000)


def free_port(kind=socket.SOCK_DGRAM):
    """A port of 127.0.0.1 on which nothing listens; of datagrams, which a switch serves, one that is free for
    connections too."""
    for port in random.SystemRandom().sample(PORTS, 100):
        with socket.socket(socket.AF_INET, kind) as probe, socket.socket(socket.AF_INET, socket.SOCK_STREAM) as other:
            with contextlib.suppress(OSError):
                probe.bind(("127.0.0.1", port))
                if kind == socket.SOCK_DGRAM:
                    other.bind(("127.0.0.1", port))
                return port
    raise OSError("no port of 127.0.0.1 is free")


def make_certificate(folder, name="", *more):
    """A key and a certificate for this host that vouches for itself, as NAMEkey.pem and NAMEcert.pem; (key,
    certificate). `more`: options of openssl in place of -nodes."""
    files = folder / f"{name}key.pem", folder / f"{name}cert.pem"
    command = [
        "openssl",
        "req",
        "-x509",
        "-newkey",
        "rsa:2048",
        *(more or ["-nodes"]),
        "-days",
        "2",
        "-subj",
        "/CN=localhost",
        "-addext",
        "subjectAltName=DNS:localhost,IP:127.0.0.1",
        "-keyout",
        files[0],
        "-out",
        files[1],
    ]
    subprocess.run(command, check=True, capture_output=True)
    return files[0].read_bytes(), files[1].read_bytes()
