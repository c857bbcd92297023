// Requests to meet, which arrive on any thread of a server. The card's thread answers them.
#pragma once

#include <atomic>
#include <functional>
#include <mutex>
#include <utility>
#include <vector>

#include "softswitch/switch.h"
#include "transport/transport.h"

namespace switchml {

class Meetings : public softswitch::MeetTap {
 public:
  /// `card` (borrowed), which has queue pairs, is woken for each request.
  explicit Meetings(Transport& card) : card_(card), pairs_(*card.queue_pairs()) {}

  /// Any thread. If 1024 wait, further requests are dropped: they are repeated.
  void meet(const wire::Join& asked, const wire::Introduction& its, uint32_t request_id, const Endpoint& from) override;

  using Join = std::function<softswitch::JoinOutcome(const wire::Join&, const Endpoint& from)>;
  using Send = std::function<void(std::vector<uint8_t> reply, const Endpoint& to)>;
  /// Only the card's thread. `join` decides about membership; the card meets members, and `send` replies. Without a
  /// queue pair of the card the reply is a refusal.
  void answer(const Join& join, const Send& send);
  using Serves = std::function<bool(uint8_t job, uint32_t epoch)>;
  /// Only the card's thread. The card forgets members of sessions that have ended.
  void forget_gone(const Serves& serves);

 private:
  struct Asked {
    wire::Join join;
    wire::Introduction introduction;
    uint32_t request_id = 0;
    Endpoint from;
  };
  struct MetMember {
    uint8_t job = 0;
    uint32_t epoch = 0;
  };
  std::vector<uint8_t> reply_to(const Asked& asked, const Join& join);
  Result<wire::Introduction> acquaint(const Asked& asked, const Endpoint& member);

  Transport& card_;
  QueuePairs& pairs_;
  std::mutex mutex_;
  std::vector<Asked> waiting_;
  std::atomic<bool> mail_{false};
  std::vector<std::pair<Endpoint, MetMember>> met_;  // The card's thread only.
};

}  // namespace switchml
