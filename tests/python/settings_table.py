"""The table of settings in docs/settings.md, as the table in backend/base/config.cc has it.

Usage: settings_table.py [--write]   (into the page, between its two comments; else to standard output)
"""

import pathlib
import re
import sys

import switchml

PAGE = pathlib.Path(__file__).resolve().parents[2] / "docs" / "settings.md"
BEGIN, END = "<!-- settings: written by tests/python/settings_table.py --write -->", "<!-- end of settings -->"
# What has a section of its own.
SECTIONS = {
    "switch": "operations.md#several-switches",
    "controller": "controller.md",
    "transport": "operations.md#transports",
    "encryption": "#encryption",
    "switch_key_file": "#encryption",
    "precision": "#precision",
    "significant_bits": "collectives.md#the-error-of-a-sum-through-an-integer-switch",
    "interface": "operations.md#addresses",
    "rdma_device": "rdma.md",
    "rdma_traffic_class": "rdma.md#cards-and-networks",
    "payload": "#payload",
    "slots": "#slots",
    "arena": "operations.md#tensors-that-ranks-share",
    "pinned_memory": "operations.md#tensors-of-accelerators",
    "blocking_wait": "operations.md#tensors-of-accelerators",
    "affinity": "#processors",
    "on_switch_failure": "failures.md#failover",
    "congestion_control": "operations.md#shared-links",
    "metrics": "metrics.md",
    "live_view": "operations.md#live-view",
    "log_level": "troubleshooting.md#logs",
    "faults": "#fault-injection",
}


def row(setting):
    variable = f"`SWITCHML_{setting['name'].upper()}`"
    section = SECTIONS.get(setting["name"])
    linked = f"[{variable}]({section})" if section else variable
    return f"| {linked} | {setting['allowed']} | {setting['default'] or 'empty'} | {setting['help']} |"


def table():
    rows = map(row, switchml.settings())
    return "\n".join((BEGIN, "| setting | allowed | default | meaning |", "|---|---|---|---|", *rows, END))


def written(text):
    """The page with the table as it is now."""
    return re.sub(f"{re.escape(BEGIN)}.*{re.escape(END)}", lambda _: table(), text, flags=re.S)


if __name__ == "__main__":
    if sys.argv[1:] == ["--write"]:
        PAGE.write_text(written(PAGE.read_text()))
    else:
        print(table())
