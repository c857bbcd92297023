"""A session in the tables of switch_p4/v1model: what may be asked for, and which entries it takes. Speaks to no
switch."""

import dataclasses
import ipaddress

from switchml_agent.errors import check_range, invalid
from switchml_agent.frames import UDP_PORT, Place, mac_bytes

MAX_JOB = 255
MAX_WORKER = 127
MAX_SHARDS = 16
ANY_SHARD = 255  # of a source: a switch, which speaks for all of them
ALL_SHARDS = -1  # of a member, in the API


@dataclasses.dataclass(frozen=True)
class Pair:
    """The worker's end of a queue pair, and what the switch keeps of its own."""

    queue_pair: int
    address: int  # of its place for slot 0, a multiple of 2^32 [RDMA-10]
    rkey: int
    # The same pair has these two of its own.
    index: int = dataclasses.field(compare=False)  # in the switch's register of packet numbers
    first_psn: int = dataclasses.field(compare=False)


def pair_number(job, worker, shard):
    """The number of the switch's end. It tells the members of all sessions apart. [RDMA-13]"""
    return job << 16 | worker << 8 | shard


@dataclasses.dataclass(frozen=True)
class Add:
    """An entry of a table."""

    table: str
    action: str
    keys: tuple
    parameters: tuple

    def words(self):
        return ("table_add", self.table, self.action, *self.keys, "=>", *self.parameters)


@dataclasses.dataclass(frozen=True)
class Number:
    """What a register has to hold at an index. Nobody reads it any more when the entries that name it are gone."""

    register: str
    index: int
    value: int


@dataclasses.dataclass(frozen=True)
class Group:
    """A multicast group."""

    number: int


@dataclasses.dataclass(frozen=True)
class Copy:
    """A member of a multicast group: results leave by this port, with this replica number."""

    group: int
    replica: int
    port: int


@dataclasses.dataclass(frozen=True)
class Session:
    job: int
    epoch: int
    shards: int
    slots: int
    members: tuple  # worker numbers, ascending; a member's bit in the switch is its place here
    pages: tuple  # of the switch
    uplink: tuple = ()  # own number, Place of the parent; empty: it answers

    def group(self, shard):
        """1 floods; the groups of job 1 begin at 16."""
        return self.job * MAX_SHARDS + shard

    @property
    def groups(self):
        return tuple(self.group(shard) for shard in range(self.shards))

    def entries(self, program):
        """All but the members, in the order to add them: nothing is found before the last one is there."""
        made = [self._page(program, i, page) for i, page in enumerate(self.pages)]
        if self.uplink:
            number, parent = self.uplink
            made.append(Add("uplinks", "leaf", (self.job,), (number, parent.mac, parent.ip, parent.port)))
        everybody = 2 ** len(self.members) - 1
        return [*made, Add("sessions", "found", (self.job, self.epoch), (everybody,))]

    def _page(self, program, i, page):
        first = i * program.page_slots
        slots = min(program.page_slots, self.slots - first)
        shard = first // (self.slots // self.shards)
        return Add("pages", "page", (self.job, i), (page * program.page_slots, slots, shard, self.group(shard)))

    def worker_entry(self, worker):
        bit = 1 << self.members.index(worker)
        return Add("workers", "SwitchIngress.session.member", (self.job, worker), (bit,))

    def pair_entries(self, worker, shard, place, pair):
        """The same as member_entries of a worker that has a queue pair for the shard."""
        number = pair_number(self.job, worker, shard)
        receives = (place.mac, place.ip, pair.queue_pair, pair.address >> 32, pair.rkey, pair.index)
        return [
            Number("psns", pair.index, pair.first_psn),  # [RDMA-15]
            Add("pairs", "speaks", (self.job, worker, place.ip, number), (shard,)),
            Add("members", "SwitchEgress.copies.pair", (self.group(shard), worker + 1), receives),
            Copy(self.group(shard), worker + 1, place.port),
        ]

    def member_entries(self, worker, shard, place):
        """Where a member sends from, and where it receives: for one shard or for all."""
        own = ANY_SHARD if shard == ALL_SHARDS else shard  # [TREE-9]
        made: list = [Add("sources", "speaks", (self.job, worker, place.ip, place.udp_port), (own,))]
        for each in range(self.shards) if shard == ALL_SHARDS else (shard,):
            receives = (place.mac, place.ip, place.udp_port)
            made.append(Add("members", "SwitchEgress.copies.member", (self.group(each), worker + 1), receives))
            made.append(Copy(self.group(each), worker + 1, place.port))
        return made

    def register_index(self, program, slot, seq):
        """Of a use of a slot in the registers."""
        page, within = divmod(slot, program.page_slots)
        return (self.pages[page] * program.page_slots + within) << 1 | seq & 1  # [SLOT-3]


def pair_of(request, index, first_psn):
    """The Pair that a SetMemberRequest asks for, which has one."""
    if request.shard == ALL_SHARDS:
        raise invalid(f"worker {request.worker}: a pair is for one shard, not for all")
    asked = request.pair
    check_range("pair number", asked.number, 2, 2**24 - 1)  # 0 and 1 are for the management of InfiniBand
    if asked.address % 2**32:
        raise invalid(f"pair address {asked.address:#x}: allowed are multiples of 2^32")  # [RDMA-10]
    return Pair(asked.number, asked.address, asked.rkey, index, first_psn)


def session_of(request, program, place):
    """The Session that an InstallRequest asks for; Refusal if there cannot be one. `place` turns a SwitchPlace into
    a Place."""
    check_range("job", request.job, 1, MAX_JOB)  # [PKT-6]
    check_range("epoch", request.epoch, 1, 2**32 - 1)
    check_range("shards", request.shards, 1, MAX_SHARDS)
    if request.payload_bytes != program.payload:
        raise invalid(f"payload_bytes {request.payload_bytes}: the program in this switch takes {program.payload} only")
    _check_members(request.members, program)
    _check_slots(request, program)
    _check_pages(request, program)
    return Session(
        request.job, request.epoch, request.shards, request.slots, tuple(request.members), tuple(request.pages),
        _uplink(request, place),
    )  # fmt: skip


def _check_members(members, program):
    check_range("number of members", len(members), 1, program.members)
    for member in members:
        check_range("member", member, 0, MAX_WORKER)
    if any(low >= high for low, high in zip(members, members[1:])):
        raise invalid(f"members {', '.join(map(str, members))}: they must ascend")


def _check_slots(request, program):
    check_range("slots", request.slots, 1, program.pages * program.page_slots)
    if request.shards == 1:
        return
    unit = request.shards * program.page_slots  # a page belongs to one shard
    if request.slots % unit:
        raise invalid(f"slots {request.slots}: with {request.shards} shards, allowed are multiples of {unit}")


def _check_pages(request, program):
    wanted = -(-request.slots // program.page_slots)
    if len(request.pages) != wanted:
        raise invalid(f"{len(request.pages)} pages: {request.slots} slots need {wanted} of {program.page_slots}")
    for page in request.pages:
        check_range("page", page, 0, program.pages - 1)
    if len(set(request.pages)) != len(request.pages):
        raise invalid(f"pages {', '.join(map(str, request.pages))}: each may be there once")


def _uplink(request, place):
    if not request.HasField("uplink"):
        return ()
    check_range("uplink worker", request.uplink.worker, 0, MAX_WORKER)
    parent = place(request.uplink.parent, "uplink parent")
    if parent.udp_port != UDP_PORT:
        raise invalid(f"uplink parent {request.uplink.parent.address}: the UDP port of a parent must be {UDP_PORT}")
    return request.uplink.worker, parent


def address_of(text, name):
    """(IPv4 address, UDP port) of ADDRESS:PORT."""
    ip, colon, port = text.rpartition(":")
    try:
        packed = ipaddress.IPv4Address(ip)
    except ValueError:
        packed = None
    if not packed or not colon or not port.isdigit() or not 1 <= int(port) <= 65535:
        raise invalid(f"{name} address {text!r}: allowed are IPv4 addresses with a port, as 10.0.0.1:48879")
    return str(packed), int(port)


class Neighbours:
    """Finds what a SwitchPlace leaves out: the MAC address and the port from which a control packet of that address
    came, or that were configured."""

    REMEMBERED = 4096

    def __init__(self, ports, stations):
        self.ports = ports  # those that members can be at
        self._stations = stations  # {MAC: port}
        self._heard = {}  # {IP: (MAC, port)}, oldest first

    def heard(self, place):
        self._heard.pop(place.ip, None)
        self._heard[place.ip] = (place.mac, place.port)
        if len(self._heard) > self.REMEMBERED:
            del self._heard[next(iter(self._heard))]

    def place(self, asked, name):
        ip, udp_port = address_of(asked.address, name)
        mac, port = asked.mac, asked.port
        if mac:
            try:
                mac_bytes(mac)
            except ValueError as error:
                raise invalid(f"{name}: {error}") from error
        heard_mac, heard_port = self._heard.get(ip, ("", 0))
        if not mac or mac.lower() == heard_mac:
            mac, port = heard_mac, port or heard_port
        if not mac:
            raise invalid(f"{name} {asked.address}: it needs mac, because nothing has come from that address yet")
        mac = mac.lower()
        port = port or self._stations.get(mac, 0)
        if port not in self.ports:
            allowed = ", ".join(map(str, self.ports))
            raise invalid(f"{name} {asked.address}: port {port}: allowed are {allowed}")
        return Place(ip, udp_port, mac, port)
