"""The program on the Tofino model, for payloads of one segment and of four that lie in one, two and four pipes, with
datagrams and with queue pairs: random sequences, and what is not aggregation."""

import pathlib

import pytest

from vectors import generate, parse, roce, runner, troubled
from vectors.targets import bmv2_switch as packets
from vectors.targets import tofino_switch

FILES = sorted(pathlib.Path(__file__).resolve().parent.glob("*.txt"))
# (target, segments, pipes), seed, packets, workers
RANDOM = [
    (("tofino", 1, 1), 1, 400, 8),
    (("tofino", 1, 1), 2, 400, 33),
    (("tofino", 4, 1), 3, 120, 8),
    (("tofino", 4, 2), 4, 120, 5),
    (("tofino", 4, 4), 5, 120, 33),
    (("tofino-roce", 1, 1), 6, 400, 33),
    (("tofino-roce", 4, 1), 7, 120, 8),
    (("tofino-roce", 4, 4), 8, 120, 5),
]


@pytest.fixture(
    scope="module", params=sorted({shape for shape, *_ in RANDOM}), ids=lambda s: f"{s[0]}-segments{s[1]}-pipes{s[2]}"
)
def shaped(request):
    name, segments, pipes = request.param
    if name not in (request.config.getoption("--vector-target") or ()):
        pytest.skip(f"takes minutes: only with --vector-target {name}")
    reason = tofino_switch.missing()
    if reason:
        pytest.skip(f"{name}: {reason}")
    from vectors.targets import tofino, tofino_roce

    made = (tofino_roce.TofinoRoceTarget if name == "tofino-roce" else tofino.TofinoTarget)(segments, pipes)
    yield request.param, made
    made.close()


def has_only(text, payload):
    """A program takes chunks of one length."""
    return text.count(f"payload={payload}") == sum(line.startswith("session ") for line in text.splitlines())


def sequence(seed, length, workers, payload, leaves):
    """The first random sequence after the seed all of whose sessions have this payload, and a parent only if they
    may."""
    while True:
        text = generate.Generator(seed, length, workers, payload, True).text("from test_tofino.py")
        if has_only(text, payload) and (leaves or "uplink=" not in text):
            return text
        seed += 1000


def test_random_sequences(shaped, tmp_path):
    shape, target = shaped
    leaves = shape[:2] != ("tofino-roce", 4)  # its workers cannot have pairs there
    for _, seed, length, workers in (options for options in RANDOM if options[0] == shape):
        path = tmp_path / f"random{seed}.txt"
        path.write_text(sequence(seed, length, workers, target.capabilities.payload, leaves), encoding="utf-8")
        vector = parse.load(path)
        assert not target.capabilities.lacks(vector.needs)
        runner.Runner(target).run(vector)
        troubled.Troubled(target, seed, several=shape[1] > 1).run(vector)


def test_vectors_of_larger_payloads(shaped):
    (_, segments, _), target = shaped
    if segments == 1:
        pytest.skip("test_vectors.py runs them")
    ran = 0
    for path in FILES:
        vector = parse.load(path)
        fits = has_only(path.read_text(encoding="utf-8"), target.capabilities.payload)
        if fits and not target.capabilities.lacks(vector.needs):
            runner.Runner(target).run(vector)
            ran += 1
    assert ran > 0


HOST_IP, HOST_MAC, CONTROL_MAC = "10.77.9.9", "02:77:00:09:09:09", "02:77:00:09:09:0a"
FLOOD_GROUP, CONTROL_KIND = 1, 2


def sent(switch, port, frame):
    switch.inject(port, frame)
    return sorted(switch.settle())


def to_switch(payload):
    datagram = packets.udp(4000, 48879, payload)
    return packets.ethernet(
        packets.SWITCH_MAC, HOST_MAC, 0x0800, packets.ipv4(HOST_IP, packets.SWITCH_IP, 17, datagram)
    )


def test_control_packets_go_both_ways(shaped):
    _, target = shaped
    target.reset()
    switch, control = target.switch, 134
    request = to_switch(b"\x13" + bytes(31))
    assert sent(switch, 1, request) == []  # nobody takes them yet
    switch.set_default("control_port", "hand_over", {"port": control})
    switch.set_port_kind(control, CONTROL_KIND)
    assert sent(switch, 1, request) == [(control, b"\0\1" + request)]
    answer = packets.ethernet(HOST_MAC, CONTROL_MAC, 0x0800, request[14:])
    assert sent(switch, control, b"\0\1" + answer) == [(1, answer)]
    assert sent(switch, control, b"\2\1" + answer) == []  # no such port


def test_arp_and_ping(shaped):
    _, target = shaped
    target.reset()
    own, host = (bytes(map(int, ip.split("."))) for ip in (packets.SWITCH_IP, HOST_IP))
    own_mac, host_mac = packets.mac_bytes(packets.SWITCH_MAC), packets.mac_bytes(HOST_MAC)
    head = b"\0\1\x08\0\6\4"
    asked = packets.ethernet("ff:ff:ff:ff:ff:ff", HOST_MAC, 0x0806, head + b"\0\1" + host_mac + host + bytes(6) + own)
    told = packets.ethernet(HOST_MAC, packets.SWITCH_MAC, 0x0806, head + b"\0\2" + own_mac + own + host_mac + host)
    assert sent(target.switch, 132, asked) == [(132, told)]
    for number in (7, 0xF7FF, 0xFFFF):
        ping = packets.ipv4(HOST_IP, packets.SWITCH_IP, 1, packets.echo(8, number))
        pong = packets.ipv4(packets.SWITCH_IP, HOST_IP, 1, packets.echo(0, number))
        asked = packets.ethernet(packets.SWITCH_MAC, HOST_MAC, 0x0800, ping)
        assert sent(target.switch, 1, asked) == [(1, packets.ethernet(HOST_MAC, packets.SWITCH_MAC, 0x0800, pong))]


def test_ethernet(shaped):
    _, target = shaped
    target.reset()
    switch = target.switch
    switch.set_group(FLOOD_GROUP, [(0, port) for port in (0, 1, 132, 261)])
    frame = packets.ethernet(CONTROL_MAC, HOST_MAC, 0x88B6, b"hello")
    assert sent(switch, 132, frame) == [(0, frame), (1, frame), (261, frame)]
    station = {"headers.ethernet.destination": "0x" + packets.mac_bytes(CONTROL_MAC).hex()}
    switch.add("stations", station, "forward", {"port": 261})
    assert sent(switch, 132, frame) == [(261, frame)]


@pytest.mark.parametrize("opcode", (roce.OPCODES["write_only_with_immediate"], 0x64))
def test_roce_between_hosts_passes_as_it_came(shaped, opcode):
    _, target = shaped
    target.reset()
    payload = target.capabilities.payload
    station = {"headers.ethernet.destination": "0x" + packets.mac_bytes(CONTROL_MAC).hex()}
    target.switch.add("stations", station, "forward", {"port": 261})
    for length in (0, 4, 20, 24, 20 + payload, 24 + payload):
        message = roce.message(bytes(range(1, 5)) * (length // 4), opcode=opcode, queue_pair=0x10200, pad=1, psn=5)
        datagram = packets.udp(0xC001, roce.PORT, message + b"last")
        packet = packets.ipv4(HOST_IP, "10.77.9.8", 17, datagram)
        frame = packets.ethernet(CONTROL_MAC, HOST_MAC, 0x0800, packet)
        assert sent(target.switch, 1, frame) == [(261, frame)], length
