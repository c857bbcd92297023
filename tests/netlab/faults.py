"""Loss, copies and late packets on the last hop to a host: compiles, loads and steers faults.bpf.c."""

import json
import os
import pathlib
import platform
import shutil
import struct

import lab

SOURCE = pathlib.Path(__file__).with_name("faults.bpf.c")
EVERY_PORT = 0  # traffic of every kind is lost; nothing is copied or held back
TOOLS = ("bpftool", "tc")


def clang():
    """A clang of any version: `clang`, or the newest `clang-N`; None if there is none."""
    named = (path for folder in os.get_exec_path() for path in pathlib.Path(folder).glob("clang-[0-9]*"))
    versions = {int(path.name[6:]): str(path) for path in named if path.name[6:].isdigit()}
    return shutil.which("clang") or (versions[max(versions)] if versions else None)


def missing():
    """Why there can be no faults here; empty if there can."""
    if lab.missing(*TOOLS):
        return lab.missing(*TOOLS)
    if not clang():
        return "no clang on PATH (apt-get install clang)"
    return (
        ""
        if pathlib.Path("/usr/include/bpf/bpf_helpers.h").exists()
        else "no bpf/bpf_helpers.h (apt-get install libbpf-dev)"
    )


def compile_program(folder):
    loaded = folder / "faults.o"
    lab.run(clang(), "-O2", "-g", "-mcpu=v3", "-Wall", "-Wextra", "-Werror", "-target", "bpf",
            f"-I/usr/include/{platform.machine()}-linux-gnu", "-c", SOURCE, "-o", loaded)  # fmt: skip
    return loaded


def refusal(folder):
    """What this machine says when the programs are loaded and attached; empty if it takes them."""
    try:
        program = compile_program(folder)
        with lab.Lab(folder) as trial:
            here, there = trial.namespace("x"), trial.namespace("y")
            trial.link(here, "near", there, "far")
            pins = Pins(folder)
            try:
                Faults(pins, program, 1, 0, here, "near", there, "far")
            finally:
                pins.close()
    except lab.LabError as error:
        return str(error)
    return ""


class Pins:
    """A BPF file system of this test's own, where loaded programs have names."""

    def __init__(self, folder):
        self.folder = folder / "bpf"
        self.folder.mkdir()
        lab.run("mount", "-t", "bpf", "none", self.folder)

    def close(self):
        lab.run("umount", self.folder)
        shutil.rmtree(self.folder)


class Faults:
    """The programs on one link: `port` (in `bridge`) sends to `device` (in `host`)."""

    def __init__(self, pins, program, udp_port, seed, bridge, port, host, device):
        self.pins, self.udp_port, self.seed = pins.folder / port, udp_port, seed
        lab.run("bpftool", "prog", "loadall", program, self.pins, "pinmaps", self.pins)
        self.set()
        lab.run("ip", "-n", host, "link", "set", "dev", device, "xdpdrv", "pinned", self.pins / "lose")
        lab.run("tc", "-n", bridge, "qdisc", "add", "dev", port, "clsact")
        lab.run(
            "tc", "-n", bridge, "filter", "add", "dev", port, "egress", "bpf", "da", "pinned", self.pins / "disturb"
        )

    def set(self, lose=0.0, copy=0.0, hold_back=0.0):
        """Chances per datagram."""
        chances = (min(2**32 - 1, round(chance * 2**32)) for chance in (lose, copy, hold_back))
        value = struct.pack("=5I", self.udp_port, self.seed, *chances)
        lab.run("bpftool", "map", "update", "pinned", self.pins / "settings", "key", "hex", *["00"] * 4,
                "value", "hex", *(f"{byte:02x}" for byte in value))  # fmt: skip

    def counts(self):
        """{"received": datagrams that reached the host, "lost": of these, ...}: struct counts, since the link was
        made."""
        return json.loads(lab.run("bpftool", "-j", "map", "dump", "pinned", self.pins / "counts"))[0]["formatted"][
            "value"
        ]
