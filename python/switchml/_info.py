"""Versions, build, kernels, and the settings in force."""

import datetime
import json
import os
import platform

import torch
import torch.distributed as dist

import switchml

SECRETS = {"SWITCHML_CONTROLLER_TOKEN"}


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


def settings_in_force():
    """[(variable, value, where it comes from, allowed)]; a setting has one name in the environment."""
    rows = []
    for setting in switchml.settings():
        variable = "SWITCHML_" + setting["name"].upper()
        value = os.environ.get(variable)
        shown = "(hidden)" if value and variable in SECRETS else value
        rows.append((variable, shown or setting["default"], "environment" if value else "default", setting["allowed"]))
    return rows


def collect():
    import switchml._C as native

    return {
        "switchml": switchml.__version__,
        "torch": torch.__version__,
        "built for torch": switchml._BUILT_FOR,
        "python": platform.python_version(),
        "system": f"{platform.system()} {platform.release()} {platform.machine()}",
        "processors": len(os.sched_getaffinity(0)),
        "extension": native.__file__,
        "kernels": session_of_one()["kernels"],
        "settings": [dict(zip(("variable", "value", "from", "allowed"), row)) for row in settings_in_force()],
    }


def columns(rows):
    """Lines of text, each column as wide as its widest cell; the last one as it is."""
    widths = [max(len(row[i]) for row in rows) for i in range(len(rows[0]) - 1)]
    return ["  ".join([*(cell.ljust(width) for cell, width in zip(row, widths)), row[-1]]).rstrip() for row in rows]


def run(options):
    found = collect()
    if options.json:
        print(json.dumps(found, indent=1))
        return 0
    settings = found.pop("settings")
    print("\n".join(columns([(name, str(value)) for name, value in found.items()])))
    print()
    heading = ("setting", "value", "from", "allowed")
    print("\n".join(columns([heading, *(tuple(row.values()) for row in settings)])))
    return 0
