// wire/packet, wire/checksum, wire/control and exact/partial_sums: whatever is accepted lies inside the frame and says
// what its bytes say.
#include <algorithm>
#include <cstring>
#include <vector>

#include "check.h"
#include "exact/partial_sums.h"
#include "script.h"
#include "wire/checksum.h"
#include "wire/control.h"

namespace switchml::wire {
namespace {

using fuzz::check;

void data(const uint8_t* frame, size_t size, Kind kind) {
  DataPacket packet;
  if (parse_data(frame, size, kind, &packet) != ParseError::kNone) return;
  check(packet.header.version == kVersion && packet.header.kind == static_cast<uint8_t>(kind), "version and kind");
  check(packet.header.seq != 0, "seq is not 0");
  check(packet.operation == Operation::kSum || packet.operation == Operation::kMax, "the operation exists");
  check(kHeaderBytes + packet.words * kWordBytes == size, "header and words are the whole frame");
  check(packet.payload == frame + kHeaderBytes, "words follow the header");
  uint8_t again[kHeaderBytes];
  write_header(packet.header, again);
  check(std::memcmp(again, frame, kHeaderBytes) == 0, "the header written again has the same bytes");
}

void packed(const ExactPacket& packet) {
  const uint8_t* end = packet.elements + packet.bytes;
  const PackedPayload seen = packed_before(end, element_bytes(packet.type));
  check(seen.elements == packet.elements && packet.packed->elements == packet.elements, "its blocks begin the payload");
  std::vector<uint8_t> trailer(trailer_bytes(seen.blocks));
  write_trailer(seen.blocks, seen.present, trailer.data());
  check(std::equal(trailer.begin(), trailer.end(), end - trailer.size()), "the trailer written again is the same");
}

// What a leaf would send of it alone has the same sum.
void partial_sum(const ExactPacket& packet) {
  const auto sum = parse_partial_sum(packet.type, packet.elements, packet.bytes);
  if (!sum) return;
  check(sum->elements * element_bytes(packet.type) <= packet.bytes, "no element takes fewer bytes than its type");
  const auto rounded = [&](const PartialSum& part) {
    std::vector<uint8_t> out(part.elements * element_bytes(packet.type));
    round_partial_sums(&part, 1, packet.header.divisor, out.data());
    return out;
  };
  std::vector<uint8_t> sent(2 * kMaxPayloadBytes);
  sent.resize(write_partial_sum(&*sum, 1, sent.size(), sent.data()));
  if (sent.empty()) return;
  const auto again = parse_partial_sum(packet.type, sent.data(), sent.size());
  check(again.has_value(), "what is written is a contribution");
  check(again->elements == sum->elements && rounded(*again) == rounded(*sum), "with the same sum");
}

void exact(const uint8_t* frame, size_t size, Kind kind) {
  ExactPacket packet;
  if (parse_exact(frame, size, kind, &packet) != ParseError::kNone) return;
  const ExactHeader& header = packet.header;
  check(header.version == kVersion && header.kind == static_cast<uint8_t>(kind), "version and kind");
  check(header.seq != 0, "seq is not 0");
  const bool is_partial = packet.operation == ReduceOp::kPartialSum;
  check(header.type < kElementTypes && (header.operation < kReduceOps || is_partial), "type and operation exist");
  check(static_cast<uint8_t>(packet.type) == header.type, "the type is the header's");
  check(static_cast<uint8_t>(packet.operation) == header.operation, "the operation is the header's");
  check(exact_can(packet.operation, packet.type), "the type has the operation");
  check(header.divisor >= 1 && header.divisor <= kMaxWorkers, "the divisor is in range");
  const size_t begin = kExactHeaderBytes + (packet.target ? kTargetBytes : 0);
  check(begin + packet.bytes == size, "header, target and elements are the whole frame");
  const bool is_result = kind == Kind::kExactResult;
  const size_t of_one = is_result ? result_bytes(packet.operation, packet.type) : element_bytes(packet.type);
  const bool has_others = packet.packed || (is_partial && !is_result);
  check(has_others || packet.bytes == packet.count * of_one, "elements are whole");
  const size_t most = std::max(packet.room, kMostOfShortPayloads);
  check(packet.room <= kMaxPayloadBytes && packet.bytes <= most, "they and their result fit");
  check(packet.elements == frame + begin, "elements follow the header, and its target");
  if (packet.packed) packed(packet);
  if (is_partial && !is_result) partial_sum(packet);
  std::vector<uint8_t> again(frame, frame + size);
  write_exact_header(header, again.data());
  check(std::memcmp(again.data(), frame, size) == 0, "the header written again has the same bytes");
  seal_exact(header, {header.epoch}, again.data(), size - kExactHeaderBytes);
  check(exact_intact(again.data(), size, {header.epoch}), "what is sealed is intact");
  again[1] ^= kFlagRepeat;
  check(exact_intact(again.data(), size, {header.epoch}), "so is its retransmission");
  again.back() ^= 1;
  check(!exact_intact(again.data(), size, {header.epoch}), "and nothing with a bit changed");
}

void control(const uint8_t* frame, size_t size, Kind kind) {
  ControlPacket packet;
  if (parse_control(frame, size, kind, &packet) != ParseError::kNone) return;
  check(packet.control.kind == static_cast<uint8_t>(kind), "kind");
  check(packet.body == frame + kControlBytes && packet.body_bytes == size - kControlBytes - kControlCheckBytes,
        "the body is what lies between fixed part and checksum");
  uint8_t reply[kMaxControlBytes];
  const size_t written = finish_reply(packet.control, ReplyStatus::kBadRequest, reply);
  check(written <= sizeof reply && kind_of(reply) == static_cast<uint8_t>(Kind::kReply), "it can be answered");
}

void reply(const uint8_t* frame, size_t size) {
  Reply parsed;
  if (parse_reply(frame, size, &parsed) != ParseError::kNone) return;
  check(parsed.version == kVersion || parsed.status == ReplyStatus::kBadVersion, "another version says so");
  check(to_string(parsed.status)[0] != 0 && to_string(parsed.type)[0] != 0, "status and type have names");
}

}  // namespace
}  // namespace switchml::wire

extern "C" int LLVMFuzzerTestOneInput(const uint8_t* bytes, size_t size) {
  using namespace switchml::wire;
  std::vector<uint8_t> input(bytes, bytes + size);  // so that a byte read behind the end is noticed
  switchml::fuzz::become_current(&input);
  for (const Kind kind : {Kind::kContribution, Kind::kResult}) data(input.data(), size, kind);
  for (const Kind kind : {Kind::kExactContribution, Kind::kExactResult}) exact(input.data(), size, kind);
  for (const std::vector<uint8_t>& frame : {input, switchml::fuzz::sealed(input)}) {
    for (const Kind kind : {Kind::kRequest, Kind::kReply}) control(frame.data(), frame.size(), kind);
    reply(frame.data(), frame.size());
  }
  return 0;
}
