"""The TNA program on the open Tofino model: a process of the model's own test harness, told what to do by lines of
text.

The harness adds table entries by the compiler's context.json, injects frames and reads counters. What it has no command
for (multicast groups, recirculation, taking an entry out) is written into the chip's registers and memories by images
in the format of tofino.bin, which it can load at any time.

Needs p4c-barefoot, bfas and tofino_test_harness on PATH.
"""

import functools
import itertools
import json
import os
import pathlib
import re
import select
import shutil
import struct
import subprocess
import sys
import tempfile
import time

from vectors.targets import bmv2_switch as packets

ROOT = packets.ROOT
TOOLS = ("p4c-barefoot", "bfas", "tofino_test_harness")
PIPES = 4
PATIENCE = 60.0  # seconds for anything that must come
COMPILING = 900.0  # seconds for the compiler: one that fits takes half a minute to three
# Stations that frames of this module are sent to: the loop of each pipe, and back. What is before the latter's address
# is, after the loop, read as the header of packets that go around: the first pass, nothing else to do.
_TO_LOOP, _BACK, _TYPE = "00:00:00:00:00:a%x", "02:88:b5:88:b5:88", 0x88B5
_NUMBERS = itertools.count(1)


class SwitchError(Exception):
    """The model or a tool did not do what it should."""


def missing():
    """Why the model cannot be started here; empty if it can."""
    lacking = [tool for tool in TOOLS if shutil.which(tool) is None]
    return f"not on PATH: {', '.join(lacking)} (docs/switch.md says where they come from)" if lacking else ""


def run(*command, cwd=None):
    try:
        done = subprocess.run(
            [str(word) for word in command], capture_output=True, text=True, cwd=cwd, timeout=COMPILING
        )
    except subprocess.TimeoutExpired as error:
        raise SwitchError(f"{command[0]} has not ended after {COMPILING:g} s") from error
    if done.returncode != 0:
        raise SwitchError(f"{' '.join(map(str, command))}: {(done.stderr.strip() or done.stdout.strip())[-2000:]}")


def compile_program(folder, words, segments, roce):
    """Compiles and assembles the program, for payloads of so many segments of so many words each, into the folder.
    `roce`: it is the end of queue pairs."""
    source = ROOT / "switch_p4"
    run(
        sys.executable,
        ROOT / "backend/wire/generate.py",
        ROOT / "backend/wire/protocol.toml",
        folder / "wire.p4",
        words,
    )
    run(
        "p4c-barefoot",
        "--std",
        "p4-16",
        "--target",
        "tofino",
        "--arch",
        "tna",
        f"-DSEGMENTS={segments}",
        f"-DROCE={int(roce)}",
        "-I",
        folder,
        "-I",
        source,
        "-o",
        folder,
        source / "tna/switchml.p4",
    )
    run("bfas", "--singlepipe", "switchml.bfa", cwd=folder / "pipe")
    if not (folder / "pipe/tofino.bin").exists():
        raise SwitchError("bfas wrote no tofino.bin: the program does not fit")


@functools.cache
def _compiled(words, segments, roce):
    """A folder that is there until the process ends: the compiler takes half a minute or more."""
    folder = tempfile.TemporaryDirectory(prefix="switchml-tna-")
    compile_program(pathlib.Path(folder.name), words, segments, roce)
    return folder


class Image:
    """Writes into the chip, in the format of tofino.bin: 32-bit registers and 128-bit words of its memories."""

    def __init__(self):
        self.data = b""

    def register(self, address, value):
        self.data += b"\0\0\0r" + struct.pack("<II", address, value)

    def memory(self, address, value):
        self.data += b"\0\0\0d" + struct.pack("<QII", address, 128, 1) + value.to_bytes(16, "little")


class Replication:
    """The packet replication engine. A group is, for each pipe, a list of members (a rid and a port each)."""

    _BLOCK_OWNERS = 0x620040  # two bits for each block of rows: the pipe that uses it
    _ROWS, _BLOCK_ROWS, _BLOCKS = 0x6100000000, 2048, 16
    _HEADS = 0x6100100000  # four of 20 bits in a word, by group; a table for each pipe
    _HEADS_OF_PIPE = 0x100000
    _GROUP_PIPES = 0x27F0000  # four bits for each group: the pipes that it has members in
    _PIPE = 0x800000

    def __init__(self, image):
        per_pipe = self._BLOCKS // PIPES
        owners = sum((block // per_pipe) << 2 * block for block in range(self._BLOCKS))
        image.register(self._BLOCK_OWNERS, owners)
        rows = per_pipe * self._BLOCK_ROWS
        # Row 0 would be address 0, which ends a list.
        self._free = [list(range((pipe + 1) * rows - 1, max(pipe * rows, 1) - 1, -1)) for pipe in range(PIPES)]
        self._used = {}  # by group: [(pipe, row)]
        self._head_words = {}  # by (pipe, group // 4)
        self._pipe_words = {}  # by group // 8

    def set_group(self, image, group, members):
        """Replaces the group; `members`: [(rid, port)]."""
        for pipe, row in self._used.pop(group, ()):
            self._free[pipe].append(row)
        used = self._used[group] = []
        pipes = 0
        for pipe in range(PIPES):
            head = 0
            for rid, port in members:
                if port >> 7 == pipe:
                    head = self._member(image, used, pipe, head, rid, port)
                    pipes |= 1 << pipe
            self._set_head(image, pipe, group, head)
        self._set_pipes(image, group, pipes)

    def _take(self, used, pipe):
        used.append((pipe, self._free[pipe].pop()))
        return used[-1][1]

    def _member(self, image, used, pipe, following, rid, port):
        ports, member = self._take(used, pipe), self._take(used, pipe)
        image.memory(self._ROWS + ports, 9 | pipe << 4 | 1 << 7 | (1 << (port & 127)) << 8)
        image.memory(self._ROWS + member, 1 | following << 4 | 2 * ports << 24 | rid << 48)
        return 2 * member

    def _set_head(self, image, pipe, group, head):
        at = pipe, group // 4
        shift = 20 * (group % 4)
        word = self._head_words.get(at, 0) & ~(0xFFFFF << shift) | head << shift
        self._head_words[at] = word
        image.memory(self._HEADS + pipe * self._HEADS_OF_PIPE + group // 4, word)

    def _set_pipes(self, image, group, pipes):
        shift = 4 * (group % 8)
        word = self._pipe_words.get(group // 8, 0) & ~(15 << shift) | pipes << shift
        self._pipe_words[group // 8] = word
        for pipe in range(PIPES):
            image.register(self._GROUP_PIPES + pipe * self._PIPE + 4 * (group // 8), word)


def memory(pipe, stage, kind, row, column, index=0):
    """The chip's address of a word of a stage's memory; `kind`: 0 SRAM, 1 map RAM, 4 TCAM."""
    return 1 << 41 | pipe << 37 | stage << 33 | 2 << 30 | kind << 18 | row << 14 | column << 10 | index


class Memories:
    """What the harness has written into match and action memories, by its own account, so that it can be taken back."""

    _READ = re.compile(r"read_sram\((\d+), (\d+):(\d+):(\d+), [\d:]+\) = (\w+)")
    _SRAM = re.compile(r"write_sram\((\d+), (\d+):(\d+):(\d+), [\d:]+, (\w+)\)")
    _TCAM = re.compile(r"write_tcam\((\d+), (\d+):(\d+):(\d+),")

    def __init__(self):
        self._now = {}  # SRAM words, by (pipe, stage, unit, index)

    def written(self, lines):
        """[(place, changed bits)] of an entry; a TCAM word has None: it is emptied whole."""
        changes = []
        before = {}
        for line in lines:
            if found := self._READ.search(line):
                before[tuple(map(int, found.groups()[:4]))] = int(found[5], 16)
            elif found := self._SRAM.search(line):
                place = tuple(map(int, found.groups()[:4]))
                self._now[place] = int(found[5], 16)
                changes.append((place, before[place] ^ self._now[place]))
            elif found := self._TCAM.search(line):
                changes.append((tuple(map(int, found.groups()[:4])), None))
        return changes

    def take_back(self, image, changes):
        for place, bits in reversed(changes):
            pipe, stage, unit, index = place
            if bits is None:
                column, row = divmod(unit, 12)
                image.memory(memory(pipe, stage, 4, row, column, index), 0)
            elif bits:
                row, column = divmod(unit, 12)
                self._now[place] ^= bits
                image.memory(memory(pipe, stage, 0, row, column, index), self._now[place])


class Register:
    """Of 32-bit values, small enough for one memory and a spare one. A map RAM beside each says which of the two holds
    a word of four values."""

    _HERE, _NOWHERE = 0x3F, 0  # the first memory's number, as a map RAM holds it

    def __init__(self, program, name):
        context = json.loads((program / "context.json").read_text(encoding="utf-8"))
        (table,) = (each for each in context["tables"] if each["name"].split(".")[-1] == name)
        (part,) = table["stage_tables"]
        held = part["memory_resource_allocation"]
        (row,) = held["memory_units_and_vpns"]
        self.name, self._stage = table["name"], part["stage_number"]
        (self._unit,), self._spare = row["memory_units"], held["spare_bank_memory_unit"]

    def set_word(self, image, pipe, index, values):
        """The four values around an index."""
        word = sum(value << 32 * lane for lane, value in enumerate(values))
        for unit, holds in ((self._unit, self._HERE), (self._spare, self._NOWHERE)):
            row, column = divmod(unit, 12)
            image.memory(memory(pipe, self._stage, 1, row, column, index // 4), holds)
            image.memory(memory(pipe, self._stage, 0, row, column, index // 4), word)


class Harness:
    """The process. Its answers and its log come in one stream, in order."""

    _HARMLESS = re.compile(r"No key value for |Unknown command sync")

    def __init__(self, program, folder):
        self._folder = folder
        self._frames = open(folder / "frames.txt", "w+", encoding="ascii")
        # After -r, images that are loaded are only written, not taken for programs.
        words = ("--observation-log", folder / "frames.txt", "-T", "table:4", "-l", program, "-r", "-")
        self._process = subprocess.Popen(
            ["tofino_test_harness", *map(str, words)],
            stdin=subprocess.PIPE,
            stdout=subprocess.PIPE,
            stderr=subprocess.STDOUT,
            cwd=folder,
        )
        self.ask()

    def ask(self, *lines):
        """Has the lines carried out and what they cause come to rest; returns what the harness wrote."""
        end = f"sync{next(_NUMBERS)}"
        self.tell(*lines, "wait", end)
        text, until = b"", time.monotonic() + PATIENCE
        while f"Unknown command {end}".encode() not in text:
            ready, _, _ = select.select([self._process.stdout], [], [], max(0, until - time.monotonic()))
            piece = os.read(self._process.stdout.fileno(), 1 << 20) if ready else b""
            if not piece:
                raise SwitchError(f"the model said no more than: {text[-2000:].decode(errors='replace')}")
            text += piece
        answer = text.decode(errors="replace").splitlines()
        for line in answer:
            if line.startswith("<stdin>:") and not self._HARMLESS.search(line):
                raise SwitchError(f"{'; '.join(lines)}: {line}")
        return answer

    def tell(self, *lines):
        try:
            self._process.stdin.write("".join(f"{line}\n" for line in lines).encode())
            self._process.stdin.flush()
        except BrokenPipeError as error:
            raise SwitchError(f"the model has ended with status {self._process.wait(PATIENCE)}") from error

    def load(self, image):
        path = self._folder / "image.bin"
        path.write_bytes(image.data)
        self.ask(f"load {path}")

    def frames(self):
        """[(port, frame)] that have come out since the last time. Whole lines only."""
        came = []
        while True:
            at = self._frames.tell()
            line = self._frames.readline()
            if not line.endswith("\n"):
                self._frames.seek(at)
                return came
            port, data = line.split()
            came.append((int(port), bytes.fromhex(data)))

    def close(self):
        self._process.kill()
        self._process.wait(PATIENCE)
        self._process.stdin.close()
        self._process.stdout.close()
        self._frames.close()


def loop_port(pipe):
    return pipe << 7 | 68


def ternary_rows(program):
    """{last part of a ternary table's name: its rows, which the harness wants to be told}."""
    context = json.loads((program / "context.json").read_text(encoding="utf-8"))
    rows = {}
    for table in context["tables"]:
        if table["table_type"] == "match" and table["match_attributes"]["match_type"] == "ternary":
            stage = table["match_attributes"]["stage_tables"][-1]
            rows[table["name"].split(".")[-1]] = list(range(stage["size"]))
    return rows


@functools.cache
def bridge_bytes():
    """Length of the header that the program puts in front of packets that go around."""
    text = (ROOT / "switch_p4/tna/headers.p4").read_text(encoding="utf-8")
    body = re.search(r"header bridge_h \{(.*?)\}", text, re.S)[1]
    bits = sum(int(width) for width in re.findall(r"bit<(\d+)>", body)) + 9 * len(re.findall(r"PortId_t", body))
    return bits // 8


class TofinoSwitch:
    """The program on the model. `rounds`: how often a packet may go around, by the loop ports of these pipes."""

    def __init__(self, words=64, segments=1, rounds=1, loop_pipes=(0,), roce=False):
        why = missing()
        if why:
            raise SwitchError(why)
        self._folder = pathlib.Path(tempfile.mkdtemp(prefix="switchml-tofino-"))
        self._rounds, self._loop_pipes = rounds, loop_pipes
        self._harness = None
        try:
            self._program = pathlib.Path(_compiled(words, segments, roce).name) / "pipe"
            self.restart()
        except BaseException:
            self.close()
            raise

    def restart(self):
        """A fresh chip with the program: no entries, empty registers."""
        self._stop()
        self._harness = Harness(self._program, self._folder)
        self._memories = Memories()
        self._rows = ternary_rows(self._program)
        image = Image()
        for pipe in range(PIPES):
            image.register(0x273D01C + pipe * 0x800000, 0xF0001)  # ports 68 to 71 recirculate
        self._replication = Replication(image)
        self._harness.load(image)
        self._marks = itertools.count(1)
        self._marker_out = None

    def add(self, table, keys, action, parameters):
        """Adds an entry; returns what `remove` takes. The last parts of a table's name will do. A key that is left out
        matches anything, in a ternary table."""
        rows = self._rows.get(table.rpartition(".")[2])
        row = rows.pop() if rows else None
        words = [f"add {table}", *([] if row is None else [str(row)])]
        words += [f"{name}:{value}" for name, value in keys.items()]
        words.append(f"{action}({', '.join(f'{name}:{value}' for name, value in parameters.items())})")
        changes = self._memories.written(self._harness.ask(" ".join(words)))
        if not changes:
            raise SwitchError(f"{' '.join(words)}: the harness says of no memory that it wrote it")
        return table, row, changes

    def remove(self, entry):
        table, row, changes = entry
        image = Image()
        self._memories.take_back(image, changes)
        self._harness.load(image)
        if row is not None:
            self._rows[table.rpartition(".")[2]].append(row)

    def set_default(self, table, action, parameters):
        text = ", ".join(f"{name}:{value}" for name, value in parameters.items())
        self._memories.written(self._harness.ask(f"setdefault {table} {action}({text})"))

    def set_group(self, group, members):
        image = Image()
        self._replication.set_group(image, group, members)
        self._harness.load(image)

    def set_port_kind(self, port, kind):
        """The byte of $PORT_METADATA that the parser finds with each packet of a port."""
        pipe, local = divmod(port, 128)
        buffer, channel = divmod(local, 4)
        image = Image()
        image.register(0x2701A14 + pipe * 0x800000 + buffer * 0x2000 + channel * 0x80, kind << 24)
        self._harness.load(image)

    def read_register(self, pipe, name, index):
        """Its halves. The harness says nothing of a register that nobody has written."""
        lines = self._harness.ask(f"check_register {pipe}:{name}({index})")
        said = next((line for line in lines if line.startswith("register ")), "")
        return {"lo": 0, "hi": 0} | {half: int(value) for half, value in re.findall(r"(lo|hi)=(\d+)", said)}

    def set_register(self, name, index, value):
        """In all pipes, of one that fits a memory."""
        register, image = Register(self._program, name), Image()
        word = range(index // 4 * 4, index // 4 * 4 + 4)
        for pipe in range(PIPES):
            lines = self._harness.ask(*(f"check_register {pipe}:{register.name}({each})" for each in word))
            said = (re.match(r"register .*\(physical (\d+)\):.* lo=(\d+)", line) for line in lines)
            values = dict.fromkeys(word, 0) | {int(hit[1]): int(hit[2]) for hit in said if hit} | {index: value}
            register.set_word(image, pipe, index, values.values())
        self._harness.load(image)

    def read_counters(self, name, indices):
        """Sums over the pipes, in the order of the indices."""
        asked = [(pipe, index) for index in indices for pipe in range(PIPES)]
        lines = self._harness.ask(*(f"check_counter {pipe}:{name}({index})" for pipe, index in asked))
        found = []
        for line in lines:
            if "(virtual " in line:
                found.append(0)  # stays where nothing has been counted yet
            elif hit := re.search(r"\(physical \d+\):.*?packets=(\d+)", line):
                found[-1] = int(hit[1])
        if len(found) != len(asked):
            raise SwitchError(f"counter {name}: {len(found)} values instead of {len(asked)}")
        return [sum(found[i : i + PIPES]) for i in range(0, len(found), PIPES)]

    def watch_loops(self, port):
        """Has `settle` see what goes around: its own frames go by the loop ports and come out at this one."""
        self._marker_out = port
        ways = [(_TO_LOOP % pipe, loop_port(pipe)) for pipe in self._loop_pipes]
        for mac, way in (*ways, (_BACK, port)):
            station = {"headers.ethernet.destination": "0x" + packets.mac_bytes(mac).hex()}
            self.add("stations", station, "forward", {"port": way})

    def inject(self, port, frame):
        self._harness.tell(f"packet {port} {frame.hex()}")

    def settle(self):
        """All frames that came out because of what was injected before: [(port, frame)].

        The model's recirculation is queues that it does not wait for: in each round a frame of this class goes around
        behind whatever is in each. Before that, all else must rest: frames of different ports may overtake each other.
        """
        came = []
        for _ in range(self._rounds):
            self._harness.ask()
            self._go_around(came)
        self._harness.ask()
        return came + self._harness.frames()

    def _go_around(self, came):
        awaited = []
        for pipe in self._loop_pipes:
            back = packets.ethernet(_BACK, _BACK, _TYPE, next(self._marks).to_bytes(8, "big"))
            self.inject(self._marker_out, packets.mac_bytes(_TO_LOOP % pipe).ljust(bridge_bytes(), b"\0") + back)
            awaited.append((self._marker_out, back))
        end = time.monotonic() + PATIENCE
        while awaited:
            if time.monotonic() > end:
                raise SwitchError(f"{len(awaited)} frames did not come back by the loop ports within {PATIENCE:g} s")
            for out in self._harness.frames():
                (awaited.remove if out in awaited else came.append)(out)
            time.sleep(0.0002)

    def _stop(self):
        if self._harness:
            self._harness.close()
            self._harness = None

    def close(self):
        """Stops the model. Idempotent."""
        self._stop()
        shutil.rmtree(self._folder, ignore_errors=True)
