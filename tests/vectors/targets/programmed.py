"""What the P4 programs have in common as data planes: sessions are table entries, the same that their agents make; who
stands behind an endpoint's name; counters by job and reason."""

import pathlib
import random
import re

from switchml_agent import frames, sessions
from switchml_agent.program import REASONS, SEVERAL
from vectors.targets import COUNTERS, Session, Target, TargetError
from vectors.targets import bmv2_switch as packets

ROOT = pathlib.Path(__file__).resolve().parents[3]


def sizes_of(changed):
    """The constants of sizes.p4, some of them changed."""
    text = (ROOT / "switch_p4/sizes.p4").read_text(encoding="utf-8")
    return {key: int(number) for key, number in re.findall(r"#define (\w+) (\d+)", text)} | (changed or {})


class ProgrammedTarget(Target):
    """`ports` of the switch are given to the stations in turn; a session takes some of `pages` pages of
    `page_slots`."""

    def __init__(self, ports, pages, page_slots):
        self._ports, self._all_pages, self._page_slots = tuple(ports), pages, page_slots
        self._stations = {}
        self._open = {}  # by name: (Session of the agent, what takes its entries back)
        self._used_epochs = set()
        self._random = random.Random(1)
        self._last = {}  # counter values, by (job, reason)
        self._totals = dict.fromkeys(COUNTERS, 0)

    def _new_session(self, spec, job):
        """What a vector.Open asks for, as the agent has it, and as the vectors do."""
        jobs = {session.job for session, _ in self._open.values()}
        if job is None:
            job = next(number for number in range(1, 256) if number not in jobs)
        if job in jobs:
            raise TargetError(f"job {job} is in use")
        uplink = () if spec.uplink is None else (spec.uplink, self._station(spec.parent))
        session = sessions.Session(
            job, self._new_epoch(), spec.shards, spec.slots, spec.members, self._free_pages(spec), uplink
        )
        return session, Session(job=job, epoch=session.epoch)

    def _new_epoch(self):
        while True:
            epoch = self._random.randrange(1, 2**32)
            if epoch not in self._used_epochs:
                self._used_epochs.add(epoch)
                return epoch

    def _free_pages(self, spec):
        wanted = -(-spec.slots // self._page_slots)
        taken = {page for session, _ in self._open.values() for page in session.pages}
        free = [page for page in range(self._all_pages) if page not in taken][:wanted]
        if len(free) < wanted:
            raise TargetError(f"{spec.slots} slots: no {wanted} pages are free")
        return tuple(free)

    def _station(self, name):
        """Who stands behind an endpoint's name. Switches speak from the port of switches."""
        if name not in self._stations:
            n = len(self._stations)
            high, low = divmod(n + 1, 250)
            udp_port = frames.UDP_PORT if name.endswith(".parent") else 20000 + n
            self._stations[name] = frames.Place(
                f"10.77.{high}.{low + 1}",
                udp_port,
                f"02:77:00:01:{high:02x}:{low:02x}",
                self._ports[n % len(self._ports)],
            )
        return self._stations[name]

    def counters(self):
        for job in sorted({0, *(session.job for session, _ in self._open.values())}):
            self._count(job)
        return dict(self._totals)

    def send(self, sender, frame):
        return self._sent(self._station(sender), self._packet(sender, frame))

    def send_broken_off(self, sender, frame, missing):
        """What comes out where so many bytes are missing at the packet's end, and its lengths say otherwise."""
        return self._sent(self._station(sender), self._packet(sender, frame)[:-missing])

    def _packet(self, sender, frame):
        """From IPv4 on."""
        station = self._station(sender)
        datagram = packets.udp(station.udp_port, frames.UDP_PORT, frame)
        return packets.ipv4(station.ip, packets.SWITCH_IP, 17, datagram)

    def _sent(self, station, packet):
        """What comes out because of a packet of this station."""
        raise NotImplementedError

    def _read_reasons(self, job):
        """The values of the job's counters, in the order of REASONS."""
        raise NotImplementedError

    def _count(self, job):
        for reason, (name, value) in enumerate(zip(REASONS, self._read_reasons(job))):
            for counter in SEVERAL.get(name, (name,)):
                if counter in self._totals:  # the vectors send no control requests here
                    self._totals[counter] += value - self._last.get((job, reason), 0)
            self._last[job, reason] = value
