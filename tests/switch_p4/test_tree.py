"""A leaf and a root of a tree, frame by frame: what a leaf's packets to its parent look like below the protocol, and
what a root says to a child. The vectors have the protocol's side."""

import pytest

from vectors import wire
from vectors.targets import bmv2_switch as bmv2

pytestmark = pytest.mark.skipif(bool(bmv2.missing()), reason=bmv2.missing())

UDP_PORT = 48879
JOB, EPOCH, GROUP = 9, 0x80000001, 144
PARENT_IP, PARENT_MAC, PARENT_PORT = "10.88.0.1", "02:88:00:00:00:01", 3
WORKERS = {4: ("10.77.0.4", "02:77:00:00:00:04", 5004, 0), 63: ("10.77.0.63", "02:77:00:00:00:63", 5063, 1)}
RESULTS_PASSED_DOWN, DROPPED_SOURCE, DROPPED_KIND = 19, 14, 10


def program_session(switch):
    """Two members, worker 4 and worker 63, with the bits 0 and 63; the tables by hand."""
    ask, handle = switch.console.ask, switch.console.handle
    ask("table_add", "sessions", "found", JOB, EPOCH, "=>", 1 << 63 | 1)
    ask("table_add", "pages", "page", JOB, 0, "=>", 128, 100, 0, GROUP)
    ask("mc_mgrp_create", GROUP)
    for bit, (worker, (ip, mac, udp_port, port)) in zip((0, 63), WORKERS.items()):
        ask("table_add", "workers", "SwitchIngress.session.member", JOB, worker, "=>", 1 << bit)
        ask("table_add", "sources", "speaks", JOB, worker, ip, udp_port, "=>", 0 if bit else 255)
        ask("table_add", "members", "SwitchEgress.copies.member", GROUP, worker + 1, "=>", mac, ip, udp_port)
        ask("mc_node_associate", GROUP, handle("mc_node_create", worker + 1, port))


@pytest.fixture(scope="module")
def root():
    switch = bmv2.Bmv2Switch()
    program_session(switch)
    yield switch
    switch.close()


@pytest.fixture(scope="module")
def leaf():
    switch = bmv2.Bmv2Switch()
    program_session(switch)
    switch.console.ask("table_add", "uplinks", "leaf", JOB, "=>", 4, PARENT_MAC, PARENT_IP, PARENT_PORT)
    yield switch
    switch.close()


def contribute(switch, worker, slot, **fields):
    ip, mac, udp_port, port = WORKERS[worker]
    packet = wire.Packet(job=JOB, epoch=EPOCH, worker=worker, slot=slot, seq=1, **fields)
    return send(switch, port, mac, ip, udp_port, packet)


def send(switch, port, mac, ip, udp_port, packet):
    datagram = bmv2.udp(udp_port, UDP_PORT, packet.encode())
    switch.inject(port, bmv2.ethernet(bmv2.SWITCH_MAC, mac, 0x0800, bmv2.ipv4(ip, bmv2.SWITCH_IP, 17, datagram)))
    return sorted(switch.settle(port))


def frame(mac, ip, udp_port, packet):
    """What the switch sends: from its own addresses, without a checksum of UDP."""
    datagram = bmv2.udp(UDP_PORT, udp_port, packet.encode())
    return bmv2.ethernet(mac, bmv2.SWITCH_MAC, 0x0800, bmv2.ipv4(bmv2.SWITCH_IP, ip, 17, datagram))


def to_all(packet):
    return sorted((port, frame(mac, ip, udp_port, packet)) for ip, mac, udp_port, port in WORKERS.values())


def result(slot, **fields):
    return wire.Packet(kind=2, job=JOB, epoch=EPOCH, worker=255, slot=slot, seq=1, **fields)


def counted(switch, job, reason):
    return int(switch.console.ask("counter_read", "reasons", job * 32 + reason).split(", ")[1].split()[0])


def passed_down(switch, reason=RESULTS_PASSED_DOWN):
    return counted(switch, JOB, reason)


def dropped_kind(switch):
    return counted(switch, 0, DROPPED_KIND)


def test_a_leaf_sends_its_aggregate_to_the_parent_alone(leaf):
    assert contribute(leaf, 4, 0, exponent=2, witness=0xFFFFFFFF, words=(1,) * 64) == []
    sent = wire.Packet(job=JOB, epoch=EPOCH, worker=4, slot=0, seq=1, exponent=3, witness=1, words=(6,) * 64)
    got = contribute(leaf, 63, 0, exponent=3, witness=2, words=(5,) * 64)
    assert got == [(PARENT_PORT, frame(PARENT_MAC, PARENT_IP, UDP_PORT, sent))]


def test_a_leaf_sends_it_again_marked(leaf):
    contribute(leaf, 63, 1, flags=1, words=(-5,) * 64)
    contribute(leaf, 4, 1, flags=1, words=(-9,) * 64)
    for worker in WORKERS:
        again = wire.Packet(job=JOB, epoch=EPOCH, worker=4, slot=1, seq=1, flags=1 | wire.REPEAT, words=(-5,) * 64)
        got = contribute(leaf, worker, 1, flags=1, words=(77,) * 64)
        assert got == [(PARENT_PORT, frame(PARENT_MAC, PARENT_IP, UDP_PORT, again))]


def test_a_parents_result_is_passed_down_as_it_is(leaf):
    before = passed_down(leaf)
    down = result(2, flags=0xF4, exponent=9, witness=8, words=tuple(range(64)))
    assert send(leaf, 2, PARENT_MAC, PARENT_IP, UDP_PORT, down) == to_all(down)
    assert passed_down(leaf) == before + 1


@pytest.mark.parametrize(
    "ip, udp_port", ((PARENT_IP, UDP_PORT - 1), ("10.88.0.2", UDP_PORT), (WORKERS[4][0], WORKERS[4][2]))
)
def test_a_result_from_elsewhere_is_dropped(leaf, ip, udp_port):
    before = passed_down(leaf, DROPPED_SOURCE)
    assert send(leaf, 3, PARENT_MAC, ip, udp_port, result(2)) == []
    assert passed_down(leaf, DROPPED_SOURCE) == before + 1


def test_only_a_result_for_all_workers_is_one(leaf):  # [PKT-7]
    before = dropped_kind(leaf)
    down = wire.Packet(kind=2, job=JOB, epoch=EPOCH, worker=4, slot=2, seq=1)
    assert send(leaf, 2, PARENT_MAC, PARENT_IP, UDP_PORT, down) == []
    assert dropped_kind(leaf) == before + 1


def test_a_root_answers_all_children_then_the_one_that_asks(root):
    assert contribute(root, 63, 0, words=(2,) * 64) == []
    answer = result(0, words=(5,) * 64)
    assert contribute(root, 4, 0, words=(3,) * 64) == to_all(answer)
    ip, mac, udp_port, port = WORKERS[63]
    repeated = contribute(root, 63, 0, flags=wire.REPEAT, words=(2,) * 64)
    assert repeated == [(port, frame(mac, ip, udp_port, answer))]
