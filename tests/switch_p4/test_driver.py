"""What every driver of a P4 switch does, whichever the switch: here it is a list of entries."""

import threading
import time

import pytest

try:
    import grpc
    from switchml_agent import api
except ImportError as error:
    pytest.skip(
        f"{error} (pip install grpcio protobuf, or apt install python3-grpcio python3-protobuf)",
        allow_module_level=True,
    )

from switchml_agent import driver, program, service, sessions
from switchml_agent.errors import Refusal

m = api.messages
PROGRAM = program.Program(payload=256, members=64, sessions=255, pages=80, page_slots=128, reasons=32, places=4096)
SESSION = m.InstallRequest(job=3, epoch=7, shards=1, slots=128, payload_bytes=256, members=[0, 1], pages=[4])
PLACE = m.SwitchPlace(address="10.0.0.1:4711", mac="02:00:00:00:00:0a", port=1)
MEMBER = m.SetMemberRequest(job=3, epoch=7, worker=1, place=PLACE)
REMOVAL = m.RemoveRequest(job=3, epoch=7)


class Listed(driver.Driver):
    """A switch that does what it is told."""

    kind = name = "list"

    def __init__(self):
        super().__init__("02:00:00:00:00:fe")
        self.entries, self.takes, self.gives = [], 10**6, 10**6  # what it will still add, and give back
        self.use, self.counts = ((0, 0), 0), {}  # what was read of a slot; counters by job and reason
        self.in_line, self.turns = (
            threading.Semaphore(0),
            threading.Semaphore(0),
        )  # calls that came; that had their turn

    def _open(self):
        self.program, self.ports = PROGRAM, (1,)
        self.neighbours = sessions.Neighbours(self.ports, {})
        self.entries.clear()

    def _shut(self):
        pass

    def _alive(self):
        pass

    def _with_switch(self, work, *wanted):
        self.in_line.release()
        try:
            return super()._with_switch(work, *wanted)
        finally:
            self.turns.release()

    def _session_entries(self, session):
        return session.entries(self.program)

    def _worker_entries(self, session, worker):
        return [session.worker_entry(worker)]

    def _member_entries(self, session, worker, shard, place):
        return session.member_entries(worker, shard, place)

    def _add(self, entry, undo):
        if self.takes == 0:
            raise driver.Refused("no")
        self.takes -= 1
        self.entries.append(entry)
        undo.append(entry)

    def _undo(self, entry):
        if self.gives == 0:
            raise driver.Refused("never")
        self.gives -= 1
        self.entries.remove(entry)

    def _read_use(self, session, slot, seq):
        return self.use

    def _count(self, job, reasons=range(len(program.REASONS))):
        return [self.counts.get((job, program.REASONS[reason]), 0) for reason in reasons]


@pytest.fixture
def switch():
    listed = Listed()
    listed.connect()
    return listed


@pytest.fixture
def stub(switch):
    server, port = service.serve(service.DataPlane(switch, lambda place, payload: None), "127.0.0.1:0")
    with grpc.insecure_channel(f"127.0.0.1:{port}") as channel:
        yield api.Stub("DataPlane", channel)
    server.stop(0).wait()


def test_a_reset_gives_another_instance_without_sessions(switch, stub):
    before = stub.Capabilities(m.CapabilitiesRequest(), timeout=60).instance
    stub.Install(SESSION, timeout=60)
    stub.SetMember(MEMBER, timeout=60)
    assert switch.entries
    assert stub.Capabilities(m.CapabilitiesRequest(), timeout=60).instance == before
    stub.Reset(m.ResetRequest(), timeout=60)
    assert stub.Capabilities(m.CapabilitiesRequest(), timeout=60).instance not in (0, before)
    assert switch.entries == []


@pytest.mark.parametrize("what, gives", (
    ("a member that moves", 0), ("a member that moves", 1),
    ("a member that does not fit", 3), ("a session that does not fit", 0),
))  # fmt: skip
def test_what_a_switch_refuses_to_give_back_is_taken_out_later(switch, what, gives):
    moved = m.SetMemberRequest(job=3, epoch=7, worker=1, place=PLACE, shard=sessions.ALL_SHARDS)
    change, request = (switch.install, SESSION) if "session" in what else (switch.set_member, moved)
    if "member" in what:
        switch.install(SESSION)
        switch.set_member(MEMBER)
    if "moves" not in what:
        switch.takes = 1
    switch.gives = gives
    with pytest.raises(Refusal):
        change(request)
    switch.takes = switch.gives = 10**6
    switch.install(SESSION)
    switch.set_member(moved)
    fresh = Listed()
    fresh.connect()
    fresh.install(SESSION)
    fresh.set_member(moved)
    assert sorted(map(repr, switch.entries)) == sorted(map(repr, fresh.entries))
    switch.gives = gives
    with pytest.raises(Refusal):
        switch.remove(REMOVAL)
    switch.gives = 10**6
    switch.remove(REMOVAL)
    assert switch.entries == []


# What must be there before, the call, its request.
CHANGES = {
    "Install": ((), SESSION),
    "SetMember": ((("Install", SESSION),), MEMBER),
    "Remove": ((("Install", SESSION), ("SetMember", MEMBER)), REMOVAL),
    "Reset": ((("Install", SESSION),), m.ResetRequest()),
}


@pytest.mark.parametrize("how", ("cancelled", "timed out"))
@pytest.mark.parametrize("name", CHANGES)
def test_a_change_that_nobody_waits_for_is_left_out(switch, stub, name, how):
    before, request = CHANGES[name]
    for earlier, asked in before:
        getattr(stub, earlier)(asked, timeout=60)
        assert switch.in_line.acquire(timeout=60) and switch.turns.acquire(timeout=60)
    entries, instance = list(switch.entries), switch.instance
    call = getattr(stub, name)
    with switch._lock:  # another call takes its time
        waiting = call.future(request, timeout=60 if how == "cancelled" else 1)
        assert switch.in_line.acquire(timeout=60)
        if how == "cancelled":
            waiting.cancel()
        with pytest.raises((grpc.RpcError, grpc.FutureCancelledError)):
            waiting.result(timeout=60)
        time.sleep(0.2)  # by now the agent has heard of it
    assert switch.turns.acquire(timeout=60)
    assert (switch.entries, switch.instance) == (entries, instance)
    call(request, timeout=60)
    assert (switch.entries, switch.instance) != (entries, instance)


def test_who_asks_for_contributors_is_told_what_was_dropped_for_its_length(switch, stub):  # [PROBE-4]
    stub.Install(SESSION, timeout=60)
    switch.use = (7, 9), 0b10
    request = m.ContributorsRequest(job=3, epoch=7, slot=5, seq=9)
    assert stub.Contributors(request, timeout=60) == m.ContributorsReply(members=[1])
    switch.counts = {
        (3, "dropped_length"): 4,
        (0, "dropped_length"): 2**20,
        (3, "dropped_short"): 8,
        (4, "dropped_length"): 16,
    }
    told = m.ContributorsReply(members=[1], dropped_length=2**20 + 4)
    assert stub.Contributors(request, timeout=60) == told, "of the job, and of no session"
    request.seq = 11  # nobody has come so far
    assert stub.Contributors(request, timeout=60) == m.ContributorsReply(dropped_length=2**20 + 4)


def test_what_is_left_out_is_said_to_be(switch):
    with pytest.raises(Refusal) as refusal:
        switch.install(SESSION, lambda: False)
    assert (refusal.value.code, str(refusal.value)) == ("CANCELLED", "the caller has given up")
