#!/usr/bin/env python3
"""Checks the direction of includes in backend/, the other rules that keep the layers apart, and that tests mirror code.

The order is the one written in backend/CMakeLists.txt: c10d -> session -> {engine, shm, switchd}; shm -> engine;
engine -> {quant, slots, timer, transport} -> wire -> base; switchd -> {softswitch, transport};
controllerd -> {controller, api}; controller -> softswitch.
"""
import argparse
import pathlib
import re
import sys
import tempfile

BACKEND = pathlib.Path(__file__).resolve().parent.parent / "backend"
UNIT_TESTS = pathlib.Path(__file__).resolve().parent / "unit"

# Which folders a folder may include, besides itself.
MAY_INCLUDE = {
    "base": set(),
    "wire": {"base"},
    "quant": {"base"},
    "slots": {"base", "wire"},
    "timer": {"base", "wire"},
    "transport": {"base", "wire"},
    "engine": {"base", "wire", "quant", "slots", "timer", "transport"},
    "shm": {"base", "quant", "transport", "engine"},
    "softswitch": {"base", "wire", "quant"},
    "controller": {"base", "wire", "softswitch"},
    "switchd": {"base", "wire", "softswitch", "transport", "api"},
    "controllerd": {"base", "wire", "controller", "transport", "api"},
    "api": set(),  # what protoc generates
    "session": {"base", "wire", "transport", "engine", "shm", "switchd"},
    "c10d": {"base", "wire", "transport", "engine", "switchd", "session"},
}
# Single headers of another folder that a folder may include all the same.
MAY_INCLUDE_FILE = {
    "softswitch": {"transport/transport.h"},  # for the address type and frames, not for sending
    "controller": {"transport/transport.h", "transport/address.h"},  # to compare addresses, not for sending
    # to refuse a bad SWITCHML_KERNELS before anything starts; what ranks without their switch owe each other
    "session": {"quant/kernels.h", "slots/resync_plan.h"},
    "shm": {"slots/chunk_plan.h"},  # to cut what goes on to a switch where its packets are cut
    # to name the kernels in stats(); to allocate tensors; to send and receive
    "c10d": {"quant/kernels.h", "shm/arena.h", "shm/messages.h"},
}
# State machines: what time it is and what arrived are arguments.
PURE = {"base", "wire", "quant", "slots", "timer", "softswitch", "controller"}
MAY_READ_THE_CLOCK = {"base/clock.h", "base/clock.cc"}
MAY_INCLUDE_GLOG = {"base/log.cc"}
MAY_ASK_THE_TORCH_VERSION = {"c10d/compat.h"}
# Sources without a unit test of their own name, and where they are tested instead.
TESTED_ELSEWHERE = {
    "c10d/bindings.cc": "what Python sees needs Python: tests/python",
    "session/group_session.cc": "through Session::open: session_test.cc and others",
}

INCLUDE = re.compile(r'^\s*#\s*include\s*([<"])([^>"]+)[>"]')
CONDITION = re.compile(r"^\s*#\s*(if|ifdef|ifndef|elif)\b(.*)")
TORCH_MACRO = re.compile(r"\b(TORCH_VERSION|TORCH_MAJOR|TORCH_MINOR|C10D_BACKEND_HAS|SWITCHML_TORCH)\w*")
CLOCK = re.compile(r"\b(monotonic_now|clock_gettime|gettimeofday|timespec_get|(?:steady|system|high_resolution)_clock)\b")
SOCKET_HEADER = re.compile(r"^(sys/socket|sys/un|sys/epoll|netinet/.*|arpa/.*|net/.*|netdb|poll|linux/.*)(\.h)?$")


def without_comments(text):
    """The text with comments and the insides of string literals blanked, line structure kept."""
    pattern = re.compile(r'//[^\n]*|/\*.*?\*/|(?P<include>^[ \t]*#[ \t]*include[^\n]*)|"(?:\\.|[^"\\\n])*"', re.S | re.M)

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
    if other == folder or other in MAY_INCLUDE[folder] or target in MAY_INCLUDE_FILE.get(folder, ()):
        return None
    return f'includes "{target}": {folder} may include {", ".join(sorted(MAY_INCLUDE[folder])) or "nothing"}'


def check_line(name, line):
    """All that is wrong with one line of code."""
    include = INCLUDE.match(line)
    if include:
        problem = check_include(name, *include.groups())
        return [problem] if problem else []
    problems = []
    if name.split("/")[0] in PURE and name not in MAY_READ_THE_CLOCK and CLOCK.search(line):
        problems.append(f"names {CLOCK.search(line).group()}: in {name.split('/')[0]} time is an argument")
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


# Each line breaks one rule (or, with None, breaks none although it looks like it).
SELF_TESTS = [
    ("base/status.h", '#include "wire/packet.h"', "base may include nothing"),
    ("wire/packet.h", '#include "transport/transport.h"', "wire may include base"),
    ("quant/kernels.h", '#include "wire/packet.h"', "quant may include base"),
    ("quant/kernels.cc", '#include "slots/pool.h"', "quant may include base"),
    ("slots/pool.h", '#include "timer/wheel.h"', "slots may include base, wire"),
    ("timer/wheel.h", '#include "transport/transport.h"', "timer may include base, wire"),
    ("transport/udp.cc", '#include "engine/engine.h"', "transport may include base, wire"),
    ("engine/engine.h", '#include "switchd/server.h"', "engine may include"),
    ("softswitch/switch.h", '#include "transport/udp.h"', "softswitch may include"),
    ("switchd/server.h", '#include "engine/engine.h"', "switchd may include"),
    ("session/session.h", '#include "c10d/work.h"', "session may include"),
    ("controller/sessions.h", '#include "controllerd/server.h"', "controller may include"),
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
    ("softswitch/switch.h", '#include "transport/transport.h"', None),
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
    if parser.parse_args().self_test:
        return 1 if self_test() else 0
    problems, files = check(BACKEND)
    problems += check_mirror(BACKEND, UNIT_TESTS)
    print("\n".join(problems), end="\n" if problems else "")
    print(f"check_layers: {files} files, {len(problems)} problems")
    return 1 if problems or files == 0 else 0


if __name__ == "__main__":
    sys.exit(main())
