"""What the drivers of P4 switches have in common: which sessions are in the switch, and what may be done to them."""

import abc
import secrets
import threading

from switchml_agent import program as programs
from switchml_agent import sessions
from switchml_agent.api import messages
from switchml_agent.errors import (
    Refusal,
    cancelled,
    check_range,
    exhausted,
    internal,
    invalid,
    not_found,
    precondition,
    unavailable,
)

PROTOCOL_VERSION = 5
_READS = 8  # of registers that a packet may change meanwhile


class Refused(Exception):
    """The switch refused a command: it does not fit the program or its state. `full`: there is no room for it."""

    def __init__(self, text, full=False):
        super().__init__(text)
        self.full = full


class Gone(Exception):
    """The switch does not answer. All that was programmed into it may be lost."""


def _always():
    return True


class _Installed:
    """A session in the switch, and what takes it out again."""

    def __init__(self, session, undo):
        self.session = session
        self.undo = undo
        self.workers = {}  # {number: undo}
        self.members = {}  # {(number, shard): (Place, undo)}
        self.pairs = {}  # {(number, shard): sessions.Pair}, of those that have one


class Driver(abc.ABC):
    """Thread-safe; calls take turns. Methods raise Refusal; those that change the switch ask `wanted()` when their turn
    has come, whether anybody still waits for it. A switch that was started anew is set up again, without sessions and
    with another `instance`. A subclass speaks to the switch.
    """

    kind = name = ""  # as in Capabilities; for messages
    program: programs.Sizes
    ports: tuple[int, ...]
    neighbours: sessions.Neighbours | None
    has_pairs = False  # whether it is the end of queue pairs

    def __init__(self, own_mac):
        self._own_mac = own_mac
        self._lock = threading.RLock()
        self._connected = False
        self._installed = {}  # by job
        self._left = []  # undo lists that the switch refused, which belong to no session any more
        self._counted = set()  # jobs whose counters may have moved
        self.neighbours = None

    # ---- what a subclass does; all raise Refused and Gone ----

    @abc.abstractmethod
    def _open(self):
        """Reaches the switch, and sets `program`, `ports` and `neighbours`."""

    @abc.abstractmethod
    def _shut(self):
        """Idempotent; also after an _open that failed."""

    @abc.abstractmethod
    def _alive(self):
        """Returns if the switch answers."""

    @abc.abstractmethod
    def _session_entries(self, session):
        """All but the members', in the order to add them."""

    @abc.abstractmethod
    def _worker_entries(self, session, worker): ...

    @abc.abstractmethod
    def _member_entries(self, session, worker, shard, place): ...

    def _pair_entries(self, session, worker, shard, place, pair):
        """The same of a member with a queue pair, where there can be any."""
        raise NotImplementedError

    @abc.abstractmethod
    def _add(self, entry, undo):
        """Puts an entry in, and appends to `undo` what _undo takes it out by."""

    @abc.abstractmethod
    def _undo(self, step): ...

    @abc.abstractmethod
    def _read_use(self, session, slot, seq):
        """((epoch, seq), bitmap) of the use that the slot holds."""

    @abc.abstractmethod
    def _count(self, job, reasons=range(len(programs.REASONS))):
        """Packets of a job, by reason."""

    # ---- the connection ----

    def connect(self):
        """Takes the switch over: whatever was programmed into it before is removed."""
        with self._lock:
            self.close()
            try:
                self._open()
            except Gone as error:
                self._shut()
                raise unavailable(f"{self.name}: {error}") from error
            except (Refused, programs.NotSwitchml) as error:
                self._shut()
                raise precondition(f"{self.name}: {error}") from error
            self._counted = {0}
            self._connected = True
            self.instance = secrets.randbits(64) or 1

    def close(self):
        """Idempotent."""
        with self._lock:
            self._shut()
            self._connected = False
            self._installed.clear()
            self._left.clear()

    def _with_switch(self, work, wanted=_always):
        """work(), with the switch's failures as refusals of the call. What is not wanted any more is left out: its
        caller may have asked for the opposite since."""
        with self._lock:
            if not wanted():
                raise cancelled("the caller has given up")
            if not self._connected:
                self.connect()
            try:
                return work()
            except Gone as error:
                self.close()
                raise unavailable(f"the switch is gone, its sessions too: {error}") from error
            except Refused as error:
                raise (exhausted if error.full else internal)(f"the switch refused: {error}") from error

    # ---- the calls ----

    def capabilities(self):
        with self._lock:
            try:
                self._with_switch(self._alive)
            except Refusal:  # a switch that was started anew is there by now, or the second error says what is wrong
                self.connect()
            return self._describe()

    def _describe(self):
        return messages.Capabilities(
            kind=self.kind, instance=self.instance, protocol_version=PROTOCOL_VERSION,
            payload_bytes=[self.program.payload], whole_chunks=True, members=self.program.members,
            jobs=self.program.sessions, operations=[messages.Operation.SUM, messages.Operation.MAX], trees=True,
            pages=self.program.pages, page_slots=self.program.page_slots, places=self.program.places, mac=self._own_mac,
            pairs=self.has_pairs,
        )  # fmt: skip

    def reset(self, wanted=_always):
        self._with_switch(self._remove_all, wanted)

    def _remove_all(self):
        self.instance = secrets.randbits(64) or 1  # whose sessions these were must notice
        for job in list(self._installed):
            self._take_out(job)

    def install(self, request, wanted=_always):
        self._with_switch(lambda: self._install(request), wanted)

    def _install(self, request):
        session = sessions.session_of(request, self.program, self._place)
        present = self._installed.get(session.job)
        if present:
            if present.session == session:
                return
            raise precondition(
                f"job {session.job}: it is in use by another session, with epoch {present.session.epoch:#x}"
            )
        for other in self._installed.values():
            taken = set(other.session.pages) & set(session.pages)
            if taken:
                raise precondition(f"page {min(taken)}: it belongs to job {other.session.job}")
        if len(self._installed) >= self.program.sessions:
            raise exhausted(
                f"job {session.job}: {len(self._installed)} sessions are installed, the most that there can be"
            )
        self._installed[session.job] = _Installed(session, self._added(self._session_entries(session)))
        self._counted.add(session.job)

    def set_member(self, request, wanted=_always):
        """The SetMemberReply."""
        return self._with_switch(lambda: self._set_member(request), wanted)

    def _set_member(self, request):
        installed = self._find(request)
        session, worker, shard = installed.session, request.worker, request.shard
        if worker not in session.members:
            raise invalid(f"worker {worker}: job {session.job} has the members {', '.join(map(str, session.members))}")
        check_range("shard", shard, sessions.ALL_SHARDS, session.shards - 1)
        place = self._place(request.place, f"worker {worker}")
        pair = self._pair(request)
        held = installed.members.get((worker, shard), ("",))[0], installed.pairs.get((worker, shard))
        if held != (place, pair):
            _check_source(installed, worker, shard, place)
            self._before_member(installed, worker, place)
            self._replace_member(installed, worker, shard, place, pair)
        self._after_member(installed)
        return _own_end(session, worker, shard, installed.pairs.get((worker, shard)))

    def _replace_member(self, installed, worker, shard, place, pair):
        for key in [key for key in installed.members if key[0] == worker and _overlap(key[1], shard)]:
            self._left.append(installed.members.pop(key)[1])
            installed.pairs.pop(key, None)
        session = installed.session
        if worker not in installed.workers:
            installed.workers[worker] = self._added(self._worker_entries(session, worker))
        if pair:
            entries = self._pair_entries(session, worker, shard, place, pair)
        else:
            entries = self._member_entries(session, worker, shard, place)
        installed.members[worker, shard] = place, self._added(entries)
        if pair:
            installed.pairs[worker, shard] = pair

    def _pair(self, request):
        if not request.HasField("pair"):
            return None
        if not self.has_pairs:
            raise invalid(f"worker {request.worker}: this switch is not the end of queue pairs")
        taken = {pair.index for each in self._installed.values() for pair in each.pairs.values()}
        index = next(number for number in range(len(taken) + 1) if number not in taken)
        return sessions.pair_of(request, index, secrets.randbits(24))

    def _find(self, request):
        installed = self._installed.get(request.job)
        if not installed or installed.session.epoch != request.epoch:
            raise not_found(f"job {request.job} with epoch {request.epoch:#x}: it is not installed")
        return installed

    def remove(self, request, wanted=_always):
        self._with_switch(lambda: self._remove(request), wanted)

    def _remove(self, request):
        installed = self._installed.get(request.job)
        if installed and installed.session.epoch == request.epoch:
            self._take_out(request.job)

    def _take_out(self, job):
        """The session first, so that what is left is found by no packet. What the switch refuses to give back stays
        with the session, for the next attempt."""
        installed = self._installed[job]
        self._undo_all(installed.undo, keep=len(installed.undo) - 1)
        for _, undo in installed.members.values():
            self._undo_all(undo)
        for undo in installed.workers.values():
            self._undo_all(undo)
        self._undo_all(installed.undo)
        self._take_out_left()
        del self._installed[job]

    def contributors(self, request):
        return self._with_switch(lambda: self._contributors(request))

    def _contributors(self, request):
        session = self._find(request).session
        check_range("slot", request.slot, 0, session.slots - 1)
        check_range("seq", request.seq, 1, 2**32 - 1)
        epoch, seq, bits = self._steady_use(session, request.slot, request.seq)
        ahead = (seq - request.seq) % 2**32
        reply = messages.ContributorsReply(dropped_length=self._dropped_length(session.job))
        if epoch == session.epoch and ahead < 2**31:
            reply.members.extend(m for i, m in enumerate(session.members) if ahead or bits >> i & 1)
        return reply

    def _dropped_length(self, job):  # [PROBE-4]
        """Of the job, and of no session."""
        return sum(self._count(number, [programs.REASONS.index("dropped_length")])[0] for number in (job, 0))

    def _steady_use(self, session, slot, seq):
        """(epoch, seq, bitmap) that belong together, although packets may come in between."""
        before, bits = self._read_use(session, slot, seq)
        for _ in range(_READS):
            after, next_bits = self._read_use(session, slot, seq)
            if after == before:
                return *before, bits
            before, bits = after, next_bits
        raise internal("the slot changes faster than it can be read")

    def counters(self):
        return self._with_switch(self._counters)

    def _counters(self):
        reply = messages.CountersReply()
        for job in sorted(self._counted):
            values = reply.jobs.add(job=job).values
            for name, count in zip(programs.REASONS, self._count(job)):
                for counter in programs.SEVERAL.get(name, (name,)):
                    values[counter] += count
        return reply

    # ---- control packets ----

    def heard(self, place):
        """A control packet came from there."""
        if self.neighbours:
            self.neighbours.heard(place)

    def place(self, asked):
        """Where a control packet has to go."""
        neighbours = self.neighbours  # no lock: answers to workers do not wait for what else is done
        if neighbours is None:
            raise unavailable("the switch has not been reached yet")
        try:
            return neighbours.place(asked, "worker")
        except Refusal:
            return self._with_switch(lambda: self._place(asked, "worker"))

    def _place(self, asked, name):
        """Where that is; at a port that has appeared meanwhile too."""
        assert self.neighbours  # _open has set them
        try:
            return self.neighbours.place(asked, name)
        except Refusal:
            if not self._follow_ports():
                raise
        return self.neighbours.place(asked, name)

    def _follow_ports(self):
        """Takes note of ports that have come or gone; whether there are any. For switches whose ports do."""
        return False

    def _before_member(self, installed, worker, place):
        """For switches in which it matters where members are: before this one is added."""

    def _after_member(self, installed):
        """The same, after it. It may be called again."""

    # ---- entries ----

    def _added(self, entries):
        """All of them or none; what takes them out again."""
        self._take_out_left()
        undo: list = []
        self._add_all(entries, undo)
        return undo

    def _add_all(self, entries, undo):
        try:
            for entry in entries:
                self._add(entry, undo)
        except Refused:
            self._left.append(undo)
            self._take_out_left()
            raise

    def _take_out_left(self):
        """Before anything is added, which may be in the same places."""
        while self._left:
            self._undo_all(self._left[-1])
            self._left.pop()

    def _undo_all(self, undo, keep=0):
        """What is undone leaves the list, so that another attempt goes on where this one was refused."""
        while len(undo) > max(keep, 0):
            self._undo(undo[-1])
            undo.pop()


def _check_source(installed, worker, shard, place):
    """The switch tells the shards of a worker apart by where they come from."""
    for (number, other), (held, _) in installed.members.items():
        same = (held.ip, held.udp_port) == (place.ip, place.udp_port)
        if number == worker and same and not _overlap(other, shard):
            raise invalid(
                f"worker {worker}, shard {shard}: {place.ip}:{place.udp_port} speaks for shard {other} already"
            )


def _own_end(session, worker, shard, pair):
    reply = messages.SetMemberReply()
    if pair:
        reply.pair.number = sessions.pair_number(session.job, worker, shard)
        reply.pair.first_psn = pair.first_psn
    return reply


def _overlap(shard, other):
    return shard == other or sessions.ALL_SHARDS in (shard, other)
