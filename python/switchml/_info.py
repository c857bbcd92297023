"""Versions, build, kernels, and the settings in force."""

import concurrent.futures
import datetime
import json
import os
import platform
import re

import torch
import torch.distributed as dist

import switchml
from switchml import _registration

SWITCH_SECONDS = 10.0  # to wait for a switch that is named


def add_options(parser):
    parser.add_argument("--json", action="store_true", help="print a JSON object instead of text")


def session_of_one():
    """What a group of this process alone says of its session; it opens no socket."""
    own = not dist.is_initialized()
    if own:
        dist.init_process_group(
            "switchml", store=dist.HashStore(), rank=0, world_size=1, timeout=datetime.timedelta(seconds=30)
        )
    found = switchml.stats()["session"]
    if own:
        dist.destroy_process_group()
    return found


def wrong_setting():
    """What the environment has that is not allowed, in words; empty where there is nothing."""
    try:
        switchml.Options()
    except ValueError as error:
        return str(error)
    return ""


def add_on(store, rank):
    """One rank of two in this process: opens a group, and adds. No error, or what went wrong."""
    try:
        group = switchml.ProcessGroup(store, rank, 2, datetime.timedelta(seconds=SWITCH_SECONDS))
        group.allreduce([torch.ones(1024)]).wait()
    except Exception as error:
        return str(error)
    return ""


def silent_switch():
    """What SWITCHML_SWITCH has that does not work, in words; empty where it does, or is not set. A group of one asks no
    switch, so two threads are the ranks."""
    if not os.environ.get("SWITCHML_SWITCH"):
        return ""
    store = dist.HashStore()
    with concurrent.futures.ThreadPoolExecutor(2) as threads:
        return next(filter(None, threads.map(lambda rank: add_on(store, rank), range(2))), "")


def settings_in_force():
    """[(variable, value, where it comes from, allowed)]; a setting has one name in the environment."""
    rows = []
    for setting in switchml.settings():
        variable = "SWITCHML_" + setting["name"].upper()
        value = os.environ.get(variable)
        shown = "(hidden)" if value and setting["secret"] else value
        origin = "environment" if value else "default"
        if setting["name"] == "log_level" and _registration.torch_log_level():
            shown, origin = _registration.torch_log_level(), "TORCH_CPP_LOG_LEVEL"
        rows.append((variable, shown or setting["default"], origin, setting["allowed"]))
    return rows


def collect():
    extension = _registration._extension()
    wrong = wrong_setting()
    return {
        "switchml": switchml.__version__,
        "torch": torch.__version__,
        "built for torch": switchml._BUILT_FOR,
        "python": platform.python_version(),
        "system": f"{platform.system()} {platform.release()} {platform.machine()}",
        "processors": len(os.sched_getaffinity(0)),
        "extension": extension.__file__,
        "kernels": "(not known)" if wrong else session_of_one()["kernels"],
        "instructions for AES": "yes" if extension.has_aes_instructions() else "no: SWITCHML_ENCRYPTION=auto is off",
        "settings": [dict(zip(("variable", "value", "from", "allowed"), row)) for row in settings_in_force()],
        "wrong": wrong,
    }


def marked(row, wrong):
    """The cells of a setting, with what is wrong with it in place of what is allowed."""
    variable, value, source, allowed = row.values()
    is_wrong = source == "environment" and re.search(rf"\b{variable}\b", wrong)
    return variable, value, source, f"WRONG: {wrong}" if is_wrong else allowed


def columns(rows):
    """Lines of text, each column as wide as its widest cell; the last one as it is."""
    widths = [max(len(row[i]) for row in rows) for i in range(len(rows[0]) - 1)]
    return ["  ".join([*(cell.ljust(width) for cell, width in zip(row, widths)), row[-1]]).rstrip() for row in rows]


def run(options):
    found = collect()
    if options.json:
        print(json.dumps(found, indent=1))
        return int(bool(found["wrong"]))
    settings, wrong = found.pop("settings"), found.pop("wrong")
    print("\n".join(columns([(name, str(value)) for name, value in found.items()])))
    print()
    heading = ("setting", "value", "from", "allowed")
    print("\n".join(columns([heading, *(marked(row, wrong) for row in settings)])))
    return int(bool(wrong))
