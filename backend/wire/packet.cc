#include "wire/packet.h"

#include "wire/checksum.h"

namespace switchml::wire {

const char* to_string(ParseError error) {
  switch (error) {
    case ParseError::kNone: return "none";
    case ParseError::kShort: return "short";
    case ParseError::kOtherVersion: return "version";
    case ParseError::kKind: return "kind";
    case ParseError::kLength: return "length";
    case ParseError::kOperation: return "operation";
    case ParseError::kSeq: return "seq";
    case ParseError::kChecksum: return "checksum";
  }
  return "?";
}

ParseError parse_data(const uint8_t* frame, size_t size, Kind expected, DataPacket* out) {
  if (size < kHeaderBytes) return ParseError::kShort;                                       // [DROP-1]
  if (version_of(frame) != kVersion) return ParseError::kOtherVersion;                      // [DROP-2]
  if (kind_of(frame) != static_cast<uint8_t>(expected)) return ParseError::kKind;           // [DROP-3]
  const size_t payload = size - kHeaderBytes;                                               // [BASE-2]
  if (payload % kWordBytes != 0 || payload > kMaxPayloadBytes) return ParseError::kLength;  // [DROP-4]
  const Header header = read_header(frame);
  const uint8_t operation = header.flags & kOperationMask;
  if (operation > static_cast<uint8_t>(Operation::kMax)) return ParseError::kOperation;  // [PKT-3, DROP-5]
  if (header.seq == 0) return ParseError::kSeq;                                          // [PKT-11, DROP-6]
  out->header = header;
  out->operation = static_cast<Operation>(operation);
  out->payload = frame + kHeaderBytes;
  out->words = payload / kWordBytes;
  return ParseError::kNone;
}

namespace {

bool is_operation(const ExactHeader& header) {
  const auto operation = static_cast<ReduceOp>(header.operation);
  const bool is_partial = operation == ReduceOp::kPartialSum;
  if ((header.operation >= kReduceOps && !is_partial) || header.type >= kElementTypes) return false;
  const auto type = static_cast<ElementType>(header.type);
  const uint32_t most = is_partial || sums_floats(operation, type) ? kMaxHeaderDivisor : 1;
  return exact_can(operation, type) && header.divisor >= 1 && header.divisor <= most;  // [EXACT-7, EXACT-8]
}

// Bytes of what there is a whole number of.
size_t unit_of(ReduceOp operation, ElementType type, bool is_result) {
  if (is_result) return result_bytes(operation, type);
  return operation == ReduceOp::kPartialSum ? 1 : element_bytes(type);  // [PART-1]
}

/// The least payload with which so many elements may be together. `bytes`: the packet's. [EXACT-11, NSUM-4]
size_t room_of(ReduceOp operation, ElementType type, size_t count, size_t bytes) {
  if (operation == ReduceOp::kPartialSum) return bytes;
  const size_t terms = count * element_bytes(type), results = count * result_bytes(operation, type);
  return results <= kMostOfShortPayloads ? terms : std::max(terms, results);
}

}  // namespace

ParseError parse_exact(const uint8_t* frame, size_t size, Kind expected, ExactPacket* out) {
  if (size < kExactHeaderBytes) return ParseError::kShort;
  if (version_of(frame) != kVersion) return ParseError::kOtherVersion;
  if (kind_of(frame) != static_cast<uint8_t>(expected)) return ParseError::kKind;
  const ExactHeader header = read_exact_header(frame);
  if (!is_operation(header)) return ParseError::kOperation;  // [EXACT-14]
  if (header.seq == 0) return ParseError::kSeq;
  const auto operation = static_cast<ReduceOp>(header.operation);
  const auto type = static_cast<ElementType>(header.type);
  const size_t begin = kExactHeaderBytes + (has_target(header) ? kTargetBytes : 0);
  if (size < begin) return ParseError::kLength;  // [RDMA-6]
  const size_t bytes = size - begin;
  const bool is_result = expected == Kind::kExactResult;
  const size_t unit = unit_of(operation, type, is_result);
  const size_t most = operation == ReduceOp::kBarrier ? 0 : kMaxPayloadBytes;
  if (bytes > most) return ParseError::kLength;
  const bool is_packed = (header.flags & kFlagPacked) != 0;
  std::optional<PackedPayload> packed;
  if (is_packed && may_be_packed(operation)) packed = read_packed(frame + begin, bytes, element_bytes(type));
  if (is_packed ? !packed : bytes % unit != 0) return ParseError::kLength;  // [EXACT-11, ZERO-3]
  const bool is_partial = !is_result && operation == ReduceOp::kPartialSum;
  const size_t count = packed ? packed->blocks.elements : is_partial ? 0 : bytes / unit;
  const size_t room = room_of(operation, type, count, bytes);
  if (room > most) return ParseError::kLength;  // [EXACT-11, NSUM-4]
  out->header = header;
  out->operation = operation;
  out->type = type;
  out->target.reset();
  if (has_target(header)) out->target = read_target(frame + kExactHeaderBytes);
  out->elements = frame + begin;
  out->bytes = bytes;
  out->packed = packed;
  out->count = count;
  out->room = room;
  return ParseError::kNone;
}

ParseError parse_control(const uint8_t* frame, size_t size, Kind expected, ControlPacket* out) {
  if (size < kControlBytes) return ParseError::kShort;
  if (kind_of(frame) != static_cast<uint8_t>(expected)) return ParseError::kKind;
  const bool is_ours = version_of(frame) == kVersion;
  const size_t around = kControlBytes + (is_ours ? kControlCheckBytes : 0);
  if (size < around) return ParseError::kShort;
  if (is_ours && !control_intact(frame, size)) return ParseError::kChecksum;  // [CTL-8]
  // [CTL-3]
  out->control = read_control(frame);  // The fixed part is the same in every version.
  out->body = frame + kControlBytes;
  out->body_bytes = size - around;
  return is_ours ? ParseError::kNone : ParseError::kOtherVersion;
}

}  // namespace switchml::wire
