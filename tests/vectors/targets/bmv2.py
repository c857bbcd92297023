"""The v1model program as a data plane. Sessions are table entries; the counters are the program's."""

import dataclasses
import random
import re
import socket

from vectors.targets import Capabilities, Session, Target, TargetError
from vectors.targets import bmv2_switch as bmv2

WORDS = 64


def numbers_in(name, pattern):
    """{name: number} of the lines of a file of switch_p4 that match."""
    text = (bmv2.ROOT / "switch_p4" / name).read_text(encoding="utf-8")
    return {key: int(number) for key, number in re.findall(pattern, text)}


SIZES = numbers_in("sizes.p4", r"#define (\w+) (\d+)")
PAGE_SLOTS, PAGES, REASONS = SIZES["PAGE_SLOTS"], SIZES["PAGES"], SIZES["REASONS"]

# Reasons that stand for more than the counter of their name.
_SEVERAL = {
    "uses_started": ("contributions_added", "uses_started"),
    "uses_completed": ("contributions_added", "uses_completed"),
    "started_and_completed": ("contributions_added", "uses_started", "uses_completed"),
}
# Index of a job's counter and what it counts among ours.
REASON_COUNTERS = {
    index: _SEVERAL.get(name.lower(), (name.lower(),))
    for name, index in numbers_in("reasons.p4", r"REASON_(\w+) = (\d+);").items()
    if index != 0  # REASON_NONE
}


@dataclasses.dataclass(frozen=True)
class Station:
    """Who stands behind an endpoint's name."""

    port: int
    ip: str
    mac: str
    udp_port: int


class Bmv2Target(Target):
    name = "bmv2"
    capabilities = Capabilities(payload=4 * WORDS, workers=64, whole=True)

    def __init__(self):
        self._switch = bmv2.Bmv2Switch(WORDS)
        self._ask = self._switch.console.ask
        self._stations = {}
        self._sessions = {}  # by name: [("table_delete", ...) and the like]
        self._jobs = {}  # by name
        self._pages = {}  # by name
        self._used_epochs = set()
        self._random = random.Random(1)
        self._last = {}  # counter values, by (job, reason)
        self._totals = dict.fromkeys((name for names in REASON_COUNTERS.values() for name in names), 0)

    def reset(self):
        for name in list(self._sessions):
            self.close_session(name)
        self._stations.clear()

    def open_session(self, spec, job=None):
        if job is None:
            job = next(number for number in range(1, 256) if number not in self._jobs.values())
        if job in self._jobs.values():
            raise TargetError(f"job {job} is in use")
        epoch = self._new_epoch()
        if (job, 1) not in self._last:
            self._baseline(job)
        undo = self._sessions[spec.name] = []
        self._jobs[spec.name] = job
        self._add(undo, "sessions", "found", (job, epoch), (2**spec.workers - 1,))
        group = job + 1  # 1 floods
        self._ask("mc_mgrp_create", group)
        undo.append(("mc_mgrp_destroy", group))
        for worker in range(spec.workers):
            self._add_worker(undo, spec.name, job, group, worker)
        self._add_pages(undo, spec, job, group)
        return Session(job=job, epoch=epoch)

    def _new_epoch(self):
        while True:
            epoch = self._random.randrange(1, 2**32)
            if epoch not in self._used_epochs:
                self._used_epochs.add(epoch)
                return epoch

    def _add(self, undo, table, action, keys, parameters):
        handle = self._switch.console.handle("table_add", table, action, *keys, "=>", *parameters)
        undo.append(("table_delete", table, handle))

    def _add_worker(self, undo, name, job, group, worker):
        station = self._station(f"{name}.{worker}")
        self._add(undo, "workers", "SwitchIngress.session.member", (job, worker), (2**worker,))
        self._add(undo, "sources", "speaks", (job, worker, station.ip, station.udp_port), (0,))
        rid = worker + 1
        self._add(undo, "members", "SwitchEgress.copies.member", (group, rid), (station.mac, station.ip, station.udp_port))
        node = self._switch.console.handle("mc_node_create", rid, station.port)
        self._ask("mc_node_associate", group, node)
        undo.append(("mc_node_destroy", node))

    def _add_pages(self, undo, spec, job, group):
        wanted = -(-spec.slots // PAGE_SLOTS)
        taken = {page for pages in self._pages.values() for page in pages}
        free = [page for page in range(PAGES) if page not in taken][:wanted]
        if len(free) < wanted:
            raise TargetError(f"{spec.slots} slots: no {wanted} pages are free")
        self._pages[spec.name] = free
        for i, page in enumerate(free):
            slots = min(PAGE_SLOTS, spec.slots - i * PAGE_SLOTS)
            self._add(undo, "pages", "page", (job, i), (page * PAGE_SLOTS, slots, 0, group))

    def close_session(self, name):
        for command in reversed(self._sessions.pop(name)):
            self._ask(*command)
        del self._jobs[name], self._pages[name]

    def send(self, sender, frame):
        station = self._station(sender)
        datagram = bmv2.udp(station.udp_port, 48879, frame)
        packet = bmv2.ipv4(station.ip, bmv2.SWITCH_IP, 17, datagram)
        try:
            self._switch.inject(station.port, bmv2.ethernet(bmv2.SWITCH_MAC, station.mac, 0x0800, packet))
            return [self._received(port, out) for port, out in self._switch.settle(station.port)]
        except bmv2.SwitchError as error:
            raise TargetError(str(error)) from error

    def _station(self, name):
        if name not in self._stations:
            n = len(self._stations)
            high, low = divmod(n + 1, 250)
            self._stations[name] = Station(
                n % bmv2.PORTS, f"10.77.{high}.{low + 1}", f"02:77:00:01:{high:02x}:{low:02x}", 20000 + n
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
                and packet[20:22] == (48879).to_bytes(2, "big")
                and len(packet) == 28 + len(payload)
            )
            if right:
                return name, payload
        raise TargetError(f"port {port}: not an answer to any station: {frame.hex()}")

    def counters(self):
        for job in sorted({0, *self._jobs.values()}):
            self._count(job)
        return dict(self._totals)

    def _read_counter(self, job, reason):
        answer = self._ask("counter_read", "reasons", job * REASONS + reason)
        return int(answer.split(", ")[1].split()[0])  # "reasons[3]= (276 bytes, 1 packets)"

    def _baseline(self, job):
        for reason in REASON_COUNTERS:
            self._last[job, reason] = self._read_counter(job, reason)

    def _count(self, job):
        for reason, names in REASON_COUNTERS.items():
            value = self._read_counter(job, reason)
            for name in names:
                self._totals[name] += value - self._last.get((job, reason), 0)
            self._last[job, reason] = value

    def close(self):
        self._switch.close()
