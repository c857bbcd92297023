"""The TNA program: does it fit the chips, and what does it do beside aggregation, on the open Tofino model."""

import re
import shutil
import socket
import subprocess
import sys

import pytest

from vectors import wire
from vectors.targets import bmv2_switch as frames
from vectors.targets import tofino_switch

ROOT = frames.ROOT
sys.path.insert(0, str(ROOT / "switch_p4"))

import resources  # noqa: E402

LACKING = [tool for tool in ("p4c-barefoot", "bfas") if shutil.which(tool) is None]
NO_COMPILER = f"not on PATH: {', '.join(LACKING)} (docs/switch.md says where they come from)"
CHIPS = {"tofino": "tna", "tofino2": "t2na"}
ALICE, BOB, ALL = "02:00:00:00:00:0a", "02:00:00:00:00:0b", "ff:ff:ff:ff:ff:ff"
PORTS = (0, 1, 132, 133)
AGENT = 2


def wire_p4(folder):
    generator, spec = ROOT / "backend/wire/generate.py", ROOT / "backend/wire/protocol.toml"
    subprocess.run([sys.executable, generator, spec, folder / "wire.p4", "64"], check=True)
    return (folder / "wire.p4").read_text(encoding="utf-8")


def run(*command, cwd=None):
    done = subprocess.run([str(word) for word in command], capture_output=True, text=True, cwd=cwd)
    text = done.stdout + done.stderr
    assert done.returncode == 0, text[-3000:]
    assert not re.search(r"\berror:|--Werror", text), text[-3000:]


def size(name):
    text = (ROOT / "switch_p4/sizes.p4").read_text(encoding="utf-8")
    return int(re.search(rf"#define {name} (\d+)", text)[1])


def test_pairs_cover_every_word_once(tmp_path):
    line = re.search(r"#define FOR_EACH_PAIR\(M\) (.*)", wire_p4(tmp_path))[1]
    pairs = [tuple(map(int, found)) for found in re.findall(r"M\((\d+), (\d+), (\d+)\)", line)]
    assert pairs == [(i, i, 32 + i) for i in range(32)]


def test_resources_says_what_is_missing(tmp_path):
    with pytest.raises(resources.ReportError, match=r"nowhere: not a folder"):
        resources.load(tmp_path / "nowhere")
    (tmp_path / "context.json").write_text('{"tables": []}', encoding="utf-8")
    with pytest.raises(resources.ReportError, match="no context.json with stages in it; run bfas"):
        resources.load(tmp_path)


@pytest.fixture(
    scope="module",
    params=[(chip, segments, roce) for chip in CHIPS for segments in (1, 4) for roce in (0, 1)],
    ids=lambda shape: f"{shape[0]}-{256 * shape[1]}B{'-roce' if shape[2] else ''}",
)
def context(request, tmp_path_factory):
    if LACKING:
        pytest.skip(NO_COMPILER)
    chip, segments, roce = request.param
    folder = tmp_path_factory.mktemp(chip)
    wire_p4(folder)
    run(
        "p4c-barefoot",
        "--std",
        "p4-16",
        "--target",
        chip,
        "--arch",
        CHIPS[chip],
        f"-DSEGMENTS={segments}",
        f"-DROCE={roce}",
        "-I",
        ROOT / "switch_p4",
        "-I",
        folder,
        "-o",
        folder / "out",
        ROOT / "switch_p4/tna/switchml.p4",
    )
    run("bfas", "switchml.bfa", cwd=folder / "out/pipe")
    assert (folder / f"out/pipe/{chip}.bin").exists()
    return resources.load(folder)


def alus(context):
    """32 pairs of words, the sequence check, two halves of the bitmap, exponent, witness, count; numbers of packets."""
    return 38 + sum(table["name"].endswith(".psns") for table in registers(context))


def registers(context):
    return [table for table in context["tables"] if table["table_type"] == "stateful"]


def test_the_program_fits(context):
    taken, _ = resources.used(context)
    stages = resources.STAGES[context["target"]]
    assert 0 < resources.stages_of(context, "egress") <= resources.stages_of(context, "ingress") <= stages
    for name, limit in resources.PER_STAGE.items():
        assert max(map(len, taken[name].values())) <= limit, name
    for kind, bits in resources.vector_bits(context).items():
        assert 0 <= bits <= resources.VECTOR_BITS[context["target"]][kind], kind
    assert sum(map(len, taken["stateful ALUs"].values())) == alus(context)
    assert f"| stages, ingress | {resources.stages_of(context, 'ingress')} | {stages} |" in resources.report(context)


def test_every_register_holds_two_versions_of_10000_slots(context):
    of_slots = [table for table in registers(context) if not table["name"].endswith(".psns")]
    assert len(of_slots) == 38
    for table in of_slots:
        assert table["size"] == 2 * size("SLOTS") >= 2 * 10000, table["name"]


def test_tables_are_as_large_as_they_are_said_to_be(context):
    for name, wanted in (
        ("sessions", "SESSIONS"),
        ("workers", "MEMBERS"),
        ("sources", "MEMBERS"),
        ("members", "MEMBERS"),
        ("stations", "L2_ENTRIES"),
        ("homes", "HOMES"),
        ("reasons", "JOB_REASONS"),
    ):
        assert resources.entries(context, name) >= size(wanted), name
    with pytest.raises(resources.ReportError, match="no table or register named nothing"):
        resources.entries(context, "nothing")


# ---- Forwarding, on the model ----


@pytest.fixture(scope="module")
def switch():
    if tofino_switch.missing():
        pytest.skip(tofino_switch.missing())
    running = tofino_switch.TofinoSwitch(64)
    running.watch_loops(PORTS[0])
    running.add("addresses", {"ip": "0x" + socket.inet_aton(frames.SWITCH_IP).hex()}, "mine", {})
    running.set_default("mac", "own_mac", {"mac": mac(frames.SWITCH_MAC)})
    running.set_group(1, [(0, port) for port in PORTS])
    yield running
    running.close()


def mac(text):
    return "0x" + frames.mac_bytes(text).hex()


def ethernet(destination, source, kind, payload):
    return frames.ethernet(destination, source, kind, payload).ljust(60, b"\0")


def outputs(switch, port, frame):
    switch.inject(port, frame)
    return sorted(switch.settle())


def arp(operation, sender_mac, sender_ip, target_mac, target_ip):
    sender = frames.mac_bytes(sender_mac) + socket.inet_aton(sender_ip)
    target = frames.mac_bytes(target_mac) + socket.inet_aton(target_ip)
    return bytes.fromhex("000108000604") + operation.to_bytes(2, "big") + sender + target


def datagram(payload, udp_port=48879):
    packet = frames.ipv4("10.77.0.1", frames.SWITCH_IP, 17, frames.udp(5, udp_port, payload))
    return ethernet(frames.SWITCH_MAC, ALICE, 0x0800, packet)


def echo(source, destination, kind, number):
    return frames.ipv4(source, destination, 1, frames.echo(kind, number))


def counted(switch, name):
    text = (ROOT / "switch_p4/reasons.p4").read_text(encoding="utf-8")
    return switch.read_counters("reasons", [int(re.search(rf"REASON_{name.upper()} = (\d+)", text)[1])])[0]


@pytest.mark.parametrize("destination", (BOB, ALL))
def test_a_frame_to_nobody_known_goes_to_all_other_ports_of_all_pipes(switch, destination):
    frame = ethernet(destination, ALICE, 0x88B5, b"hello")
    assert outputs(switch, 132, frame) == [(port, frame) for port in (0, 1, 133)]


def test_a_frame_to_a_known_station_goes_to_its_port(switch):
    entry = switch.add("stations", {"headers.ethernet.destination": mac(BOB)}, "forward", {"port": 133})
    packet = frames.ipv4("10.1.0.1", "10.1.0.2", 17, frames.udp(5, 48879, b"x" * 300))
    frame = ethernet(BOB, ALICE, 0x0800, packet)
    assert outputs(switch, 0, frame) == [(133, frame)], "the aggregator's port of another host is not ours"
    switch.remove(entry)


def test_a_wrong_ipv4_checksum_is_forwarded_as_it_came(switch):
    frame = bytearray(ethernet(BOB, ALICE, 0x0800, echo("10.1.0.1", "10.1.0.2", 8, 1)))
    frame[24] ^= 1
    assert outputs(switch, 0, bytes(frame)) == [(port, bytes(frame)) for port in (1, 132, 133)]


def test_arp_for_the_switch_is_answered(switch):
    question = ethernet(ALL, ALICE, 0x0806, arp(1, ALICE, "10.77.0.1", "00:00:00:00:00:00", frames.SWITCH_IP))
    answer = ethernet(ALICE, frames.SWITCH_MAC, 0x0806, arp(2, frames.SWITCH_MAC, frames.SWITCH_IP, ALICE, "10.77.0.1"))
    assert outputs(switch, 132, question) == [(132, answer)]


@pytest.mark.parametrize("operation, target", ((1, "10.77.0.2"), (2, frames.SWITCH_IP)))
def test_other_arp_is_forwarded(switch, operation, target):
    frame = ethernet(ALL, ALICE, 0x0806, arp(operation, ALICE, "10.77.0.1", "00:00:00:00:00:00", target))
    assert outputs(switch, 1, frame) == [(port, frame) for port in (0, 132, 133)]


@pytest.mark.parametrize("number", (0, 1, 0x0800, 0xF7FF, 0xFFFF))
def test_a_ping_is_answered_with_the_right_checksum(switch, number):
    question = ethernet(frames.SWITCH_MAC, ALICE, 0x0800, echo("10.77.0.9", frames.SWITCH_IP, 8, number))
    answer = ethernet(ALICE, frames.SWITCH_MAC, 0x0800, echo(frames.SWITCH_IP, "10.77.0.9", 0, number))
    assert outputs(switch, 1, question) == [(1, answer)]


def test_a_ping_with_a_wrong_ipv4_checksum_is_dropped(switch):
    question = bytearray(ethernet(frames.SWITCH_MAC, ALICE, 0x0800, echo("10.77.0.9", frames.SWITCH_IP, 8, 1)))
    question[24] ^= 1
    assert outputs(switch, 1, bytes(question)) == []


@pytest.mark.parametrize("protocol", (6, 47))
def test_what_the_switch_itself_does_not_speak_is_dropped(switch, protocol):
    packet = frames.ipv4("10.77.0.1", frames.SWITCH_IP, protocol, b"\0" * 40)
    assert outputs(switch, 0, ethernet(frames.SWITCH_MAC, ALICE, 0x0800, packet)) == []


def test_another_udp_port_of_the_switch_is_dropped(switch):
    assert outputs(switch, 0, datagram(b"\x11" * 276, udp_port=53)) == []


def test_a_wrong_checksum_or_two_lengths_that_differ_count_as_short(switch):  # [BASE-2]
    before = counted(switch, "dropped_short")
    header = wire.Packet(job=1, epoch=1, seq=1, worker=0, slot=0).encode()
    wrong = bytearray(datagram(header))
    wrong[24] ^= 1
    longer = frames.ipv4("10.77.0.1", frames.SWITCH_IP, 17, frames.udp(5, 48879, header) + b"\0" * 4)
    for frame in (bytes(wrong), ethernet(frames.SWITCH_MAC, ALICE, 0x0800, longer)):
        assert outputs(switch, 0, frame) == []
    assert counted(switch, "dropped_short") == before + 2


@pytest.mark.parametrize("length", (60, 100, 200))
def test_a_frame_cut_short_disappears(switch, length):
    before = [counted(switch, name) for name in ("dropped_short", "dropped_session")]
    assert outputs(switch, 0, datagram(b"\x11" * 276)[:length]) == []
    assert [counted(switch, name) for name in ("dropped_short", "dropped_session")] == before


REQUESTS = ("13010000 00000001" + "22" * 24, "f3090000 00000002", "13040000 00000003" + "22" * 268)


@pytest.mark.parametrize("request_bytes", REQUESTS)
def test_requests_go_to_the_control_port_whole(switch, request_bytes):
    frame = datagram(bytes.fromhex(request_bytes))
    refused, handed = counted(switch, "dropped_kind"), counted(switch, "control_requests")
    assert outputs(switch, 132, frame) == []
    assert counted(switch, "dropped_kind") == refused + 1
    switch.set_default("control_port", "hand_over", {"port": AGENT})
    assert outputs(switch, 132, frame) == [(AGENT, (132).to_bytes(2, "big") + frame)]
    assert counted(switch, "control_requests") == handed + 1
    switch.set_default("control_port", "refuse", {})


@pytest.mark.parametrize("port, leaves", ((0, True), (132, True), (511, False), (0x8001, False), (0xFFFF, False)))
def test_frames_of_the_control_port_leave_by_the_port_that_they_name(switch, port, leaves):
    frame = ethernet(ALICE, frames.SWITCH_MAC, 0x0800, echo(frames.SWITCH_IP, "10.77.0.9", 0, 7))
    switch.set_port_kind(AGENT, 2)
    assert outputs(switch, AGENT, port.to_bytes(2, "big") + frame) == ([(port, frame)] if leaves else [])
    switch.set_port_kind(AGENT, 0)
