"""Network namespaces, links between them and processes in them, for tests; `close` ends all of it. `missing` says where
that cannot be."""

import contextlib
import ctypes
import functools
import os
import pathlib
import shutil
import subprocess
import sys
import time

import forked

ROOT = pathlib.Path(__file__).resolve().parents[1]
PATIENCE = 120.0  # seconds for anything that must come
_CLONE_NEWNET = 0x40000000


class LabError(AssertionError):
    """A command failed, or a process did not do what it should; the text has its output."""


def missing(*tools):
    """Why a lab cannot be had here; empty if it can."""
    lacking = [tool for tool in ("ip", "sysctl", *tools) if shutil.which(tool) is None]
    return f"not on PATH: {', '.join(lacking)}" if lacking else refusal()


@functools.cache
def refusal():
    """What this machine says when a network is made, by trial, once in a process; empty if it makes it. To be root is
    not enough (a container takes capabilities away and write-protects /proc/sys), and may not be needed."""
    try:
        with Lab(None) as trial:
            here, there = trial.namespace("trial-a"), trial.namespace("trial-b")
            trial.link(here, "data", there, "data")
            trial.address(here, "data", "10.79.0.1/24")
    except LabError as error:
        return f"no network namespaces, which take CAP_SYS_ADMIN and CAP_NET_ADMIN: {error}"
    return ""


def build_folder():
    """SWITCHML_TEST_BUILD, or what belongs to this Python: build-debian to .venv-debian, and so on."""
    named, environment = os.environ.get("SWITCHML_TEST_BUILD"), pathlib.Path(sys.prefix).name
    return (
        pathlib.Path(named)
        if named
        else ROOT / f"build{environment.removeprefix('.venv') if '.venv-' in environment else ''}"
    )


def program(name):
    """A binary of the build folder, or of PATH; None if there is none."""
    folders = [f"{build_folder()}/backend/{folder}" for folder in ("controllerd", "switchd")]
    return shutil.which(name, path=os.pathsep.join([*folders, os.environ["PATH"]]))


def run(*command):
    done = subprocess.run(list(map(str, command)), capture_output=True, text=True)
    if done.returncode != 0:
        raise LabError(f"{' '.join(map(str, command))}: {done.stderr.strip() or done.stdout.strip()}")
    return done.stdout


@contextlib.contextmanager
def inside(namespace):
    """This thread makes sockets in the namespace."""
    libc = ctypes.CDLL(None, use_errno=True)

    def enter(path):
        with open(path) as handle:
            if libc.setns(handle.fileno(), _CLONE_NEWNET) != 0:
                raise LabError(f"setns {path}: {os.strerror(ctypes.get_errno())}")

    with open("/proc/thread-self/ns/net") as kept:
        enter(f"/run/netns/{namespace}")
        try:
            yield
        finally:
            enter(f"/proc/self/fd/{kept.fileno()}")


class Lab:
    """`folder` gets the logs. Namespaces have names of this process' own; `home` is None: the one that the test runs
    in."""

    def __init__(self, folder):
        self.folder = folder
        self.processes, self.namespaces = [], []

    def __enter__(self):
        return self

    def __exit__(self, *_):
        self.close()

    def namespace(self, name):
        """Makes one; returns its whole name."""
        whole = f"swml-{os.getpid()}-{name}"
        self.namespaces.append(whole)  # first, so that `close` ends it whatever interrupts this
        run("ip", "netns", "add", whole)
        self.do(whole, "ip", "link", "set", "lo", "up")
        self.do(whole, "sysctl", "-q", "-w", "net.ipv6.conf.all.disable_ipv6=1", "net.ipv6.conf.default.disable_ipv6=1")
        return whole

    def do(self, namespace, *command):
        return run("ip", "netns", "exec", namespace, *command)

    def link(self, here, name, there, peer, mtu=1500):
        """A veth pair, both ends up."""
        self.do(here, "ip", "link", "add", name, "type", "veth", "peer", "name", peer, "netns", there)
        for namespace, end in ((here, name), (there, peer)):
            self.do(namespace, "ip", "link", "set", end, "mtu", mtu, "up")

    def address(self, namespace, device, address):
        self.do(namespace, "ip", "address", "add", address, "dev", device)

    def make_bridge(self, name):
        """A namespace with a bridge in it, for `make_host`."""
        bridge = self.namespace(name)
        self.do(bridge, "ip", "link", "add", "bridge", "type", "bridge")
        self.do(bridge, "ip", "link", "set", "bridge", "up")
        return bridge

    def make_host(self, bridge, port, device, address, mtu=1500):
        """A namespace whose `device` is on that bridge; `port` names the namespace, and the other end."""
        host = self.namespace(port)
        self.link(bridge, port, host, device, mtu)
        self.do(bridge, "ip", "link", "set", port, "master", "bridge")
        self.address(host, device, f"{address}/24")
        return host

    def start(self, name, *command, namespace=None, stdin=subprocess.DEVNULL, **environment):
        """A process whose output goes to NAME.log."""
        prefix = ["ip", "netns", "exec", namespace] if namespace else []
        with open(self.folder / f"{name}.log", "wb") as log:
            process = subprocess.Popen(
                [*prefix, *map(str, command)],
                stdout=log, stderr=subprocess.STDOUT, stdin=stdin, env={**os.environ, **environment},
            )  # fmt: skip
        self.processes.append(process)
        return process

    def fork(self, name, script, *arguments, **more):
        """As `start` of a Python script that imports PyTorch and switchml, which are imported already."""
        with open(self.folder / f"{name}.log", "wb") as log:
            self.processes.append(forked.start(script, *arguments, log=log, **more))
        return self.processes[-1]

    def log(self, name):
        return (self.folder / f"{name}.log").read_text(errors="replace")

    def await_line(self, name, process, text, after=0):
        """Waits until the process has said a line with `text`, behind so many characters of its log; returns what
        follows it on that line."""
        end = time.monotonic() + PATIENCE
        while "\n" not in (rest := self.log(name)[after:].partition(text)[2]):
            if process.poll() is not None or time.monotonic() > end:
                raise LabError(f"{name} did not say {text!r}:\n{self.log(name)[-3000:]}")
            time.sleep(0.05)
        return rest.splitlines()[0].strip()

    @staticmethod
    def kill(process):
        """As a crash would; returns when it is gone."""
        process.kill()
        process.wait(PATIENCE)

    def finish(self, processes, seconds):
        """Waits for processes by name and requires status 0 of each."""
        end = time.monotonic() + seconds
        for name, process in processes.items():
            try:
                process.wait(max(0.1, end - time.monotonic()))
            except subprocess.TimeoutExpired:
                process.kill()
                process.wait(PATIENCE)
            if process.returncode != 0:
                logs = "".join(
                    f"\n---- {log.name}:\n{log.read_text(errors='replace')[-2500:]}"
                    for log in self.folder.glob("*.log")
                )
                raise LabError(f"{name} ended with status {process.returncode}{logs}")

    def close(self):
        for process in reversed(self.processes):
            if process.poll() is None:
                process.terminate()
        for process in self.processes:
            try:
                process.wait(10)
            except subprocess.TimeoutExpired:
                process.kill()
                process.wait(PATIENCE)
        for name in self.namespaces:
            if pathlib.Path(f"/run/netns/{name}").exists():
                run("ip", "netns", "del", name)
        self.namespaces, self.processes = [], []
