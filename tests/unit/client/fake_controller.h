#pragma once

#include <atomic>
#include <memory>
#include <mutex>
#include <string>
#include <utility>
#include <vector>

#include "client/control_client.h"
#include "client/controller_client.h"
#include "client/switch_entry.h"
#include "socket/address.h"

namespace switchml {

/// A controller of one switch that has rules of its own, or of those that a test has planned. Sessions may ask it while
/// a test moves the switch, or plans.
class FakeController : public ControllerClient {
 public:
  Result<std::vector<LocatedShare>> locate(const RankAddresses& ranks, Time) override {
    if (!refusal.ok()) return refusal;
    const std::vector<std::string> switches(ranks.size() + extra, to_string(place()));
    std::vector<LocatedShare> shares;
    for (const uint32_t weight : weights) shares.push_back({weight, switches, 0});
    const std::lock_guard<std::mutex> lock(mutex_);
    located = ranks;
    ++times_located;
    if (!plan_.empty()) shares.clear();
    for (const Planned& share : plan_) {
      shares.push_back({share.weight, std::vector<std::string>(ranks.size(), to_string(share.at)), share.tree_id});
    }
    return shares;
  }
  Result<wire::OpenReply> open(const wire::Open& asked, const RankAddresses& ranks, size_t share,
                               const std::string& group, const wire::Membership& replaces, Time deadline) override {
    {
      const std::lock_guard<std::mutex> lock(mutex_);
      shares_opened.push_back(share);
      opened = ranks;
      name = group;
      replaced = replaces;
    }
    if (!refusal.ok()) return refusal;
    const Endpoint at = place_of(share);
    auto link = connect_to_switch(at);
    if (!link.ok()) return link.status();
    wire::Open wanted = asked;
    if (adds_integers) wanted.flags = static_cast<uint16_t>(wanted.flags & ~wire::kOpenExact);
    auto granted = ControlClient(*link.value(), at, "the switch").open(wanted, deadline);
    if (granted.ok()) granted->flags |= flags;
    return granted;
  }

  struct Planned {
    uint32_t weight = 1;
    Endpoint at;
    uint64_t tree_id = 0;
  };
  void plan(std::vector<Planned> shares) {
    const std::lock_guard<std::mutex> lock(mutex_);
    plan_ = std::move(shares);
  }

  Endpoint place() const {
    const std::lock_guard<std::mutex> lock(mutex_);
    return at_;
  }
  void move_to(const Endpoint& at) {
    const std::lock_guard<std::mutex> lock(mutex_);
    at_ = at;
  }

  std::atomic<int> times_located{0};
  Status refusal;
  size_t extra = 0;
  std::vector<uint32_t> weights = {1};  // One for each share, all at the same switch.
  std::vector<size_t> shares_opened;
  bool adds_integers = true;  // Grants no exact session.
  uint8_t flags = 0;          // Added to the flags of the switch's replies.
  RankAddresses located, opened;
  std::string name;
  wire::Membership replaced;

 private:
  Endpoint place_of(size_t share) const {
    const std::lock_guard<std::mutex> lock(mutex_);
    return share < plan_.size() ? plan_[share].at : at_;
  }

  mutable std::mutex mutex_;
  std::vector<Planned> plan_;
  Endpoint at_;
};

/// A shared pointer to a client that the test owns.
inline std::shared_ptr<ControllerClient> borrowed(ControllerClient& controller) {
  return {std::shared_ptr<void>(), &controller};
}

}  // namespace switchml
