"""Targets of ranks on one host, and of what needs no network."""

import statistics

import report
from figures import KIB, MIB, RANKS, Missing, at_least, at_most


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

    def cost_of(what, most):
        def costs(results):
            cost = of_ranks(results, 2)["costs"][what]["cost"]
            return at_most(most, cost, f"{cost:.4f}")

        return costs

    return [
        ("status names one stopped rank of 32", "always, < 1 s", names),
        ("status, one host, 4 KiB, 2 ranks: p50 over that without a page", "<= 1.01", cost_of("calls", 1.01)),
        ("status, one host, 2 ranks: a DDP step over that without a page", "<= 1.001", cost_of("steps", 1.001)),
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
