#include "failover/state_transfer.h"

#include <cstdint>
#include <vector>

namespace switchml {

namespace {

std::string packed(const std::vector<uint32_t>& numbers) {
  std::string text;
  for (const uint32_t number : numbers) {
    for (int shift = 24; shift >= 0; shift -= 8) text += static_cast<char>(number >> shift);
  }
  return text;
}

uint32_t number_at(const std::string& text, size_t at) {
  uint32_t number = 0;
  for (size_t i = 0; i < 4; ++i) number = number << 8 | static_cast<uint8_t>(text[at + i]);
  return number;
}

std::vector<uint32_t> unpacked(const std::string& text) {
  std::vector<uint32_t> numbers;
  for (size_t at = 0; at + 4 <= text.size(); at += 4) numbers.push_back(number_at(text, at));
  return numbers;
}

// Frames one after the other, each behind its length.
std::string joined(const std::vector<std::vector<uint8_t>>& frames) {
  std::string text;
  for (const std::vector<uint8_t>& frame : frames) {
    text += packed({static_cast<uint32_t>(frame.size())});
    text.append(frame.begin(), frame.end());
  }
  return text;
}

std::vector<std::vector<uint8_t>> split(const std::string& text) {
  std::vector<std::vector<uint8_t>> frames;
  for (size_t at = 0; at + 4 <= text.size();) {
    const size_t size = number_at(text, at);
    at += 4;
    if (text.size() - at < size) break;
    frames.emplace_back(text.begin() + static_cast<std::ptrdiff_t>(at),
                        text.begin() + static_cast<std::ptrdiff_t>(at + size));
    at += size;
  }
  return frames;
}

}  // namespace

StateTransfer::StateTransfer(Relocatable& engine, StoreChannel& channel, const GroupInfo& group, int number)
    : engine_(engine), channel_(channel), group_(group), number_(number) {}

Status StateTransfer::run() { return channel_.agree(topic("ready"), group_.size, exchange_results()); }

Status StateTransfer::exchange_results() {
  auto made = plan();
  return made.ok() ? take_over(made.value()) : made.status();
}

Result<ResyncPlan> StateTransfer::plan() {
  const std::vector<uint32_t> mine = engine_.suspend();
  if (Status status = channel_.say(topic("state"), packed(mine)); !status.ok()) return status;
  std::vector<std::vector<uint32_t>> states;
  for (int rank = 0; rank < group_.size; ++rank) {
    auto text = channel_.hear(topic("state"), rank);
    if (!text.ok()) return text.status();
    states.push_back(unpacked(text.value()));
    if (states.back().size() == mine.size()) continue;
    return Status(Code::kMismatch, "rank " + std::to_string(rank) + " has another number of slots");
  }
  ResyncPlan plan(states);  // [MOVE-3]
  if (!plan.possible()) return Status(Code::kMismatch, "ranks are more than one use of a slot apart");
  return plan;
}

Status StateTransfer::take_over(const ResyncPlan& plan) {
  const int self = group_.rank;
  if (const auto& slots = plan.gives(self); !slots.empty()) {
    std::vector<std::vector<uint8_t>> frames;
    frames.reserve(slots.size());
    for (const int slot : slots) frames.push_back(engine_.last_result(slot));
    if (Status status = channel_.say(topic("kept"), joined(frames)); !status.ok()) return status;
  }
  for (const int holder : plan.takes_from(self)) {
    auto text = channel_.hear(topic("kept"), holder);
    if (!text.ok()) return text.status();
    engine_.supply(split(text.value()));  // [MOVE-4]
  }
  // Each was judged by slot and witness: what was refused is still missing.
  const std::vector<uint32_t> now = engine_.suspend();
  for (int slot = 0; slot < static_cast<int>(now.size()); ++slot) {
    if (!plan.lacks(self, slot) || now[static_cast<size_t>(slot)] == plan.last(slot)) continue;
    return {Code::kMismatch, "rank " + std::to_string(self) + " does not accept the result of slot " +
                                 std::to_string(slot) + " that another rank has kept"};
  }
  return {};
}

}  // namespace switchml
