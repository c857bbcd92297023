"""The v1model program as a data plane. Sessions are table entries, the same that the agent for bmv2 makes; the counters are
the program's."""

import dataclasses
import random
import re
import socket
import sys

from vectors.targets import COUNTERS, Capabilities, Session, Target, TargetError
from vectors.targets import bmv2_switch as bmv2

sys.path.append(str(bmv2.ROOT / "python"))  # where no built one is installed

from switchml_agent import frames, sessions  # noqa: E402
from switchml_agent.program import REASONS, SEVERAL, Program  # noqa: E402

SMALL_PAGES = {"PAGE_SLOTS": 4, "PAGE_BITS": 2, "PAGES": 2560}  # so that a vector's few slots can be several shards


def sizes_of(changed):
    """The constants of sizes.p4, some of them changed."""
    text = (bmv2.ROOT / "switch_p4/sizes.p4").read_text(encoding="utf-8")
    return {key: int(number) for key, number in re.findall(r"#define (\w+) (\d+)", text)} | (changed or {})


class Bmv2Target(Target):
    name = "bmv2"

    def __init__(self, words=64, sizes=None):
        """`words` of a payload; `sizes`: constants of sizes.p4 that are to have another value."""
        known = sizes_of(sizes)
        self._program = Program(
            4 * words, known["MAX_WORKERS"], known["SESSIONS"], known["PAGES"], known["PAGE_SLOTS"], known["REASONS"]
        )
        self.capabilities = Capabilities(
            payload=4 * words, workers=known["MAX_WORKERS"], whole=True, tree=True, shards=known["PAGE_SLOTS"] <= 4
        )
        self._switch = bmv2.Bmv2Switch(words, sizes)
        self._ask = self._switch.console.ask
        self._stations = {}
        self._open = {}  # by name: (Session of the agent, [("table_delete", ...) and the like])
        self._used_epochs = set()
        self._random = random.Random(1)
        self._last = {}  # counter values, by (job, reason)
        self._totals = dict.fromkeys(COUNTERS, 0)

    def reset(self):
        for name in list(self._open):
            self.close_session(name)
        self._stations.clear()

    def open_session(self, spec, job=None):
        jobs = {session.job for session, _ in self._open.values()}
        if job is None:
            job = next(number for number in range(1, 256) if number not in jobs)
        if job in jobs:
            raise TargetError(f"job {job} is in use")
        if (job, 1) not in self._last:
            self._baseline(job)
        session = sessions.Session(
            job, self._new_epoch(), spec.shards, spec.slots, spec.members, self._free_pages(spec), self._uplink(spec)
        )
        undo = []
        self._open[spec.name] = session, undo
        for group in session.groups:
            self._ask("mc_mgrp_create", group)
            undo.append(("mc_mgrp_destroy", group))
        for entry in session.entries(self._program):
            self._add(undo, entry)
        for worker in spec.members:
            self._add_member(undo, session, spec, worker)
        return Session(job=job, epoch=session.epoch)

    def _new_epoch(self):
        while True:
            epoch = self._random.randrange(1, 2**32)
            if epoch not in self._used_epochs:
                self._used_epochs.add(epoch)
                return epoch

    def _free_pages(self, spec):
        wanted = -(-spec.slots // self._program.page_slots)
        taken = {page for session, _ in self._open.values() for page in session.pages}
        free = [page for page in range(self._program.pages) if page not in taken][:wanted]
        if len(free) < wanted:
            raise TargetError(f"{spec.slots} slots: no {wanted} pages are free")
        return tuple(free)

    def _uplink(self, spec):
        return () if spec.uplink is None else (spec.uplink, self._station(spec.parent))

    def _add(self, undo, entry):
        if isinstance(entry, sessions.Copy):
            node = self._switch.console.handle("mc_node_create", entry.replica, entry.port)
            self._ask("mc_node_associate", entry.group, node)
            undo.append(("mc_node_destroy", node))
        else:
            undo.append(("table_delete", entry.table, self._switch.console.handle(*entry.words())))

    def _add_member(self, undo, session, spec, worker):
        self._add(undo, session.worker_entry(worker))
        shards = (sessions.ALL_SHARDS,) if worker in spec.children else range(spec.shards)
        for shard in shards:
            for entry in session.member_entries(worker, shard, self._station(spec.address(worker, max(shard, 0)))):
                self._add(undo, entry)

    def close_session(self, name):
        session, undo = self._open.pop(name)
        for command in reversed(undo):
            self._ask(*command)
        self._count(session.job)  # or the next session of this number would seem to have counted it

    def send(self, sender, frame):
        station = self._station(sender)
        datagram = bmv2.udp(station.udp_port, frames.UDP_PORT, frame)
        packet = bmv2.ipv4(station.ip, bmv2.SWITCH_IP, 17, datagram)
        try:
            self._switch.inject(station.port, bmv2.ethernet(bmv2.SWITCH_MAC, station.mac, 0x0800, packet))
            return [self._received(port, out) for port, out in self._switch.settle(station.port)]
        except bmv2.SwitchError as error:
            raise TargetError(str(error)) from error

    def _station(self, name):
        """Who stands behind an endpoint's name. Switches speak from the port of switches."""
        if name not in self._stations:
            n = len(self._stations)
            high, low = divmod(n + 1, 250)
            udp_port = frames.UDP_PORT if name.endswith(".parent") else 20000 + n
            self._stations[name] = frames.Place(
                f"10.77.{high}.{low + 1}", udp_port, f"02:77:00:01:{high:02x}:{low:02x}", n % bmv2.PORTS
            )
        return self._stations[name]

    def _received(self, port, frame):
        """(endpoint, UDP payload) of a frame that is right in everything below."""
        packet = frame[14 : 14 + int.from_bytes(frame[16:18], "big")]
        source, destination = (socket.inet_ntoa(packet[at : at + 4]) for at in (12, 16))
        udp_port = int.from_bytes(packet[22:24], "big")
        for name, station in self._stations.items():
            if (station.ip, station.udp_port) != (destination, udp_port):
                continue
            payload = packet[28 : 20 + int.from_bytes(packet[24:26], "big")]
            right = (
                port == station.port
                and frame[:14] == bmv2.mac_bytes(station.mac) + bmv2.mac_bytes(bmv2.SWITCH_MAC) + b"\x08\x00"
                and (source, packet[9]) == (bmv2.SWITCH_IP, 17)
                and bmv2.checksum(packet[:20]) == 0
                and packet[20:22] == frames.UDP_PORT.to_bytes(2, "big")
                and len(packet) == 28 + len(payload)
            )
            if right:
                return name, payload
        raise TargetError(f"port {port}: not an answer to any station: {frame.hex()}")

    def counters(self):
        for job in sorted({0, *(session.job for session, _ in self._open.values())}):
            self._count(job)
        return dict(self._totals)

    def _read_counter(self, job, reason):
        answer = self._ask("counter_read", "reasons", job * self._program.reasons + reason)
        return int(answer.split(", ")[1].split()[0])  # "reasons[3]= (276 bytes, 1 packets)"

    def _baseline(self, job):
        for reason in range(len(REASONS)):
            self._last[job, reason] = self._read_counter(job, reason)

    def _count(self, job):
        for reason, name in enumerate(REASONS):
            value = self._read_counter(job, reason)
            for counter in SEVERAL.get(name, (name,)):
                if counter in self._totals:  # the vectors send no control requests here
                    self._totals[counter] += value - self._last.get((job, reason), 0)
            self._last[job, reason] = value

    def close(self):
        self._switch.close()
