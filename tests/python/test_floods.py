"""Connections that say nothing, from one address, to each program that listens: others are served meanwhile, and all
are when it is over, also where there were no descriptors left."""

import contextlib
import os
import pathlib
import resource
import socket
import struct
import sys
import threading
import time
import urllib.request

import harness
import lab
import pytest

grpc = pytest.importorskip("grpc", reason="needs grpcio: pip install grpcio protobuf")

DESCRIPTORS = 128  # that a server may have
CONNECTIONS = 300  # that the flood holds, or tries to
PATIENCE = lab.PATIENCE
FLOODER = "127.0.0.2"  # connections to 127.0.0.1 come from that address else

TOKEN = "a-token-for-tests"
PYTHON_AGENT = """
import sys, time, types
from switchml_agent import api, service
driver = types.SimpleNamespace(capabilities=lambda: api.messages.Capabilities(kind="none"))
server, port = service.serve(service.DataPlane(driver, None), "127.0.0.1:0", sys.argv[1])
print(f"listening on 127.0.0.1:{port}", flush=True)
time.sleep(3600)
"""


class Flood(threading.Thread):
    """Holds connections, and makes new ones in place of those that are closed, until the `with` ends."""

    def __init__(self, address, connections=CONNECTIONS):
        super().__init__(daemon=True)
        host, port = address.rsplit(":", 1)
        self._to = host, int(port)
        self._connections = connections
        self._ended = threading.Event()
        self.made = 0

    def run(self):
        held = [self._connect() for _ in range(self._connections)]
        while not self._ended.is_set():
            for i, one in enumerate(held):
                if _is_over(one):
                    one.close()
                    held[i] = self._connect()
            time.sleep(0.01)
        for one in held:
            one.close()

    def _connect(self):
        one = socket.socket()
        one.bind((FLOODER, 0))
        one.setblocking(False)
        one.connect_ex(self._to)
        self.made += 1
        return one

    def await_made(self, count):
        until(lambda: self.made >= count, f"{count} connections")

    def __enter__(self):
        self.start()
        return self

    def __exit__(self, *_):
        self._ended.set()
        self.join()


def _is_over(one):
    try:
        return one.recv(1) == b""
    except BlockingIOError:
        return False
    except OSError:
        return True


def until(condition, what):
    end = time.monotonic() + PATIENCE
    while not condition():
        assert time.monotonic() < end, f"no {what} within {PATIENCE} s"
        time.sleep(0.05)


# ---- who is served; True: there was an answer ----


def call(service, method, request, address, token=""):
    """To be run in a process of its own: gRPC stays out of the one that ranks are forked from."""
    from switchml_agent import api

    with grpc.insecure_channel(address, options=[("grpc.use_local_subchannel_pool", 1)]) as channel:
        ask = getattr(api.Stub(service, channel), method)
        try:
            ask(getattr(api.messages, request)(), timeout=5, metadata=api.bearer(token))
        except grpc.RpcError as error:
            assert error.code() in (grpc.StatusCode.UNAVAILABLE, grpc.StatusCode.DEADLINE_EXCEEDED), error
            return False
    return True


def read_metrics(address):
    try:
        with urllib.request.urlopen(f"http://{address}/metrics", timeout=5) as answer:
            return b"switchml_controller_sessions 0" in answer.read()
    except OSError:
        return False


def ask_switch(address):
    """A request of a version that there is not, in a stream's frame."""
    host, port = address.rsplit(":", 1)
    request = bytes.fromhex("f309000000000002")
    try:
        with socket.create_connection((host, int(port)), 5) as one:
            one.sendall(struct.pack(">BBHI", 0x53, 1, 0, len(request)) + request)
            return one.recv(100)[8:] == bytes.fromhex("5409000100000002")
    except OSError:
        return False


# ---- the servers: (process, what it is called in its log, address, question) ----


def limited(*command):
    return "prlimit", f"--nofile={DESCRIPTORS}:1024", *command


def controller(network, *options):
    process = network.start("server", *limited(lab.program("switchml-controller"), "--insecure-no-token",
                            "--listen", "127.0.0.1:0", "--switch", "127.0.0.1:1=127.0.0.1", *options))  # fmt: skip
    return process, network.await_line("server", process, "listening on ")


def a_controller(network):
    return *controller(network), lambda own, at: own.run(call, "Controller", "State", "StateRequest", at)[0]


def metrics(network):
    address = f"127.0.0.1:{harness.free_port(socket.SOCK_STREAM)}"
    return controller(network, "--metrics", address)[0], address, lambda own, at: read_metrics(at)


def ask_agent(own, address):
    return own.run(call, "DataPlane", "Capabilities", "CapabilitiesRequest", address, TOKEN)[0]


def an_agent(network):
    (network.folder / "token").write_text(TOKEN)
    process = network.start("server", *limited(lab.program("switchml-switchd"), "--listen", "127.0.0.1:0",
                            "--agent", "127.0.0.1:0", "--agent-token-file", network.folder / "token"))  # fmt: skip
    return process, network.await_line("server", process, "agent on "), ask_agent


def an_agent_of_a_chip(network):
    process = network.start("server", *limited(sys.executable, "-c", PYTHON_AGENT, TOKEN))
    return process, network.await_line("server", process, "listening on "), ask_agent


def a_switch(network):
    process = network.start("server", *limited(lab.program("switchml-switchd"), "--listen", "127.0.0.1:0"))
    return process, network.await_line("server", process, "listening on "), lambda own, at: ask_switch(at)


@contextlib.contextmanager
def without_descriptors(process):
    """It gets two more at most."""
    before = resource.prlimit(process.pid, resource.RLIMIT_NOFILE)
    in_use = max(int(name) for name in os.listdir(f"/proc/{process.pid}/fd"))
    resource.prlimit(process.pid, resource.RLIMIT_NOFILE, (in_use + 3, before[1]))
    yield
    resource.prlimit(process.pid, resource.RLIMIT_NOFILE, before)


@pytest.mark.parametrize("server", (a_controller, metrics, an_agent, an_agent_of_a_chip, a_switch))
def test_others_are_served_while_it_lasts_and_all_are_afterwards(tmp_path, server):
    with lab.Lab(tmp_path) as network, harness.fresh_pool(1, join_group=False, with_gloo=False) as own:
        process, address, is_answered = server(network)
        until(lambda: is_answered(own, address), "answer before")
        with Flood(address) as flood:
            for made in (CONNECTIONS, 2 * CONNECTIONS):
                flood.await_made(made)
                until(lambda: is_answered(own, address), "answer while it lasts")
        if server is an_agent_of_a_chip and grpc.__version__.startswith("1.51."):
            return  # Debian 12's gRPC for Python accepts nothing more once its process has had no descriptor.
        with without_descriptors(process), Flood(address) as flood:
            flood.await_made(CONNECTIONS + 5)
        until(lambda: is_answered(own, address), "answer after it")
        if server is not a_switch:  # a switch does not say it
            assert network.log("server").count("make room") == 1, network.log("server")


# ---- ranks ----


def rank_listeners():
    """Addresses at which this process listens."""
    own = set()
    for name in os.listdir("/proc/self/fd"):
        with contextlib.suppress(OSError):
            own.add(os.readlink(f"/proc/self/fd/{name}"))
    rows = [line.split() for line in pathlib.Path("/proc/self/net/tcp").read_text().splitlines()[1:]]
    ports = [int(row[1].rpartition(":")[2], 16) for row in rows if row[3] == "0A" and f"socket:[{row[9]}]" in own]
    return [f"127.0.0.1:{port}" for port in ports]


def rank_sums():
    import torch
    import torch.distributed as dist

    group = dist.new_group()
    for one in (dist.group.WORLD, group):
        tensor = torch.ones(1000)
        dist.all_reduce(tensor, group=one)
        assert tensor[0].item() == dist.get_world_size()
    dist.destroy_process_group(group)


def test_ranks_go_on():
    """A switch in rank 0 takes TCP, and rank 0 watches over the others."""
    environment = {"SWITCHML_TRANSPORT": "tcp"}
    with harness.fresh_pool(2, environment=environment, with_gloo=False) as own, contextlib.ExitStack() as floods:
        own.run(rank_sums)
        listeners = own.run(rank_listeners)[0]
        assert listeners
        for address in listeners:
            floods.enter_context(Flood(address, 100)).await_made(100)
        for _ in range(3):
            own.run(rank_sums)
