"""The agent for bmv2 against a running simple_switch: driven over gRPC as the controller does, with workers at the
ports."""

import contextlib
import itertools

import pytest

from vectors import wire
from vectors.targets import bmv2_switch as bmv2

pytestmark = pytest.mark.skipif(bool(bmv2.missing()), reason=bmv2.missing())
try:
    import grpc
    from agent_process import CONTROL, TIMEOUT, TOKEN, Agent, Stream
except ImportError as error:
    pytest.skip(
        f"{error} (pip install grpcio protobuf, or apt install python3-grpcio python3-protobuf)",
        allow_module_level=True,
    )

from switchml_agent import api, frames  # noqa: E402

m = api.messages
PAYLOAD = 256
EPOCHS = itertools.count(0xA0000000)
TABLES = ("sessions", "uplinks", "workers", "sources", "pairs", "pages", "members")


@pytest.fixture(scope="module")
def switch():
    running = bmv2.Bmv2Switch(control=CONTROL, bare=True)
    yield running
    running.close()


@pytest.fixture(scope="module")
def running_agent(switch, tmp_path_factory):
    started = Agent(switch, tmp_path_factory.mktemp("agent"))
    yield started
    assert started.stop() == (0, "")


@pytest.fixture
def agent(running_agent):
    yield running_agent
    running_agent.call("Reset", m.ResetRequest())


def outputs(switch, port):
    """What the switch sent to workers because of what came in at a port."""
    return sorted((number, frame) for number, frame in switch.settle(port) if number != CONTROL)


class Worker:
    """A member, at a port of the switch."""

    def __init__(self, number, port, udp_port=0):
        self.number, self.port = number, port
        self.ip, self.mac = f"10.77.0.{number + 1}", f"02:77:00:00:00:{number + 1:02x}"
        self.udp_port = udp_port or 5000 + number

    @property
    def place(self):
        return m.SwitchPlace(address=f"{self.ip}:{self.udp_port}", mac=self.mac, port=self.port)

    def inject(self, switch, payload):
        packet = bmv2.ipv4(self.ip, bmv2.SWITCH_IP, 17, bmv2.udp(self.udp_port, frames.UDP_PORT, payload))
        switch.inject(self.port, bmv2.ethernet(bmv2.SWITCH_MAC, self.mac, 0x0800, packet))

    def contribute(self, switch, session, slot, words, seq=1, **fields):
        """All that the switch sends because of it."""
        packet = wire.Packet(
            job=session.job, epoch=session.epoch, worker=self.number, slot=slot, seq=seq, words=words, **fields
        )
        self.inject(switch, packet.encode())
        return outputs(switch, self.port)

    def frame(self, packet):
        """What the switch has to send to bring this worker a packet."""
        datagram = bmv2.udp(frames.UDP_PORT, self.udp_port, packet.encode())
        return self.port, bmv2.ethernet(
            self.mac, bmv2.SWITCH_MAC, 0x0800, bmv2.ipv4(bmv2.SWITCH_IP, self.ip, 17, datagram)
        )


def to_each(workers, packet):
    """What the switch has to send where all of them get the packet."""
    return sorted(worker.frame(packet) for worker in workers)


ALICE, BOB = Worker(0, 1), Worker(1, 2)
PARENT = Worker(99, 2, frames.UDP_PORT)


def session(**changes):
    fields = {"job": 5, "epoch": 0xF0000001, "shards": 1, "slots": 200, "members": [0, 1], "pages": [3, 0]}
    return m.InstallRequest(**{"payload_bytes": PAYLOAD, **fields, **changes})


def member(installed, worker, shard=0, **changes):
    fields = {"job": installed.job, "epoch": installed.epoch, "worker": worker.number, "shard": shard}
    return m.SetMemberRequest(**{"place": worker.place, **fields, **changes})


def open_session(agent, *members, **changes):
    """A session of its own epoch, so that what others left in its slots means nothing."""
    changes.setdefault("epoch", next(EPOCHS))
    installed = session(members=[worker.number for worker in members], **changes)
    agent.call("Install", installed)
    for worker in members:
        agent.call("SetMember", member(installed, worker))
    return installed


def result(installed, slot, words, seq=1, **fields):
    return wire.Packet(
        kind=2, job=installed.job, epoch=installed.epoch, worker=255, slot=slot, seq=seq, words=words, **fields
    )


def counters(agent, job):
    found = {each.job: dict(each.values) for each in agent.call("Counters", m.CountersRequest()).jobs}
    return found[job]


def entries(switch):
    """What there is of sessions in the switch: entries of the tables, and multicast groups."""
    answers = {table: switch.console.ask("table_num_entries", table) for table in TABLES}
    numbers = {table: int(answer.split()[-1]) for table, answer in answers.items()}
    return {**numbers, "groups": switch.console.ask("mc_dump").count("mgrp(") - 1}


# ---- what the switch can do, and who may ask ----


def test_capabilities(agent):
    found = agent.call("Capabilities", m.CapabilitiesRequest())
    assert found.instance != 0
    found.instance = 0
    assert found == m.Capabilities(
        kind="bmv2", protocol_version=wire.VERSION, payload_bytes=[PAYLOAD], whole_chunks=True, members=64, jobs=255,
        operations=[m.Operation.SUM, m.Operation.MAX], trees=True, pages=80, page_slots=128, places=4096,
        mac=bmv2.SWITCH_MAC, pairs=True,
    )  # fmt: skip


@pytest.mark.parametrize("token", ("", "another", TOKEN + "x"))
@pytest.mark.parametrize("name, request_", (("Capabilities", m.CapabilitiesRequest()), ("Install", session())))
def test_calls_without_the_token_are_refused(agent, token, name, request_):
    assert agent.status(name, request_, token)[0] == "UNAUTHENTICATED"
    assert entries(agent.switch) == dict.fromkeys([*TABLES, "groups"], 0)


def test_packets_without_the_token_are_refused(agent):
    with pytest.raises(grpc.RpcError) as error:
        next(agent.stub.PacketsIn(m.PacketsInRequest(), timeout=TIMEOUT))
    assert error.value.code() == grpc.StatusCode.UNAUTHENTICATED


# ---- sessions ----


@pytest.mark.parametrize("slot", (0, 127, 128, 199))
def test_two_workers_aggregate(agent, slot):
    installed = open_session(agent, ALICE, BOB)
    assert ALICE.contribute(agent.switch, installed, slot, (1,) * 64, witness=7, exponent=4) == []
    answer = result(installed, slot, (3,) * 64, witness=9, exponent=4)
    told = BOB.contribute(agent.switch, installed, slot, (2,) * 64, witness=2, exponent=3)
    assert told == to_each((ALICE, BOB), answer)
    assert ALICE.contribute(agent.switch, installed, slot, (9,) * 64) == [ALICE.frame(answer)]


def test_nothing_is_found_before_a_member_is_set_and_beyond_the_slots(agent):
    installed = session(epoch=next(EPOCHS))
    agent.call("Install", installed)
    before = counters(agent, 5)
    assert ALICE.contribute(agent.switch, installed, 0, (1,) * 64) == []
    agent.call("SetMember", member(installed, ALICE))
    assert ALICE.contribute(agent.switch, installed, 200, (1,) * 64) == []
    now = counters(agent, 5)
    assert {name for name in now if now[name] != before[name]} == {"dropped_worker", "dropped_slot"}


def test_counters_of_jobs_and_of_none(agent):
    installed = open_session(agent, ALICE, BOB)
    before = counters(agent, 5), counters(agent, 0)
    ALICE.contribute(agent.switch, installed, 1, (1,) * 64)
    ALICE.contribute(agent.switch, installed, 1, (1,) * 64)
    BOB.contribute(agent.switch, installed, 1, (1,) * 64)
    BOB.contribute(agent.switch, installed, 1, (1,) * 64)
    ALICE.contribute(agent.switch, m.InstallRequest(job=6, epoch=1), 1, (1,) * 64)
    now = counters(agent, 5), counters(agent, 0)
    moved = [
        {name: after[name] - was[name] for name in after if after[name] != was[name]} for was, after in zip(before, now)
    ]
    added = {"contributions_added": 2, "uses_started": 1, "uses_completed": 1}
    assert moved == [{**added, "duplicates_dropped": 1, "duplicates_answered": 1}, {"dropped_session": 1}]


def test_shards_have_addresses_of_their_own(agent):
    installed = session(shards=2, slots=256, epoch=next(EPOCHS))
    agent.call("Install", installed)
    second = {worker: Worker(worker.number, 0, 6000 + worker.number) for worker in (ALICE, BOB)}
    for worker in (ALICE, BOB):
        agent.call("SetMember", member(installed, worker))
        agent.call("SetMember", member(installed, second[worker], shard=1))
    for worker, slot in ((ALICE, 127), (second[ALICE], 128)):
        assert worker.contribute(agent.switch, installed, slot, (1,) * 64) == []
    for number, slot in ((0, 127), (1, 128)):
        receivers = [(ALICE, BOB), tuple(second.values())][number]
        answer = result(installed, slot, (5,) * 64)
        assert receivers[1].contribute(agent.switch, installed, slot, (4,) * 64) == to_each(receivers, answer)
    assert ALICE.contribute(agent.switch, installed, 128, (1,) * 64) == []
    code, text = agent.status("SetMember", member(installed, ALICE, shard=1))
    assert (code, text) == ("INVALID_ARGUMENT", "worker 0, shard 1: 10.77.0.1:5000 speaks for shard 0 already")


def test_a_member_moves(agent):
    installed = open_session(agent, ALICE, BOB)
    moved = Worker(0, 0, 7777)
    agent.call("SetMember", member(installed, moved))
    assert ALICE.contribute(agent.switch, installed, 0, (1,) * 64) == []
    assert moved.contribute(agent.switch, installed, 0, (2,) * 64) == []
    answer = result(installed, 0, (5,) * 64)
    assert BOB.contribute(agent.switch, installed, 0, (3,) * 64) == to_each((moved, BOB), answer)
    assert entries(agent.switch)["members"] == 2


def test_a_leaf_with_its_parent_and_a_root_with_its_child(agent):
    uplink = m.Uplink(worker=1, parent=PARENT.place)
    leaf = open_session(agent, ALICE, uplink=uplink)
    up = wire.Packet(job=5, epoch=leaf.epoch, worker=1, slot=0, seq=1, words=(7,) * 64)
    assert ALICE.contribute(agent.switch, leaf, 0, (7,) * 64) == [PARENT.frame(up)]
    down = result(leaf, 0, (8,) * 64)
    PARENT.inject(agent.switch, down.encode())
    assert outputs(agent.switch, PARENT.port) == [ALICE.frame(down)]

    root = session(job=6, epoch=next(EPOCHS), shards=2, slots=256, pages=[10, 11], members=[1])
    agent.call("Install", root)
    agent.call("SetMember", member(root, BOB, shard=-1))
    for slot in (0, 200):
        assert BOB.contribute(agent.switch, root, slot, (1,) * 64) == [BOB.frame(result(root, slot, (1,) * 64))]


def test_contributors(agent):
    last = Worker(127, 2)
    installed = open_session(agent, ALICE, *(Worker(number, 1) for number in range(2, 64)), last)

    def contributors(seq, slot=130):
        asked = m.ContributorsRequest(job=5, epoch=installed.epoch, slot=slot, seq=seq)
        return list(agent.call("Contributors", asked).members)

    everybody = list(installed.members)
    assert len(everybody) == 64 and contributors(1) == []
    last.contribute(agent.switch, installed, 130, (1,) * 64)
    assert contributors(1) == [127] and contributors(3) == [] and contributors(1, slot=131) == []
    ALICE.contribute(agent.switch, installed, 130, (1,) * 64)
    assert contributors(1) == [0, 127]
    ALICE.contribute(agent.switch, installed, 130, (1,) * 64, seq=3)
    assert contributors(1) == everybody and contributors(3) == [0] and contributors(5) == []
    ALICE.contribute(agent.switch, installed, 130, (1,) * 64, seq=0x80000001)
    assert contributors(3) == everybody


def test_what_an_earlier_session_left_in_a_slot_is_nobodys(agent):
    installed = open_session(agent, ALICE, BOB)
    ALICE.contribute(agent.switch, installed, 0, (1,) * 64)
    agent.call("Remove", m.RemoveRequest(job=5, epoch=installed.epoch))
    again = open_session(agent, ALICE, BOB, epoch=0x70000001)
    asked = m.ContributorsRequest(job=5, epoch=again.epoch, slot=0, seq=1)
    assert list(agent.call("Contributors", asked).members) == []


# ---- the same again, and what cannot be ----


def test_the_same_again_changes_nothing(agent):
    installed = open_session(agent, ALICE, BOB)
    there = entries(agent.switch)
    ALICE.contribute(agent.switch, installed, 0, (1,) * 64)
    agent.call("Install", installed)
    agent.call("SetMember", member(installed, ALICE))
    assert entries(agent.switch) == there == {
        "sessions": 1, "uplinks": 0, "workers": 2, "sources": 2, "pairs": 0, "pages": 2, "members": 2, "groups": 1
    }  # fmt: skip
    answer = result(installed, 0, (2,) * 64)
    assert BOB.contribute(agent.switch, installed, 0, (1,) * 64) == to_each((ALICE, BOB), answer)


IN_USE = "job 5: it is in use by another session, with epoch 0xf0000001"
NOWHERE = m.SwitchPlace(address="10.1.1.1:48879")
WRONG = [
    *(("Install", session(**changes), "FAILED_PRECONDITION", IN_USE)
      for changes in ({"epoch": 9}, {"slots": 199}, {"members": [0, 1, 2]}, {"pages": [0, 3]})),
    ("Install", session(job=6, pages=[4, 3]), "FAILED_PRECONDITION", "page 3: it belongs to job 5"),
    ("Install", session(payload_bytes=1024), "INVALID_ARGUMENT",
     "payload_bytes 1024: the program in this switch takes 256 only"),
    ("Install", session(uplink=m.Uplink(worker=0, parent=NOWHERE)), "INVALID_ARGUMENT",
     "uplink parent 10.1.1.1:48879: it needs mac, because nothing has come from that address yet"),
    ("Install", session(uplink=m.Uplink(worker=0, parent=Worker(9, 1, 4000).place)), "INVALID_ARGUMENT",
     "uplink parent 10.77.0.10:4000: the UDP port of a parent must be 48879"),
    ("SetMember", member(session(), Worker(2, 1)), "INVALID_ARGUMENT", "worker 2: job 5 has the members 0, 1"),
    ("SetMember", member(session(), ALICE, shard=1), "INVALID_ARGUMENT", "shard 1: allowed are -1 to 0"),
    ("SetMember", member(session(), ALICE, epoch=8), "NOT_FOUND", "job 5 with epoch 0x8: it is not installed"),
    ("SetMember", member(session(), Worker(0, CONTROL)), "INVALID_ARGUMENT",
     "worker 0 10.77.0.1:5000: port 3: allowed are 0, 1, 2"),
    ("Contributors", m.ContributorsRequest(job=7, epoch=8, slot=0, seq=1), "NOT_FOUND",
     "job 7 with epoch 0x8: it is not installed"),
    ("Contributors", m.ContributorsRequest(job=5, epoch=0xF0000001, slot=200, seq=1), "INVALID_ARGUMENT",
     "slot 200: allowed are 0 to 199"),
    ("Contributors", m.ContributorsRequest(job=5, epoch=0xF0000001), "INVALID_ARGUMENT",
     "seq 0: allowed are 1 to 4294967295"),
]  # fmt: skip


@pytest.mark.parametrize("name, request_, code, text", WRONG, ids=[f"{name}-{text}" for name, _, _, text in WRONG])
def test_what_cannot_be(agent, name, request_, code, text):
    agent.call("Install", session())
    there = entries(agent.switch)
    assert agent.status(name, request_) == (code, text)
    assert entries(agent.switch) == there


def test_as_many_jobs_as_there_are_pages(agent):
    opened = [open_session(agent, ALICE, job=job, slots=128, pages=[job - 1]) for job in range(1, 81)]
    for job in (1, 80):
        installed = opened[job - 1]
        assert ALICE.contribute(agent.switch, installed, 5, (job,) * 64) == [
            ALICE.frame(result(installed, 5, (job,) * 64))
        ]
    assert len(agent.call("Counters", m.CountersRequest()).jobs) >= 81


# ---- the end of sessions ----


def test_remove(agent):
    kept = open_session(agent, ALICE, BOB, job=7, pages=[20, 21])
    there = entries(agent.switch)
    installed = open_session(agent, ALICE, BOB)
    agent.call("Remove", m.RemoveRequest(job=5, epoch=1))
    assert entries(agent.switch) != there, "another epoch is another session"
    for _ in range(2):
        agent.call("Remove", m.RemoveRequest(job=5, epoch=installed.epoch))
        assert entries(agent.switch) == there
    before = counters(agent, 0)["dropped_session"]
    assert ALICE.contribute(agent.switch, installed, 0, (1,) * 64) == []
    assert counters(agent, 0)["dropped_session"] == before + 1
    assert ALICE.contribute(agent.switch, kept, 0, (1,) * 64) == []
    answer = result(kept, 0, (3,) * 64)
    assert BOB.contribute(agent.switch, kept, 0, (2,) * 64) == to_each((ALICE, BOB), answer)


def test_reset(agent):
    open_session(agent, ALICE, BOB, uplink=m.Uplink(worker=1, parent=PARENT.place))
    open_session(agent, ALICE, BOB, job=7, pages=[20, 21])
    agent.call("Reset", m.ResetRequest())
    assert entries(agent.switch) == dict.fromkeys([*TABLES, "groups"], 0)
    agent.call("Reset", m.ResetRequest())


# ---- control packets ----


JOIN = wire.Layout("control").pack(version=wire.VERSION, kind=3, type=2, request_id=77) + bytes(range(16))


def test_control_packets_go_both_ways(agent):
    with Stream(agent) as stream:
        ALICE.inject(agent.switch, JOIN)
        packet = stream.packets.get(timeout=TIMEOUT)
        assert (packet.payload, packet.worker) == (JOIN, ALICE.place)
        agent.call("PacketOut", m.ControlPacket(payload=b"the answer", worker=packet.worker))
        assert outputs(agent.switch, ALICE.port) == [answer_to(ALICE, b"the answer")]
        # An address alone is enough for those that were heard.
        agent.call("PacketOut", m.ControlPacket(payload=b"more", worker=m.SwitchPlace(address="10.77.0.1:5001")))
        assert outputs(agent.switch, ALICE.port) == [answer_to(Worker(0, 1, 5001), b"more")]


def answer_to(worker, payload):
    place = frames.Place(worker.ip, worker.udp_port, worker.mac, worker.port)
    return worker.port, frames.packet_out(place, bmv2.SWITCH_IP, bmv2.SWITCH_MAC, payload)[2:]


def test_control_packets_are_counted_and_come_in_order(agent):
    before = counters(agent, 0)["control_requests"]
    with Stream(agent) as stream:
        for number in range(50):
            (ALICE, BOB)[number % 2].inject(agent.switch, JOIN + bytes([number]))
            agent.switch.settle((ALICE, BOB)[number % 2].port)
        assert [stream.packets.get(timeout=TIMEOUT).payload[-1] for _ in range(50)] == list(range(50))
    assert counters(agent, 0)["control_requests"] == before + 50


def test_a_member_is_set_with_what_its_request_told(agent):
    installed = session(members=[4], epoch=next(EPOCHS))
    agent.call("Install", installed)
    carol = Worker(4, 0)
    code, text = agent.status("SetMember", member(installed, carol, place=m.SwitchPlace(address="10.77.0.5:5004")))
    assert code == "INVALID_ARGUMENT" and "it needs mac" in text
    with Stream(agent) as stream:
        carol.inject(agent.switch, JOIN)
        stream.packets.get(timeout=TIMEOUT)
    agent.call("SetMember", member(installed, carol, place=m.SwitchPlace(address="10.77.0.5:5004")))
    assert carol.contribute(agent.switch, installed, 0, (1,) * 64) == [carol.frame(result(installed, 0, (1,) * 64))]


def test_the_last_controller_takes_the_packets(agent):
    with Stream(agent) as first, Stream(agent) as second:
        first.thread.join(TIMEOUT)
        assert first.end == "ABORTED"
        ALICE.inject(agent.switch, JOIN)
        assert second.packets.get(timeout=TIMEOUT).payload == JOIN


def test_what_is_no_control_packet_disturbs_nothing(agent):
    with Stream(agent) as stream:
        ALICE.inject(agent.switch, b"\x13" + JOIN[1:7])  # shorter than the fixed part: stays in the switch
        agent.switch.inject(CONTROL, b"\x01\xff" + b"\x22" * 60)
        ALICE.inject(agent.switch, JOIN)
        assert stream.packets.get(timeout=TIMEOUT).payload == JOIN
        assert stream.packets.empty()


# ---- restarts ----


@contextlib.contextmanager
def fresh(tmp_path):
    switch, agent = bmv2.Bmv2Switch(control=CONTROL, bare=True), None
    try:
        agent = Agent(switch, tmp_path)
        yield switch, agent
    finally:
        if agent and agent.process.poll() is None:
            agent.stop()
        switch.close()


def test_the_switch_starts_anew(tmp_path):
    with fresh(tmp_path) as (switch, agent):
        before = agent.call("Capabilities", m.CapabilitiesRequest())
        installed = open_session(agent, ALICE, BOB)
        switch.restart()
        after = agent.call("Capabilities", m.CapabilitiesRequest())
        assert after.instance != before.instance
        assert agent.status("SetMember", member(installed, ALICE))[0] == "NOT_FOUND"
        installed = open_session(agent, ALICE)
        assert ALICE.contribute(switch, installed, 0, (4,) * 64) == [ALICE.frame(result(installed, 0, (4,) * 64))]
        assert agent.stop()[0] == 0


def test_a_switch_that_is_away(tmp_path):
    with fresh(tmp_path) as (switch, agent):
        switch.stop_process()
        calls = {"Install": session(), "Capabilities": m.CapabilitiesRequest(), "Counters": m.CountersRequest()}
        for name, request in calls.items():
            code, text = agent.status(name, request)
            assert code == "UNAVAILABLE" and "simple_switch_CLI" in text
        switch.restart()
        agent.call("Install", session())
        assert agent.stop()[0] == 0


def test_the_agent_starts_anew(tmp_path):
    with fresh(tmp_path) as (switch, first):
        before = first.call("Capabilities", m.CapabilitiesRequest())
        installed = open_session(first, ALICE, BOB)
        first.process.kill()
        first.process.wait(TIMEOUT)
        second = Agent(switch, tmp_path)
        try:
            assert second.call("Capabilities", m.CapabilitiesRequest()).instance != before.instance
            assert entries(switch) == dict.fromkeys([*TABLES, "groups"], 0)
            assert ALICE.contribute(switch, installed, 0, (1,) * 64) == []
            installed = open_session(second, ALICE)
            assert ALICE.contribute(switch, installed, 0, (4,) * 64) == [ALICE.frame(result(installed, 0, (4,) * 64))]
        finally:
            stopped = second.stop()
        assert stopped == (0, "")


def test_what_an_agent_cannot_start_with(switch, running_agent, tmp_path):
    for more, text in (
        (("--control-interface", "nowhere0"), "nowhere0: No such device"),
        (("--control-port", "9"), "control port 9: the switch has the ports 0, 1, 2, 3"),
        (("--thrift", "127.0.0.1:9"), "Make sure the switch is running"),
        (("--token-file", "/nowhere"), "/nowhere: No such file or directory"),
    ):
        with pytest.raises(AssertionError, match=text):
            Agent(switch, tmp_path, *more)
    running_agent.call("Reset", m.ResetRequest())
