"""Trains the same network from the same seed over switchml and over Gloo, and puts the results side by side.

Fails (exit status 1) if a run fails, or if the accuracies differ by more than --tolerance points.
"""
import argparse
import importlib.metadata
import json
import os
import pathlib
import statistics
import subprocess
import sys
import tempfile

HERE = pathlib.Path(__file__).resolve().parent
FLOAT_BYTES = 4


def torchrun(ranks):
    """The command that starts `ranks` processes on this machine, up to the script's name."""
    command = [sys.executable, "-m", "torch.distributed.run", "--standalone", "--nnodes", "1",
               "--nproc_per_node", str(ranks)]
    if importlib.metadata.version("torch").startswith("1.") and sys.version_info >= (3, 11):
        # That torchrun cannot parse its own default "0" there (enumerations leave out the zero member since Python
        # 3.11). The same said of a rank that does not exist leaves all others at the default.
        command += ["--redirects", "9:0", "--tee", "9:0"]
    return command


def run(backend, arguments, folder):
    """Runs train.py on all ranks and returns what rank 0 measured."""
    print(f"training on {arguments.ranks} ranks over {backend}", flush=True)
    result = pathlib.Path(folder) / f"{backend}.json"
    command = torchrun(arguments.ranks) + [
        str(HERE / "train.py"), "--backend", backend, "--epochs", str(arguments.epochs),
        "--images", str(arguments.images), "--seed", str(arguments.seed), "--result", str(result)]
    environment = {"OMP_NUM_THREADS": "1", **os.environ}
    status = subprocess.run(command, env=environment, stdin=subprocess.DEVNULL).returncode
    if status != 0:
        sys.exit(f"error: the run over {backend} failed with status {status}")
    return json.loads(result.read_text())


def table_rows(result):
    counters = result["counters"]

    def counter(*names, scale=1):
        return f"{sum(counters[name] for name in names) * scale:,}" if counters else "-"

    return {
        "test accuracy": f"{result['accuracy']:.2f} %",
        "test loss": f"{result['test_loss']:.4f}",
        "training loss, last 50 steps": f"{statistics.mean(result['losses'][-50:]):.4f}",
        "time per step, median": f"{statistics.median(result['seconds']) * 1000:.1f} ms",
        "time per step, 99 %": f"{sorted(result['seconds'])[int(0.99 * len(result['seconds']))] * 1000:.1f} ms",
        "bytes aggregated": counter("elements_summed_by_switch", "elements_summed_in_memory", scale=FLOAT_BYTES),
        "packets sent": counter("packets_sent"),
        "retransmissions": counter("retransmissions"),
    }


def print_table(results):
    columns = [table_rows(result) for result in results]
    label_width = max(len(label) for label in columns[0])
    widths = [max(14, *(len(value) for value in column.values())) for column in columns]
    print(f"\n{'':{label_width}}" + "".join(f"  {r['backend']:>{w}}" for r, w in zip(results, widths)))
    for label in columns[0]:
        print(f"{label:{label_width}}" + "".join(f"  {c[label]:>{w}}" for c, w in zip(columns, widths)))
    print("(bytes, packets and retransmissions are summed over all ranks)")


def path_taken(session):
    """Which way the gradients went, in a sentence."""
    if not session["transport"]:
        return "one rank alone: its gradients went nowhere"
    if session["transport"] == "shm":
        return ("the gradients were added in memory that the ranks share, all being on one host; no packet was sent for "
                "them (SWITCHML_TRANSPORT=udp sends them through the switch in rank 0)")
    if session["transport"] == "shm+udp":
        return f"each host's ranks added in memory, and the hosts' sums met in packets, at the switch {session['switch']}"
    return f"the gradients went in UDP packets through the switch {session['switch']}"


def gain(one, other):
    """How many times as fast per step `one` was, in a sentence."""
    ours, theirs = (statistics.median(result["seconds"]) for result in (one, other))
    word = "faster" if ours <= theirs else "slower"
    times = max(ours, theirs) / min(ours, theirs)
    return (f"steps over {one['backend']} were {times:.2f} x {word} than over {other['backend']} in the median: "
            f"{ours * 1000:.1f} ms, {theirs * 1000:.1f} ms")


def print_path(results):
    for result in results:
        if result["session"]:
            print(f"{result['backend']}: {path_taken(result['session'])}")
    if len(results) == 2:
        print(gain(*results))


def smoothed(values, window=20):
    return [statistics.mean(values[max(0, i - window + 1) : i + 1]) for i in range(len(values))]


def plot(results, path):
    import matplotlib

    matplotlib.use("Agg")
    from matplotlib import pyplot

    figure, axes = pyplot.subplots(figsize=(8, 4.5))
    styles = [{"color": "tab:blue", "linewidth": 3.5, "alpha": 0.5}, {"color": "tab:orange", "linewidth": 1.2}]
    for result, style in zip(results, styles):
        label = f"{result['backend']}: {result['accuracy']:.2f} % on the test images"
        axes.plot(smoothed(result["losses"]), label=label, **style)
    axes.set(xlabel="step", ylabel="training loss (mean of 20 steps)", title="Fashion-MNIST, DistributedDataParallel")
    axes.grid(alpha=0.3)
    axes.legend()
    figure.tight_layout()
    figure.savefig(path, dpi=120)
    print(f"loss curves: {path}")


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--backends", default="switchml,gloo", help="two names, separated by a comma")
    parser.add_argument("--ranks", type=int, default=4)
    parser.add_argument("--epochs", type=int, default=3)
    parser.add_argument("--images", type=int, default=60000, help="train on the first so many images (default: all)")
    parser.add_argument("--seed", type=int, default=1)
    parser.add_argument("--tolerance", type=float, default=0.5, help="allowed difference of the accuracies, in points")
    parser.add_argument("--plot", default="out/fashion_mnist.png", help="PNG file with both loss curves")
    arguments = parser.parse_args()
    if 256 % arguments.ranks != 0:
        parser.error(f"--ranks {arguments.ranks}: must divide the global batch of 256")
    plot_path = pathlib.Path(arguments.plot)
    plot_path.parent.mkdir(parents=True, exist_ok=True)
    with tempfile.TemporaryDirectory() as folder:
        results = [run(backend, arguments, folder) for backend in arguments.backends.split(",")]
    print_table(results)
    print_path(results)
    plot(results, plot_path)
    accuracies = [result["accuracy"] for result in results]
    difference = max(accuracies) - min(accuracies)
    within = difference <= arguments.tolerance
    print(f"accuracies differ by {difference:.2f} points: {'within' if within else 'MORE THAN'} the allowed "
          f"{arguments.tolerance} points")
    return 0 if within else 1


if __name__ == "__main__":
    sys.exit(main())
