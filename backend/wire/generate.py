#!/usr/bin/env python3
"""Generates views of the wire protocol from protocol.toml.

usage: generate.py protocol.toml layout.h
       generate.py protocol.toml wire.p4 WORDS

C++ (.h), for every message: its size, a plain struct, and `read_NAME` / `write_NAME`, which are the only code that
touches bytes. P4_16 (.p4): the data header, those of RoCE, the constants, and a header of WORDS payload words with a
macro that goes over them. Fails with the name of the field when a field does not end on a byte boundary that its reader
can handle.
"""

import sys
import tomllib


def camel(name: str) -> str:
    return "".join(part.capitalize() for part in name.split("_"))


def c_type(bits: int) -> str:
    for width in (8, 16, 32, 64):
        if bits <= width:
            return f"uint{width}_t"
    raise SystemExit(f"field of {bits} bits: at most 64")


def access(name: str, bits: int) -> str:
    """What reads or writes (`load`, `store`) whole bytes. Three have no type of their own."""
    return f"{name}24" if bits == 24 else f"{name}<{c_type(bits)}>"


def layout(message: dict) -> tuple[list[tuple[str, int, int]], int]:
    """[(name, first bit, bits)] and the size in bytes."""
    at, rows = 0, []
    for field in message["fields"]:
        bits = field["bits"]
        whole = bits in (8, 16, 24, 32, 64) and at % 8 == 0
        inside_one_byte = at // 8 == (at + bits - 1) // 8
        if not whole and not inside_one_byte:
            raise SystemExit(f"{message['name']}.{field['name']}: neither 1 to 4 or 8 whole bytes nor inside one byte")
        rows.append((field["name"], at, bits))
        at += bits
    if at % 32:
        raise SystemExit(f"{message['name']}: {at} bits is not a multiple of 32")
    return rows, at // 8


def emit_message(message: dict) -> str:
    rows, size = layout(message)
    name = camel(message["name"])
    out = [f"// ---- {message['name']}: {size} bytes ----"]
    out.append(f"inline constexpr size_t k{name}Bytes = {size};")
    out.append(f"struct {name} {{")
    for field, _, bits in rows:
        out.append(f"  {c_type(bits)} {field} = 0;")
    out.append("};")
    for field, at, bits in rows:
        if bits % 8 == 0:
            out.append(f"inline constexpr size_t k{name}Offset{camel(field)} = {at // 8};")
    out.append(f"inline {name} read_{message['name']}(const uint8_t* p) {{")
    out.append(f"  {name} m;")
    for field, at, bits in rows:
        if bits % 8 == 0:
            out.append(f"  m.{field} = detail::{access('load', bits)}(p + {at // 8});")
        else:
            shift = 8 - at % 8 - bits
            out.append(f"  m.{field} = static_cast<uint8_t>((p[{at // 8}] >> {shift}) & {(1 << bits) - 1:#x});")
    out.append("  return m;")
    out.append("}")
    out.append(f"inline void write_{message['name']}(const {name}& m, uint8_t* p) {{")
    partial: dict[int, list[str]] = {}
    for field, at, bits in rows:
        if bits % 8 == 0:
            out.append(f"  detail::{access('store', bits)}(p + {at // 8}, m.{field});")
        else:
            shift = 8 - at % 8 - bits
            partial.setdefault(at // 8, []).append(f"((m.{field} & {(1 << bits) - 1:#x}) << {shift})")
    for byte, terms in partial.items():
        out.append(f"  p[{byte}] = static_cast<uint8_t>({' | '.join(terms)});")
    out.append("}")
    return "\n".join(out)


PRELUDE = """\
// Generated from backend/wire/protocol.toml by backend/wire/generate.py. Do not edit.
#pragma once

#include <cstddef>
#include <cstdint>
#include <cstring>

namespace switchml::wire {

namespace detail {
inline uint8_t swap(uint8_t v) { return v; }
inline uint16_t swap(uint16_t v) { return __builtin_bswap16(v); }
inline uint32_t swap(uint32_t v) { return __builtin_bswap32(v); }
inline uint64_t swap(uint64_t v) { return __builtin_bswap64(v); }
static_assert(__BYTE_ORDER__ == __ORDER_LITTLE_ENDIAN__, "the byte swaps here assume a little-endian host");
template <typename T>
T load(const uint8_t* p) {
  T v;
  std::memcpy(&v, p, sizeof v);
  return swap(v);
}
template <typename T>
void store(uint8_t* p, T v) {
  v = swap(v);
  std::memcpy(p, &v, sizeof v);
}
// No byte beside the three is touched: behind the last field there may be none.
inline uint32_t load24(const uint8_t* p) { return static_cast<uint32_t>(p[0] << 16 | p[1] << 8 | p[2]); }
inline void store24(uint8_t* p, uint32_t v) {
  p[0] = static_cast<uint8_t>(v >> 16);
  p[1] = static_cast<uint8_t>(v >> 8);
  p[2] = static_cast<uint8_t>(v);
}
}  // namespace detail
"""


def emit(spec: dict) -> str:
    out = [PRELUDE]
    out.append(f"inline constexpr uint8_t kVersion = {spec['version']};")
    out.append(f"inline constexpr uint16_t kDefaultPort = {spec['default_port']};")
    for table, prefix, kind in (
        ("kinds", "Kind", "uint8_t"),
        ("operations", "Operation", "uint8_t"),
        ("requests", "Request", "uint8_t"),
        ("status", "ReplyStatus", "uint16_t"),
        ("services", "Service", "uint8_t"),
    ):
        out.append(f"enum class {prefix} : {kind} {{")
        out += [f"  k{camel(name)} = {value}," for name, value in spec[table].items()]
        out.append("};")
    out.append("inline constexpr uint8_t kOperationMask = 0x3;")
    out += [f"inline constexpr uint8_t kFlag{camel(name)} = {value};" for name, value in spec["flags"].items()]
    out += [f"inline constexpr uint8_t kOpen{camel(name)} = {value};" for name, value in spec["open_flags"].items()]
    out.append(f"inline constexpr uint16_t kRocePort = {spec['roce']['port']};")
    out += [f"inline constexpr uint8_t kOpcode{camel(name)} = {value:#x};" for name, value in spec["opcodes"].items()]
    out += [emit_message(message) for message in spec["message"]]
    out.append("}  // namespace switchml::wire")
    return "\n".join(out) + "\n"


ROCE_HEADERS = ("base_transport", "extended_transport", "immediate", "invariant_check")


def place_bits(message_bytes: int) -> int:
    """Of the smallest power of two that holds so many bytes. [RDMA-10]"""
    return (message_bytes - 1).bit_length()


def emit_p4(spec: dict, words: int) -> str:
    out = ["// Generated from backend/wire/protocol.toml by backend/wire/generate.py. Do not edit."]
    out += ["#ifndef SWITCHML_WIRE_P4", "#define SWITCHML_WIRE_P4", ""]
    messages = {message["name"]: message for message in spec["message"]}
    header = messages["header"]
    _, size = layout(header)
    out.append(f"const bit<4> SWITCHML_VERSION = {spec['version']};")
    out.append(f"const bit<16> SWITCHML_PORT = {spec['default_port']};")
    out.append(f"const bit<16> SWITCHML_HEADER_BYTES = {size};")
    out += [f"const bit<4> KIND_{name.upper()} = {value};" for name, value in spec["kinds"].items()]
    out += [f"const bit<8> OPERATION_{name.upper()} = {value};" for name, value in spec["operations"].items()]
    out.append("const bit<8> OPERATION_MASK = 3;")
    out.append(f"const bit<16> ROCE_PORT = {spec['roce']['port']};")
    out += [f"const bit<8> OPCODE_{name.upper()} = {value:#x};" for name, value in spec["opcodes"].items()]
    out.append(f"#define PLACE_BITS {place_bits(size + 4 * words)}  // a place has 2^PLACE_BITS bytes")
    for name, view in [("header", "switchml_h"), *((name, f"{name}_h") for name in ROCE_HEADERS)]:
        out += ["", f"header {view} {{  // {layout(messages[name])[1]} bytes"]
        out += [f"    bit<{field['bits']}> {field['name']};" for field in messages[name]["fields"]]
        out.append("}")
    out += ["", f"#define SWITCHML_WORDS {words}", f"header words_h {{  // {4 * words} bytes"]
    out += [f"    bit<32> w{i};" for i in range(words)]
    out += ["}", "", "/// M(0) M(1) ... for each word of a payload."]
    out.append("#define FOR_EACH_WORD(M) " + " ".join(f"M({i})" for i in range(words)))
    half = words // 2
    out.append("/// M(i, i, i + half) ...: pairs of a word of the lower half and one of the upper half.")
    out.append("#define FOR_EACH_PAIR(M) " + " ".join(f"M({i}, {i}, {half + i})" for i in range(half)))
    out += ["", "#endif"]
    return "\n".join(out) + "\n"


def main() -> None:
    source, target = sys.argv[1:3]
    with open(source, "rb") as f:
        spec = tomllib.load(f)
    text = emit_p4(spec, int(sys.argv[3])) if target.endswith(".p4") else emit(spec)
    with open(target, "w", encoding="utf-8") as f:
        f.write(text)


if __name__ == "__main__":
    main()
