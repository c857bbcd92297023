"""The driver for BFRuntime through the SDE's own Python client and gRPC, to a server without chip."""

import dataclasses
import os
import pathlib
import select
import signal
import socket
import subprocess
import sys
import time

import grpc
import pytest


try:
    import bfrt_grpc.client  # noqa: F401
    import bfrt_server
except ImportError as error:
    pytest.skip(
        f"{error}: the Python client of the P4 SDE (open-p4studio) must be on PYTHONPATH (docs/switch.md)",
        allow_module_level=True,
    )

import bfrt_switch
from switchml_agent import api, bfrt, bfrt_program, bfrt_runtime
from test_bfrt import SETTINGS, install, member, refused

m = api.messages
TIMEOUT = 60


class Bench:
    """A server, its switch, and a driver that is to reach it."""

    def __init__(self, port=0, own=None):
        """`own`: the program's tables in the words of the compiler."""
        self.switch = bfrt_switch.Switch()
        described = bfrt_server.describe(self.switch.tables.values())
        fixed = [each for each in described if not each["name"].startswith("pipe.")]
        own = own or [each for each in described if each["name"].startswith("pipe.")]
        self.service = bfrt_server.Service(self.switch, "switchml", own, fixed)
        self.server, self.port = bfrt_server.serve(self.service, port)
        self.driver = self.another()

    def another(self, **changes):
        return bfrt.Bfrt(dataclasses.replace(SETTINGS, **{"address": f"127.0.0.1:{self.port}", **changes}))

    def stop(self):
        self.service.over.set()
        self.server.stop(0).wait()


@pytest.fixture
def bench():
    made = Bench()
    yield made
    made.driver.close()
    made.stop()


def test_a_session_from_beginning_to_end(bench):
    """The same content as without the client between."""
    bench.driver.connect()
    assert bench.service.bound == ["switchml"]
    before = bench.switch.content()
    install(bench.driver)
    install(bench.driver, job=4, epoch=9, shards=1, slots=77, pages=[1], members=[0])
    for worker in (2, 5):
        member(bench.driver, worker)
        member(bench.driver, worker, shard=1, udp_port=4712, port=8)
    assert bench.switch.copies(49) == [(3, 8), (6, 8)]
    assert len(bench.switch.entries[bfrt_program.PAGES]) == 2 + 4
    bench.driver.remove(m.RemoveRequest(job=3, epoch=7))
    bench.driver.reset()
    assert bench.switch.content() == before


@pytest.mark.skipif(bool(bfrt_switch.no_compiler()), reason=bfrt_switch.no_compiler())
def test_the_compilers_own_description(bench):
    """The client finds in it what the driver asks for, and says the same with it as with the one of these tests."""
    second = Bench(own=bfrt_switch.compiled(1)["tables"])
    try:
        for each in (bench, second):
            each.driver.connect()
            install(each.driver)
            member(each.driver)
            member(each.driver, worker=5, shard=-1)
            each.driver.contributors(m.ContributorsRequest(job=3, epoch=7, slot=129, seq=5))
            each.driver.counters()
        assert second.switch.content() == bench.switch.content()
        second.driver.reset()
    finally:
        second.driver.close()
        second.stop()


def test_what_was_there_before_is_removed(bench):
    bench.driver.connect()
    before = bench.switch.content()
    install(bench.driver)
    member(bench.driver)
    bench.driver.close()
    second = bench.another()
    second.connect()
    assert bench.switch.content() == before
    second.close()


def test_registers_and_counters_are_read(bench):
    bench.driver.connect()
    install(bench.driver, shards=1, slots=130)
    index, pipe = 4 * 256 + 3, 3
    for register, name, value in (
        (bfrt_program.PAIRS, "lower", 5), (bfrt_program.PAIRS, "upper", 7),
        (bfrt_program.CONTRIBUTED_LOW, "f1", 2), (bfrt_program.CONTRIBUTED_HIGH, "f1", 0),
    ):  # fmt: skip
        held = bench.switch.registers.setdefault((register, index), {})
        held[bfrt_program.field(register, name)] = [value if each == pipe else 99 for each in range(4)]
    assert list(bench.driver.contributors(m.ContributorsRequest(job=3, epoch=7, slot=129, seq=5)).members) == [5]
    bench.switch.counts[3 * 32 + 2] = 2**33
    counters = {each.job: each.values for each in bench.driver.counters().jobs}
    assert counters[3]["uses_started"] == counters[3]["contributions_added"] == 2**33


def test_a_full_switch_says_so(bench):
    bench.driver.connect()
    bench.switch.fail_at = bench.switch.writes + 4
    with refused("RESOURCE_EXHAUSTED", "the switch refused: pipe.SwitchIngress."):
        install(bench.driver)
    install(bench.driver)


def test_a_switch_that_is_started_anew_is_found_again(bench):
    bench.driver.connect()
    install(bench.driver)
    instance = bench.driver.instance
    bench.server.stop(0).wait()
    with refused("UNAVAILABLE", "the switch is gone, its sessions too"):
        member(bench.driver)
    second = Bench(bench.port)
    try:
        assert bench.driver.capabilities().instance != instance
        install(bench.driver)
        assert len(second.switch.entries[bfrt_program.LOOPS]) == 1
    finally:
        bench.driver.close()
        second.stop()


def test_another_program_is_named(bench):
    text = f"BFRuntime at 127.0.0.1:{bench.port}: program 'other': the switch does not run it; it runs 'switchml'"
    with refused("FAILED_PRECONDITION", text):
        bench.another(program="other").connect()


def test_nobody_there(bench, monkeypatch):
    monkeypatch.setattr(bfrt_runtime, "PATIENCE", 0.5)
    bench.server.stop(0).wait()
    with refused(
        "UNAVAILABLE", f"BFRuntime at 127.0.0.1:{bench.port}: nothing answers at 127.0.0.1:{bench.port} within 0.5 s"
    ):
        bench.driver.connect()


def test_a_server_that_answers_nothing_any_more(bench, monkeypatch):
    monkeypatch.setattr(bfrt_runtime, "PATIENCE", 0.5)
    bench.driver.connect()
    bench.service.mute.set()
    begun = time.monotonic()
    with refused("UNAVAILABLE", "the switch is gone, its sessions too: DEADLINE_EXCEEDED"):
        install(bench.driver)
    with refused("UNAVAILABLE", f"BFRuntime at 127.0.0.1:{bench.port}: DEADLINE_EXCEEDED"):
        bench.driver.capabilities()
    bench.driver.close()
    assert time.monotonic() - begun < TIMEOUT


def without_frames():
    """What this machine says when an interface's frames are asked for; empty if it hands them out."""
    try:
        socket.socket(socket.AF_PACKET, socket.SOCK_RAW).close()
    except OSError as error:
        return f"frames of an interface take CAP_NET_RAW: {error}"
    return ""


@pytest.mark.skipif(bool(without_frames()), reason=without_frames())
def test_the_agent_as_a_process(bench, tmp_path):
    listen = f"unix:{tmp_path}/agent.sock"
    command = [
        sys.executable, "-c", "from switchml_agent import bfrt_main; bfrt_main.main()",
        "--grpc", f"127.0.0.1:{bench.port}", "--listen", listen, "--control-interface", "lo", "--control-port", "64",
        "--address", "10.0.0.254", "--mac", SETTINGS.mac, "--insecure-no-token", "--log-level", "warning",
    ]  # fmt: skip
    paths = (str(pathlib.Path(api.__file__).parents[1]), os.environ.get("PYTHONPATH", ""))
    environment = {**os.environ, "PYTHONPATH": os.pathsep.join(filter(None, paths))}
    agent = subprocess.Popen(command, env=environment, stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True)
    try:
        ready, _, _ = select.select([agent.stdout], [], [], TIMEOUT)
        assert ready and agent.stdout.readline() == f"listening on {listen}\n"
        with grpc.insecure_channel(listen) as channel:
            stub = api.Stub("DataPlane", channel)
            assert stub.Capabilities(m.CapabilitiesRequest(), timeout=TIMEOUT).kind == "tofino"
            asked = m.InstallRequest(job=3, epoch=7, shards=1, slots=1, payload_bytes=256, members=[0], pages=[0])
            stub.Install(asked, timeout=TIMEOUT)
            assert len(bench.switch.entries[bfrt_program.LOOPS]) == 1
        agent.send_signal(signal.SIGTERM)
        agent.wait(TIMEOUT)
        assert agent.returncode == 0
    finally:
        if agent.poll() is None:
            agent.kill()
        agent.communicate()
