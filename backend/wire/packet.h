// Checked parse and write of the packets of docs/protocol.md: the only way from bytes to fields in engine and switch.
#pragma once

#include <cstddef>
#include <cstdint>
#include <optional>

#include "base/limits.h"
#include "base/reduce_op.h"
#include "wire/blocks.h"
#include "wire/layout.h"

namespace switchml::wire {

static_assert(kHeaderBytes == 20 && kExactHeaderBytes == 24 && kControlBytes == 8);
static_assert(kMaxPayloadBytes + kExactHeaderBytes <= 65507, "one UDP datagram over loopback");

/// Why a frame is not a well-formed packet of this protocol.
enum class ParseError {
  kNone,
  kShort,         // Shorter than the header of its kind.
  kOtherVersion,  // Another protocol version.
  kKind,          // A kind that does not exist or is not expected here.
  kLength,        // Payload not a multiple of 4 bytes; in an exact packet, not whole elements, or badly packed.
  kOperation,     // An operation that does not exist, or not for this type.
  kSeq,           // Sequence number 0.
  kChecksum,      // A control message's checksum does not hold.
};
const char* to_string(ParseError error);

/// A contribution or a result, viewed in place.
struct DataPacket {
  Header header;
  Operation operation = Operation::kSum;
  const uint8_t* payload = nullptr;  // Words in network byte order, inside the frame.
  size_t words = 0;
};

/// The kind nibble of a frame of at least one byte, and its version.
inline uint8_t kind_of(const uint8_t* frame) { return frame[0] & 0x0f; }
inline uint8_t version_of(const uint8_t* frame) { return static_cast<uint8_t>(frame[0] >> 4); }

/// Checks version, kind, length, operation and seq of a contribution or result. `out` is set on kNone only.
ParseError parse_data(const uint8_t* frame, size_t size, Kind expected, DataPacket* out);

/// Bytes that a result of narrow terms may have however short packets are: it may stay on the switch's host. [NSUM-4]
inline constexpr size_t kMostOfShortPayloads = 8192;

/// A contribution or a result of an exact session, viewed in place. A result has no elements if they are in its target.
struct ExactPacket {
  ExactHeader header;
  std::optional<Target> target;  // Contributions only.
  ReduceOp operation = ReduceOp::kSum;
  ElementType type = ElementType::kFloat32;
  const uint8_t* elements = nullptr;  // Little-endian, as in memory, inside the frame; or a packed payload.
  size_t bytes = 0;
  std::optional<PackedPayload> packed;  // Without the blocks of zeros.
  size_t count = 0;                     // Elements, with those that are left out; of partial sums not known here.
  size_t room = 0;                      // The least payload of sessions that may have it.
};
/// Whether a target follows this header. [RDMA-6]
inline bool has_target(const ExactHeader& header) {
  return header.kind == static_cast<uint8_t>(Kind::kExactContribution) && (header.flags & kFlagTarget) != 0;
}
/// Like parse_data(), for an exact packet. Does not check the checksum (wire/checksum.h).
ParseError parse_exact(const uint8_t* frame, size_t size, Kind expected, ExactPacket* out);

/// A control request or reply: its fixed part, and the body between it and the checksum.
struct ControlPacket {
  Control control;
  const uint8_t* body = nullptr;
  size_t body_bytes = 0;
};
/// Checks kind, version and checksum. `out` is set on kNone, and on kOtherVersion with all the rest as the body.
ParseError parse_control(const uint8_t* frame, size_t size, Kind expected, ControlPacket* out);

/// The sequence number after `seq`: +1, and from 0xffffffff to 2 (0 is forbidden, parity is kept).
inline uint32_t next_seq(uint32_t seq) { return seq == 0xffffffffU ? 2U : seq + 1U; }  // [SLOT-1]
/// Serial comparison: a is newer than b.
inline bool newer_seq(uint32_t a, uint32_t b) { return static_cast<int32_t>(a - b) > 0; }  // [SLOT-10]

}  // namespace switchml::wire
