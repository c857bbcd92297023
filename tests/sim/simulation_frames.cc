// What happens to frames as they enter the network: strangers see them, some are damaged.
#include "simulation.h"
#include "slot_frame.h"
#include "wire/checksum.h"

namespace switchml::sim {

void Simulation::carry(int from, int to, const uint8_t* data, size_t size) {
  if (is_worker(from)) {
    const auto tenant = static_cast<size_t>(tenant_of(from));
    if (tenant < tenants_.size()) tenants_[tenant]->sent_a_frame();
  }
  if (sealed_ != nullptr) return sealed_->send(from, to, data, size);
  network_.send(from, to, data, size);
  if (strangers_ && is_worker(from) && chance_.chance(0.004)) strange(from, to, data, size);
}

// Somebody has seen this frame, and sends it again: as it was or altered, from an address that is not the member's. Or
// makes up something for the worker itself.
void Simulation::strange(int from, int to, const uint8_t* data, size_t size) {
  record_.count(Fault::stranger_frames);
  std::vector<uint8_t> bytes(data, data + size);
  // Who has seen a join knows the session's key, and may join: no other request is sent again.
  const auto seen = slot_frame(data, size);
  const uint64_t kind = seen ? chance_.below(4) : 3;
  const wire::Kind result = seen && seen->exact ? wire::Kind::kExactResult : wire::Kind::kResult;
  const auto first_byte = [](wire::Kind of) {
    return static_cast<uint8_t>(wire::kVersion << 4 | static_cast<int>(of));
  };
  if (kind == 3) {
    for (auto& byte : bytes) byte = static_cast<uint8_t>(chance_.next());
    if (chance_.chance(0.7)) bytes[0] = first_byte(chance_.chance(0.5) ? result : wire::Kind::kReply);
    if (chance_.chance(0.7)) wire::seal_control(bytes.data(), bytes.size() - wire::kControlCheckBytes);
    return network_.send(kStranger, from, bytes.data(), bytes.size());
  }
  if (kind == 2) flip(&bytes, chance_.below(size / 4));
  if (kind == 1) {  // as if it were the result, for a leaf to hand down
    bytes[0] = first_byte(result);
    bytes[3] = kAllWorkers;
  }
  const int other = node_of(tenant_of(from), (worker_of(from) + 1) % kMostWorkers, shard_of(from));
  network_.send(kind == 0 ? other : kStranger, to, bytes.data(), bytes.size());
}

void Simulation::flip(std::vector<uint8_t>* bytes, size_t word) {
  auto mask = static_cast<uint32_t>(chance_.next());
  if (mask == 0 || chance_.chance(0.6)) mask = 1U << chance_.below(32);
  for (size_t i = 0; i < 4; ++i) (*bytes)[word * 4 + i] ^= static_cast<uint8_t>(mask >> (24 - 8 * i));
}

bool Simulation::damage(std::vector<uint8_t>* bytes) {
  if (options_.plain) return false;
  wire::DataPacket packet;
  const auto parse = [&](wire::Kind kind) {
    return wire::parse_data(bytes->data(), bytes->size(), kind, &packet) == wire::ParseError::kNone;
  };
  if (parse(wire::Kind::kContribution) || parse(wire::Kind::kResult)) return damage_data(packet, bytes);
  if (const auto seen = slot_frame(bytes->data(), bytes->size()); seen && seen->exact) return damage_exact(bytes);
  // Of requests and replies the checksum finds it.
  if (bytes->size() < wire::kControlBytes) return false;
  flip(bytes, chance_.below(bytes->size() / 4));
  return true;
}

// Whatever it is, the checksum finds it: nobody has to be forgiven anything. What it does not cover stays.
bool Simulation::damage_exact(std::vector<uint8_t>* bytes) {
  uint8_t& flags = (*bytes)[wire::kExactHeaderOffsetFlags];
  const uint8_t repeat = flags & wire::kFlagRepeat;
  const auto whole = *bytes;
  constexpr size_t kHeaderWords = wire::kExactHeaderBytes / 4;
  const size_t words = bytes->size() / 4;
  flip(bytes, chance_.below(chance_.chance(0.4) ? kHeaderWords : words));
  flags = static_cast<uint8_t>((flags & ~wire::kFlagRepeat) | repeat);
  if (*bytes == whole) return false;
  record_.count(Fault::exact_damaged);
  return true;
}

bool Simulation::damage_data(const wire::DataPacket& packet, std::vector<uint8_t>* bytes) {
  constexpr size_t kHeaderWords = wire::kHeaderBytes / 4;
  const wire::Header header = packet.header;
  size_t word = chance_.chance(0.4) ? chance_.below(kHeaderWords) : kHeaderWords + chance_.below(packet.words + 1);
  if (word >= bytes->size() / 4) word = 0;
  const auto whole = *bytes;
  flip(bytes, word);
  const bool in_words = word >= kHeaderWords;
  for (auto& tenant : tenants_) {
    if (!tenant->is_session(header.job, header.epoch)) continue;
    const bool open = !in_words || tenant->is_open_to_damage(packet);
    if (open && tenant->damage_may_hit(header, in_words)) continue;
    *bytes = whole;
    return false;
  }
  // The operation alone: contributions that disagree about it are not told for certain.
  const uint8_t kept = wire::kOperationMask;
  const size_t flags = wire::kHeaderOffsetFlags;
  (*bytes)[flags] = static_cast<uint8_t>(((*bytes)[flags] & ~kept) | (header.flags & kept));
  return true;
}

}  // namespace switchml::sim
