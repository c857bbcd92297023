"""The targets, and whether what was measured meets them."""

import networks
import one_host
from figures import Missing, Results

__all__ = ["LINES", "Results", "evaluate"]

GROUPS = (
    one_host.one_host,
    one_host.arena,
    one_host.in_place,
    one_host.movements,
    one_host.latency,
    one_host.status,
    one_host.serving,
    networks.movements_network,
    networks.hooks,
    networks.small_network,
    networks.every_host,
    networks.loss,
    networks.hosts,
    networks.network,
    networks.zero_blocks,
    networks.widths,
    networks.encryption,
    networks.cpu,
    networks.ddp,
    networks.sharded,
    one_host.kernels,
    networks.switch,
    networks.sharing,
    networks.planning,
    networks.racks,
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
