"""The software switch: packets and bytes per second, in all and for each second of CPU time of its threads.

    python benchmarks/switch --payload 1024,8192,61440 --json out/switch.json      # as root

switchml-switchd runs in a network namespace of its own, on cores of its own, behind a veth pair; on the other end
simulated workers keep as many contributions in flight as the switch grants and check every result in every bit. "Per
core" is for each second of CPU time of the switch's threads, in which the kernel's work for what they send counts, up
to the workers' sockets. `reflector` is the ceiling: a loop of recvmmsg and sendmmsg, with segmentation both ways, that
sends every datagram back untouched. Both take turns, --rounds times, and the table has medians.
"""

import argparse
import json
import os
import pathlib
import shutil
import statistics
import subprocess
import sys
import tempfile

sys.path.insert(0, str(pathlib.Path(__file__).resolve().parent.parent / "common"))
import options
import places
import report
import repository

import lab

ADDRESS = "10.78.0.1"
WORKERS = "10.78.0.2"
PORT = 48879
SLACK = 60  # seconds that a run may take longer than it measures


def parse():
    parser = argparse.ArgumentParser(
        prog="benchmarks/switch", description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument(
        "--payload",
        type=options.list_of(fixed_payload),
        default=[1024, 8192, 61440],
        help="bytes; default: 1024,8192,61440",
    )
    parser.add_argument("--workers", type=options.number(1, 128, int), default=2, help="default: 2")
    parser.add_argument(
        "--slots",
        type=options.number(0, 4096, int),
        default=0,
        help="in flight per worker; default 0: what the switch grants",
    )
    parser.add_argument("--mtu", type=options.link_mtu, default=9000, help="of the veth pair; default: 9000")
    parser.add_argument(
        "--seconds", type=options.number(1, 3600, int), default=3, help="of each measurement; default: 3"
    )
    parser.add_argument("--rounds", type=options.number(1, 99, int), default=3, help="default: 3")
    parser.add_argument("--no-reflector", action="store_true", help="the switch alone")
    parser.add_argument("--json", type=pathlib.Path, help="write all figures here")
    arguments = parser.parse_args()
    if os.cpu_count() < 2:
        parser.error("this machine has one core: the switch and the workers need one each")
    return arguments


def fixed_payload(text):
    return options.refuse(text, "a number of bytes") if text == "auto" else options.payload(text)


def binary():
    """bench_switch of the build folder that switchml-switchd comes from, or the end of the program."""
    why = lab.missing("taskset")
    switchd = lab.program("switchml-switchd")
    if not why and switchd is None:
        why = "switchml-switchd is not built: make setup (SWITCHML_TEST_BUILD may name the build folder)"
    found = switchd and shutil.which(
        "bench_switch", path=str(pathlib.Path(switchd).parents[2] / "benchmarks" / "switch")
    )
    if not why and not found:
        why = f"bench_switch is not built beside {switchd}: configure with SWITCHML_BUILD_BENCHMARKS=ON"
    if why:
        sys.exit(f"error: no benchmark of the switch: {why}")
    return found


def measure(place, what, payload, slots, bench, arguments):
    """One run of one of the two; what bench_switch printed."""
    cores = "0"
    listen = f"{ADDRESS}:{PORT}"
    command = (
        [bench, "reflect", "--to", listen]
        if what == "reflector"
        else [lab.program("switchml-switchd"), "--listen", listen]
    )
    served = place.start(what, "taskset", "-c", cores, *command, namespace=place.switch)
    place.await_line(what, served, "listening on ")
    load = [
        "taskset",
        "-c",
        f"1-{os.cpu_count() - 1}",
        bench,
        "load",
        "--to",
        listen,
        "--pid",
        served.pid,
        "--workers",
        arguments.workers,
        "--payload",
        payload,
        "--slots",
        slots,
        "--seconds",
        arguments.seconds,
    ]
    done = subprocess.run(
        ["ip", "netns", "exec", place.workers, *map(str, load), *(["--reflect"] if what == "reflector" else [])],
        capture_output=True,
        text=True,
        timeout=arguments.seconds + SLACK,
    )
    served.terminate()
    served.wait(10)
    place.processes.remove(served)
    if done.returncode != 0:
        raise lab.LabError(f"{what}, payload {payload}: {done.stderr.strip()}\n{place.log(what)[-1000:]}")
    return json.loads(done.stdout)


class Place(lab.Lab):
    """Two namespaces and a veth pair."""

    def __init__(self, folder, mtu):
        super().__init__(folder)
        try:
            self.switch, self.workers = self.namespace("switch"), self.namespace("workers")
            self.link(self.workers, "data", self.switch, "data", mtu)
            self.address(self.switch, "data", f"{ADDRESS}/24")
            self.address(self.workers, "data", f"{WORKERS}/24")
        except BaseException:
            self.close()
            raise


def rates(one):
    """Figures of one run, by name."""
    packets, bits = one["packets_in"] + one["packets_out"], 8 * (one["bytes_in"] + one["bytes_out"])
    return {
        "Mpackets/s": packets / one["wall_seconds"] / 1e6,
        "Gbit/s": bits / one["wall_seconds"] / 1e9,
        "Mpackets/s per core": packets / one["cpu_seconds"] / 1e6,
        "Gbit/s per core": bits / one["cpu_seconds"] / 1e9,
        "user": one["user_seconds"] / max(1e-9, one["user_seconds"] + one["system_seconds"]),
        "busy": one["cpu_seconds"] / one["wall_seconds"] / one["threads"],
        "repeated": one["repeated"],
    }


def print_rows(rows):
    headings = [
        "payload",
        "slots",
        "",
        "Mpackets/s",
        "Gbit/s in + out",
        "per core: Mpackets/s",
        "Gbit/s",
        "user",
        "busy",
        "repeated",
    ]
    cells = []
    for row in rows:
        found = {name: statistics.median(rates(one)[name] for one in row["runs"]) for name in rates(row["runs"][0])}
        cells.append(
            [
                str(row["payload"]),
                str(row["runs"][0]["slots"]),
                row["what"],
                f"{found['Mpackets/s']:.3f}",
                f"{found['Gbit/s']:.1f}",
                f"{found['Mpackets/s per core']:.3f}",
                f"{found['Gbit/s per core']:.1f}",
                f"{found['user']:.0%}",
                f"{found['busy']:.0%}",
                f"{found['repeated']:.0f}",
            ]
        )
    report.print_columns(headings, cells)


def main():
    arguments = parse()
    bench = binary()
    kinds = ["switch"] if arguments.no_reflector else ["switch", "reflector"]
    rows = [{"payload": payload, "what": what, "runs": []} for payload in arguments.payload for what in kinds]
    content = {**repository.circumstances("switch"), "workers": arguments.workers, "mtu": arguments.mtu, "rows": rows}
    with (
        tempfile.TemporaryDirectory(prefix="switchml-bench-") as folder,
        Place(pathlib.Path(folder), arguments.mtu) as place,
    ):
        for _ in range(arguments.rounds):
            slots = arguments.slots
            for row in rows:
                if row["what"] == "switch":
                    slots = arguments.slots
                row["runs"].append(measure(place, row["what"], row["payload"], slots, bench, arguments))
                slots = row["runs"][-1]["slots"]  # the reflector has the window that the switch has just granted
    print(f"software switch, {arguments.workers} workers, veth of MTU {arguments.mtu}; every result verified")
    print_rows(rows)
    if arguments.json:
        repository.write(arguments.json, content)
    return 0


if __name__ == "__main__":
    places.run(main)
