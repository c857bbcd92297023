"""The TNA program as a data plane, on the open Tofino model. Sessions are table entries; the counters are the
program's."""

import contextlib
import functools
import itertools
import socket

from vectors.targets import Capabilities, TargetError
from vectors.targets import bmv2_switch as packets
from vectors.targets import tofino_switch as tofino
from vectors.targets.programmed import REASONS, ProgrammedTarget, frames, sessions, sizes_of

WORDS = 64  # of a segment
# Front-panel ports, of two pipes: what comes in by the second goes around to the first, where the first pass is.
PORTS = (0, 1, 132, 133)
# By the number of segments of a payload: the segment that each later pass deals with.
LATER_PASSES = {1: (0,), 4: (1, 2, 3, 3, 2, 2, 1, 1, 0, 0)}


def patterns(begin, count, bits):
    """The numbers from `begin`, a multiple of a power of two that is not below `count`, as patterns of 0, 1 and *."""
    made = []
    for power in range(bits, -1, -1):
        if count & 1 << power:
            made.append("0b" + f"{begin:0{bits}b}"[: bits - power] + "*" * power)
            begin += 1 << power
    return made


def ip_of(place):
    return "0x" + socket.inet_aton(place.ip).hex()


def mac_of(text):
    return "0x" + packets.mac_bytes(text).hex()


def told(method):
    """What goes wrong in the model is the data plane's failure."""

    @functools.wraps(method)
    def wrapped(*arguments, **named):
        try:
            return method(*arguments, **named)
        except tofino.SwitchError as error:
            raise TargetError(str(error)) from error

    return wrapped


class TofinoTarget(ProgrammedTarget):
    """`segments` of a payload, of 64 words each; segment i lies in pipe i modulo `pipes`."""

    name = "tofino"
    roce = False  # whether the program is the end of queue pairs
    behind = 0  # bytes of a frame behind its packet

    @told
    def __init__(self, segments=1, pipes=1):
        self._sizes = sizes_of(None)
        self._segments, self._pipes = segments, pipes
        self.capabilities = Capabilities(
            payload=4 * WORDS * segments, workers=self._sizes["MAX_WORKERS"], whole=True, tree=True
        )
        rounds = len(LATER_PASSES[segments]) + 1  # and one for what comes in by another pipe
        self.switch = tofino.TofinoSwitch(WORDS, segments, rounds, range(pipes), self.roce)
        # Segments of one pipe share its registers.
        super().__init__(PORTS, self._sizes["PAGES"] * pipes // segments, self._sizes["PAGE_SLOTS"])
        self._begin()

    def _begin(self):
        self._stations.clear()
        self._open.clear()
        self._last.clear()
        self.switch.watch_loops(PORTS[0])
        self.switch.add("addresses", {"ip": "0x" + socket.inet_aton(packets.SWITCH_IP).hex()}, "mine", {})
        self.switch.set_default("mac", "own_mac", {"mac": mac_of(packets.SWITCH_MAC)})

    @told
    def reset(self):
        self.switch.restart()
        self._begin()

    @told
    def open_session(self, spec, job=None):
        session, opened = self._new_session(spec, job)
        entries = []
        self._open[spec.name] = session, entries
        for entry in itertools.chain(
            self._ways(session),
            self._pages(session),
            self._uplink(session),
            self._workers(session),
            self._members(session, spec),
            self._live(session),
        ):
            entries.append(self.switch.add(*entry))
        for shard in range(spec.shards):
            ports = [(worker + 1, self._station(spec.address(worker, shard)).port) for worker in spec.members]
            self.switch.set_group(session.group(shard), ports)
        return opened

    def _loop(self, segment):
        return tofino.loop_port(segment % self._pipes)

    def _ways(self, session):
        job = {"headers.switchml.job": session.job}
        for step, segment in enumerate(LATER_PASSES[self._segments], 1):
            yield (
                "loops",
                job | {"headers.bridge.step": f"0b****{step:04b}"},
                "go",
                {"port": self._loop(segment), "segment": segment},
            )
        for pipe in sorted({port >> 7 for port in PORTS} - {self._loop(0) >> 7}):
            yield "homes", job | {"intrinsic.ingress_port": f"0b{pipe:02b}*******"}, "away", {"port": self._loop(0)}

    def _pages(self, session):
        page_slots, in_pipe = self._sizes["PAGE_SLOTS"], self._segments // self._pipes
        for (i, page), segment in itertools.product(enumerate(session.pages), range(self._segments)):
            first = i * page_slots
            shard = first // (session.slots // session.shards)
            number = page * in_pipe + segment // self._pipes
            parameters = {"number": number, "shard": shard, "audience": session.group(shard)}
            for slots in patterns(first, min(page_slots, session.slots - first), 16):
                keys = {
                    "headers.switchml.job": session.job,
                    "headers.bridge.segment": segment,
                    "headers.switchml.slot": slots,
                }
                yield "pages", keys, "page", parameters

    def _uplink(self, session):
        if session.uplink:
            number, parent = session.uplink
            parameters = {"worker": number, "mac": mac_of(parent.mac), "ip": ip_of(parent), "port": parent.port}
            yield "uplinks", {"headers.switchml.job": session.job}, "leaf", parameters

    def _workers(self, session):
        for place, worker in enumerate(session.members):
            bit = 1 << place
            keys = {"headers.switchml.job": session.job, "headers.switchml.worker": worker}
            yield "workers", keys, "session.member", {"lower": bit & 0xFFFFFFFF, "upper": bit >> 32}

    def _members(self, session, spec):
        for worker in session.members:
            for shard in range(spec.shards):
                yield self._receives(session, spec, worker, shard)
            for shard in (sessions.ANY_SHARD,) if worker in spec.children else range(spec.shards):
                yield self._speaks(session, spec, worker, shard)

    def _receives(self, session, spec, worker, shard):
        place = self._station(spec.address(worker, shard))
        return self._copy(session, worker, shard, place, "member", {"port": place.udp_port})

    def _copy(self, session, worker, shard, place, action, parameters):
        keys = {"headers.bridge.audience": session.group(shard), "intrinsic.egress_rid": worker + 1}
        return "members", keys, f"copies.{action}", {"mac": mac_of(place.mac), "ip": ip_of(place)} | parameters

    def _speaks(self, session, spec, worker, shard):
        place = self._station(spec.address(worker, shard))
        return self._source(session, worker, shard, place, place.udp_port)

    def _source(self, session, worker, shard, place, number):
        """`number`: of its UDP port."""
        keys = {"headers.switchml.job": session.job, "headers.switchml.worker": worker}
        keys |= {"headers.ipv4.source": ip_of(place)} | self._origin(number)
        return "sources", keys, "speaks", {"shard": shard}

    def _origin(self, number):
        return {"headers.udp.source": number}

    def _live(self, session):
        keys = {"headers.switchml.job": session.job, "headers.switchml.epoch": session.epoch}
        yield "sessions", keys, "found", {"workers": len(session.members)}

    @told
    def close_session(self, name):
        session, entries = self._open.pop(name)
        for entry in reversed(entries):
            self.switch.remove(entry)
        for shard in range(session.shards):
            self.switch.set_group(session.group(shard), [])
        self._count(session.job)

    @contextlib.contextmanager
    def loss_before(self, name, step):
        """No packet of this session gets to that pass."""
        session, entries = self._open[name]
        self.switch.remove(entries[step - 1])
        try:
            yield
        finally:
            entries[step - 1] = self.switch.add(*list(self._ways(session))[step - 1])

    @told
    def _sent(self, station, packet):
        self.switch.inject(station.port, packets.ethernet(packets.SWITCH_MAC, station.mac, 0x0800, packet))
        return [self._received(port, out) for port, out in self.switch.settle()]

    def _received(self, port, frame):
        """(endpoint, UDP payload) of a frame that is right in everything below."""
        for name, station in self._stations.items():
            length = int.from_bytes(frame[38:40], "big") - 8
            payload = frame[42 : 42 + length]
            datagram = packets.udp(frames.UDP_PORT, station.udp_port, payload)
            packet = packets.ipv4(packets.SWITCH_IP, station.ip, 17, datagram)
            wanted = packets.ethernet(station.mac, packets.SWITCH_MAC, 0x0800, packet)
            right = frame.startswith(wanted) and len(frame) == len(wanted) + self.behind
            if right and port == station.port:
                return name, payload
        raise TargetError(f"port {port}: not an answer to any station: {frame.hex()}")

    @told
    def _read_reasons(self, job):
        first = job * self._sizes["REASONS"]
        return self.switch.read_counters("reasons", range(first, first + len(REASONS)))

    def close(self):
        self.switch.close()
