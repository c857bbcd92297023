"""Drives a Tofino, or the model of one, with switch_p4/tna in it, by BFRuntime."""

import dataclasses
import logging

from switchml_agent import bfrt_program as names
from switchml_agent import bfrt_tables as tables
from switchml_agent import sessions
from switchml_agent.bfrt_runtime import Runtime
from switchml_agent.driver import Driver, Refused
from switchml_agent.errors import invalid
from switchml_agent.program import REASONS

FLOOD_GROUP = 1
_NO_EXCLUSION = 0


@dataclasses.dataclass(frozen=True)
class Settings:
    address: str  # of the BFRuntime server, ADDRESS:PORT
    device: int
    program: str  # its name in the switch's configuration
    client: int  # number that no other client of the server has
    ip: str  # the switch's own addresses
    mac: str
    control_port: int  # number of the port that leads to the agent
    stations: dict  # {MAC: port} of hosts that are forwarded to without flooding
    loop_ports: tuple = ()  # that lead back into their pipe, beside the chip's own


@dataclasses.dataclass
class _Home:
    """Of a job: the pipe of its first segment, and what takes the ways there out again."""

    pipe: int
    undo: list
    is_open: bool = False


class Bfrt(Driver):
    """As Driver. Takes the device's multicast groups and the program's tables for its own."""

    kind = "tofino"
    program: names.Program
    _runtime: Runtime  # from _open to _shut

    def __init__(self, settings):
        super().__init__(settings.mac)
        self._settings = settings
        self.name = f"BFRuntime at {settings.address}"

    # ---- the connection ----

    def _reach(self):
        settings = self._settings
        return Runtime(settings.address, settings.device, settings.program, settings.client)

    def _open(self):
        self._runtime = self._reach()
        self.program = self._read_program()
        self.has_pairs = self.program.pairs
        self.ports = self._read_ports()
        if not self.ports:
            raise Refused(
                "the switch has no ports but the agent's: add and enable them, as with `pm port-add` of bfshell"
            )
        self.neighbours = sessions.Neighbours(self.ports, self._settings.stations)
        self._nodes = 0  # numbers given so far
        self._homes: dict = {}  # {job: _Home}
        self._stations: dict = {}  # {MAC: [port, how many members are there]}
        for name in (*names.ENTRIES, names.GROUPS, names.NODES):
            self._runtime.clear(name)
        self._set_up()

    def _read_program(self):
        configuration, own_loop_port = self._chip()
        pipes = self._runtime.default(configuration)["num_pipes"]
        own = [pipe << names.PIPE_BITS | own_loop_port for pipe in range(pipes)]
        for port in self._settings.loop_ports:
            if port >> names.PIPE_BITS >= pipes:
                raise Refused(f"loop port {port}: the switch has {pipes} pipes")
        info = {table: self._runtime.info.table_get(table).info for table in self._runtime.info.table_name_list_get()}
        return names.Program.of(info, pipes, {*own, *self._settings.loop_ports})

    def _chip(self):
        """(table of its own figures, number of the loop port of its first pipe)"""
        for name, own_loop_port in names.CHIPS.items():
            if self._runtime.has(f"{name}.dev.device_configuration"):
                return f"{name}.dev.device_configuration", own_loop_port
        raise Refused(f"device {self._settings.device}: it is no Tofino 1 or 2")

    def _read_ports(self):
        """Those that members can be at. Ports are set up by whoever runs the switch: they have speeds and
        transceivers. What leaves by one that leads back into the chip would be flooded again, for ever."""
        inside = {*self.program.loop_ports, self._settings.control_port}
        found = self._runtime.values(names.PORTS)
        for port, values in found.items():
            if values.get(names.INTERNAL) or values.get(names.LOOPBACK, names.NO_LOOPBACK) != names.NO_LOOPBACK:
                inside.add(port)
        return tuple(sorted(set(found) - inside))

    def _follow_ports(self):
        assert self.neighbours  # _open has set them
        found = self._read_ports()
        if not found or found == self.ports:
            return False
        self._undo_all(self._flooded)
        self._add_copy(FLOOD_GROUP, 0, found, self._flooded)
        self.ports = self.neighbours.ports = found
        return True

    def _try_to_follow_ports(self):
        """A port that has gone again is no reason to take the switch over anew, which ends all sessions."""
        try:
            self._follow_ports()
        except Refused as error:
            self.ports = ()  # what is flooded is not known: all of it is tried again next time
            logging.getLogger(__name__).warning(
                "the ports that frames are flooded to could not be set, once more soon: %s", error
            )

    def _set_up(self):
        runtime, settings = self._runtime, self._settings
        runtime.add(names.ADDRESSES, {"ip": tables.ip(settings.ip)}, {}, "SwitchIngress.own_address.mine")
        runtime.set_default(names.MAC, {"mac": tables.mac(settings.mac)}, "SwitchIngress.own_address.own_mac")
        for mac, port in settings.stations.items():
            self._add(tables.station(mac, port), [])
        self._add(sessions.Group(FLOOD_GROUP), [])
        self._flooded: list = []  # what takes the copies of a flooded frame out again
        self._add_copy(FLOOD_GROUP, 0, self.ports, self._flooded)
        kinds = dict.fromkeys(settings.loop_ports, tables.LOOP) | {settings.control_port: tables.CONTROL}
        for port, kind in kinds.items():
            runtime.add(names.PORT_KINDS, {"intrinsic.ingress_port": port}, {"kind": kind})
        runtime.set_default(names.CONTROL_PORT, {"port": settings.control_port}, "SwitchIngress.control_port.hand_over")

    def _shut(self):
        if hasattr(self, "_runtime"):
            self._runtime.close()
            del self._runtime

    def _alive(self):
        self._runtime.alive()
        self._try_to_follow_ports()

    # ---- entries ----

    def _session_entries(self, session):
        return tables.session_entries(session, self.program)

    def _worker_entries(self, session, worker):
        return tables.worker_entries(session, worker)

    def _member_entries(self, session, worker, shard, place):
        return tables.member_entries(session, self.program, worker, shard, place)

    def _pair(self, request):
        pair = super()._pair(request)
        if pair and self.program.segments > 1 and self._find(request).session.uplink:
            # A parent's result comes without a card's check behind the words, and only its first words are taken apart.
            raise invalid(
                f"worker {request.worker}: at a switch with a parent there are no pairs with payloads of "
                f"{self.program.payload} bytes"
            )
        return pair

    def _pair_entries(self, session, worker, shard, place, pair):
        return tables.pair_entries(session, worker, shard, place, pair)

    def _add(self, entry, undo):
        if isinstance(entry, tables.Ways):
            undo.append((self._drop_ways, entry.session.job))
            self._homes[entry.session.job] = _Home(self.program.first_home(entry.session.job), [])
            self._add_ways(entry.session)
        elif isinstance(entry, tables.Known):
            self._add_station(entry.mac, entry.port, undo)
        elif isinstance(entry, sessions.Copy):
            self._add_copy(entry.group, entry.replica, (entry.port,), undo)
        elif isinstance(entry, sessions.Number):
            values = {names.field(entry.register, "f1"): entry.value}
            self._runtime.add(entry.register, {"$REGISTER_INDEX": entry.index}, values)
        elif isinstance(entry, sessions.Group):
            keys = {"$MGID": entry.number}
            self._runtime.add(names.GROUPS, keys, {})
            undo.append((self._runtime.remove, names.GROUPS, keys))
        else:
            self._runtime.add(entry.table, entry.keys, entry.values, entry.action)
            undo.append((self._runtime.remove, entry.table, entry.keys))

    def _add_copy(self, group, replica, ports, undo):
        """One copy to each port, all with the same replica number."""
        self._nodes += 1
        key = {"$MULTICAST_NODE_ID": self._nodes}
        self._runtime.add(
            names.NODES, key, {"$MULTICAST_RID": replica, "$MULTICAST_LAG_ID": [], "$DEV_PORT": list(ports)}
        )
        undo.append((self._runtime.remove, names.NODES, key))
        member = {
            "$MULTICAST_NODE_ID": [self._nodes],
            "$MULTICAST_NODE_L1_XID_VALID": [False],
            "$MULTICAST_NODE_L1_XID": [_NO_EXCLUSION],
        }
        self._runtime.extend(names.GROUPS, {"$MGID": group}, member)
        undo.append((self._runtime.reduce, names.GROUPS, {"$MGID": group}, member))

    # ---- the home of a job ----

    def _add_ways(self, session):
        home = self._homes[session.job]
        self._add_all(tables.way_entries(session, self.program, home.pipe), home.undo)

    def _drop_ways(self, job):
        self._undo_all(self._homes[job].undo)
        del self._homes[job]

    def _before_member(self, installed, worker, place):
        """Packets of members at other pipes than the home go around once more, so that is where most of them are."""
        ports = {number: held.port for (number, _), (held, _) in installed.members.items()}
        session, home = installed.session, self._homes[installed.session.job]
        if worker in ports or home.is_open:
            return
        pipes = [self.program.pipe_of_port(port) for port in (*ports.values(), place.port)]
        before = home.pipe
        wanted = max(pipes, key=lambda pipe: (pipes.count(pipe), pipe == before))
        if home.undo and pipes.count(wanted) == pipes.count(before):
            return
        self._undo_all(home.undo)
        try:
            home.pipe = wanted
            self._add_ways(session)
        except Refused:
            home.pipe = before
            self._add_ways(session)
            raise

    def _after_member(self, installed):
        """A session is open when all its members are there, and moves no more: what a segment's registers hold would be
        taken for another segment's in the same pipe."""
        session, home = installed.session, self._homes[installed.session.job]
        if not home.is_open and {number for number, _ in installed.members} == set(session.members):
            entry = tables.opening(session)
            self._runtime.add(entry.table, entry.keys, entry.values, entry.action)
            installed.undo.append((self._close_session, entry, home))
            home.is_open = True

    def _close_session(self, entry, home):
        self._runtime.remove(entry.table, entry.keys)
        home.is_open = False

    # ---- where hosts are ----

    def _add_station(self, mac, port, undo):
        """What goes to a member is not flooded. Members say themselves which address they have, so an address that
        another port has stays there: whoever claims it later must not get what is sent to its holder."""
        if mac in self._settings.stations or mac == self._settings.mac:
            return
        entry = tables.station(mac, port)
        if mac not in self._stations:
            try:
                self._runtime.add(entry.table, entry.keys, entry.values, entry.action)
            except Refused as error:
                if error.full:
                    return  # frames to this host are flooded, as to hosts that are no members
                raise
            self._stations[mac] = [port, 0]
        if self._stations[mac][0] == port:
            self._stations[mac][1] += 1
            undo.append((self._leave_station, mac, entry))

    def _leave_station(self, mac, entry):
        if self._stations[mac][1] == 1:
            self._runtime.remove(entry.table, entry.keys)
            del self._stations[mac]
        else:
            self._stations[mac][1] -= 1

    def _undo(self, step):
        call, *arguments = step
        call(*arguments)

    # ---- what the program has counted and stored ----

    def _read_use(self, session, slot, seq):
        """((epoch, seq), bitmap), of the last segment: who is there is in those before it too."""
        last = self.program.segments - 1
        index = tables.register_index(session, self.program, slot, seq, last)
        pipe = self.program.pipe(self._homes[session.job].pipe, last)
        seq_held, epoch = (self._register(names.PAIRS, name, index, pipe) for name in ("lower", "upper"))
        low = self._register(names.CONTRIBUTED_LOW, "f1", index, pipe)
        return (epoch, seq_held), self._register(names.CONTRIBUTED_HIGH, "f1", index, pipe) << 32 | low

    def _register(self, register, name, index, pipe):
        """Every pipe has its own."""
        (values,) = self._runtime.read(register, [{"$REGISTER_INDEX": index}])
        return values[names.field(register, name)][pipe]

    def _count(self, job, reasons=range(len(REASONS))):
        """By reason. BFRuntime adds the pipes up."""
        first = job * self.program.reasons
        keys = [{"$COUNTER_INDEX": first + reason} for reason in reasons]
        return [values["$COUNTER_SPEC_PKTS"] for values in self._runtime.read(names.REASONS, keys)]
