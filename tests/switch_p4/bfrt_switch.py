"""A switch without chip: the tables of a program under BFRuntime's names, with the checks that BFRuntime makes of every
write.

`Switch` has the interface of switchml_agent.bfrt_runtime.Runtime. The tables are those of a text, a line each:

    table NAME SIZE
      key NAME MATCH BITS
      action NAME [PARAMETER:BITS...]
      data NAME BITS [list] [optional]
"""

import copy
import dataclasses
import functools
import json
import pathlib
import shutil
import subprocess
import sys
import tempfile
import types

from switchml_agent.driver import Gone, Refused

ROOT = pathlib.Path(__file__).resolve().parents[2]
TEXT = pathlib.Path(__file__).parent / "tna_tables.txt"
PAIRS_TEXT = pathlib.Path(__file__).parent / "tna_tables_pairs.txt"
_BITS = {"bool": 1, "uint8": 8, "uint16": 16, "uint32": 32, "uint64": 64, "string": 0}


@dataclasses.dataclass
class Table:
    name: str
    size: int
    keys: dict = dataclasses.field(default_factory=dict)  # {name: (match, bits)}
    actions: dict = dataclasses.field(default_factory=dict)  # {name: {parameter: bits}}
    data: dict = dataclasses.field(default_factory=dict)  # {name: (bits, *flags)}

    # What switchml_agent.bfrt_program asks of the client.

    def size_get(self):
        return self.size

    def action_name_list_get(self):
        return list(self.actions)

    def data_field_size_get(self, field, action):
        bits = self.actions[action][field]
        return (bits + 7) // 8, bits


def from_text(text):
    """{name: Table}"""
    tables = {}
    for line in text.splitlines():
        kind, name, *rest = line.split() or ("",) * 2
        if kind == "table":
            table = tables[name] = Table(name, int(rest[0]))
        elif kind == "key":
            table.keys[name] = rest[0], int(rest[1])
        elif kind == "action":
            table.actions[name] = {parameter: int(bits) for parameter, bits in (each.split(":") for each in rest)}
        elif kind == "data":
            table.data[name] = int(rest[0]), *rest[1:]
    return tables


def program_tables(segments=1, pairs=False):
    """Of switch_p4/tna, compiled for payloads of so many segments, and those that every program has. `pairs`: it is the
    end of queue pairs."""
    tables = from_text(TEXT.read_text(encoding="utf-8"))
    if pairs:
        tables |= from_text(PAIRS_TEXT.read_text(encoding="utf-8"))
    if segments > 1:
        for name in ("slot_index.pages", "around.loops"):
            tables[f"pipe.SwitchIngress.{name}"].size *= segments
        for action in ("give_lower", "consume"):
            tables["pipe.SwitchIngress.passes.steps"].actions[f"SwitchIngress.passes.{action}"] = {"following": 8}
    return tables


def _bits(kind):
    return kind["width"] if kind["type"] == "bytes" else _BITS.get(kind["type"], 0)


def _data(fields):
    for field in fields:
        one = field.get("singleton")
        if one:
            flags = [word for word, on in (("list", one["repeated"]), ("optional", not field["mandatory"])) if on]
            yield one["name"], (_bits(one.get("type", {"type": "container"})), *flags)


def from_json(description):
    """{name: Table} of what the compiler, or the SDE, writes as JSON."""
    tables = {}
    for each in description["tables"]:
        table = tables[each["name"]] = Table(each["name"], each["size"])
        table.keys = {key["name"]: (key["match_type"], _bits(key["type"])) for key in each["key"]}
        for action in each.get("action_specs", ()):
            table.actions[action["name"]] = {field["name"]: _bits(field["type"]) for field in action["data"]}
        table.data = dict(_data(each["data"]))
    return tables


def as_text(tables):
    """What from_text reads."""
    lines = []
    for table in tables:
        lines.append(f"table {table.name} {table.size}")
        lines += [f"  key {name} {match} {bits}" for name, (match, bits) in table.keys.items()]
        for name, parameters in table.actions.items():
            lines.append(" ".join(["  action", name, *(f"{each}:{bits}" for each, bits in parameters.items())]))
        lines += [" ".join(["  data", name, *map(str, description)]) for name, description in table.data.items()]
    return "\n".join(lines) + "\n"


def no_compiler():
    """Why `compiled` cannot be had; empty if it can."""
    return "" if shutil.which("p4c-barefoot") else "not on PATH: p4c-barefoot (docs/switch.md says where it comes from)"


@functools.cache
def compiled(segments, pairs=False):
    """What the compiler writes for BFRuntime, of the program for payloads of so many segments."""
    with tempfile.TemporaryDirectory(prefix="switchml-bfrt-") as name:
        folder = pathlib.Path(name)
        wire = (
            sys.executable,
            ROOT / "backend/wire/generate.py",
            ROOT / "backend/wire/protocol.toml",
            folder / "wire.p4",
            64,
        )
        compiler = (
            "p4c-barefoot",
            "--std",
            "p4-16",
            "--target",
            "tofino",
            "--arch",
            "tna",
            f"-DSEGMENTS={segments}",
            f"-DROCE={int(pairs)}",
            "-I",
            folder,
            "-I",
            ROOT / "switch_p4",
            "--bf-rt-schema",
            folder / "bf-rt.json",
            "-o",
            folder / "out",
            ROOT / "switch_p4/tna/switchml.p4",
        )
        for command in (wire, compiler):
            done = subprocess.run(list(map(str, command)), capture_output=True, text=True)
            assert done.returncode == 0, done.stderr[-3000:]
        return json.loads((folder / "bf-rt.json").read_text(encoding="utf-8"))


def _fits(name, value, bits):
    if not isinstance(value, int) or not 0 <= value < 2**bits:
        raise Refused(f"{name} = {value!r}: it has {bits} bits")


class Switch:
    """`fail_at`: the number of the write that is refused for want of room, counted from 1; 0: none."""

    PIPES = 4
    PORTS = (4, 8, 64, 132)

    def __init__(self, tables=None):
        self.tables = tables or program_tables()
        self.entries = {name: {} for name in self.tables}  # {table: {key: (action, values)}}
        self.defaults = {}
        self.counts = {}  # by index
        self.registers = {}  # by (table, index): {field: [value of each pipe]}
        self.writes = 0
        self.fail_at = 0
        self.dead = False
        chip = next(name for name in self.tables if name.endswith(".dev.device_configuration"))
        self.defaults[chip] = None, {"num_pipes": self.PIPES}
        for port in self.PORTS:
            self.add_port(port)
        self.info = types.SimpleNamespace(table_get=lambda name: types.SimpleNamespace(info=self.tables[name]),
                                          table_name_list_get=lambda: list(self.tables))  # fmt: skip

    def add_port(self, port, loopback="BF_LPBK_NONE", internal=False):
        """As `pm port-add` would, or the driver itself."""
        values = {"$LOOPBACK_MODE": loopback, "$IS_INTERNAL": internal}
        self.entries["$PORT"][self._key("$PORT", {"$DEV_PORT": port})] = None, values

    # ---- checks ----

    def _table(self, name):
        self.alive()
        if name not in self.tables:
            raise Refused(f"{name}: no such table")
        return self.tables[name]

    def _write(self, name):
        table = self._table(name)
        self.writes += 1
        if self.writes == self.fail_at:
            raise Refused(f"{name}: no room", full=True)
        return table

    def _key(self, name, keys):
        wanted = self.tables[name].keys
        if set(keys) != set(wanted):
            raise Refused(f"{name}: keys {sorted(keys)} instead of {sorted(wanted)}")
        for key, value in keys.items():
            match, bits = wanted[key]
            if (match == "Ternary") != isinstance(value, tuple):
                raise Refused(f"{name}: {key} = {value!r}: it is {match}")
            for each in value if isinstance(value, tuple) else (value,):
                _fits(f"{name}: {key}", each, bits)
        return tuple(sorted(keys.items()))

    def _check_values(self, table, values, action):
        if action is not None or table.actions:
            wanted = table.actions.get(action)
            if wanted is None:
                raise Refused(f"{table.name}: action {action!r} instead of one of {sorted(table.actions)}")
            if set(values) != set(wanted):
                raise Refused(f"{table.name}: {action}: {sorted(values)} instead of {sorted(wanted)}")
            for name, value in values.items():
                _fits(f"{table.name}: {name}", value, wanted[name])
            return
        lacking = [name for name, (_, *flags) in table.data.items() if name not in values and "optional" not in flags]
        if lacking or set(values) - set(table.data):
            raise Refused(f"{table.name}: {sorted(values)} instead of {sorted(table.data)}")
        for name, value in values.items():
            bits, *flags = table.data[name]
            if ("list" in flags) != isinstance(value, list):
                raise Refused(f"{table.name}: {name} = {value!r}: list or not")
            for each in value if isinstance(value, list) else (value,):
                _fits(f"{table.name}: {name}", each, bits)

    # ---- what Runtime has ----

    def has(self, name):
        return name in self.tables

    def alive(self):
        if self.dead:
            raise Gone("the server has ended the connection")

    def add(self, name, keys, values, action=None):
        table, key = self._write(name), self._key(name, keys)
        self._check_values(table, values, action)
        if "$REGISTER_INDEX" in keys:  # its values are always there
            self.registers[name, keys["$REGISTER_INDEX"]] = {
                each: [value] * self.PIPES for each, value in values.items()
            }
            self.numbered(name, keys["$REGISTER_INDEX"], *values.values())
            return
        if key in self.entries[name]:
            raise Refused(f"{name}: {keys}: it is there already")
        if len(self.entries[name]) >= table.size:
            raise Refused(f"{name}: {table.size} entries are there already", full=True)
        if name == "$pre.node" and not values["$DEV_PORT"]:
            raise Refused(f"{name}: without ports")
        self.entries[name][key] = action, copy.deepcopy(values)
        self.added(name, keys, action, values)

    def _found(self, name, keys):
        key = self._key(name, keys)
        if key not in self.entries[name]:
            raise Refused(f"{name}: {keys}: it is not there")
        return key

    def remove(self, name, keys):
        self._write(name)
        key = self._found(name, keys)
        if name == "$pre.node" and any(keys["$MULTICAST_NODE_ID"] in nodes for nodes in self.members().values()):
            raise Refused(f"{name}: {keys}: a group has it")
        del self.entries[name][key]
        self.removed(name, keys)

    def extend(self, name, keys, values):
        table = self._write(name)
        self._check_values(table, values, None)
        held = self.entries[name][self._found(name, keys)][1]
        for node in values["$MULTICAST_NODE_ID"]:
            self._found("$pre.node", {"$MULTICAST_NODE_ID": node})
        for each, value in values.items():
            held[each] = held.get(each, []) + value
        self.grouped(keys["$MGID"])

    def reduce(self, name, keys, values):
        table = self._write(name)
        self._check_values(table, values, None)
        held = self.entries[name][self._found(name, keys)][1]
        for node in values["$MULTICAST_NODE_ID"]:
            if node not in held["$MULTICAST_NODE_ID"]:
                raise Refused(f"{name}: {keys}: node {node} is not in it")
            at = held["$MULTICAST_NODE_ID"].index(node)
            for each in held.values():
                del each[at]
        self.grouped(keys["$MGID"])

    def set_default(self, name, values, action):
        table = self._write(name)
        self._check_values(table, values, action)
        self.defaults[name] = action, dict(values)
        self.defaulted(name, action, values)

    def default(self, name):
        self._table(name)
        return self.defaults[name][1]

    def read(self, name, all_keys):
        table = self._table(name)
        return [self._read(table, dict(self._key(name, keys))) for keys in all_keys]

    def _read(self, table, keys):
        if "$COUNTER_INDEX" in keys:
            values = {"$COUNTER_SPEC_PKTS": self.counts.get(keys["$COUNTER_INDEX"], 0)}
        else:
            zeros = {field: [0] * self.PIPES for field in table.data}
            values = self.registers.get((table.name, keys["$REGISTER_INDEX"]), zeros)
        if set(values) != set(table.data) or next(iter(keys.values())) >= table.size:
            raise Refused(f"{table.name}: {keys}: {values}")
        return values

    def values(self, name):
        self._table(name)
        return {next(iter(dict(key).values())): values for key, (_, values) in self.entries[name].items()}

    def clear(self, name):
        self._table(name)
        for key in list(self.entries[name]):
            self.remove(name, dict(key))

    def close(self):
        pass

    # ---- for what stands behind the tables, and for tests ----

    def added(self, name, keys, action, values):
        """After an entry was added."""

    def removed(self, name, keys):
        """After one was taken out."""

    def defaulted(self, name, action, values):
        """After a default action was set."""

    def numbered(self, name, index, *values):
        """After a register was written."""

    def grouped(self, group):
        """After the members of a multicast group have changed."""

    def members(self):
        """{multicast group: its nodes}"""
        return {
            key[0][1]: values.get("$MULTICAST_NODE_ID", []) for key, (_, values) in self.entries["$pre.mgid"].items()
        }

    def copies(self, group):
        """[(replica number, port)] of a multicast group."""
        nodes = [self.entries["$pre.node"][("$MULTICAST_NODE_ID", node),][1] for node in self.members()[group]]
        return [(node["$MULTICAST_RID"], port) for node in nodes for port in node["$DEV_PORT"]]

    def content(self):
        """{table: entries}, to compare."""
        kept = {name: dict(entries) for name, entries in self.entries.items() if name != "$pre.node"}
        kept["$pre.mgid"] = {group: sorted(self.copies(group)) for group in self.members()}
        return kept
