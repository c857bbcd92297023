"""Calls of this backend in the dumps of PyTorch's flight recorder, which keeps those of PyTorch's own backends alone,
in the words that its analyser (torchfrtrace) takes. What PyTorch writes by itself, when NCCL times out or its debugging
server is asked, goes past this."""

import functools
import json
import math
import pickle

import torch
import torch.distributed as dist

_FIRST_GROUP = 1000  # PyTorch counts its own from 0
_PICKLED = ("includeCollectives", "includeStackTraces", "onlyActive")
_JSON = ("includeCollectives", "onlyActive")
#: The analyser ends at a backend or a collective that it does not know.
_KNOWN_BACKEND = "gloo"
_KNOWN_NAMES = {
    "all_gather_coalesced": "ALLGATHER_coalesced",
    "all_gather_into_tensor": "_all_gather_base",
    "all_reduce_coalesced": "allreduce_coalesced",
    "all_reduce_sparse": "all_reduce",
    "all_to_all_single": "all_to_all",
    "monitored_barrier": "barrier",
    "reduce_scatter_tensor": "_reduce_scatter_base",
}


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
    config, groups, others = dump.setdefault("pg_config", {}), {}, _names_with_a_hook()
    for group in ours["groups"]:
        if group["name"] in others:
            continue
        groups[group["id"]] = group
        config[group["name"]] = _described(group["name"], group["desc"], group["ranks"])
        dump.setdefault("pg_status", {})[str(_FIRST_GROUP + group["id"])] = {
            "last_enqueued_collective": group["last_enqueued"] or -1,
            "last_started_collective": -1,
            "last_completed_collective": group["last_completed"] or -1,
        }
    _describe_others(config)
    if wanted["includeCollectives"]:
        # A group without a name is what our calls go through; one without ranks is forgotten.
        theirs = [entry for entry in dump.get("entries", []) if entry["process_group"][0]]
        forgotten = sum(rows[0]["record_id"] for rows in (theirs, ours["entries"]) if rows)
        rows = [
            _row(entry, groups[entry["pg_id"]], config, wanted)
            for entry in ours["entries"]
            if groups.get(entry["pg_id"], {}).get("ranks")
            and not (wanted["onlyActive"] and entry["state"] == "completed")
        ]
        merged = sorted([*theirs, *rows], key=lambda entry: entry["time_created_ns"])
        dump["entries"] = [entry | {"record_id": number} for number, entry in enumerate(merged, forgotten)]
    return dump


def _names_with_a_hook():
    """The groups that PyTorch's recorder keeps by itself: from 2.15 on those that c10d has made."""
    world = dist.distributed_c10d._world
    return {world.pg_names.get(group) for group in getattr(world, "pg_flight_recorder_hooks", ())}


def _described(name, description, ranks):
    return {"name": name, "desc": description, "ranks": str(list(ranks))}


def _describe_others(config):
    """Gloo does not say who is in its groups."""
    world = dist.distributed_c10d._world
    for group, ranks in list(world.pg_group_ranks.items()):
        name = world.pg_names.get(group)
        if name:
            config.setdefault(name, _described(name, getattr(group, "group_desc", ""), ranks))


def _row(entry, group, config, wanted):
    """Of one call. Where the group must be known to match it, `config` gets that group."""
    own = {"pg_id": _FIRST_GROUP + entry["pg_id"], "thread_id": "", "thread_name": "", "backend_call": _title(entry)}
    if wanted["includeStackTraces"]:
        own["frames"] = []
    row = entry | own
    return _message(row, group, config) if row["is_p2p"] else _collective(row, len(group["ranks"]))


def _title(entry):
    title = entry["profiling_name"]
    if not entry["is_p2p"]:
        return title
    source, destination, _ = entry["stream"]
    if title.endswith(":send"):
        return f"{title} {source}->{destination}"
    return f"{title} {destination}<-{'?' if source < 0 else source}"


def _collective(row, size):
    """Sizes as PyTorch's own backends record them: the analyser compares them between ranks."""
    name = row["profiling_name"].partition(":")[2]
    known, inputs, outputs = _KNOWN_NAMES.get(name, name), row["input_sizes"], row["output_sizes"]
    if name in ("broadcast", "reduce"):  # other ranks than the root may have one of them only
        inputs = outputs = inputs or outputs
    elif name == "all_to_all":
        inputs, outputs = _in_all(inputs), _in_all(outputs)
    elif name in ("all_gather", "reduce_scatter"):
        parts = outputs if name == "all_gather" else inputs
        if len(parts) == size and all(part == parts[0] for part in parts):
            whole = [[size, *parts[0]]]
            inputs, outputs = (inputs, whole) if name == "all_gather" else (whole, outputs)
        else:  # the parts of some ranks are larger
            known, inputs, outputs = f"{name}_v", _in_all(parts), _in_all(parts)
    return _renamed(row, known, inputs, outputs)


def _in_all(sizes):
    return [[sum(map(math.prod, sizes))]]


def _renamed(row, name, inputs, outputs):
    types = row["input_dtypes"] or row["output_dtypes"], row["output_dtypes"] or row["input_dtypes"]
    return row | {
        "profiling_name": f"{_KNOWN_BACKEND}:{name}",
        "input_sizes": inputs,
        "input_dtypes": types[0][: len(inputs)],
        "output_sizes": outputs,
        "output_dtypes": types[1][: len(outputs)],
    }


def _message(row, group, config):
    """The analyser expects every rank of the group in a call that is not coalesced: messages have a group of their two
    ends, in which they are counted."""
    (source, destination, tag), place = row.pop("stream"), row.pop("place")
    ranks = sorted({group["ranks"][end] for end in (source, destination) if end >= 0})
    to = ranks.index(group["ranks"][destination])
    by = to if source < 0 else ranks.index(group["ranks"][source])
    name = f"{group['name']}: {'any' if source < 0 else source}->{destination}{f', tag {tag}' if tag else ''}"
    config[name] = _described(name, group["desc"], ranks)
    title = f"send {by}->{to}" if row["profiling_name"].endswith(":send") else f"recv {to}<-{by}"
    own = {"process_group": (name, group["desc"]), "collective_seq_id": place}
    return _renamed(row, title, row["input_sizes"], row["output_sizes"]) | own


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
