#pragma once

#include <memory>
#include <mutex>
#include <string>
#include <vector>

#include "client/control_client.h"
#include "client/controller_client.h"
#include "client/switch_entry.h"
#include "socket/address.h"

namespace switchml {

/// A controller of one switch that has rules of its own. Sessions may ask it while a test moves the switch.
class FakeController : public ControllerClient {
 public:
  Result<std::vector<LocatedShare>> locate(const RankAddresses& ranks, Time) override {
    located = ranks;
    if (!refusal.ok()) return refusal;
    const std::vector<std::string> switches(ranks.size() + extra, to_string(place()));
    std::vector<LocatedShare> shares;
    for (const uint32_t weight : weights) shares.push_back({weight, switches});
    return shares;
  }
  Result<wire::OpenReply> open(const wire::Open& asked, const RankAddresses& ranks, size_t share,
                               const std::string& group, Time deadline) override {
    shares_opened.push_back(share);
    opened = ranks;
    name = group;
    if (!refusal.ok()) return refusal;
    const Endpoint at = place();
    auto link = connect_to_switch(at);
    if (!link.ok()) return link.status();
    wire::Open wanted = asked;
    if (adds_integers) wanted.flags = static_cast<uint16_t>(wanted.flags & ~wire::kOpenNative);
    auto granted = ControlClient(*link.value(), at, "the switch").open(wanted, deadline);
    if (granted.ok()) granted->flags |= flags;
    return granted;
  }

  Endpoint place() const {
    const std::lock_guard<std::mutex> lock(mutex_);
    return at_;
  }
  void move_to(const Endpoint& at) {
    const std::lock_guard<std::mutex> lock(mutex_);
    at_ = at;
  }

  Status refusal;
  size_t extra = 0;
  std::vector<uint32_t> weights = {1};  // of shares, all at the same switch
  std::vector<size_t> shares_opened;
  bool adds_integers = true;  // whatever is asked for
  uint8_t flags = 0;          // of replies, beside the switch's
  RankAddresses located, opened;
  std::string name;

 private:
  mutable std::mutex mutex_;
  Endpoint at_;
};

/// For who wants to share it; the test keeps it.
inline std::shared_ptr<ControllerClient> borrowed(ControllerClient& controller) {
  return {std::shared_ptr<void>(), &controller};
}

}  // namespace switchml
