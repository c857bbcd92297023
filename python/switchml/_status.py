"""What the groups of running jobs do now: who is late, stopped or dead, and who has made the others wait.

Reads what the processes of this host leave in shared memory, also while they hang or are stopped. Only the user that
runs them, and root, can. Times are differences of the hosts' clocks.
"""

import collections
import json
import sys
import time

from switchml import _arguments, _live, _live_hosts, _status_picture
from switchml._figures import format_bytes

#: A rank that comes later than this after the first one is late; what takes less is left to itself.
LATE = 0.1
_OPENING = "opening the group"
_WELL = ("running", _OPENING)


def add_options(parser):
    parser.add_argument("--json", action="store_true", help="print JSON")
    parser.add_argument("--group", metavar="NAME", help="groups of this name alone")
    parser.add_argument("--pid", type=_arguments.whole(1), help="groups of this process alone")
    parser.add_argument("--all", action="store_true", help="also groups all of whose ranks were killed")
    parser.add_argument(
        "--last", type=_arguments.whole(1), metavar="N", default=100, help="calls that are looked back at (100)"
    )
    parser.add_argument("--bars", action="store_true", help="print the last calls, a line for each rank")
    parser.add_argument("--picture", metavar="FILE", help="draw the same of the first group: an SVG, PNG or PDF file")
    parser.add_argument(
        "--timeout", type=_arguments.seconds, default=0.6, help="seconds that other hosts may take (0.6)"
    )
    parser.add_argument("--folder", type=_folder, help="where pages are, if the job's SWITCHML_LIVE_VIEW says so")
    parser.epilog = "Status 0: groups were found, whatever they do; 1: none."


def _folder(text):
    return text if text.startswith("/") else _arguments.refuse(text, "an absolute path")


def run(options):
    begin = time.monotonic()
    groups = merge(*everywhere(options.folder, options.timeout))
    all_groups = groups
    if options.group:
        groups = [group for group in groups if group.name == options.group]
    if options.pid:
        groups = [group for group in groups if any(rank.process.pid == options.pid for rank in group.ranks.values())]
    if not options.all:
        groups = [group for group in groups if any(rank.state != "dead" for rank in group.ranks.values())]
    views = [view(group, options.last) for group in groups]
    if options.json:
        print(json.dumps({"groups": views, "seconds": round(time.monotonic() - begin, 3)}, indent=1))
    elif views:
        pictures = [_status_picture.text(group, options.last) if options.bars else "" for group in groups]
        print("\n\n".join("\n\n".join(filter(None, (text(shown), bars))) for shown, bars in zip(views, pictures)))
    elif all_groups:
        names = ", ".join(sorted({group.name for group in all_groups}))
        print(f"no such group, or only dead ones (--all): there are groups {names}")
    else:
        print("no process of a running job is here: is this its host, and its user (or root)?")
    if options.picture and groups:
        try:
            _status_picture.draw(groups[0], options.last, options.picture)
        except (ImportError, OSError, ValueError) as error:
            print(f"no picture: {error}", file=sys.stderr)
    return 0 if views else 1


def everywhere(folder, timeout):
    """The processes of this host, and those on others that share a group with them; then, by group and rank, why the
    process of a rank is not seen."""
    local = _live.processes(folder)
    seen = {(entry["identity"], entry["rank"]) for process in local for entry in process.groups}
    doors, wanted = collections.defaultdict(set), {}
    for process in local:
        for entry in process.groups:
            for door in process.doors.get(entry["number"], ()):
                if (entry["identity"], door[0]) not in seen:
                    doors[door[1]].add(door)
                    wanted[entry["identity"], door[0]] = door[1]
    hosts = {address: _live_hosts.Host(sorted(of_host)) for address, of_host in doors.items()}
    _live_hosts.ask(hosts.values(), timeout)
    groups = {identity for identity, _ in seen}
    remote = [
        process
        for host in hosts.values()
        for process in host.processes or ()
        if any(entry["identity"] in groups for entry in process.groups)
    ]
    unseen = {key: hosts[address].outcome(key[1]) for key, address in wanted.items()}
    return [*local, *remote], unseen


# ---- one group, of many processes ----


class Rank:
    """A rank's part in a group. Times are moved to this host's clock."""

    def __init__(self, process, entry):
        self.process, self.entry, self.ahead = process, entry, process.ahead
        self.state = process.state
        self.calls = [self._here(call) for call in process.calls if call["group"] == entry["number"]]
        self.open = [call for call in self.calls if not call["ended"]]

    def _here(self, call):
        moved = {key: call[key] and call[key] - self.ahead for key in ("created", "started", "ended")}
        return call | moved

    @property
    def called(self):
        return self.entry["called"]

    @property
    def collectives(self):
        return {call["sequence"]: call for call in self.calls if call["kind"] == "collective"}


class Group:
    def __init__(self, entry):
        self.name, self.size, self.is_open = entry["name"], entry["size"], bool(entry["is_open"])
        self.transport, self.switch = entry["transport"], entry["switch_name"]
        self.encrypts = False
        self.identity = entry["identity"]
        self.ranks = {}
        self.unseen = {}  # By rank: why.

    def add(self, rank):
        self.ranks.setdefault(rank.entry["rank"], rank)
        self.encrypts |= rank.entry.get("encrypts") == 1  # Pages of earlier versions do not say so.
        self.transport, self.switch = (
            self.transport or rank.entry["transport"],
            self.switch or rank.entry["switch_name"],
        )


def merge(processes, unseen):
    """The groups of these processes. One that opens has no number of its own yet: its name must do."""
    groups: dict[object, Group] = {}
    opening: dict[tuple, dict] = collections.defaultdict(dict)
    for process in processes:
        for entry in process.groups:
            rank = Rank(process, entry)
            if entry["identity"]:
                groups.setdefault(entry["identity"], Group(entry)).add(rank)
            elif entry["size"] == 1 and entry["is_open"]:
                groups[process.path, entry["number"]] = alone = Group(entry)
                alone.add(rank)
            else:
                opening[entry["name"], entry["size"]].setdefault(entry["rank"], []).append((entry, rank))
    for (name, size), ranks in opening.items():
        for entry, rank in (each for several in ranks.values() for each in several):
            fitting = [g for g in groups.values() if (g.name, g.size) == (name, size) and entry["rank"] not in g.ranks]
            if not fitting:
                fitting = [groups.setdefault(("opening", name, size, len(groups)), Group(entry))]
            fitting[0].add(rank)
    for group in groups.values():
        group.unseen = {number: why for (identity, number), why in unseen.items() if identity == group.identity}
    return sorted(groups.values(), key=lambda group: (-group.size, group.name))


# ---- what it says ----


def view(group, last):
    now = max(rank.process.read_at - rank.ahead for rank in group.ranks.values())
    front = max(rank.called for rank in group.ranks.values())
    caused, counted = waits_caused(group, last)
    rows = [_row(group, number, front, caused, now) for number in range(group.size)]
    return {
        "name": group.name,
        "size": group.size,
        "transport": group.transport,
        "encryption": "on" if group.encrypts else "off",
        "switch": group.switch,
        "verdict": verdict(group, rows),
        "slowest": slowest(caused, counted),
        "calls": front,
        "ranks": rows,
    }


def _row(group, number, front, caused, now):
    rank = group.ranks.get(number)
    if rank is None:
        return {"rank": number, "state": group.unseen.get(number, "not seen"), "late_s": None, "call": None}
    entry = rank.entry
    row = {
        "rank": number,
        "global_rank": entry["global_rank"],
        "host": rank.process.host,
        "pid": rank.process.pid,
        "version": rank.process.version,
        "state": rank.state if entry["is_open"] or rank.state != "running" else _OPENING,
        "called": rank.called,
        "call": None,
        "since_s": None,
        "late_s": late(group, rank, front, now),
        "waits_for": "",
        "packets": {key: entry[key] for key in ("packets_sent", "retransmissions", "repeats_waiting", "damaged")},
        "failure": entry["failure"],
        "made_others_wait_s": round(caused.get(number, 0), 6),
    }
    if rank.open:
        call = rank.open[0]
        row["call"] = {key: call[key] for key in ("call", "sequence", "bytes", "kind", "peer")}
        row["since_s"] = _seconds(now - call["created"])
        row["calls_open"] = len(rank.open)
        row |= _waits(rank, call)
    elif rank.calls:
        row["since_s"] = _seconds(now - max(call["ended"] for call in rank.calls))
    else:
        row["since_s"] = _seconds(now - (entry["since"] - rank.ahead))
    return row


def _waits(rank, call):
    entry = rank.entry
    if call["kind"] != "collective":
        return {"waits_for": f"rank {call['peer']}" if call["peer"] >= 0 else "any rank"}
    if not entry["waits_at"] or entry["waits_in"] != call["sequence"]:
        return {}
    waits = {"waits_for": entry["waits_for"], "chunk": entry["waits_chunk"]}
    return waits | ({"slot": entry["waits_slot"]} if entry["waits_slot"] >= 0 else {})


def _seconds(nanoseconds):
    return round(max(0, nanoseconds) / 1e9, 6)


def late(group, rank, front, now):
    """For how long others have been in a call that this rank has not made; 0: it is in all of them."""
    if rank.called >= front:
        return 0.0
    missing = rank.called + 1
    came = [call["created"] for other in group.ranks.values() if (call := other.collectives.get(missing))]
    return _seconds(now - min(came)) if came else None  # None: so long ago that no page has it


def waits_caused(group, last):
    """For each rank: for how long others were in calls before it came, summed over the last ones that all have made;
    and how many these are."""
    if len(group.ranks) < 2:
        return {}, 0
    of_all = [(number, rank.collectives) for number, rank in group.ranks.items()]
    shared = sorted(set.intersection(*(set(calls) for _, calls in of_all)))[-last:]
    caused = dict.fromkeys(group.ranks, 0.0)
    for sequence in shared:
        passed, before = 0, 0
        for came, number in sorted((calls[sequence]["created"], number) for number, calls in of_all):
            caused[number] += (passed * came - before) / 1e9
            passed, before = passed + 1, before + came
    return caused, len(shared)


def slowest(caused, counted):
    """The rank that others have waited for longest, in a sentence; nothing where there are no calls to look back at."""
    if not counted:
        return ""
    number = max(caused, key=lambda rank: caused[rank])
    mean = caused[number] / (len(caused) - 1) / counted
    calls = f"{counted} calls" if counted > 1 else "call"
    return f"in the last {calls} the others waited longest for rank {number}: {_time(mean)} a call each"


def verdict(group, rows):
    """Who waits for whom, in a sentence."""
    waiting = [row for row in rows if row["call"]]
    longest = max((row["since_s"] for row in waiting), default=0)
    blamed = [(row, row["state"]) for row in rows if row["state"] not in (*_WELL, "not seen")]
    if waiting:
        slow = [row for row in rows if row["state"] in _WELL and (row["late_s"] is None or row["late_s"] >= LATE)]
        blamed += [(row, f"late by {_time(row['late_s'])}") for row in slow]
        blamed = blamed or [(row, row["state"]) for row in rows if row["state"] == "not seen" and longest >= LATE]
    failed = next((f"the group has failed: {row['failure']}" for row in rows if row.get("failure")), "")
    if blamed:
        who = _list([f"{_name(row)} is {what}" for row, what in blamed])
        return who + (_others(waiting, blamed, longest) or (f"; {failed}" if failed else ""))
    if failed:
        return failed
    opening = [row for row in rows if row["state"] == _OPENING]
    unseen = [row for row in rows if row["state"] == "not seen"]
    if opening:
        missing = _list([f"rank {row['rank']}" for row in unseen])
        return f"the group opens: {len(opening)} of {group.size} ranks are here" + (
            f", not {missing}" if missing else ""
        )
    if longest >= LATE:
        return _stuck(waiting, longest)
    if unseen:
        who = _list([f"rank {row['rank']}" for row in unseen])
        return f"{group.size - len(unseen)} of {group.size} ranks run; not seen: {who}"
    return f"all {group.size} ranks run"


def _stuck(waiting, longest):
    """All ranks are in the call, or some wait for messages."""
    messages = [row for row in waiting if row["call"]["kind"] != "collective" and row["since_s"] >= LATE]
    if messages:
        return _list(
            [f"rank {row['rank']} waits for {row['waits_for']}, for {_time(row['since_s'])}" for row in messages]
        )
    reason = next((row["waits_for"] for row in waiting if row["waits_for"]), "")
    count = "1 rank is" if len(waiting) == 1 else f"{len(waiting)} ranks are"
    return f"{count} in a call, for up to {_time(longest)}" + (f": {reason}" if reason else "")


def _others(waiting, blamed, longest):
    numbers = {row["rank"] for row, _ in blamed}
    others = [row for row in waiting if row["rank"] not in numbers]
    if not others:
        return ""
    call = max(others, key=lambda row: row["since_s"])["call"]
    plural = "ranks wait" if len(others) > 1 else "rank waits"
    return f"; {len(others)} {plural}, for {_time(longest)}, in {_call(call)}"


def _name(row):
    place = f" ({row['host']}, process {row['pid']})" if "host" in row else ""
    return f"rank {row['rank']}{place}"


def _list(texts, most=4):
    return ", ".join(texts[:most]) + (f", and {len(texts) - most} more" if len(texts) > most else "")


def _time(seconds):
    if seconds is None:
        return "long"
    return f"{seconds:.3g} s" if seconds >= 0.1 else f"{seconds * 1e3:.3g} ms"


def _call(call):
    if call["kind"] == "send":
        return f"send to {call['peer']}"
    if call["kind"] == "receive":
        return f"recv from {call['peer'] if call['peer'] >= 0 else 'any'}"
    return f"{call['call']} {call['sequence']} ({format_bytes(call['bytes'])})"


# ---- as text ----

_HEADING = ("rank", "host", "process", "state", "in", "since", "late", "made others wait", "sent again", "waits for")


def text(shown):
    way = f", {shown['transport']}" if shown["transport"] else ""
    way += ", encrypted" if shown["encryption"] == "on" else ""
    title = f"group {shown['name']}: {shown['size']} ranks{way}, {shown['calls']} calls"
    lines = [_cells(row) for row in shown["ranks"]]
    widths = [max(len(line[i]) for line in (_HEADING, *lines)) for i in range(len(_HEADING) - 1)]
    padded = [
        "  ".join([*(cell.ljust(width) for cell, width in zip(line, widths)), line[-1]]).rstrip()
        for line in (_HEADING, *lines)
    ]
    return "\n".join([title, *filter(None, (shown["verdict"], shown["slowest"])), "", *padded])


def _cells(row):
    if "host" not in row:
        return (str(row["rank"]), "?", "?", row["state"], *[""] * (len(_HEADING) - 4))
    packets = row["packets"]
    waits = row["waits_for"].partition(": is ")[0] + (
        f" (chunk {row['chunk']}, slot {row['slot']})" if "slot" in row else ""
    )
    return (
        str(row["rank"]),
        row["host"],
        str(row["pid"]),
        row["state"],
        _call(row["call"]) if row["call"] else f"none; made {row['called']}",
        _time(row["since_s"]),
        _time(row["late_s"]) if row["late_s"] != 0 else "",
        _time(row["made_others_wait_s"]),
        str(packets["retransmissions"]),
        waits or row["failure"],
    )
