"""Trains one network from one seed over switchml, through a switch, and over Gloo, and puts the results side by side.

"switch" is switchml with a switchml-switchd between the ranks, where one packet in a thousand is lost, so that there is
something to repeat. Each rank and the switch have a host of their own then, a network namespace; where this process may
not make any, they are on the loopback interface. Fails (exit status 1) if a run fails, or if the accuracies differ by
more than --tolerance points.
"""

import argparse
import importlib.metadata
import importlib.util
import json
import math
import os
import pathlib
import statistics
import subprocess
import sys
import tempfile
import textwrap
import time

HERE = pathlib.Path(__file__).resolve().parent
sys.path.insert(0, str(HERE.parents[1] / "tests"))

import lab  # noqa: E402

FLOAT_BYTES = 4
SWITCH = "switch"  # among --backends
BACKENDS = ("switchml", SWITCH, "gloo")
LOSS = "seed=1,send_loss=0.0005,receive_loss=0.0005"  # of each rank's packets


def torchrun(ranks):
    """The command that starts `ranks` processes on this machine, up to the script's name."""
    command = [
        sys.executable,
        "-m",
        "torch.distributed.run",
        "--standalone",
        "--nnodes",
        "1",
        "--nproc_per_node",
        str(ranks),
    ]
    if importlib.metadata.version("torch").startswith("1.") and sys.version_info >= (3, 11):
        # That torchrun cannot parse its own default "0" there (enumerations leave out the zero member since Python
        # 3.11). The same said of a rank that does not exist leaves all others at the default.
        command += ["--redirects", "9:0", "--tee", "9:0"]
    return command


class Hosts(lab.Lab):
    """A host for each rank and one for the switch, around a bridge."""

    DEVICE = "eth0"

    def __init__(self, folder, ranks):
        super().__init__(folder)
        try:
            bridge = self.make_bridge("demo")
            self.hosts = [
                self.make_host(bridge, f"h{number}", self.DEVICE, self.address_of(number))
                for number in range(ranks + 1)
            ]
        except BaseException:
            self.close()
            raise

    @staticmethod
    def address_of(number):
        """Of a rank; of the switch, which comes after them."""
        return f"10.79.1.{number + 1}"

    def bytes_sent(self):
        """By the ranks' hosts, whatever it was."""
        path = f"/sys/class/net/{self.DEVICE}/statistics/tx_bytes"
        return sum(int(self.do(host, "cat", path)) for host in self.hosts[:-1])


def start_switch(place, namespace, address):
    """The address and port at which a switchml-switchd listens."""
    program = pathlib.Path(importlib.util.find_spec("switchml").origin).parent / "bin" / "switchml-switchd"
    process = place.start("switchd", program, "--listen", f"{address}:0", namespace=namespace)
    return place.await_line("switchd", process, "listening on ").split()[0].rstrip(",")


def run(name, arguments, folder):
    """Runs train.py on all ranks and returns what rank 0 measured."""
    environment = {"OMP_NUM_THREADS": "1", **os.environ}
    said = "a switch that switchml uses" if name == SWITCH else name
    print(f"training on {arguments.ranks} ranks over {said}", flush=True)
    if name != SWITCH:
        return train(name, name, torchrun(arguments.ranks), environment, arguments, folder)
    environment |= {"SWITCHML_FAULTS": LOSS}
    if lab.missing():
        with lab.Lab(folder) as place:
            environment |= {"SWITCHML_SWITCH": start_switch(place, None, "127.0.0.1")}
            return train(name, "switchml", torchrun(arguments.ranks), environment, arguments, folder)
    with Hosts(folder, arguments.ranks) as place:
        address = start_switch(place, place.hosts[-1], place.address_of(arguments.ranks))
        environment |= {"SWITCHML_SWITCH": address, "SWITCHML_INTERFACE": place.DEVICE}
        result = train(name, "switchml", place, environment, arguments, folder)
        return {**result, "link_bytes": place.bytes_sent()}


def commands(place, script, ranks):
    """[(command, environment)] to start all ranks: those of one host by torchrun, others each for itself."""
    if not isinstance(place, Hosts):
        return [(place + script, {})]
    common = {"WORLD_SIZE": str(ranks), "MASTER_ADDR": place.address_of(0), "MASTER_PORT": "29500", "LOCAL_RANK": "0"}
    common["TORCH_CPP_LOG_LEVEL"] = "ERROR"  # no name service is there, which the store warns of
    enter = ["ip", "netns", "exec"]
    return [
        ([*enter, host, sys.executable, *script], {**common, "RANK": str(rank)})
        for rank, host in enumerate(place.hosts[:-1])
    ]


def wait_for_all(processes):
    """0, or the status of the first that failed; the others are ended then."""
    while True:
        statuses = [process.poll() for process in processes]
        failed = next((status for status in statuses if status), 0)
        if failed or None not in statuses:
            break
        time.sleep(0.1)
    for process in processes:
        process.terminate()
        process.wait()
    return failed


def train(name, backend, place, environment, arguments, folder):
    """`place`: what starts ranks on this host (torchrun), or Hosts."""
    result = folder / f"{name}.json"
    options = {
        "backend": backend,
        "epochs": arguments.epochs,
        "images": arguments.images,
        "seed": arguments.seed,
        "result": result,
    }
    script = [str(HERE / "train.py")]
    for option, value in options.items():
        script += [f"--{option}", str(value)]
    processes = [
        subprocess.Popen(command, env={**environment, **more}, stdin=subprocess.DEVNULL)
        for command, more in commands(place, script, arguments.ranks)
    ]
    status = wait_for_all(processes)
    if status != 0:
        sys.exit(f"error: the run over {name} failed with status {status}")
    return {**json.loads(result.read_text()), "backend": name, "ranks": arguments.ranks}


def title(result):
    """What is compared, in the words of a user."""
    transport = (result["session"] or {}).get("transport")
    if not transport:
        return "Gloo" if result["backend"] == "gloo" else result["backend"]
    return "switchml in memory" if transport == "shm" else "switchml through a software switch"


def table_rows(result):
    counters = result["counters"]

    def counter(*names, scale=1):
        return f"{round(sum(counters[name] for name in names) * scale):,}" if counters else "-"

    return {
        "test accuracy": f"{result['accuracy']:.2f} %",
        "test loss": f"{result['test_loss']:.4f}",
        "training loss, last 50 steps": f"{statistics.mean(result['losses'][-50:]):.4f}",
        "time per step, median": f"{statistics.median(result['seconds']) * 1000:.1f} ms",
        "time per step, 99 %": f"{sorted(result['seconds'])[int(0.99 * len(result['seconds']))] * 1000:.1f} ms",
        "bytes aggregated": counter("elements_summed_by_switch", "elements_summed_in_memory", scale=FLOAT_BYTES),
        "packets sent": counter("packets_sent"),
        "retransmissions": counter("retransmissions"),
        "bytes sent by each rank": counter("bytes_sent", scale=1 / result["ranks"]),
        "bytes on each rank's link": f"{result['link_bytes'] // result['ranks']:,}" if "link_bytes" in result else "-",
    }


def print_table(results):
    columns = [table_rows(result) for result in results]
    label_width = max(len(label) for label in columns[0])
    titles = [title(result) for result in results]
    widths = [max(len(text), *map(len, column.values())) for text, column in zip(titles, columns)]
    print(f"\n{'':{label_width}}" + "".join(f"  {text:>{w}}" for text, w in zip(titles, widths)))
    for label in columns[0]:
        print(f"{label:{label_width}}" + "".join(f"  {c[label]:>{w}}" for c, w in zip(columns, widths)))
    print("(aggregated bytes, packets and retransmissions are summed over all ranks; a link also carries headers)")


def path_taken(session):
    """Which way the gradients went, in a sentence."""
    if not session["transport"]:
        return "one rank alone: its gradients went nowhere"
    if session["transport"] == "shm":
        return "the gradients were added in memory that the ranks share, all being on one host; no packet was sent for them"
    carrier = session["transport"].rpartition("+")[2].upper()
    if session["transport"].startswith("shm+"):
        return (
            f"each host's ranks added in memory, and the hosts' sums met by {carrier} at the switch {session['switch']}"
        )
    return f"the gradients went by {carrier} through the switch {session['switch']}"


def gain(one, other):
    """How many times as fast per step `one` was, in a sentence."""
    ours, theirs = (statistics.median(result["seconds"]) for result in (one, other))
    word = "faster" if ours <= theirs else "slower"
    times = max(ours, theirs) / min(ours, theirs)
    return (
        f"steps over {title(one)} were {times:.2f} x {word} than over {title(other)} in the median: "
        f"{ours * 1000:.1f} ms, {theirs * 1000:.1f} ms"
    )


def print_path(results):
    for result in results:
        if result["session"]:
            print(f"{title(result)}: {path_taken(result['session'])}")
    gloo = [result for result in results if result["backend"] == "gloo"]
    for result in results:
        if gloo and result["backend"] == "switchml":
            print(gain(result, gloo[0]))


def smoothed(values, window=20):
    return [statistics.mean(values[max(0, i - window + 1) : i + 1]) for i in range(len(values))]


def plot(results, path):
    """Losses, which lie one upon the other, and the time per step beside them."""
    import matplotlib

    matplotlib.use("Agg")
    from matplotlib import pyplot

    figure, (losses, times) = pyplot.subplots(1, 2, figsize=(11, 4.5), width_ratios=(2, 1))
    for i, result in enumerate(results):
        label = f"{title(result)}: {result['accuracy']:.2f} % on the test images"
        losses.plot(smoothed(result["losses"]), label=label, linewidth=4.5 - 1.5 * i, alpha=0.5 + 0.2 * i)
    losses.set(xlabel="step", ylabel="training loss (mean of 20 steps)", title="Fashion-MNIST, DistributedDataParallel")
    losses.legend()
    names = [textwrap.fill(title(result), 15) for result in results]
    bars = times.bar(
        names,
        [statistics.median(result["seconds"]) * 1000 for result in results],
        color=["C0", "C1", "C2"][: len(names)],
    )
    times.bar_label(bars, fmt="%.1f")
    times.margins(y=0.1)  # so that the labels are inside the frame
    times.set(ylabel="ms", title="time per step, median")
    for axes in (losses, times):
        axes.grid(alpha=0.3)
    figure.tight_layout()
    figure.savefig(path, dpi=120)
    print(f"losses and times: {path}")


def refuse_others(parser, found):
    """Than the values that are allowed, before anything is trained."""
    names = found.backends.split(",")
    for option, is_allowed, allowed in (
        ("backends", sorted(names) == sorted(set(names) & set(BACKENDS)), f"{', '.join(BACKENDS)}, each once at most"),
        ("ranks", found.ranks >= 1 and 256 % found.ranks == 0, "those that divide the global batch of 256"),
        ("epochs", found.epochs >= 1, "1 or more"),
        ("images", 256 <= found.images <= 60000, "256 to 60000"),
        ("seed", 0 <= found.seed < 1 << 64, "0 to 2^64 - 1"),
        ("tolerance", 0 <= found.tolerance < math.inf, "0 points or more"),
        ("plot", not pathlib.Path(found.plot).is_dir(), "names of files"),
    ):
        if not is_allowed:
            parser.error(f"--{option} {getattr(found, option)}: allowed are {allowed}")


def parse(arguments=None):
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument(
        "--backends", default=",".join(BACKENDS), help="names, separated by commas; default: %(default)s"
    )
    parser.add_argument("--ranks", type=int, default=4)
    parser.add_argument("--epochs", type=int, default=3)
    parser.add_argument("--images", type=int, default=60000, help="train on the first so many images (default: all)")
    parser.add_argument("--seed", type=int, default=1)
    parser.add_argument("--tolerance", type=float, default=0.5, help="allowed difference of the accuracies, in points")
    parser.add_argument("--plot", default="out/fashion_mnist.png", help="PNG file with loss curves and times")
    found = parser.parse_args(arguments)
    refuse_others(parser, found)
    return found


def main():
    arguments = parse()
    plot_path = pathlib.Path(arguments.plot)
    plot_path.parent.mkdir(parents=True, exist_ok=True)
    with tempfile.TemporaryDirectory() as folder:
        results = [run(backend, arguments, pathlib.Path(folder)) for backend in arguments.backends.split(",")]
    print_table(results)
    print_path(results)
    plot(results, plot_path)
    accuracies = [result["accuracy"] for result in results]
    difference = max(accuracies) - min(accuracies)
    within = difference <= arguments.tolerance
    print(
        f"accuracies differ by {difference:.2f} points: {'within' if within else 'MORE THAN'} the allowed "
        f"{arguments.tolerance} points"
    )
    return 0 if within else 1


if __name__ == "__main__":
    sys.exit(main())
