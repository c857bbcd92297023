"""Targets of hosts, links and switches."""

import statistics

import report
from figures import KIB, MIB, RANKS, Missing, each_at_least, each_at_most, at_least, at_most, require_one_rate


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


def encryption():
    """Encrypted groups beside plain ones."""

    def worst(carrier, is_limited, figure, choose):
        def measure(results):
            runs = [
                run
                for run in results.file("encryption")["runs"]
                if run["transport"] == carrier and bool(run["rate"]) == is_limited
            ]
            values = {
                f"{report.format_bytes(row['bytes'])}{' at ' + str(run['rate']) if run['rate'] else ''}": row[figure]
                for run in runs
                for row in run["rows"]
            }
            return choose(values)

        return measure

    lines = []
    for carrier in ("udp", "tcp"):
        start = f"two hosts, encrypted over plain, {carrier}, links"
        slow = worst(carrier, True, "speed", lambda values: each_at_least(0.98, values))
        free = worst(carrier, False, "cpu_ratio", lambda values: each_at_most(1.5, values))
        lines.append((f"{start} that limit: speed", ">= 0.98", slow))
        lines.append((f"{start} without a limit: CPU time per byte", "<= 1.5", free))
    return lines


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
