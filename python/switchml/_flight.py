"""Calls of this backend in the dumps of PyTorch's flight recorder, which keeps those of PyTorch's own backends alone.
What it writes by itself, when NCCL times out or its debugging server is asked, goes past this."""

import functools
import json
import pickle

import torch

_FIRST_GROUP = 1000  # PyTorch counts its own from 0
_PICKLED = ("includeCollectives", "includeStackTraces", "onlyActive")
_JSON = ("includeCollectives", "onlyActive")


def join_dumps(flights):
    """`flights`: gives what the compiled part has kept, or None where it is not loaded."""
    module = torch._C._distributed_c10d
    for name in ("_dump_fr_trace", "_dump_nccl_trace"):
        _wrap(module, name, _PICKLED, flights, pickle.loads, pickle.dumps)
        _wrap(module, f"{name}_json", _JSON, flights, json.loads, lambda dump: json.dumps(_as_json(dump)).encode())


def _wrap(module, name, parameters, flights, load, store):
    original = getattr(module, name, None)
    if original is None:
        return

    @functools.wraps(original)
    def dump(*args, **kwargs):
        text, ours = original(*args, **kwargs), flights()
        if not ours or not ours["groups"]:
            return text
        wanted = {"includeCollectives": True, "includeStackTraces": True, "onlyActive": False}
        return store(_joined(load(text), ours, wanted | dict(zip(parameters, args)) | kwargs))

    setattr(module, name, dump)


def _joined(dump, ours, wanted):
    for group in ours["groups"]:
        name = group["name"]
        known = {"name": name, "desc": group["desc"], "ranks": str(group["ranks"])}
        dump.setdefault("pg_config", {}).setdefault(name, known)
        dump.setdefault("pg_status", {})[str(_FIRST_GROUP + group["id"])] = {
            "last_enqueued_collective": group["last_enqueued"] or -1,
            "last_started_collective": -1,
            "last_completed_collective": group["last_completed"] or -1,
        }
    if wanted["includeCollectives"]:
        rows = [
            _row(entry, wanted)
            for entry in ours["entries"]
            if not (wanted["onlyActive"] and entry["state"] == "completed")
        ]
        merged = sorted([*dump.get("entries", []), *rows], key=lambda entry: entry["time_created_ns"])
        dump["entries"] = [entry | {"record_id": number} for number, entry in enumerate(merged)]
    return dump


def _row(entry, wanted):
    frames: dict = {"frames": []} if wanted["includeStackTraces"] else {}
    return entry | {"pg_id": _FIRST_GROUP + entry["pg_id"], "thread_id": "", "thread_name": ""} | frames


def _as_json(dump):
    """As PyTorch writes it: 0 for a time that has not come, and status as text."""
    for entry in dump.get("entries", []):
        entry.pop("frames", None)
        for key in ("time_discovered_started_ns", "time_discovered_completed_ns"):
            entry[key] = entry[key] or 0
    dump["pg_status"] = {
        number: {key: str(value) for key, value in status.items()} for number, status in dump["pg_status"].items()
    }
    return dump
