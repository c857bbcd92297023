#include "slot_frame.h"

#include "exact/partial_sums.h"
#include "random.h"

namespace switchml::sim {

namespace {

template <typename Header>
SlotFrame common(const Header& header, bool result) {
  SlotFrame out;
  out.result = result;
  out.flags = header.flags;
  out.job = header.job;
  out.worker = header.worker;
  out.epoch = header.epoch;
  out.slot = header.slot;
  out.seq = header.seq;
  return out;
}

std::optional<SlotFrame> of_words(const uint8_t* frame, size_t size, wire::Kind kind) {
  wire::DataPacket packet;
  if (wire::parse_data(frame, size, kind, &packet) != wire::ParseError::kNone) return std::nullopt;
  SlotFrame out = common(packet.header, kind == wire::Kind::kResult);
  out.bytes = packet.words * kWordBytes;
  return out;
}

std::optional<SlotFrame> of_elements(const uint8_t* frame, size_t size, wire::Kind kind) {
  wire::ExactPacket packet;
  if (wire::parse_exact(frame, size, kind, &packet) != wire::ParseError::kNone) return std::nullopt;
  SlotFrame out = common(packet.header, kind == wire::Kind::kExactResult);
  out.exact = true;
  out.call = packet.header.call;
  out.kind = uint32_t{packet.header.type} << 16 | uint32_t{packet.header.operation} << 8 | packet.header.divisor;
  out.bytes = packet.room;
  if (out.result || packet.operation != ReduceOp::kPartialSum || packet.bytes == 0) return out;
  const auto sum = parse_partial_sum(packet.type, packet.elements, packet.bytes);
  if (!sum) return std::nullopt;
  out.bytes = sum->elements * element_bytes(packet.type);
  return out;
}

template <typename Header>
uint64_t hash_without(Header header, void (*write)(const Header&, uint8_t*), size_t header_bytes, const uint8_t* frame,
                      size_t size) {
  header.flags &= static_cast<uint8_t>(~wire::kFlagRepeat);
  header.job = 0;
  header.epoch = 0;
  uint8_t head[wire::kExactHeaderBytes] = {};
  write(header, head);
  return hash_bytes(frame + header_bytes, size - header_bytes, hash_bytes(head, header_bytes));
}

}  // namespace

std::optional<SlotFrame> slot_frame(const uint8_t* frame, size_t size) {
  if (size == 0) return std::nullopt;
  const auto kind = static_cast<wire::Kind>(wire::kind_of(frame));
  switch (kind) {
    case wire::Kind::kContribution:
    case wire::Kind::kResult: return of_words(frame, size, kind);
    case wire::Kind::kExactContribution:
    case wire::Kind::kExactResult: return of_elements(frame, size, kind);
    default: return std::nullopt;
  }
}

uint64_t hash_of_contents(const uint8_t* frame, size_t size, const SlotFrame& seen) {
  if (!seen.exact) {
    return hash_without<wire::Header>(wire::read_header(frame), wire::write_header, wire::kHeaderBytes, frame, size);
  }
  return hash_without<wire::ExactHeader>(wire::read_exact_header(frame), wire::write_exact_header,
                                         wire::kExactHeaderBytes, frame, size);
}

}  // namespace switchml::sim
