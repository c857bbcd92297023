#!/usr/bin/env python3
"""Checks the direction of includes in backend/, the other rules that keep the layers apart, and that tests mirror code.

MAY_INCLUDE is the one table of dependencies. docs/architecture.md has it between two comments: --write puts it there,
and it is a problem where that is not the same.
"""

import argparse
import pathlib
import re
import sys
import tempfile

BACKEND = pathlib.Path(__file__).resolve().parent.parent / "backend"
UNIT_TESTS = pathlib.Path(__file__).resolve().parent / "unit"

# Which folders a folder may include, besides itself; each after all that it may include.
MAY_INCLUDE = {
    "base": set(),
    "wire": {"base"},
    "socket": {"base", "wire"},
    "kernels": {"base"},
    "slots": {"base", "wire", "socket"},
    "timer": {"base", "wire"},
    "seal": {"base", "wire"},
    "transport": {"base", "wire", "socket", "seal"},
    "format": {"base", "wire", "slots", "seal", "transport"},
    "exact": {"base", "wire", "kernels", "slots", "transport", "format"},
    "integer": {"base", "wire", "kernels", "slots", "transport", "format"},
    "engine": {"base", "wire", "socket", "slots", "timer", "transport", "format", "exact", "integer"},
    "messages": {"base", "socket", "kernels", "seal", "transport", "engine"},
    "shm": {"base", "socket", "kernels", "slots", "transport", "format", "exact", "engine", "messages"},
    "softswitch": {"base", "wire", "socket", "slots", "format", "exact", "integer"},
    "controller": {"base", "wire", "socket", "slots", "softswitch"},
    "api": {"base", "wire", "socket", "transport"},  # what protoc generates, and where it is served
    "switchd": {"base", "wire", "socket", "seal", "softswitch", "transport", "api"},
    "controllerd": {"base", "wire", "socket", "controller", "transport", "api"},
    "store": {"base"},
    "client": {"base", "wire", "socket", "seal", "transport", "engine", "switchd", "store"},
    "path": {"base", "wire", "transport", "format", "engine", "store"},
    "watch": {"base", "socket", "seal", "transport"},
    "live": {"base", "socket", "seal"},
    "failover": {"base", "wire", "socket", "slots", "seal", "transport", "engine", "switchd", "store", "client"},
    "session": {
        *{"base", "wire", "socket", "kernels", "seal", "transport", "engine", "messages", "shm", "switchd"},
        *{"store", "client", "path", "watch", "live", "failover"},
    },
    "c10d": {
        *{"base", "socket", "kernels", "seal", "transport", "engine", "messages", "shm", "store", "client", "live"},
        "session",
    },
}
ARCHITECTURE = BACKEND.parent / "docs" / "architecture.md"
BEGIN, END = "<!-- layers: written by tests/check_layers.py --write -->", "<!-- end of layers -->"
# State machines: what time it is and what arrived are arguments.
PURE = {"base", "wire", "kernels", "slots", "timer", "seal", "format", "exact", "integer", "softswitch", "controller"}
MAY_READ_THE_CLOCK = {"base/clock.h", "base/clock.cc"}
MAY_INCLUDE_GLOG = {"base/log.cc"}
MAY_ASK_THE_TORCH_VERSION = {"c10d/compat.h"}
# Sources without a unit test of their own name, and where they are tested instead.
TESTED_ELSEWHERE = {
    "format/format.cc": "what its formats have in common: through shards, engine/shard_test.cc and others",
    "exact/exact_format.cc": "through shards: engine/shard_exact_test.cc",
    "integer/integer_format.cc": "through shards: engine/shard_frames_test.cc and others",
    "c10d/pending_call.cc": "through calls: c10d/engine_call_test.cc and others",
    "kernels/partial_sum_avx2.cc": "with all tables: partial_sum_test.cc",
    "kernels/partial_sum_avx512.cc": "with all tables: partial_sum_test.cc",
    "c10d/bindings.cc": "what Python sees needs Python: tests/python",
    "c10d/group_metrics.cc": "what Prometheus reads of real ranks: tests/python/test_rank_metrics.py",
    "c10d/narrow_sums.cc": "what Python calls, in all places: tests/python/test_narrow_sums.py",
    "transport/rdma/none.cc": "one function, which refuses",
    "session/plan_maker.cc": "what it decides: grants_test.cc; how it asks switches, through agree(): agreement_test.cc",
    "session/settle_payload.cc": "what it decides: path_report_test.cc; the rest through agree(): agreement_test.cc",
    "session/settle_cards.cc": "through agree(): session_rdma_test.cc",
    "session/attachment.cc": "through Session::open: session_test.cc and others",
    "shm/mail_transport.cc": "through what it carries: messages/messenger_test.cc and others",
    "shm/tensor_chunks.cc": "through local ranks: local_rank_test.cc, movement_test.cc, owners_test.cc",
}

INCLUDE = re.compile(r'^\s*#\s*include\s*([<"])([^>"]+)[>"]')
CONDITION = re.compile(r"^\s*#\s*(if|ifdef|ifndef|elif)\b(.*)")
TORCH_MACRO = re.compile(r"\b(TORCH_VERSION|TORCH_MAJOR|TORCH_MINOR|C10D_BACKEND_HAS|SWITCHML_TORCH)\w*")
CLOCK = re.compile(
    r"\b(monotonic_now|clock_gettime|gettimeofday|timespec_get|(?:steady|system|high_resolution)_clock)\b"
)
SOCKET_HEADER = re.compile(r"^(sys/socket|sys/un|sys/epoll|netinet/.*|arpa/.*|net/.*|netdb|poll|linux/.*)(\.h)?$")


def without_comments(text):
    """The text with comments and the insides of string literals blanked, line structure kept."""
    pattern = re.compile(
        r'//[^\n]*|/\*.*?\*/|(?P<include>^[ \t]*#[ \t]*include[^\n]*)|"(?:\\.|[^"\\\n])*"', re.S | re.M
    )

    def blank(match):
        if match.group("include"):
            return match.group()
        return re.sub(r"[^\n]", " ", match.group())

    return pattern.sub(blank, text)


def check_include(name, kind, target):
    """What is wrong with file `name` including `target`, or None."""
    folder = name.split("/")[0]
    if target.startswith("glog/") and name not in MAY_INCLUDE_GLOG:
        return f"includes <{target}>: only {', '.join(MAY_INCLUDE_GLOG)} may"
    if folder in PURE and SOCKET_HEADER.match(target):
        return f"includes <{target}>: {folder} knows no sockets"
    if folder != "c10d" and re.match(r"(torch|ATen|c10|pybind11)/|Python\.h$", target):
        return f"includes <{target}>: only c10d knows torch and Python"
    other = target.split("/")[0]
    if kind != '"':
        return f"includes <{target}>: write it with quotes" if "/" in target and other in MAY_INCLUDE else None
    if "/" not in target or other not in MAY_INCLUDE:
        return f'includes "{target}": write it as "folder/file.h", relative to backend/'
    if other == folder or other in MAY_INCLUDE[folder]:
        return None
    return f'includes "{target}": {folder} may include {", ".join(sorted(MAY_INCLUDE[folder])) or "nothing"}'


def check_line(name, line):
    """All that is wrong with one line of code."""
    include = INCLUDE.match(line)
    if include:
        problem = check_include(name, *include.groups())
        return [problem] if problem else []
    problems = []
    clock = CLOCK.search(line)
    if clock and name.split("/")[0] in PURE and name not in MAY_READ_THE_CLOCK:
        problems.append(f"names {clock.group()}: in {name.split('/')[0]} time is an argument")
    condition = CONDITION.match(line)
    if condition and TORCH_MACRO.search(condition.group(2)) and name not in MAY_ASK_THE_TORCH_VERSION:
        problems.append("asks for the version of torch: only c10d/compat.h may")
    return problems


def check(backend):
    """Returns (problems as "file:line: text", number of files read)."""
    problems, files = [], 0
    for path in sorted(p for p in backend.rglob("*") if p.suffix in (".h", ".cc")):
        name = path.relative_to(backend).as_posix()
        files += 1
        if name.split("/")[0] not in MAY_INCLUDE:
            problems.append(f"{name}:1: folder {name.split('/')[0]} has no place in the layers: add it to {__file__}")
            continue
        for number, line in enumerate(without_comments(path.read_text()).splitlines(), 1):
            problems += [f"{name}:{number}: {problem}" for problem in check_line(name, line)]
    return problems, files


def check_mirror(backend, unit_tests):
    """backend/FOLDER/FILE.cc has tests/unit/FOLDER/FILE_test.cc; returns problems as check() does."""
    problems = []
    sources = {path.relative_to(backend).as_posix() for path in backend.rglob("*.cc")}
    for name in sorted(sources):
        test = unit_tests / f"{name[: -len('.cc')]}_test.cc"
        if name in TESTED_ELSEWHERE:
            if test.exists():
                problems.append(f"{name}:1: has {test.name} now: take it out of TESTED_ELSEWHERE in {__file__}")
        elif not test.exists():
            where = f"tests/unit/{name.split('/')[0]}/{test.name}"
            problems.append(f"{name}:1: has no {where} (or, with a reason, an entry in TESTED_ELSEWHERE)")
    return problems


def table():
    """Of MAY_INCLUDE, in Markdown."""
    rows = [
        f"| `{folder}` | {', '.join(each for each in MAY_INCLUDE if each in allowed) or 'nothing'} |"
        for folder, allowed in MAY_INCLUDE.items()
    ]
    return "\n".join([BEGIN, "| folder | may include |", "|---|---|", *rows, END])


def documented(text):
    """The table as the text has it; None where it has none."""
    begin, end = text.find(BEGIN), text.find(END)
    return text[begin : end + len(END)] if 0 <= begin < end else None


def check_table(path):
    found = documented(path.read_text())
    if found == table():
        return []
    what = "has no table of layers" if found is None else "has another table of layers"
    return [f"docs/{path.name}:1: {what}: tests/check_layers.py --write"]


def check_readme(text, cmake):
    """backend/README.md has each folder in one row, and only options that CMake has."""
    problems = []
    rows = [line.split("|")[2] for line in text.splitlines() if line.startswith("| ")]
    folders = re.findall(r"`(\w+)`", " ".join(rows))
    if sorted(folders) != sorted(MAY_INCLUDE):
        problems.append("backend/README.md:1: its table must have each folder once, as MAY_INCLUDE has")
    options = set(re.findall(r"SWITCHML_\w+", text)) - set(re.findall(r"(?:option|set)\((SWITCHML_\w+) ", cmake))
    return problems + [f"backend/README.md:1: CMake has no option {option}" for option in sorted(options)]


def write_table(path):
    text = path.read_text()
    found = documented(text)
    if found is None:
        sys.exit(f"{path}: has no line {BEGIN}, and {END} behind it")
    path.write_text(text.replace(found, table()))


# Each line breaks one rule (or, with None, breaks none although it looks like it).
SELF_TESTS = [
    ("base/status.h", '#include "wire/packet.h"', "base may include nothing"),
    ("wire/packet.h", '#include "transport/transport.h"', "wire may include base"),
    ("kernels/kernels.h", '#include "wire/packet.h"', "kernels may include base"),
    ("kernels/kernels.cc", '#include "slots/pool.h"', "kernels may include base"),
    ("slots/pool.h", '#include "timer/wheel.h"', "slots may include base, socket, wire"),
    ("timer/wheel.h", '#include "transport/transport.h"', "timer may include base, wire"),
    ("transport/udp.cc", '#include "engine/engine.h"', "transport may include base, seal, socket, wire"),
    ("engine/engine.h", '#include "switchd/server.h"', "engine may include"),
    ("softswitch/switch.h", '#include "transport/udp.h"', "softswitch may include"),
    ("switchd/server.h", '#include "engine/engine.h"', "switchd may include"),
    ("session/session.h", '#include "c10d/work.h"', "session may include"),
    ("controller/sessions.h", '#include "controllerd/controller_server.h"', "controller may include"),
    ("controller/sessions.h", '#include "api/switchml_control.pb.h"', "controller may include"),
    ("session/session.h", '#include "api/switchml_control.pb.h"', "session may include"),
    ("controller/sessions.cc", "Time now = monotonic_now();", "time is an argument"),
    ("engine/shard.cc", '#include "shard.h"', 'write it as "folder/file.h"'),
    ("engine/shard.cc", "#include <engine/shard.h>", "write it with quotes"),
    ("engine/shard.cc", "#include <torch/torch.h>", "only c10d knows torch"),
    ("session/session.cc", "#include <glog/logging.h>", "only base/log.cc may"),
    ("softswitch/switch.cc", "#include <sys/socket.h>", "softswitch knows no sockets"),
    ("wire/packet.cc", "#  include <netinet/in.h>", "wire knows no sockets"),
    ("timer/wheel.cc", "  Time now = monotonic_now();", "time is an argument"),
    ("slots/pool.cc", "auto t = std::chrono::steady_clock::now();", "time is an argument"),
    ("base/log.cc", "clock_gettime(CLOCK_MONOTONIC, &t);", "time is an argument"),
    ("c10d/work.cc", "#if TORCH_VERSION_MAJOR >= 2", "only c10d/compat.h may"),
    ("engine/shard.cc", "#ifdef SWITCHML_TORCH_1", "only c10d/compat.h may"),
    ("extra/file.h", "int x;", "has no place in the layers"),
    ("softswitch/switch.h", '#include "transport/transport.h"', "softswitch may include"),
    ("softswitch/switch.h", '#include "socket/endpoint.h"', None),
    ("base/clock.cc", "return std::chrono::steady_clock::now();", None),
    ("base/log.cc", "#include <glog/logging.h>", None),
    ("c10d/compat.h", "#if TORCH_VERSION_MAJOR >= 2", None),
    ("transport/udp.cc", "#include <sys/socket.h>", None),
    ("engine/shard.cc", "Time now = monotonic_now();", None),
    ("timer/wheel.h", "// the caller passes monotonic_now()", None),
    ("slots/pool.cc", '/* like\n#include "timer/wheel.h"\n*/', None),
    ("wire/packet.cc", 'const char* text = "clock_gettime";', None),
]


# Sources, tests, and what must be found about the sources' tests (None: nothing).
MIRROR_SELF_TESTS = [
    (["slots/pool.cc"], [], "slots/pool.cc:1: has no tests/unit/slots/pool_test.cc"),
    (["slots/pool.cc"], ["slots/plan_test.cc", "timer/pool_test.cc"], "has no tests/unit/slots/pool_test.cc"),
    (["slots/pool.cc", "slots/plan.cc"], ["slots/pool_test.cc"], "slots/plan.cc:1: has no"),
    (["c10d/bindings.cc"], ["c10d/bindings_test.cc"], "take it out of TESTED_ELSEWHERE"),
    (["slots/pool.cc"], ["slots/pool_test.cc", "slots/more_test.cc"], None),
    (["c10d/bindings.cc"], [], None),
    (["slots/pool.h"], [], None),
]


def self_test_mirror():
    failures = 0
    for sources, tests, expected in MIRROR_SELF_TESTS:
        with tempfile.TemporaryDirectory() as folder:
            backend, unit_tests = pathlib.Path(folder) / "backend", pathlib.Path(folder) / "unit"
            for path in [backend / name for name in sources] + [unit_tests / name for name in tests]:
                path.parent.mkdir(parents=True, exist_ok=True)
                path.write_text("")
            problems = check_mirror(backend, unit_tests)
        good = not problems if expected is None else len(problems) == 1 and expected in problems[0]
        if not good:
            failures += 1
            print(f"self-test: {sources} with {tests}: expected {expected!r}, got {problems}")
    return failures


def self_test():
    failures = self_test_mirror()
    for name, line, expected in SELF_TESTS:
        with tempfile.TemporaryDirectory() as folder:
            path = pathlib.Path(folder) / name
            path.parent.mkdir()
            path.write_text(f"#pragma once\n{line}\n")
            problems, _ = check(pathlib.Path(folder))
        good = not problems if expected is None else len(problems) == 1 and expected in problems[0]
        if not good:
            failures += 1
            print(f"self-test: {name}: {line!r}: expected {expected!r}, got {problems}")
    count = len(SELF_TESTS) + len(MIRROR_SELF_TESTS)
    print(f"check_layers self-test: {count - failures} of {count} as expected")
    return failures


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--self-test", action="store_true", help="plant violations in a temporary folder and find each")
    parser.add_argument("--write", action="store_true", help="put the table of layers into docs/architecture.md")
    arguments = parser.parse_args()
    if arguments.self_test:
        return 1 if self_test() else 0
    if arguments.write:
        write_table(ARCHITECTURE)
    problems, files = check(BACKEND)
    problems += check_mirror(BACKEND, UNIT_TESTS) + check_table(ARCHITECTURE)
    problems += check_readme((BACKEND / "README.md").read_text(), (BACKEND / "CMakeLists.txt").read_text())
    print("\n".join(problems), end="\n" if problems else "")
    print(f"check_layers: {files} files, {len(problems)} problems")
    return 1 if problems or files == 0 else 0


if __name__ == "__main__":
    sys.exit(main())
