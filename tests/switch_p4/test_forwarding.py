"""What the v1model program does beside aggregation: Ethernet forwarding, ARP and ping, on bmv2."""

import socket

import pytest

from vectors.targets import bmv2_switch as bmv2

pytestmark = pytest.mark.skipif(bool(bmv2.missing()), reason=bmv2.missing())

ALICE, BOB, ALL = "02:00:00:00:00:0a", "02:00:00:00:00:0b", "ff:ff:ff:ff:ff:ff"


@pytest.fixture(scope="module")
def switch():
    running = bmv2.Bmv2Switch()
    yield running
    running.close()


def outputs(switch, port, frame):
    switch.inject(port, frame)
    return sorted(switch.settle(port))


def arp(operation, sender_mac, sender_ip, target_mac, target_ip):
    fixed = bytes.fromhex("0001080006040000")[:6] + operation.to_bytes(2, "big")
    sender = bmv2.mac_bytes(sender_mac) + socket.inet_aton(sender_ip)
    return fixed + sender + bmv2.mac_bytes(target_mac) + socket.inet_aton(target_ip)


def test_a_frame_to_nobody_known_goes_to_all_other_ports(switch):
    frame = bmv2.ethernet(BOB, ALICE, 0x88B5, b"hello")
    assert outputs(switch, 1, frame) == [(port, frame) for port in (0, 2, 3)]


def test_a_broadcast_goes_to_all_other_ports(switch):
    frame = bmv2.ethernet(ALL, ALICE, 0x88B5, b"hello")
    assert outputs(switch, 3, frame) == [(port, frame) for port in (0, 1, 2)]


def test_a_frame_to_a_known_station_goes_to_its_port(switch):
    handle = switch.console.handle("table_add", "stations", "forward", BOB, "=>", 2)
    try:
        frame = bmv2.ethernet(BOB, ALICE, 0x0800, bmv2.ipv4("10.1.0.1", "10.1.0.2", 17, bmv2.udp(5, 48879, b"x" * 300)))
        assert outputs(switch, 0, frame) == [(2, frame)], "the aggregator's port of another host is not ours"
    finally:
        switch.console.ask("table_delete", "stations", handle)


def test_arp_for_the_switch_is_answered(switch):
    question = bmv2.ethernet(ALL, ALICE, 0x0806, arp(1, ALICE, "10.77.0.1", "00:00:00:00:00:00", bmv2.SWITCH_IP))
    answer = bmv2.ethernet(ALICE, bmv2.SWITCH_MAC, 0x0806, arp(2, bmv2.SWITCH_MAC, bmv2.SWITCH_IP, ALICE, "10.77.0.1"))
    assert outputs(switch, 2, question) == [(2, answer)]


def test_arp_for_another_is_forwarded(switch):
    question = bmv2.ethernet(ALL, ALICE, 0x0806, arp(1, ALICE, "10.77.0.1", "00:00:00:00:00:00", "10.77.0.2"))
    assert outputs(switch, 2, question) == [(port, question) for port in (0, 1, 3)]


@pytest.mark.parametrize("number", (0, 1, 0x0800, 0xF7FF, 0xFFFF))
def test_a_ping_is_answered_with_the_right_checksum(switch, number):
    def packet(source, destination, kind):
        return bmv2.ipv4(source, destination, 1, bmv2.echo(kind, number))

    question = bmv2.ethernet(bmv2.SWITCH_MAC, ALICE, 0x0800, packet("10.77.0.9", bmv2.SWITCH_IP, 8))
    switch.inject(1, question)
    # settle()'s own ping would be taken for the answer; so look at the port itself.
    switch.ports[1].settimeout(bmv2.PATIENCE)
    while True:
        frame, address = switch.ports[1].recvfrom(65536)
        if address[2] != bmv2.PACKET_OUTGOING:
            break
    assert frame == bmv2.ethernet(ALICE, bmv2.SWITCH_MAC, 0x0800, packet(bmv2.SWITCH_IP, "10.77.0.9", 0))


@pytest.mark.parametrize("protocol", (6, 47))
def test_what_the_switch_itself_does_not_speak_is_dropped(switch, protocol):
    packet = bmv2.ipv4("10.77.0.1", bmv2.SWITCH_IP, protocol, b"\0" * 40)
    assert outputs(switch, 0, bmv2.ethernet(bmv2.SWITCH_MAC, ALICE, 0x0800, packet)) == []


def test_another_udp_port_of_the_switch_is_dropped(switch):
    packet = bmv2.ipv4("10.77.0.1", bmv2.SWITCH_IP, 17, bmv2.udp(5, 53, b"\x11" * 276))
    assert outputs(switch, 0, bmv2.ethernet(bmv2.SWITCH_MAC, ALICE, 0x0800, packet)) == []


def test_a_frame_cut_short_is_counted_and_dropped(switch):
    before = int(switch.console.ask("counter_read", "reasons", 8).split(", ")[1].split()[0])
    packet = bmv2.ipv4("10.77.0.1", bmv2.SWITCH_IP, 17, bmv2.udp(5, 48879, b"\x11" * 276))
    frame = bmv2.ethernet(bmv2.SWITCH_MAC, ALICE, 0x0800, packet)
    for size in (60, 200, len(frame) - 1):
        assert outputs(switch, 0, frame[:size]) == []
    after = int(switch.console.ask("counter_read", "reasons", 8).split(", ")[1].split()[0])
    assert after - before == 3
