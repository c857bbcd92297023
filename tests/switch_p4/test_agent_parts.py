"""What the agent for bmv2 is made of, without a switch."""

import pathlib
import queue
import re
import shutil
import subprocess
import sys
import types

import pytest

try:
    import grpc
    from switchml_agent import api
except ImportError as error:
    pytest.skip(
        f"{error} (pip install grpcio protobuf, or apt install python3-grpcio python3-protobuf)",
        allow_module_level=True,
    )

from switchml_agent import console, driver, frames, program, service, sessions
from switchml_agent.errors import Refusal
from vectors import wire
from vectors.wire import ROOT

WORKER = frames.Place("10.0.0.1", 4711, "02:00:00:00:00:0a", 258)
PROGRAM = program.Program(payload=256, members=64, sessions=255, pages=80, page_slots=128, reasons=32, places=4096)
PARENT = frames.Place("10.0.0.2", frames.UDP_PORT, "02:00:00:00:00:02", 2)
m = api.messages


# ---- frames ----


def test_a_frame_for_a_worker_is_what_the_standards_say():
    frame = frames.packet_out(WORKER, "10.0.0.254", "02:00:00:00:00:fe", b"switch")
    assert frame.hex() == (
        "0102" "02000000000a0200000000fe0800"
        "450000220000000040116 5cd0a0000fe0a000001".replace(" ", "")
        + "beef1267000e" + checksum_of_udp() + "737769746368" + "00" * 12
    )  # fmt: skip


def checksum_of_udp():
    """By hand: addresses, protocol, length, ports, length, payload, in 16-bit words, complemented."""
    words = (0x0A00, 0x00FE, 0x0A00, 0x0001, 17, 14, 0xBEEF, 0x1267, 14, 0x7377, 0x6974, 0x6368)
    total = sum(words)
    total = (total & 0xFFFF) + (total >> 16)
    total = (total & 0xFFFF) + (total >> 16)
    return f"{total ^ 0xFFFF:04x}"


def worker_frame(payload, udp_port=frames.UDP_PORT):
    """As packet_out, but from the worker to the switch."""
    frame = bytearray(frames.packet_out(WORKER, "10.0.0.254", "02:00:00:00:00:fe", payload))
    frame[2:8], frame[8:14] = frame[8:14], frame[2:8]
    frame[28:32], frame[32:36] = frame[32:36], frame[28:32]
    frame[36:38], frame[38:40] = frame[38:40], udp_port.to_bytes(2, "big")
    return bytes(frame)


@pytest.mark.parametrize("size", (0, 1, 8, 17, 18, 24, 1400))
def test_a_workers_frame_is_taken_apart(size):
    payload = bytes(i % 251 for i in range(size))
    assert frames.packet_in(worker_frame(payload)) == (WORKER, payload)


def broken(change):
    frame = bytearray(worker_frame(b"x" * 40))
    change(frame)
    return bytes(frame)


def put(at, value):
    return lambda frame: frame.__setitem__(at, value)


BROKEN = {
    "short": lambda frame: frame.__delitem__(slice(43, None)),
    "cut": lambda frame: frame.__delitem__(slice(80, None)),
    "ipv6": put(slice(14, 16), b"\x86\xdd"),
    "options": put(16, 0x46),
    "tcp": put(25, 6),
    "ip length": put(slice(18, 20), b"\x00\x45"),
    "udp length": put(slice(40, 42), b"\x00\x07"),
    "port": put(slice(38, 40), b"\x00\x35"),
    "from broadcast": put(slice(8, 14), b"\xff" * 6),
    "from a group": put(8, 0x03),
    "from nobody": put(slice(8, 14), bytes(6)),
    "empty": lambda frame: frame.clear(),
}


@pytest.mark.parametrize("change", BROKEN.values(), ids=BROKEN)
def test_what_is_no_control_packet_is_refused(change):
    with pytest.raises(frames.NotOurs):
        frames.packet_in(broken(change))


@pytest.mark.parametrize("text", (
    "", "02:00:00:00:00", "02:00:00:00:00:0g", "0200:00:00:00:01", "02-00-00-00-00-01", "2:0:0:0:0:1",
    "ff:ff:ff:ff:ff:ff", "01:00:5e:00:00:01", "00:00:00:00:00:00",
))  # fmt: skip
def test_bad_mac_addresses(text):
    with pytest.raises(ValueError, match=f"MAC address '{text}': allowed are"):
        frames.mac_bytes(text)


# ---- the console of bmv2 ----

COMMAND_LINE = """#!/bin/sh
printf 'RuntimeCmd: '
while read -r command; do
    case $command in
    slow) sleep 0.5; printf 'done\nRuntimeCmd: ' ;;
    mute) exec sleep 600 ;;
    *) echo 'Could not connect to thrift client'; exit 1 ;;
    esac
done
"""


@pytest.fixture
def bmv2_console(tmp_path, monkeypatch):
    program = tmp_path / console.PROGRAM
    program.write_text(COMMAND_LINE)
    program.chmod(0o755)
    monkeypatch.setenv("PATH", str(tmp_path), prepend=":")
    made = console.Console("127.0.0.1", 9090)
    yield made
    made.close()


def test_a_busy_host_may_take_long_to_answer(bmv2_console, monkeypatch):
    seconds = iter((0, 30))  # as if the host had done other things between the command and the wait for its answer
    monkeypatch.setattr(console.time, "monotonic", lambda: next(seconds, 31))
    assert bmv2_console.ask("slow") == "done\n"


def test_a_program_that_ends_or_falls_silent_is_gone(bmv2_console, monkeypatch):
    with pytest.raises(driver.Gone, match="simple_switch_CLI ended: Could not connect to thrift client"):
        bmv2_console.ask("other")
    silent = console.Console("127.0.0.1", 9090)
    monkeypatch.setattr(console, "PATIENCE", 0.1)
    with pytest.raises(driver.Gone, match="simple_switch_CLI did not answer within 0.1 s"):
        silent.ask("mute")
    silent.close()


# ---- sessions ----


def asked(**changes):
    fields = {"job": 3, "epoch": 7, "shards": 1, "slots": 130, "payload_bytes": 256, "members": [2, 5], "pages": [9, 4]}
    return m.InstallRequest(**{**fields, **changes})


def session(**changes):
    return sessions.session_of(asked(**changes), PROGRAM, lambda place, name: PARENT)


def test_entries_of_a_session():
    assert session().entries(PROGRAM) == [
        sessions.Add("pages", "page", (3, 0), (9 * 128, 128, 0, 48)),
        sessions.Add("pages", "page", (3, 1), (4 * 128, 2, 0, 48)),
        sessions.Add("sessions", "found", (3, 7), (3,)),
    ]


def test_entries_of_a_leaf():
    uplink = m.Uplink(worker=2, parent=m.SwitchPlace(address="10.0.0.2:48879"))
    assert session(uplink=uplink, slots=1, pages=[0]).entries(PROGRAM)[1:] == [
        sessions.Add("uplinks", "leaf", (3,), (2, PARENT.mac, PARENT.ip, 2)),
        sessions.Add("sessions", "found", (3, 7), (3,)),
    ]


def test_pages_belong_to_shards():
    made = session(shards=2, slots=512, pages=[1, 2, 3, 4]).entries(PROGRAM)[:4]
    assert [entry.parameters for entry in made] == [
        (128, 128, 0, 48),
        (256, 128, 0, 48),
        (384, 128, 1, 49),
        (512, 128, 1, 49),
    ]


def test_a_worker_receives_and_sends_for_its_shard():
    made = session(shards=2, slots=256, pages=[1, 2])
    assert made.worker_entry(5) == sessions.Add("workers", "SwitchIngress.session.member", (3, 5), (2,))
    assert made.member_entries(5, 1, WORKER) == [
        sessions.Add("sources", "speaks", (3, 5, WORKER.ip, 4711), (1,)),
        sessions.Add("members", "SwitchEgress.copies.member", (49, 6), (WORKER.mac, WORKER.ip, 4711)),
        sessions.Copy(49, 6, 258),
    ]


def test_a_switch_receives_and_sends_for_all_shards():
    made = session(shards=2, slots=256, pages=[1, 2]).member_entries(2, sessions.ALL_SHARDS, WORKER)
    assert made[0].parameters == (255,)
    assert [each.group for each in made if isinstance(each, sessions.Copy)] == [48, 49]


def test_groups_of_all_jobs_differ_and_fit():
    groups = [sessions.Session(job, 1, 16, 0, (), ()).group(shard) for job in range(1, 256) for shard in range(16)]
    assert len(set(groups)) == len(groups) and 1 not in groups and max(groups) < 4096  # bmv2 has so many groups


def test_index_of_a_use_in_the_registers():
    assert session().register_index(PROGRAM, 129, 6) == (4 * 128 + 1) * 2
    assert session().register_index(PROGRAM, 5, 7) == (9 * 128 + 5) * 2 + 1


REFUSED = [
    ({"job": 0}, "job 0: allowed are 1 to 255"),
    ({"job": 256}, "job 256: allowed are 1 to 255"),
    ({"epoch": 0}, "epoch 0: allowed are 1 to 4294967295"),
    ({"shards": 17}, "shards 17: allowed are 1 to 16"),
    ({"payload_bytes": 1024}, "payload_bytes 1024: the program in this switch takes 256 only"),
    ({"members": []}, "number of members 0: allowed are 1 to 64"),
    ({"members": range(65)}, "number of members 65: allowed are 1 to 64"),
    ({"members": [1, 128]}, "member 128: allowed are 0 to 127"),
    ({"members": [1, 1]}, "members 1, 1: they must ascend"),
    ({"slots": 0}, "slots 0: allowed are 1 to 10240"),
    ({"slots": 10241}, "slots 10241: allowed are 1 to 10240"),
    ({"slots": 384, "shards": 2}, "slots 384: with 2 shards, allowed are multiples of 256"),
    ({"pages": [1]}, "1 pages: 130 slots need 2 of 128"),
    ({"pages": [1, 80]}, "page 80: allowed are 0 to 79"),
    ({"pages": [1, 1]}, "pages 1, 1: each may be there once"),
    ({"uplink": m.Uplink(worker=128)}, "uplink worker 128: allowed are 0 to 127"),
]


@pytest.mark.parametrize("changes, text", REFUSED, ids=[text.split(":")[0] for _, text in REFUSED])
def test_what_cannot_be_installed(changes, text):
    with pytest.raises(Refusal) as refusal:
        session(**changes)
    assert (refusal.value.code, str(refusal.value)) == ("INVALID_ARGUMENT", text)


def place(neighbours, address, mac="", port=0):
    return neighbours.place(m.SwitchPlace(address=address, mac=mac, port=port), "worker 1")


def test_what_a_place_leaves_out_is_found():
    neighbours = sessions.Neighbours((1, 2, 258), {"02:00:00:00:00:05": 2})
    neighbours.heard(WORKER)
    assert place(neighbours, "10.0.0.1:9") == frames.Place("10.0.0.1", 9, WORKER.mac, 258)
    assert place(neighbours, "10.0.0.1:9", port=1) == frames.Place("10.0.0.1", 9, WORKER.mac, 1)
    assert place(neighbours, "10.0.0.1:9", "02:00:00:00:00:05") == frames.Place("10.0.0.1", 9, "02:00:00:00:00:05", 2)
    assert place(neighbours, "10.0.0.3:9", "02:00:00:00:00:05") == frames.Place("10.0.0.3", 9, "02:00:00:00:00:05", 2)
    assert place(neighbours, "10.0.0.3:9", "02:00:00:00:00:0F", 1) == frames.Place(
        "10.0.0.3", 9, "02:00:00:00:00:0f", 1
    )


@pytest.mark.parametrize("address, mac, port, text", (
    ("10.0.0.3:9", "", 1, "it needs mac, because nothing has come from that address yet"),
    ("10.0.0.3:9", "02:00:00:00:00:0f", 0, "port 0: allowed are 1, 2"),
    ("10.0.0.3:9", "02:00:00:00:00:0f", 3, "port 3: allowed are 1, 2"),
    ("10.0.0.3", "", 0, "worker 1 address '10.0.0.3': allowed are IPv4 addresses with a port"),
    ("10.0.0.3:0", "", 0, "allowed are IPv4 addresses with a port"),
    ("[::1]:9", "", 0, "allowed are IPv4 addresses with a port"),
    ("10.0.0.3:9", "02", 1, "worker 1: MAC address '02': allowed are"),
))  # fmt: skip
def test_places_that_cannot_be(address, mac, port, text):
    with pytest.raises(Refusal, match=re.escape(text)):
        place(sessions.Neighbours((1, 2), {}), address, mac, port)


def test_what_was_heard_longest_ago_is_forgotten():
    neighbours = sessions.Neighbours((1,), {})
    for number in range(sessions.Neighbours.REMEMBERED + 1):
        neighbours.heard(frames.Place(f"10.1.{number // 256}.{number % 256}", 1, WORKER.mac, 1))
        neighbours.heard(frames.Place("10.0.0.1", 1, WORKER.mac, 1))
    assert place(neighbours, "10.0.0.1:9") and place(neighbours, "10.1.16.0:9")
    with pytest.raises(Refusal):
        place(neighbours, "10.1.0.0:9")


# ---- the program and its counters ----


def test_reasons_are_those_of_the_program():
    text = (ROOT / "switch_p4/reasons.p4").read_text(encoding="utf-8")
    found = {int(number): name.lower() for name, number in re.findall(r"REASON_(\w+) = (\d+);", text)}
    assert dict(enumerate(program.REASONS)) == found


def test_counters_are_those_of_the_software_switch():
    known = set(re.findall(r"X\((\w+),", (ROOT / "backend/base/counters.h").read_text(encoding="utf-8")))
    names = {counter for reason in program.REASONS for counter in program.SEVERAL.get(reason, (reason,))}
    assert names <= known


def test_another_program_is_refused():
    other = {"program": "router.p4", "register_arrays": [], "pipelines": [], "counter_arrays": [], "header_types": []}
    with pytest.raises(program.NotSwitchml, match="the program 'router.p4' in the switch has no words_h: load"):
        program.Program.of(other)


# ---- the API ----


def test_the_service_has_every_call_and_nothing_else():
    calls = {name for _, name, _, _, _ in api._methods("DataPlane")}
    assert calls == {name for name in vars(service.DataPlane) if name[0].isupper()}


def test_services_that_do_not_exist():
    with pytest.raises(ValueError, match="service 'Dataplane': allowed are Controller, DataPlane"):
        api.handler("Dataplane", types.SimpleNamespace())


# ---- the service, over a driver that is none ----


class Driver:
    """Answers like a driver, and remembers what was asked."""

    def __init__(self):
        self.places, self.refusal = [], None

    def capabilities(self):
        if self.refusal:
            raise self.refusal
        return m.Capabilities(kind="none", instance=5)

    def heard(self, place):
        self.places.append(place)

    def place(self, asked):
        return WORKER


@pytest.fixture
def served():
    """served(token, tls, send) -> (service, port)"""
    servers = []

    def start(token=None, tls=None, send=lambda place, payload: None):
        plane = service.DataPlane(Driver(), send)
        server, port = service.serve(plane, "127.0.0.1:0", token, tls)
        servers.append(server)
        return plane, port

    yield start
    for server in servers:
        server.stop(0).wait()


def ask(channel, name="Capabilities", request=None, token=""):
    with channel:
        request = request or m.CapabilitiesRequest()
        return getattr(api.Stub("DataPlane", channel), name)(request, timeout=60, metadata=api.bearer(token))


def status(*arguments, **named):
    with pytest.raises(grpc.RpcError) as error:
        ask(*arguments, **named)
    return error.value.code().name, error.value.details()


def test_a_token_opens_the_service(served):
    _, port = served(token="open sesame")
    assert ask(grpc.insecure_channel(f"127.0.0.1:{port}"), token="open sesame").instance == 5
    for token in ("", "open", "open sesame 2"):
        code, text = status(grpc.insecure_channel(f"127.0.0.1:{port}"), token=token)
        assert (code, text) == ("UNAUTHENTICATED", "authorization: `Bearer TOKEN` with this agent's token is needed")


def test_without_a_token_everybody_is_served(served):
    _, port = served()
    assert ask(grpc.insecure_channel(f"127.0.0.1:{port}")).kind == "none"


def test_tls(served, tmp_path):
    if not shutil.which("openssl"):
        pytest.skip("openssl is not on PATH: apt install openssl")
    key, certificate = tmp_path / "key.pem", tmp_path / "cert.pem"
    subprocess.run(
        ["openssl", "req", "-x509", "-newkey", "rsa:2048", "-nodes", "-days", "2", "-keyout", key, "-out", certificate,
         "-subj", "/CN=agent", "-addext", "subjectAltName=IP:127.0.0.1"], check=True, capture_output=True,
    )  # fmt: skip
    _, port = served(token="t", tls=(certificate.read_bytes(), key.read_bytes()))
    trusted = grpc.ssl_channel_credentials(certificate.read_bytes())
    assert ask(grpc.secure_channel(f"127.0.0.1:{port}", trusted), token="t").instance == 5
    assert status(grpc.insecure_channel(f"127.0.0.1:{port}"), token="t")[0] == "UNAVAILABLE"
    assert (
        status(grpc.secure_channel(f"127.0.0.1:{port}", grpc.ssl_channel_credentials()), token="t")[0] == "UNAVAILABLE"
    )


def test_refusals_are_statuses(served):
    plane, port = served()
    plane._driver.refusal = Refusal("FAILED_PRECONDITION", "page 3: it belongs to job 5")
    assert status(grpc.insecure_channel(f"127.0.0.1:{port}")) == ("FAILED_PRECONDITION", "page 3: it belongs to job 5")


def test_an_interface_that_takes_nothing(served):
    def send(place, payload):
        raise OSError(100, "Network is down")

    _, port = served(send=send)
    answer = status(grpc.insecure_channel(f"127.0.0.1:{port}"), "PacketOut", m.ControlPacket(payload=b"x"))
    assert answer == ("INTERNAL", "control port: Network is down")


def test_a_used_port_is_refused(served):
    _, port = served()
    with pytest.raises(OSError, match=f"127.0.0.1:{port}"):
        service.serve(service.DataPlane(Driver(), None), f"127.0.0.1:{port}")


def test_an_open_without_a_controller_is_told_of_one():
    sent = []
    plane = service.DataPlane(Driver(), lambda place, payload: sent.append((place, payload)))
    asked = wire.checked(bytes.fromhex("5301000000000007" + "00" * 24))
    others = ("4301", "4302000000000007", "3301000000000007")
    for request in (asked, asked[:-1] + b"?", *(wire.checked(bytes.fromhex(text)) for text in others)):
        plane.receive(WORKER, request)
    assert sent == [(WORKER, wire.checked(bytes.fromhex("5401000900000007")))]


def test_packets_nobody_listens_to_and_too_many(served):
    plane, port = served()
    plane.receive(WORKER, b"nobody listens")
    with grpc.insecure_channel(f"127.0.0.1:{port}") as channel:
        packets = api.Stub("DataPlane", channel).PacketsIn(m.PacketsInRequest(), timeout=60)
        packets.initial_metadata()
        for number in range(5):
            plane.receive(WORKER, bytes([number]))
        came = [next(packets) for _ in range(5)]
        packets.cancel()
    place = m.SwitchPlace(address="10.0.0.1:4711", mac=WORKER.mac, port=258)
    assert came == [m.ControlPacket(payload=bytes([number]), worker=place) for number in range(5)]
    assert plane._driver.places == [WORKER] * 6
    full = queue.Queue(2)
    plane._listener = full
    for _ in range(3):
        plane.receive(WORKER, b"x")
    assert full.qsize() == 2


# ---- the command line ----

NEEDED = ["--listen", "127.0.0.1:0", "--control-interface", "lo", "--control-port", "1", "--address", "10.0.0.1",
          "--mac", "02:00:00:00:00:01"]  # fmt: skip


def command(*arguments):
    done = subprocess.run(
        [sys.executable, "-m", "switchml_agent", *arguments],
        capture_output=True,
        text=True,
        timeout=60,
        cwd=pathlib.Path(frames.__file__).parents[1],
    )
    return done.returncode, done.stdout + done.stderr


@pytest.mark.parametrize("arguments, text", (
    ([], "--listen, --control-interface, --control-port, --address, --mac"),
    (NEEDED, "one of --token-file FILE and --insecure-no-token is needed"),
    ([*NEEDED, "--insecure-no-token", "--token-file", "x"], "one of --token-file FILE and --insecure-no-token is needed"),
    ([*NEEDED, "--insecure-no-token", "--tls-key", "x"], "--tls-cert and --tls-key are needed together"),
    ([*NEEDED, "--insecure-no-token", "--mac", "02"], "MAC address '02': allowed are six pairs"),
    ([*NEEDED, "--insecure-no-token", "--address", "::1"], "'::1': allowed are IPv4 addresses"),
    ([*NEEDED, "--insecure-no-token", "--control-port", "511"], "'511': allowed are port numbers from 0 to 510"),
    ([*NEEDED, "--insecure-no-token", "--thrift", "here"], "'here': allowed are ADDRESS:PORT"),
    ([*NEEDED, "--insecure-no-token", "--station", "02:00:00:00:00:01=x"], "'x': allowed are port numbers"),
))  # fmt: skip
def test_command_lines_that_are_refused(arguments, text):
    code, output = command("bmv2", *arguments)
    assert code == 2 and text in output


def test_switches_that_there_is_no_agent_for():
    assert command("tofino") == (1, "usage: python -m switchml_agent SWITCH [OPTIONS]; switches: bmv2, bfrt\n")


def test_help_needs_nothing():
    code, output = command("bmv2", "--help")
    assert code == 0 and "--control-interface IFACE" in output
