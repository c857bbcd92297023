"""Control packets between workers and the process on the control port, through the v1model program on bmv2."""

import pytest

from vectors import wire
from vectors.targets import bmv2_switch as bmv2

pytestmark = pytest.mark.skipif(bool(bmv2.missing()), reason=bmv2.missing())

ALICE = "02:00:00:00:00:0a"
CONTROL = 3
UDP_PORT = 48879
REASON = {"dropped_short": 8, "dropped_kind": 10, "dropped_session": 12, "control_requests": 18}


@pytest.fixture(scope="module")
def switch():
    running = bmv2.Bmv2Switch(control=CONTROL)
    yield running
    running.close()


def outputs(switch, port, frame):
    switch.inject(port, frame)
    return sorted(switch.settle(port))


def counted(switch, name):
    return int(switch.console.ask("counter_read", "reasons", REASON[name]).split(", ")[1].split()[0])


def request(payload, port=UDP_PORT, ip=bmv2.SWITCH_IP):
    return bmv2.ethernet(bmv2.SWITCH_MAC, ALICE, 0x0800, bmv2.ipv4("10.77.0.1", ip, 17, bmv2.udp(4711, port, payload)))


def control(version=wire.VERSION, kind=3, body=16):
    return bytes((version << 4 | kind, 2)) + bytes(range(6)) + b"\x5a" * body


@pytest.mark.parametrize("body", (0, 1, 12, 16, 24, 256, 1000), ids=lambda body: f"{8 + body}bytes")
@pytest.mark.parametrize("port", (0, 1, 2))
def test_a_request_goes_to_the_control_port_unaltered(switch, port, body):
    before = counted(switch, "control_requests")
    frame = request(control(body=body))
    assert outputs(switch, port, frame) == [(CONTROL, port.to_bytes(2, "big") + frame)]
    assert counted(switch, "control_requests") == before + 1


def test_a_request_whose_ip_checksum_is_wrong_keeps_it(switch):
    frame = bytearray(request(control()))
    frame[24] ^= 0xFF
    assert outputs(switch, 1, bytes(frame)) == [(CONTROL, b"\0\1" + frame)]


def test_a_request_of_another_version_is_for_the_process_to_answer(switch):
    frame = request(control(version=9))
    assert outputs(switch, 2, frame) == [(CONTROL, b"\0\2" + frame)]


def test_less_than_the_fixed_part_is_no_request(switch):  # [CTL-1]
    before = counted(switch, "dropped_short")
    assert outputs(switch, 1, request(control()[:7])) == []
    assert counted(switch, "dropped_short") == before + 1


@pytest.mark.parametrize("size", (43, 50, 61))
def test_a_request_cut_short_is_dropped(switch, size):
    before = counted(switch, "dropped_short")
    assert outputs(switch, 1, request(control(body=1000))[:size]) == []
    assert counted(switch, "dropped_short") == before + 1


@pytest.mark.parametrize("kind", (4, 0, 14))
def test_other_kinds_do_not_reach_the_process(switch, kind):
    before = counted(switch, "dropped_kind")
    assert outputs(switch, 1, request(control(kind=kind, body=24))) == []
    assert counted(switch, "dropped_kind") == before + 1


def test_a_contribution_does_not_reach_the_process(switch):
    before = counted(switch, "dropped_session")
    assert outputs(switch, 1, request(wire.Packet(job=1, epoch=7, worker=0, slot=0, seq=1).encode())) == []
    assert counted(switch, "dropped_session") == before + 1


def test_requests_to_another_host_or_port_are_no_business_of_ours(switch):
    frame = request(control(), ip="10.77.0.99")
    assert outputs(switch, 1, frame) == [(0, frame), (2, frame)]
    assert outputs(switch, 1, request(control(), port=UDP_PORT - 1)) == []


@pytest.mark.parametrize("port", (0, 1, 2))
@pytest.mark.parametrize("kind", (0x0800, 0x88B5))
def test_what_the_process_sends_leaves_by_the_port_it_names(switch, port, kind):
    # Bytes that would be aggregated if they came in anywhere else.
    inner = request(wire.Packet(job=1, epoch=7, worker=0, slot=0, seq=1).encode())[14:]
    frame = bmv2.ethernet(bmv2.SWITCH_MAC, ALICE, kind, inner)
    before = counted(switch, "dropped_session")
    assert outputs(switch, CONTROL, port.to_bytes(2, "big") + frame) == [(port, frame)]
    assert counted(switch, "dropped_session") == before


@pytest.mark.parametrize("start", ("ffff", "3333", "0100", "01ff", "0203"))
def test_what_names_no_port_goes_nowhere(switch, start):
    assert outputs(switch, CONTROL, bytes.fromhex(start) + b"\x11" * 60) == []


def test_floods_do_not_reach_the_control_port(switch):
    frame = bmv2.ethernet("ff:ff:ff:ff:ff:ff", ALICE, 0x88B5, b"hello")
    assert outputs(switch, 0, frame) == [(1, frame), (2, frame)]


def test_without_a_control_port_requests_are_dropped():
    plain = bmv2.Bmv2Switch()
    try:
        before = counted(plain, "dropped_kind"), counted(plain, "dropped_short")
        assert outputs(plain, 1, request(control(body=12))) == outputs(plain, 1, request(control(body=0))) == []
        assert (counted(plain, "dropped_kind"), counted(plain, "dropped_short")) == (before[0] + 1, before[1] + 1)
    finally:
        plain.close()
