#!/usr/bin/env python3
"""What the Tofino program takes of the chip, as a Markdown table.

usage: resources.py OUT_DIR

Reads the context.json that bfas has written somewhere under OUT_DIR. Ingress and egress share a stage's memories.
"""

import json
import pathlib
import sys

# Of a stage. Map RAMs belong to the memories of registers and counters, one each.
PER_STAGE = {"SRAM": 80, "map RAM": 48, "TCAM": 24, "stateful ALUs": 4}
STAGES = {"tofino": 12, "tofino2": 20}
# Bits of header vector by kind of container.
VECTOR_BITS = {"tofino": {"normal": 4096, "tagalong": 2048}, "tofino2": {"normal": 3072, "mocha": 1024, "dark": 1024}}


class ReportError(Exception):
    """OUT_DIR does not hold what is needed."""


def load(folder):
    """The assembler's description of the program."""
    if not folder.is_dir():
        raise ReportError(f"{folder}: not a folder; wanted is the one that p4c-barefoot and bfas wrote to")
    for path in sorted(folder.rglob("context.json")):
        context = json.loads(path.read_text(encoding="utf-8"))
        if context.get("mau_stage_characteristics"):  # the compiler alone leaves a file without stages
            return context
    raise ReportError(f"{folder}: no context.json with stages in it; run bfas on the .bfa file first")


def stage_tables(table):
    """Every part of a table that lies in a stage, those beneath others included."""
    found = []
    left = [table]
    while left:
        item = left.pop()
        if isinstance(item, dict):
            if item.get("stage_number", -1) >= 0:
                found.append(item)
            left.extend(item.values())
        elif isinstance(item, list):
            left.extend(item)
    return found


def allocations(part):
    """Memories of this part alone: (type, units)."""
    if isinstance(part, dict):
        if "memory_units_and_vpns" in part:
            units = {unit for row in part["memory_units_and_vpns"] for unit in row["memory_units"]}
            if "spare_bank_memory_unit" in part and part["memory_type"] == "sram":
                units.add(part["spare_bank_memory_unit"])
            yield part["memory_type"], units
        for value in part.values():
            if not (isinstance(value, dict) and "stage_number" in value):
                yield from allocations(value)
    elif isinstance(part, list):
        for value in part:
            if not (isinstance(value, dict) and "stage_number" in value):
                yield from allocations(value)


def used(context):
    """{resource: {stage: set of units}}, and the tables of each stage."""
    taken = {name: {} for name in PER_STAGE}
    tables = {}
    for table in context["tables"]:
        for part in stage_tables(table):
            stage = part["stage_number"]
            if table["table_type"] == "match":
                tables.setdefault(stage, set()).add((table["direction"], table["name"]))
            if "meter_alu_index" in part:
                taken["stateful ALUs"].setdefault(stage, set()).add(part["meter_alu_index"])
            for kind, units in allocations(part):
                if kind in ("sram", "tcam"):
                    taken[kind.upper()].setdefault(stage, set()).update(units)
                if kind == "sram" and table["table_type"] in ("stateful", "statistics", "meter"):
                    taken["map RAM"].setdefault(stage, set()).update(units)
    return taken, tables


def vector_bits(context):
    """{kind of container: bits of those that hold a field in some stage}."""
    held = {}
    for stage in context["phv_allocation"]:
        for gress in ("ingress", "egress"):
            for container in stage.get(gress, ()):
                if container["records"]:
                    held[container["phv_number"]] = container["container_type"], container["word_bit_width"]
    bits = {}
    for kind, width in held.values():
        bits[kind] = bits.get(kind, 0) + width
    return bits


def stages_of(context, direction):
    """Number of the last stage with a table of this direction, plus one."""
    tables = [table for table in context["tables"] if table.get("direction") == direction]
    return 1 + max((part["stage_number"] for table in tables for part in stage_tables(table)), default=-1)


def entries(context, name):
    """Size of the table or register whose last name this is."""
    for table in context["tables"]:
        if table["name"].split(".")[-1] == name:
            return table["size"]
    raise ReportError(f"no table or register named {name}")


def report(context):
    target = context["target"]
    if target not in STAGES:
        raise ReportError(f"target {target}: allowed are {', '.join(STAGES)}")
    taken, tables = used(context)
    stages = STAGES[target]
    lines = [f"| {target} | used | of |", "|---|---|---|"]
    for direction in ("ingress", "egress"):
        lines.append(f"| stages, {direction} | {stages_of(context, direction)} | {stages} |")
    lines.append(f"| tables | {len(set().union(*tables.values()))} | |")
    for name, limit in PER_STAGE.items():
        lines.append(f"| {name} | {sum(map(len, taken[name].values()))} | {limit * stages} |")
    bits = vector_bits(context)
    for kind, limit in VECTOR_BITS[target].items():
        lines.append(f"| PHV bits, {kind} | {bits.get(kind, 0)} | {limit} |")
    names = list(PER_STAGE)
    lines += ["", f"| stage | tables | {' | '.join(names)} |", "|---|" + "---|" * (1 + len(names))]
    for stage in range(max(tables) + 1):
        row = [len(tables.get(stage, ())), *(len(taken[name].get(stage, ())) for name in names)]
        lines.append(f"| {stage} | {' | '.join(map(str, row))} |")
    return "\n".join(lines)


def main():
    if len(sys.argv) != 2:
        sys.exit("usage: resources.py OUT_DIR")
    try:
        print(report(load(pathlib.Path(sys.argv[1]))))
    except ReportError as error:
        sys.exit(f"resources.py: {error}")


if __name__ == "__main__":
    main()
