"""Drives a running simple_switch with switch_p4/v1model in it."""

import dataclasses
import json
import pathlib
import re
import tempfile

from switchml_agent import sessions
from switchml_agent.console import Console
from switchml_agent.driver import Driver, Refused
from switchml_agent.program import REASONS, Program

FLOOD_GROUP = 1
CONTROL_PORTS = "SwitchParser.control_ports"  # simple_switch_CLI completes no names of value sets


@dataclasses.dataclass(frozen=True)
class Settings:
    host: str  # of the Thrift server
    port: int
    ip: str  # the switch's own addresses
    mac: str
    control_port: int  # number of the port that leads to the agent
    stations: dict  # {MAC: port} of hosts that are forwarded to without flooding


class Bmv2(Driver):
    """As Driver. Takes the switch's tables and multicast groups for its own."""

    kind = "bmv2"
    has_pairs = True
    _console: Console  # from _open to _shut

    def __init__(self, settings):
        super().__init__(settings.mac)
        self._settings = settings
        self.name = f"bmv2 at {settings.host}:{settings.port}"

    # ---- the connection ----

    def _open(self):
        self._console = Console(self._settings.host, self._settings.port)
        self.program = self._read_program()
        self.ports = self._read_ports()
        self.neighbours = sessions.Neighbours(self.ports, self._settings.stations)
        self._wipe()
        self._set_up()

    def _read_program(self):
        with tempfile.TemporaryDirectory(prefix="switchml-agent-") as folder:
            path = pathlib.Path(folder) / "program.json"
            self._console.ask("write_config_to_file", path)
            return Program.of(json.loads(path.read_text(encoding="utf-8")))

    def _read_ports(self):
        lines = self._console.ask("show_ports").splitlines()
        found = [int(line.split()[0]) for line in lines if line.split()[:1] and line.split()[0].isdigit()]
        if self._settings.control_port not in found:
            allowed = ", ".join(map(str, found))
            raise Refused(f"control port {self._settings.control_port}: the switch has the ports {allowed}")
        return tuple(port for port in found if port != self._settings.control_port)

    def _wipe(self):
        """What an earlier agent left. Multicast groups are not part of what `reset_state` resets."""
        ask = self._console.ask
        ask("reset_state")
        ask("pvs_clear", CONTROL_PORTS)
        dump = ask("mc_dump")
        for node in re.findall(r"L1h=(\d+)", dump):
            ask("mc_node_destroy", node)
        for group in re.findall(r"^mgrp\((\d+)\)", dump, re.MULTILINE):
            ask("mc_mgrp_destroy", group)

    def _set_up(self):
        ask, settings = self._console.ask, self._settings
        ask("table_add", "addresses", "mine", settings.ip, "=>")
        ask("table_set_default", "mac", "own_mac", settings.mac)
        for mac, port in settings.stations.items():
            ask("table_add", "stations", "forward", mac, "=>", port)
        self._add(sessions.Group(FLOOD_GROUP), [])
        self._add_copy(FLOOD_GROUP, 0, self.ports, [])
        ask("pvs_add", CONTROL_PORTS, settings.control_port)
        ask("table_set_default", "control_port", "hand_over", settings.control_port)

    def _shut(self):
        if hasattr(self, "_console"):
            self._console.close()
            del self._console

    def _alive(self):
        self._console.ask("table_num_entries", "addresses")

    # ---- entries; each is undone by a command ----

    def _session_entries(self, session):
        return [*map(sessions.Group, session.groups), *session.entries(self.program)]

    def _worker_entries(self, session, worker):
        return [session.worker_entry(worker)]

    def _member_entries(self, session, worker, shard, place):
        return session.member_entries(worker, shard, place)

    def _pair_entries(self, session, worker, shard, place, pair):
        return session.pair_entries(worker, shard, place, pair)

    def _add(self, entry, undo):
        if isinstance(entry, sessions.Copy):
            self._add_copy(entry.group, entry.replica, (entry.port,), undo)
        elif isinstance(entry, sessions.Group):
            self._console.ask("mc_mgrp_create", entry.number)
            undo.append(("mc_mgrp_destroy", entry.number))
        elif isinstance(entry, sessions.Number):
            self._console.ask("register_write", entry.register, entry.index, entry.value)
        else:
            undo.append(("table_delete", entry.table, self._console.handle(*entry.words())))

    def _add_copy(self, group, replica, ports, undo):
        node = self._console.handle("mc_node_create", replica, *ports)
        undo.append(("mc_node_destroy", node))
        self._console.ask("mc_node_associate", group, node)

    def _undo(self, step):
        self._console.ask(*step)

    # ---- what the program has counted and stored ----

    def _read_use(self, session, slot, seq):
        """((epoch, seq), bitmap)"""
        index = session.register_index(self.program, slot, seq)
        names = ("epochs", "seqs", "contributed_low", "contributed_high")
        epoch, held, low, high = (self._console.number("register_read", name, index) for name in names)
        return (epoch, held), high << 32 | low

    def _count(self, job, reasons=range(len(REASONS))):
        """By the reasons of the program."""
        first = job * self.program.reasons
        return [self._console.number("counter_read", "reasons", first + reason) for reason in reasons]
