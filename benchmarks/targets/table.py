"""The targets, and whether what was measured meets them. Results are those of parts.py, by the names of their files."""
import statistics

import report

MIB, KIB = 1 << 20, 1 << 10
TAILS = (("p50", 0.5), ("p99", 0.99), ("p99.9", 0.999))
RANKS = (2, 4, 8)


class Missing(Exception):
    """A figure that a target needs was not measured: why."""


class Results:
    """files: {name: content}. absent: {name: why there is none}."""

    def __init__(self, files, absent):
        self.files, self.absent = files, absent

    def file(self, name):
        if name not in self.files:
            raise Missing(self.absent.get(name, "not run"))
        return self.files[name]

    def row(self, name, ranks, size, loss=0.0):
        """Of benchmarks/allreduce: (run, row)."""
        for run in self.file(name)["runs"]:
            for row in run["rows"]:
                if run["ranks"] == ranks and row["bytes"] == size and row["loss"] == loss:
                    return run, row
        raise Missing(f"{name}.json has no {ranks} ranks with {report.format_bytes(size)} and a loss of {loss:.2%}")

    def seconds(self, name, ranks, size, backend="switchml", q=0.5, loss=0.0):
        _, row = self.row(name, ranks, size, loss)
        if backend not in row["seconds"]:
            raise Missing(f"{name}.json has nothing of {backend}")
        return report.median(row, backend) if q == 0.5 else report.quantile(row["seconds"][backend], q)


def require_one_rate(results, *names):
    """Times are compared of links of one rate."""
    rates = {name: run.get("rate") for name in names for run in results.file(name)["runs"]}
    if len(set(rates.values())) > 1:
        raise Missing("links of different rates: " + ", ".join(f"{name}.json {rate} Mbit/s" for name, rate in rates.items()))


# Each gives [(what, target, measure)]; measure(results) is (text, met), or raises Missing.


def at_least(low, value, text):
    return text, value >= low


def at_most(high, value, text):
    return text, value <= high


def one_host():
    def line(ranks, times):
        def measure(results):
            ours, gloo = (results.seconds("one-host", ranks, 100 * MIB, backend) for backend in ("switchml", "gloo"))
            memory = [statistics.median(run["seconds"]) for run in results.files.get("memory", {}).get("runs", ()) if run["ranks"] == ranks]
            bound = f"; memory allows {gloo / memory[0]:.2f}, {report.format_seconds(memory[0])}" if memory else ""
            return at_least(times, gloo / ours, f"{gloo / ours:.2f} ({report.format_seconds(ours)} / {report.format_seconds(gloo)}{bound})")

        return f"one host, 100 MiB, {ranks} ranks: speed over Gloo's", f">= {times}", measure

    return [line(*pair) for pair in ((2, 6), (4, 7), (8, 8))]


def small():
    def line(ranks, size, name, q):
        times = 3 if ranks == 8 else 1

        def measure(results):
            if q > 0.99 and results.row("small", ranks, size)[1]["calls"] < report.P999_CALLS:
                raise Missing(f"fewer than {report.P999_CALLS} calls")
            ours, gloo = (results.seconds("small", ranks, size, backend, q) for backend in ("switchml", "gloo"))
            text = f"{gloo / ours:.2f} ({report.format_seconds(ours)} / {report.format_seconds(gloo)})"
            return (text, None) if q > 0.99 else (text, gloo / ours >= times if times > 1 else ours < gloo)

        target = "-" if q > 0.99 else f">= {times}" if times > 1 else "> 1"  # p99.9 is shown, and has no target
        return f"one host, {report.format_bytes(size)}, {ranks} ranks: {name}, Gloo's over ours", target, measure

    return [line(ranks, size, *tail) for size in (4 * KIB, 64 * KIB) for ranks in RANKS for tail in TAILS]


def small_network():
    """Not among the targets, and shown: what a round trip between hosts costs."""
    def line(ranks, size, name, q):
        def measure(results):
            ours, gloo = (results.seconds("small-network", ranks, size, backend, q) for backend in ("switchml", "gloo"))
            return f"{gloo / ours:.2f} ({report.format_seconds(ours)} / {report.format_seconds(gloo)})", None

        return f"links of 100 Mbit/s, {report.format_bytes(size)}, {ranks} ranks: {name}, Gloo's over ours", "-", measure

    return [line(ranks, size, *tail) for size in (4 * KIB, 64 * KIB) for ranks in RANKS for tail in TAILS[:2]]


def network():
    def of_limit(ranks):
        def measure(results):
            _, row = results.row("network", ranks, 64 * MIB)
            part = row["limit_seconds"]["switchml"] / report.median(row, "switchml")
            return at_least(0.97, part, f"{part:.3f} ({report.format_seconds(report.median(row, 'switchml'))})")

        return f"rate-limited links, 64 MiB, {ranks} ranks: of what the links carry", ">= 0.97", measure

    def spread(results):
        times = [results.seconds("network", ranks, 64 * MIB) for ranks in RANKS]
        return at_most(1.03, max(times) / min(times), f"{max(times) / min(times):.3f}")

    def speed(results):
        ours, gloo = (results.seconds("network", 8, 64 * MIB, backend) for backend in ("switchml", "gloo"))
        return at_least(1.7, gloo / ours, f"{gloo / ours:.2f}")

    return [*map(of_limit, RANKS), ("rate-limited links, 64 MiB, 2, 4 and 8 ranks: longest time over shortest", "<= 1.03", spread),
            ("rate-limited links, 64 MiB, 8 ranks: speed over Gloo's", ">= 1.7", speed)]


def loss():
    def line(ranks, lost, low):
        def measure(results):
            require_one_rate(results, "network", "loss")
            part = results.seconds("network", ranks, 64 * MIB) / results.seconds("loss", ranks, 64 * MIB, loss=lost)
            return at_least(low, part, f"{part:.3f}")

        return f"the same, {lost:.1%} lost, {ranks} ranks: of lossless", f">= {low}", measure

    return [line(ranks, *pair) for pair in ((0.001, 0.95), (0.01, 0.85)) for ranks in RANKS]


def hosts():
    def measure(results):
        require_one_rate(results, "hosts-1", "hosts-4")
        one, four = results.seconds("hosts-1", 2, 16 * MIB), results.seconds("hosts-4", 8, 16 * MIB)
        return at_most(1.05, four / one, f"{four / one:.3f} ({report.format_seconds(four)} / {report.format_seconds(one)})")

    return [("2 hosts, 16 MiB: time of 4 ranks on each over that of 1", "<= 1.05", measure)]


def ddp():
    def measure(results):
        run = results.file("ddp")["runs"][0]
        ours, gloo = run["exposed_seconds"]["switchml"], run["exposed_seconds"]["gloo"]
        if gloo <= 0:
            raise Missing("Gloo exposes nothing")
        of_step = gloo / statistics.median(run["seconds"]["gloo"])
        return at_most(0.5, ours / gloo, f"{ours / gloo:.2f} (Gloo's is {of_step:.0%} of its step)")

    return [("DDP step, BERT-shaped: exposed communication over Gloo's", "<= 0.5", measure)]


def kernels():
    def line(kernel):
        def measure(results):
            found = results.file("kernels")["results"]
            best = found[0]["table"]  # those that the processor runs, best first
            rows = [row for row in found if row["table"] == best and row["kernel"] == kernel]
            if not rows:
                raise Missing(f"kernels.json has no {kernel}")
            lowest = min(rows, key=lambda row: row["of_copy"])
            others = [f"{row['route']} {row['of_copy']:.2f}" for row in rows if row is not lowest]
            others += [f"{row['kernel']} {row['of_copy']:.2f}" for row in found if row["table"] == best and row["kernel"] == "copy by blocks"]
            return at_least(0.8, lowest["of_copy"], f"{lowest['of_copy']:.2f} ({'; '.join([f'{best}, ' + lowest['route'], *others])})")

        return f"{kernel}, from DRAM: of the copy bandwidth", ">= 0.8", measure

    def exact(count):
        def measure(results):
            found = results.file("kernels")["results"]
            rates = {(row["table"], row["kernel"]): row["of_copy"] for row in found}
            tables = [table for table, kernel in rates if kernel == "floats added, 2" and table != "scalar"]
            if not tables:
                raise Missing("kernels.json has no exact sums")
            shares = {table: rates[table, f"exact sum of {count} f32"] / rates[table, f"floats added, {count}"] for table in tables}
            return at_least(0.8, min(shares.values()), "; ".join(f"{table} {share:.2f}" for table, share in shares.items()))

        return f"exact sums of {count} terms, f32, from DRAM: of the same loop that adds floats", ">= 0.8", measure

    return [line("quantize f32"), line("dequantize f32"), exact(2), exact(8)]


def switch():
    def measure(results):
        for row in results.file("switch")["rows"]:
            if row["what"] == "switch" and row["payload"] == 8192:
                rates = [8e-9 * (run["bytes_in"] + run["bytes_out"]) / run["cpu_seconds"] for run in row["runs"]]
                busy = statistics.median(run["cpu_seconds"] / run["wall_seconds"] for run in row["runs"])
                text = f"{statistics.median(rates):.1f} Gbit/s of CPU time (busy for {100 * busy:.0f}% of the wall's)"
                return at_least(20, statistics.median(rates), text)
        raise Missing("switch.json has no payload of 8192 bytes")

    return [("software switch, one core, 8 KiB over veth: in and out", ">= 20 Gbit/s", measure)]


def cpu():
    """Of links that take bursts as one, as most cards do: elsewhere here each segment of Gloo's is one of its own, which costs it more."""
    def line(ranks):
        def measure(results):
            _, row = results.row("cpu", ranks, 16 * MIB)
            ours, gloo = (row["cpu_seconds"][backend] / row["calls"] / ranks / row["bytes"] * 1e9 for backend in ("switchml", "gloo"))
            return at_most(0.5, ours / gloo, f"{ours / gloo:.2f} ({ours:.2f} / {gloo:.2f} ns)")

        return f"CPU time per byte, UDP, {ranks} ranks on rate-limited links: over Gloo's", "<= 0.5", measure

    return [line(ranks) for ranks in RANKS]


LINES = [line for group in (one_host, small, small_network, network, loss, hosts, ddp, kernels, switch, cpu) for line in group()]


def evaluate(results):
    """[(what, target, measured, verdict)]: a line for each target; verdict is "met", "not met", "" or "not measured"."""
    rows = []
    for what, target, measure in LINES:
        try:
            measured, met = measure(results)
            rows.append((what, target, measured, {True: "met", False: "not met", None: ""}[met]))
        except Missing as why:
            rows.append((what, target, str(why), "not measured"))
        except (KeyError, TypeError, IndexError, ValueError, ZeroDivisionError) as error:
            rows.append((what, target, f"not a result that can be read ({type(error).__name__}: {error})", "not measured"))
    return rows
