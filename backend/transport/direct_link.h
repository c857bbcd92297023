// The link of a switch that members of its own process reach without a socket. The bytes of their frames are not sealed
// and checked, and never leave this memory: none is lost, repeated or damaged.
#pragma once

#include <memory>

#include "transport/decorator.h"

namespace switchml {

class DirectLink final : public TransportDecorator {
 public:
  /// Carries the frames of all other peers by `link`.
  explicit DirectLink(std::unique_ptr<Transport> link);
  /// What members send from then on goes nowhere.
  ~DirectLink() override;

  /// A transport for a member of this process that the switch knows by `as`: what it sends comes from there, and what
  /// the switch sends there comes to it. It takes the place of `link`, and waits and is woken as that one. Frames in
  /// memory of its allocate() are not copied: they keep their bytes until they are answered, unless they may_change.
  /// Thread-safe.
  std::unique_ptr<Transport> admit(const Endpoint& as, std::unique_ptr<Transport> link);

  QueuePairs* queue_pairs() override { return below().queue_pairs(); }
  size_t send(const TxFrame* frames, size_t count) override;
  size_t receive(RxFrame* frames, size_t count) override;
  void release() override;
  void wait(Duration timeout) override;

 private:
  class Box;
  class Hub;
  class Member;
  class Memory;

  const std::unique_ptr<Transport> link_;
  const std::shared_ptr<Hub> hub_;  // Members have it too.
};

}  // namespace switchml
