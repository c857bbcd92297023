"""The targets, and whether what was measured meets them. Results are those of parts.py, by the names of their files."""

import statistics

import report

MIB, KIB = 1 << 20, 1 << 10
RANKS = (2, 4, 8)


class Missing(Exception):
    """A figure that a target needs was not measured: why."""


class Results:
    """files: {name: content}. absent: {name: why there is none}."""

    def __init__(self, files, absent):
        self.files, self.absent = files, absent

    def file(self, name):
        if name not in self.files:
            raise Missing(self.absent.get(name, f"{name}.json is missing: its part has not run"))
        return self.files[name]

    def row(self, name, ranks, size, kind="float32", loss=0.0):
        """Of benchmarks/allreduce."""
        for run in self.file(name)["runs"]:
            for row in run["rows"]:
                if (run["ranks"], row["bytes"], row["type"], row["loss"]) == (ranks, size, kind, loss):
                    return row
        raise Missing(
            f"{name}.json has no {ranks} ranks with {report.format_bytes(size)} of {kind} and a loss of {loss:.2%}"
        )

    def seconds(self, name, ranks, size, backend="switchml", kind="float32", q=0.5, loss=0.0):
        row = self.row(name, ranks, size, kind, loss)
        if backend not in row["seconds"]:
            raise Missing(f"{name}.json has nothing of {backend}")
        return report.median(row, backend) if q == 0.5 else report.quantile(row["seconds"][backend], q)

    def over_gloo(self, name, ranks, size, **which):
        """(ratio, as text with both times)"""
        ours, gloo = (self.seconds(name, ranks, size, backend, **which) for backend in ("switchml", "gloo"))
        return ours / gloo, f"{ours / gloo:.2f} ({report.format_seconds(ours)} / {report.format_seconds(gloo)})"

    def with_zeros(self, name, ranks):
        """{part of the blocks that are zero: row}"""
        run = next((run for run in self.file(name)["runs"] if run["ranks"] == ranks), None)
        if run is None:
            raise Missing(f"{name}.json has no {ranks} ranks")
        return {row["zeros"]: row for row in run["rows"]}

    def of_limit(self, name, ranks, size, kind):
        row = self.row(name, ranks, size, kind)
        return row["limit_seconds"]["switchml"] / report.median(row, "switchml")


def require_one_rate(results, *names):
    """Times are compared of links of one rate."""
    rates = {name: run.get("rate") for name in names for run in results.file(name)["runs"]}
    if len(set(rates.values())) > 1:
        raise Missing(
            "links of different rates: " + ", ".join(f"{name}.json {rate} Mbit/s" for name, rate in rates.items())
        )


# Each gives [(what, target, measure)]; measure(results) is (text, met), or raises Missing.


def at_least(low, value, text):
    return text, value >= low


def at_most(high, value, text):
    return text, value <= high


def each(values):
    return ", ".join(f"{kind} {value:.3f}" for kind, value in values.items())


def each_at_least(low, values):
    """values: {type: value}"""
    return at_least(low, min(values.values()), each(values))


def each_at_most(high, values):
    return at_most(high, max(values.values()), each(values))


def memory_seconds(results, ranks):
    """What two passes over memory take, as a list of at most one."""
    return [
        statistics.median(run["seconds"])
        for run in results.files.get("memory", {}).get("runs", ())
        if run["ranks"] == ranks
    ]


def one_host():
    def line(ranks):
        def measure(results):
            ours, gloo = (results.seconds("one-host", ranks, 100 * MIB, backend) for backend in ("switchml", "gloo"))
            memory = memory_seconds(results, ranks)
            bound = f"; memory allows {gloo / memory[0]:.2f}, {report.format_seconds(memory[0])}" if memory else ""
            return f"{gloo / ours:.2f} ({report.format_seconds(ours)} / {report.format_seconds(gloo)}{bound})", None

        return f"one host, 100 MiB, {ranks} ranks: speed over Gloo's", "-", measure

    return [line(ranks) for ranks in RANKS]


def arena():
    def over_gloo(ranks):
        def measure(results):
            ours, gloo = (
                results.seconds("arena", ranks, 100 * MIB),
                results.seconds("one-host", ranks, 100 * MIB, "gloo"),
            )
            return at_least(
                7, gloo / ours, f"{gloo / ours:.2f} ({report.format_seconds(ours)} / {report.format_seconds(gloo)})"
            )

        return (
            f"one host, 100 MiB of the arena, {ranks} ranks: speed over Gloo's with ordinary tensors",
            ">= 7",
            measure,
        )

    return [over_gloo(ranks) for ranks in RANKS]


def in_place():
    """Beside ranks that add in tensors which all of them have mapped."""

    def line(name, size, ranks, most):
        def measure(results):
            for run in results.file("in-place")["runs"]:
                for row in run["rows"]:
                    if (run["ranks"], row["bytes"]) == (ranks, size):
                        ours, least = (statistics.median(row["seconds"][each]) for each in (name, "in_place"))
                        times = f"({report.format_seconds(ours)} / {report.format_seconds(least)})"
                        return at_most(most, ours / least, f"{ours / least:.2f} {times}")
            raise Missing(f"in-place.json has no {ranks} ranks with {report.format_bytes(size)}")

        of = " of the arena" if name == "arena" else ""
        what = f"one host, {report.format_bytes(size)}{of}, {ranks} ranks: time over adding in place"
        return what, f"<= {most}", measure

    targets = (("switchml", 16 * MIB, 1.6), ("switchml", 100 * MIB, 2.2), ("arena", 100 * MIB, 1.25))
    return [line(name, size, ranks, most) for name, size, most in targets for ranks in (2, 4)]


def movements():
    """Times over all sizes."""

    def line(collective, ranks):
        def measure(results):
            rows = [
                row
                for run in results.file("movements")["runs"]
                if run["ranks"] == ranks
                for row in run["rows"]
                if row["collective"] == collective
            ]
            if not rows:
                raise Missing(f"movements.json has no {collective} of {ranks} ranks")
            speeds = {
                report.format_bytes(row["bytes"]): report.median(row, "gloo") / report.median(row, "switchml")
                for row in rows
            }
            return at_least(3, min(speeds.values()), ", ".join(f"{size} {speed:.2f}" for size, speed in speeds.items()))

        return f"one host, {collective}, {ranks} ranks: speed over Gloo's", ">= 3", measure

    names = ("broadcast", "all_gather_into_tensor", "all_to_all_single", "reduce_scatter_tensor")
    return [line(name, ranks) for name in names for ranks in RANKS]


def movements_network():
    """Links of 250 Mbit/s, 4 MiB in all."""

    def times(results, collective, ranks):
        for run in results.file("movements-network")["runs"]:
            for row in run["rows"]:
                if (run["ranks"], row["collective"]) == (ranks, collective):
                    return {backend: report.median(row, backend) for backend in ("switchml", "gloo")}
        raise Missing(f"movements-network.json has no {collective} of {ranks} ranks")

    def over_gloo(collective, ranks, most):
        def measure(results):
            ours, gloo = times(results, collective, ranks).values()
            text = f"{ours / gloo:.2f} ({report.format_seconds(ours)} / {report.format_seconds(gloo)})"
            return at_most(most, ours / gloo, text) if most else (text, None)

        return (
            f"between hosts, {collective}, 4 MiB, {ranks} ranks: time over Gloo's",
            f"<= {most}" if most else "-",
            measure,
        )

    def both(results):
        one, together = (times(results, name, 4)["switchml"] for name in ("one_after_another", "together"))
        return at_most(
            0.65,
            together / one,
            f"{together / one:.2f} ({report.format_seconds(together)} / {report.format_seconds(one)})",
        )

    targets = {
        "all_gather_into_tensor": (1.05,) * 3,
        "reduce_scatter_tensor": (0.6,) * 3,
        "broadcast": (None, 0.65, 0.65),
    }
    return [
        *(
            line
            for name, times_of in targets.items()
            for line in (over_gloo(name, *pair) for pair in zip(RANKS, times_of))
        ),
        ("between hosts, all_gather and reduce_scatter, 4 ranks: together over one after the other", "<= 0.65", both),
    ]


def hooks():
    """Each host is the switch of a part. Time: within 5 % of what the bytes allow."""

    def line(transport, name, most, what):
        def ratio(rows):
            ours, exact = (rows[name], rows["float32"])
            if what == "bytes":
                return ours["bytes"] / exact["bytes"]
            return statistics.median(ours["seconds"]) / statistics.median(exact["seconds"])

        def measure(results):
            ratios = {
                f"{run['ranks']} ranks": ratio({row["way"]: row for row in run["rows"]})
                for run in results.file(f"hooks-{transport}")["runs"]
            }
            return each_at_most(most, ratios)

        where = f"between hosts, {transport.upper()}, gradients in {name}"
        return f"{where}: {what} over float32's", f"<= {most}", measure

    limits = {"bf16": 0.51, "fp8": 0.27, "int8": 0.27}
    return [
        line(transport, name, most, what)
        for transport in ("udp", "tcp")
        for name, limit in limits.items()
        for what, most in (("bytes", limit), ("time", round(1.05 * limit, 4)))
    ]


def latency():
    """Calls one after the other, those of Open MPI beside them."""

    def times(results, ranks, size):
        for run in results.file("latency")["runs"]:
            for row in run["rows"]:
                if (run["ranks"], row["bytes"]) == (ranks, size):
                    return row["seconds"]
        raise Missing(f"latency.json has no {ranks} ranks with {report.format_bytes(size)}")

    def tails(seconds):
        return f"{report.format_seconds(statistics.median(seconds))}, p99 {report.format_seconds(report.quantile(seconds, 0.99))}"

    def within(ranks, most):
        def measure(results):
            found = times(results, ranks, 4 * KIB)
            ours = found["switchml"]
            median, text = statistics.median(ours), f"{tails(ours)} (Gloo's {tails(found['gloo'])})"
            return text, median <= most * 1e-6 and report.quantile(ours, 0.99) <= 10 * median

        return f"one host, 4 KiB, {ranks} ranks: p50", f"<= {most} us, p99 <= 10 p50", measure

    def over_openmpi(ranks, size, most):
        def measure(results):
            found = times(results, ranks, size)
            if "openmpi" not in found:
                raise Missing("Open MPI is not installed (benchmarks/latency says what it needs)")
            ratio = statistics.median(found["switchml"]) / statistics.median(found["openmpi"])
            return at_most(most, ratio, f"{ratio:.2f} ({tails(found['switchml'])} / {tails(found['openmpi'])})")

        return f"one host, {report.format_bytes(size)}, {ranks} ranks: p50 over Open MPI's", f"<= {most}", measure

    return [
        *(within(*pair) for pair in zip(RANKS, (10, 40, 100))),
        *(
            over_openmpi(ranks, size, most)
            for size, most in ((4 * KIB, 2.5), (64 * KIB, 1), (MIB, 1))
            for ranks in RANKS
        ),
    ]


def status():
    """The live view: python -m switchml status."""

    def of_ranks(results, ranks):
        for run in results.file("status")["runs"]:
            if run["ranks"] == ranks:
                return run["rows"][0]
        raise Missing(f"status.json has no {ranks} ranks")

    def names(results):
        row = of_ranks(results, 32)
        longest, trials = max(row["seconds"]), len(row["seconds"])
        text = f"{row['named']} of {trials}, {report.format_seconds(longest)} at most"
        return text, row["named"] == trials and longest < 1

    def costs(results):
        cost = of_ranks(results, 2)["cost"]
        return at_most(1.01, cost, f"{cost:.4f}")

    return [
        ("status names one stopped rank of 32", "always, < 1 s", names),
        ("status, one host, 4 KiB, 2 ranks: p50 over that without a page", "<= 1.01", costs),
    ]


def serving():
    """Calls with computation between them, beside what engines that serve models have of their own."""
    peers = ("vllm", "deepspeed", "openmpi")

    def medians(results, ranks, gap, low, high):
        """[(what it is, {engine: seconds})] of sizes from low to high; Missing where there is no peer."""
        found = [
            (
                f"{report.format_bytes(row['bytes'])} {row['type']}",
                {name: statistics.median(times) for name, times in row["seconds"].items()},
            )
            for run in results.file("serving")["runs"]
            for row in run["rows"]
            if (run["ranks"], row["gap"]) == (ranks, gap) and low <= row["bytes"] <= high
        ]
        if not found:
            raise Missing(f"serving.json has no {ranks} ranks with gaps of {gap} us")
        if not any(name in found[0][1] for name in peers):
            raise Missing("no other engine is installed (benchmarks/serving says what it needs)")
        return found

    def ratio(ours, peer, what):
        return ours / peer, f"{ours / peer:.2f} ({what}: {report.format_seconds(ours)} / {report.format_seconds(peer)})"

    def best(times):
        return min(times[name] for name in peers if name in times)

    def over_best(name, ranks, gap, low, most):
        def measure(results):
            found = medians(results, ranks, gap, low, MIB)
            return at_most(most, *max(ratio(times[name], best(times), what) for what, times in found))

        tensors = "arena" if name == "arena" else "ordinary tensors"
        what = f"serving, {ranks} ranks, gaps of {gap} us, {tensors} from {report.format_bytes(low)} to 1 MiB"
        return f"{what}: time over the best engine's", f"<= {most}", measure

    def smallest(ranks):
        def measure(results):
            found = medians(results, ranks, 200, 64, 64)
            worst = max(ratio(times["switchml"], best(times) + times["alone"], what) for what, times in found)
            return at_most(1.5, *worst)

        what = (
            f"serving, {ranks} ranks, gaps of 200 us, 64 B: time over the best engine's and a group of one's together"
        )
        return what, "<= 1.5", measure

    return [
        *(over_best("switchml", ranks, gap, 8 * KIB, 1) for ranks in (2, 4) for gap in (0, 200)),
        *(over_best("arena", ranks, gap, 64 * KIB, 0.75) for ranks in (2, 4) for gap in (0, 200)),
        *(smallest(ranks) for ranks in (2, 4)),
    ]


def small_network():
    def line(size, ranks, times):
        def measure(results):
            ratio, text = results.over_gloo("small-network", ranks, size)
            text += "; p99 " + results.over_gloo("small-network", ranks, size, q=0.99)[1]
            return (text, ratio <= times if times else None)

        what = f"no switch named, links of 250 Mbit/s, {report.format_bytes(size)}, {ranks} ranks: time over Gloo's"
        return what, f"<= {times}" if times else "-", measure

    def without_limit(ranks):
        def measure(results):
            ratio, text = results.over_gloo("small-hosts", ranks, 48 * KIB, kind="bfloat16")
            return at_most(0.35, ratio, text)

        what = f"no switch named, links without a limit, 48 KiB of bfloat16, {ranks} ranks: time over Gloo's"
        return what, "<= 0.35", measure

    targets = {4 * KIB: (0.5, 0.3, 0.2), 64 * KIB: (None, 0.85, 0.6)}
    lines = [line(size, *pair) for size, times in targets.items() for pair in zip(RANKS, times)]
    return [*lines, *map(without_limit, (2, 4))]


def every_host():
    kinds = ("float32", "bfloat16", "float64")
    files = {MIB: "every-host-1M", 16 * MIB: "every-host-16M"}

    def over_gloo(size, ranks):
        def measure(results):
            return each_at_most(
                1.05, {kind: results.over_gloo(files[size], ranks, size, kind=kind)[0] for kind in kinds}
            )

        return f"no switch named, {report.format_bytes(size)}, {ranks} ranks: time over Gloo's", "<= 1.05", measure

    def of_ring(size, ranks):
        def measure(results):
            return each_at_least(0.93, {kind: results.of_limit(files[size], ranks, size, kind) for kind in kinds})

        return (
            f"no switch named, {report.format_bytes(size)}, {ranks} ranks: of what a ring's bytes allow",
            ">= 0.93",
            measure,
        )

    return [line(size, ranks) for line in (over_gloo, of_ring) for size in files for ranks in RANKS]


def loss():
    def line(ranks, lost, low):
        def measure(results):
            require_one_rate(results, "every-host-16M", "loss")
            part = results.seconds("every-host-16M", ranks, 16 * MIB) / results.seconds(
                "loss", ranks, 16 * MIB, loss=lost
            )
            return at_least(low, part, f"{part:.3f}")

        return f"no switch named, {lost:.1%} lost, {ranks} ranks: of lossless", f">= {low}", measure

    def tcp(ranks, lost):
        def measure(results):
            ratio, text = results.over_gloo("loss-tcp", ranks, 4 * MIB, loss=lost)
            return at_most(1, ratio, text)

        return f"no switch named, TCP, {lost:.1%} lost, {ranks} ranks: time over Gloo's", "<= 1", measure

    losses = ((0.001, 0.95), (0.01, 0.85))
    return [line(ranks, *pair) for pair in losses for ranks in RANKS] + [
        tcp(ranks, lost) for lost, _ in losses for ranks in RANKS
    ]


def hosts():
    def measure(results):
        require_one_rate(results, "every-host-16M", "hosts")
        one, four = results.seconds("every-host-16M", 2, 16 * MIB), results.seconds("hosts", 8, 16 * MIB)
        return at_most(
            1.05, four / one, f"{four / one:.3f} ({report.format_seconds(four)} / {report.format_seconds(one)})"
        )

    return [("no switch named, 2 hosts, 16 MiB: time of 4 ranks on each over that of 1", "<= 1.05", measure)]


def network():
    """A switch whose link carries as much as those of all ranks."""
    kinds = ("float32", "bfloat16")

    def of_limit(ranks):
        def measure(results):
            return each_at_least(0.97, {kind: results.of_limit("network", ranks, 16 * MIB, kind) for kind in kinds})

        return f"a switch, 16 MiB, {ranks} ranks: of what the links carry", ">= 0.97", measure

    def spread(results):
        times = {kind: [results.seconds("network", ranks, 16 * MIB, kind=kind) for ranks in RANKS] for kind in kinds}
        return each_at_most(1.03, {kind: max(values) / min(values) for kind, values in times.items()})

    def half(results):
        ratios = {
            ranks: results.seconds("network", ranks, 8 * MIB, kind="bfloat16")
            / results.seconds("network", ranks, 16 * MIB)
            for ranks in RANKS
        }
        return at_most(0.515, max(ratios.values()), ", ".join(f"{ratio:.3f}" for ratio in ratios.values()))

    def speed(results):
        return each_at_least(1.7, {kind: 1 / results.over_gloo("network", 8, 16 * MIB, kind=kind)[0] for kind in kinds})

    return [
        *map(of_limit, RANKS),
        ("a switch, 16 MiB, 2, 4 and 8 ranks: longest time over shortest", "<= 1.03", spread),
        ("a switch, 4 Mi elements, 2, 4 and 8 ranks: bfloat16's time over float32's", "<= 0.515", half),
        ("a switch, 16 MiB, 8 ranks: speed over Gloo's", ">= 1.7", speed),
    ]


def ddp(file="ddp", what="DDP step, BERT-shaped", most=0.5):
    def measure(results):
        run = results.file(file)["runs"][0]
        ours, gloo = run["exposed_seconds"]["switchml"], run["exposed_seconds"]["gloo"]
        if gloo <= 0:
            raise Missing("Gloo exposes nothing")
        of_step = gloo / statistics.median(run["seconds"]["gloo"])
        return at_most(most, ours / gloo, f"{ours / gloo:.2f} (Gloo's is {of_step:.0%} of its step)")

    return [(f"{what}: exposed communication over Gloo's", f"<= {most}", measure)]


def sharded():
    return ddp("sharded", "FSDP2 step, BERT-shaped, no switch named", 0.6)


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
            others += [
                f"{row['kernel']} {row['of_copy']:.2f}"
                for row in found
                if row["table"] == best and row["kernel"] == "copy by blocks"
            ]
            return at_least(
                0.8,
                lowest["of_copy"],
                f"{lowest['of_copy']:.2f} ({'; '.join([f'{best}, ' + lowest['route'], *others])})",
            )

        return f"{kernel}, from DRAM: of the copy bandwidth", ">= 0.8", measure

    def exact(count):
        def measure(results):
            found = results.file("kernels")["results"]
            rates = {(row["table"], row["kernel"]): row["of_copy"] for row in found}
            tables = [table for table, kernel in rates if kernel == "floats added, 2" and table != "scalar"]
            if not tables:
                raise Missing("kernels.json has no exact sums")
            shares = {
                table: rates[table, f"exact sum of {count} f32"] / rates[table, f"floats added, {count}"]
                for table in tables
            }
            return at_least(
                0.8, min(shares.values()), "; ".join(f"{table} {share:.2f}" for table, share in shares.items())
            )

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


def zero_blocks():
    """Blocks at random places of each rank: more ranks have more between them."""

    def over_dense(zeros, most):
        def measure(results):
            ratios = {}
            for transport in ("tcp", "udp"):
                rows = results.with_zeros(f"zero-blocks-{transport}", 2)
                ours, dense = (report.median(rows[part], "switchml") for part in (zeros, 0.0))
                ratios[transport] = ours / dense
            return each_at_most(most, ratios)

        return f"no switch named, {zeros:.0%} of the blocks zero, 2 ranks: time over dense", f"<= {most}", measure

    def over_union(zeros, ranks):
        def measure(results):
            rows = results.with_zeros("zero-blocks", ranks)
            ours, dense = (report.median(rows[part], "switchml") for part in (zeros, 0.0))
            left, whole = (rows[part]["limit_seconds"]["switchml"] for part in (zeros, 0.0))
            text = f"{ours / dense / (left / whole):.3f} ({ours / dense:.3f} / {left / whole:.3f})"
            return at_most(1.1, ours / dense / (left / whole), text)

        what = f"no switch named, TCP, {zeros:.0%} of the blocks zero, {ranks} ranks: time over dense"
        return f"{what}, over what is left of the bytes", "<= 1.1", measure

    return [over_dense(0.9, 0.35), over_dense(0.99, 0.12)] + [
        over_union(zeros, ranks) for zeros in (0.9, 0.99) for ranks in (4, 8)
    ]


def widths():
    """A word: what an element took before blocks had widths."""

    def line(data):
        def measure(results):
            rows = {
                f"{run['ranks']} ranks": row
                for run in results.file("widths")["runs"]
                for row in run["rows"]
                if row["data"] == data
            }
            ratios = {ranks: row["bytes"] / row["of_a_word"] for ranks, row in rows.items()}
            vanished = sum(row["vanished"] for row in rows.values())
            text, is_met = each_at_most(0.65, ratios)
            return f"{text}; {vanished} vanished", is_met and vanished == 0

        what = f"towards an integer switch, bfloat16, {data}: bytes over a word's"
        return what, "<= 0.65, no element vanishes", measure

    return [line("normal"), line("gradients")]


def cpu():
    """Ranks with what they embed. The links take bursts as one, as most cards do."""

    def line(ranks):
        def measure(results):
            row = results.row("cpu", ranks, 16 * MIB)
            ours, gloo = (
                row["cpu_seconds"][backend] / row["calls"] / ranks / row["bytes"] * 1e9
                for backend in ("switchml", "gloo")
            )
            return at_most(1, ours / gloo, f"{ours / gloo:.2f} ({ours:.2f} / {gloo:.2f} ns)")

        return (
            f"no switch named, links without a limit, 16 MiB, {ranks} ranks: CPU time per byte over Gloo's",
            "<= 1",
            measure,
        )

    return [line(ranks) for ranks in RANKS]


def planning():
    """The example of docs/planning.md over real links: rates in units of payload."""

    def line(way, name, target):
        def measure(results):
            row = next((row for row in results.file("planning")["rows"] if row["way"] == way), None)
            if row is None:
                raise Missing(f"planning.json has nothing of {name}")
            text = f"{row['rate']:.3f} of {row['model']:.3f}"
            return (text, None) if target is None else at_least(target, row["rate"] / row["model"], text)

        return (
            f"the planner's example, {name}: rate in units of payload",
            f">= {target} of the model" if target else "-",
            measure,
        )

    return [line(*each) for each in (
        ("none", "a parameter server", 0.95),
        ("nearest", "the nearest switch", 0.95),
        ("planned", "planned", 0.95),
        ("ring", "a ring of Gloo", None),
    )]  # fmt: skip


def racks():
    """Workers in two racks, whose switches are leaves of a third, beside the same workers at one switch."""

    def measure(results):
        one, two = (
            statistics.median(results.file(f"racks-{name}")["rows"][0]["seconds"])
            for name in ("one_switch", "two_racks")
        )
        return at_most(1.05, two / one, f"{two / one:.3f}")

    return [("8 hosts in two racks, over time at one switch", "<= 1.05", measure)]


def sharing():
    """Jobs, and TCP beside them, on one link."""

    def line(jobs, flows, target):
        def measure(results):
            rows = results.file("sharing")["rows"]
            row = next(
                (row for row in rows if (row["jobs"], row["tcp"], row["control"]) == (jobs, flows, "cubic")), None
            )
            if row is None:
                raise Missing(f"sharing.json has nothing of {jobs} jobs and {flows} flows of TCP")
            text = f"{row['jain']:.3f}, {row['used']:.1%} used"
            return text, row["jain"] >= target and row["used"] >= 0.9

        beside = f" and {flows} flow of TCP" if flows else ""
        return f"{jobs} jobs{beside} on one link: Jain's index", f">= {target}, 90% of the link used", measure

    return [line(4, 0, 0.95), line(2, 1, 0.9)]


GROUPS = (
    one_host,
    arena,
    in_place,
    movements,
    latency,
    status,
    serving,
    movements_network,
    hooks,
    small_network,
    every_host,
    loss,
    hosts,
    network,
    zero_blocks,
    widths,
    cpu,
    ddp,
    sharded,
    kernels,
    switch,
    sharing,
    planning,
    racks,
)
# A group has the name of the part that measures it.
LINES = [(group.__name__.replace("_", "-"), *line) for group in GROUPS for line in group()]


def evaluate(results, parts=None):
    """[(what, target, measured, verdict)]: a line for each target, or for those of these parts; verdict is "met", "not
    met", "" or "not measured"."""
    rows = []
    for part, what, target, measure in LINES:
        if parts is not None and part not in parts:
            continue
        try:
            measured, met = measure(results)
            rows.append((what, target, measured, {True: "met", False: "not met", None: ""}[met]))
        except Missing as why:
            rows.append((what, target, str(why), "not measured"))
        except (KeyError, TypeError, IndexError, ValueError, ZeroDivisionError) as error:
            rows.append(
                (what, target, f"not a result that can be read ({type(error).__name__}: {error})", "not measured")
            )
    return rows
