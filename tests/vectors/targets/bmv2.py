"""The v1model program as a data plane. Sessions are table entries, the same that the agent for bmv2 makes; the counters
are the program's."""

import socket

from vectors.targets import Capabilities, TargetError
from vectors.targets import bmv2_switch as bmv2
from vectors.targets.programmed import REASONS, ProgrammedTarget, frames, sessions, sizes_of

from switchml_agent.program import Program

SMALL_PAGES = {"PAGE_SLOTS": 4, "PAGE_BITS": 2, "PAGES": 2560}  # so that a vector's few slots can be several shards


class Bmv2Target(ProgrammedTarget):
    name = "bmv2"

    def __init__(self, words=64, sizes=None):
        """`words` of a payload; `sizes`: constants of sizes.p4 that are to have another value."""
        known = sizes_of(sizes)
        self._program = Program(
            4 * words,
            known["MAX_WORKERS"],
            known["SESSIONS"],
            known["PAGES"],
            known["PAGE_SLOTS"],
            known["REASONS"],
            known["MEMBERS"],
        )
        self.capabilities = Capabilities(
            payload=4 * words, workers=known["MAX_WORKERS"], whole=True, tree=True, shards=known["PAGE_SLOTS"] <= 4
        )
        super().__init__(range(bmv2.PORTS), known["PAGES"], known["PAGE_SLOTS"])
        self._switch = bmv2.Bmv2Switch(words, sizes)
        self._ask = self._switch.console.ask

    def reset(self):
        for name in list(self._open):
            self.close_session(name)
        self._stations.clear()

    def open_session(self, spec, job=None):
        session, opened = self._new_session(spec, job)
        if (session.job, 1) not in self._last:
            self._baseline(session.job)
        undo = []
        self._open[spec.name] = session, undo
        for group in session.groups:
            self._ask("mc_mgrp_create", group)
            undo.append(("mc_mgrp_destroy", group))
        for entry in session.entries(self._program):
            self._add(undo, entry)
        for worker in spec.members:
            self._add_member(undo, session, spec, worker)
        return opened

    def _add(self, undo, entry):
        if isinstance(entry, sessions.Number):
            self._ask("register_write", entry.register, entry.index, entry.value)
        elif isinstance(entry, sessions.Copy):
            node = self._switch.console.handle("mc_node_create", entry.replica, entry.port)
            self._ask("mc_node_associate", entry.group, node)
            undo.append(("mc_node_destroy", node))
        else:
            undo.append(("table_delete", entry.table, self._switch.console.handle(*entry.words())))

    def _add_member(self, undo, session, spec, worker):
        self._add(undo, session.worker_entry(worker))
        shards = (sessions.ALL_SHARDS,) if worker in spec.children else range(spec.shards)
        for shard in shards:
            for entry in self._member_entries(session, spec, worker, shard):
                self._add(undo, entry)

    def _member_entries(self, session, spec, worker, shard):
        return session.member_entries(worker, shard, self._station(spec.address(worker, max(shard, 0))))

    def close_session(self, name):
        session, undo = self._open.pop(name)
        for command in reversed(undo):
            self._ask(*command)
        self._count(session.job)  # or the next session of this number would seem to have counted it

    def _sent(self, station, packet):
        try:
            self._switch.inject(station.port, bmv2.ethernet(bmv2.SWITCH_MAC, station.mac, 0x0800, packet))
            return [self._received(port, out) for port, out in self._switch.settle(station.port)]
        except bmv2.SwitchError as error:
            raise TargetError(str(error)) from error

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

    def _read_reasons(self, job):
        first = job * self._program.reasons
        answers = [self._ask("counter_read", "reasons", first + reason) for reason in range(len(REASONS))]
        return [int(answer.split(", ")[1].split()[0]) for answer in answers]  # "reasons[3]= (276 bytes, 1 packets)"

    def _baseline(self, job):
        for reason, value in enumerate(self._read_reasons(job)):
            self._last[job, reason] = value

    def close(self):
        self._switch.close()
