#include "controller/switch_state.h"

#include <algorithm>

#include "base/limits.h"
#include "base/payload_size.h"
#include "slots/slot_store.h"
#include "wire/layout.h"

namespace switchml::controller {

namespace {

/// Empty if these can be used.
std::string why_unusable(const Capabilities& can) {
  if (can.protocol_version != wire::kVersion) {
    return "it speaks protocol version " + std::to_string(can.protocol_version) + ", this controller version " +
           std::to_string(wire::kVersion);
  }
  if (can.payloads.empty() || can.payloads.front() < kMinPayloadBytes) {
    return "it names no payload size of at least " + std::to_string(kMinPayloadBytes) + " bytes";
  }
  if (can.pages != 0 && can.page_slots == 0) return "it has pages of no slots";
  if (can.members == 0 || can.jobs == 0) return "it takes no members or no jobs";
  return "";
}

}  // namespace

bool SwitchState::connect(const Capabilities& capabilities) {
  const bool forgot = capabilities_ && capabilities_->instance != capabilities.instance;
  if (forgot) unconfirmed_.clear();
  connected_ = true;
  problem_ = why_unusable(capabilities);
  // What is given away stays so: a switch that has forgotten it changes its instance, and then its sessions are ended.
  if (page_in_use_.size() < capabilities.pages) page_in_use_.resize(capabilities.pages);
  capabilities_ = capabilities;
  return forgot;
}

void SwitchState::disconnect(const std::string& problem) {
  connected_ = false;
  problem_ = problem;
}

size_t SwitchState::largest_payload() const {
  const auto& sizes = capabilities_->payloads;
  return sizes.empty() ? 0 : *std::max_element(sizes.begin(), sizes.end());
}

std::string SwitchState::payload_text() const {
  if (capabilities_->any_payload) return allowed_payloads(largest_payload());
  std::string text;
  for (const size_t size : capabilities_->payloads) text += (text.empty() ? "" : ", ") + std::to_string(size);
  return text;
}

std::optional<Refusal> SwitchState::check(const Needs& needs) const {
  const std::string self = "switch \"" + name_ + "\"";
  if (!connected_ || !problem_.empty()) return Refusal{Why::kUnavailable, self + " cannot be used: " + problem_};
  const Capabilities& can = *capabilities_;
  if (needs.tree && !can.trees) {
    return Refusal{Why::kInvalid, "the ranks are at several switches, and " + self + " (" + can.kind +
                                      ") cannot be part of a tree: use ranks that are at one switch"};
  }
  if (needs.pairs && !can.pairs) {
    return Refusal{Why::kInvalid,
                   self + " (" + can.kind + ") is not the end of queue pairs: set SWITCHML_TRANSPORT to auto or udp"};
  }
  if ((needs.sum && !can.sum) || (needs.max && !can.max)) {
    return Refusal{Why::kInvalid, std::string("operation ") + (needs.sum && !can.sum ? "SUM" : "MAX") + ": " + self +
                                      " (" + can.kind + ") does " + (can.sum ? "SUM only" : "MAX only")};
  }
  if (needs.members > can.members) {
    return Refusal{Why::kInvalid, std::to_string(needs.members) + " members of the session at " + self +
                                      ": allowed are 1 to " + std::to_string(can.members)};
  }
  const size_t least = can.any_payload ? kMinPayloadBytes : *std::min_element(can.payloads.begin(), can.payloads.end());
  if (needs.payload_bytes < least) {
    return Refusal{Why::kInvalid, "payload_bytes " + std::to_string(needs.payload_bytes) + ": " + self + " (" +
                                      can.kind + ") takes " + payload_text()};
  }
  if (taken_.size() >= can.jobs) {
    return Refusal{
        Why::kExhausted, self + " serves " + std::to_string(taken_.size()) + " jobs, as many as it can", {}, name_};
  }
  const size_t left = can.places - std::min(places_in_use_, can.places);
  if (can.places != 0 && needs.members * needs.shards > left) {
    return Refusal{Why::kExhausted,
                   self + " has " + std::to_string(left) + " places for members left, too few for " +
                       std::to_string(needs.members) + " with " + std::to_string(needs.shards) +
                       " shards each: use fewer shards, or end another job",
                   {},
                   name_};
  }
  return std::nullopt;
}

softswitch::GrantLimits SwitchState::limits(size_t members) const {
  const Capabilities& can = *capabilities_;
  softswitch::GrantLimits limits;
  limits.free_slot_memory_bytes = can.memory_bytes - std::min<uint64_t>(memory_in_use_, can.memory_bytes);
  limits.max_payload_bytes = largest_payload();
  limits.receive_buffer_bytes = can.receive_buffer_bytes;
  if (!can.any_payload) limits.payloads = can.payloads;
  limits.whole_chunks = can.whole_chunks;
  limits.exact = can.exact;
  limits.members = members;
  limits.max_members = can.members;
  limits.page_slots = can.pages != 0 ? can.page_slots : 0;
  limits.free_pages = can.pages - std::min(pages_in_use_, can.pages);
  return limits;
}

size_t SwitchState::free_slots() const {
  if (!capabilities_) return 0;
  const softswitch::GrantLimits free = limits(0);
  if (free.page_slots != 0) return free.page_slots * free.free_pages;
  return free.free_slot_memory_bytes / SlotStore::slot_bytes(free.max_payload_bytes);
}

std::vector<uint32_t> SwitchState::take(uint8_t job, uint32_t epoch, int slots, size_t slot_bytes, size_t places) {
  Taken& taken = taken_[job];
  taken.epoch = epoch;
  taken.places = places;
  places_in_use_ += places;
  if (capabilities_->pages == 0) {
    taken.memory_bytes = static_cast<size_t>(slots) * slot_bytes;
    memory_in_use_ += taken.memory_bytes;
    return {};
  }
  const size_t wanted = (static_cast<size_t>(slots) + capabilities_->page_slots - 1) / capabilities_->page_slots;
  for (uint32_t page = 0; page < capabilities_->pages && taken.pages.size() < wanted; ++page) {
    if (page_in_use_[page]) continue;
    page_in_use_[page] = true;
    taken.pages.push_back(page);
  }
  pages_in_use_ += taken.pages.size();
  return taken.pages;
}

void SwitchState::release(uint8_t job) {
  const auto found = taken_.find(job);
  if (found == taken_.end()) return;
  memory_in_use_ -= found->second.memory_bytes;
  for (const uint32_t page : found->second.pages) page_in_use_[page] = false;
  pages_in_use_ -= found->second.pages.size();
  places_in_use_ -= found->second.places;
  unconfirmed_.emplace(job, found->second.epoch);
  taken_.erase(found);
}

void SwitchState::removed(uint8_t job, uint32_t epoch) { unconfirmed_.erase({job, epoch}); }

}  // namespace switchml::controller
