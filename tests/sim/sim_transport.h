// A shard's socket on the simulated network.
#pragma once

#include <algorithm>
#include <deque>
#include <string>
#include <utility>
#include <vector>

#include "heap.h"
#include "nodes.h"
#include "stream_watch.h"
#include "transport/frame_memory.h"
#include "transport/transport.h"

namespace switchml::sim {

/// What sockets, switches and jobs send through.
class Carrier {
 public:
  virtual ~Carrier() = default;
  virtual void carry(int from, int to, const uint8_t* data, size_t size) = 0;
  /// Takes the memory of a frame that is done with.
  virtual void recycle(std::vector<uint8_t> bytes) = 0;
};

class SimTransport final : public Transport {
 public:
  SimTransport(Carrier* carrier, int node, StreamWatch* watch) : carrier_(carrier), node_(node), watch_(watch) {}

  /// A frame that has arrived.
  void deliver(int from, std::vector<uint8_t> bytes) {
    arrived = true;
    inbox_.emplace_back(from, std::move(bytes));
  }
  size_t waiting() const { return inbox_.size(); }

  const char* name() const override { return "sim"; }
  TransportLimits limits() const override { return {65507, 0, 0}; }
  Endpoint local() const override { return endpoint_of(node_); }
  size_t path_frame_bytes(const Endpoint&) const override { return 65507; }
  uint8_t* allocate(size_t bytes) override { return memory_.allocate(bytes); }

  size_t send(const TxFrame* frames, size_t count) override {
    const Charge charge(kSimulator);
    for (size_t i = 0; i < count; ++i) {
      if (broken.empty()) broken = watch_->sent(frames[i].data, frames[i].size);
      carrier_->carry(node_, node_at(*frames[i].to), frames[i].data, frames[i].size);
    }
    return count;
  }

  size_t receive(RxFrame* frames, size_t count) override {
    const Charge charge(kSimulator);
    size_t n = 0;
    for (; n < count && !inbox_.empty(); ++n) {
      lent_.push_back(std::move(inbox_.front().second));
      frames[n] = {lent_.back().data(), static_cast<uint32_t>(lent_.back().size()), endpoint_of(inbox_.front().first)};
      watch_->taken(lent_.back().data(), lent_.back().size());
      inbox_.pop_front();
    }
    return n;
  }
  void release() override {
    const Charge charge(kSimulator);
    for (auto& frame : lent_) {
      std::fill(frame.begin(), frame.end(), uint8_t{0xee});  // a use after release shows
      carrier_->recycle(std::move(frame));
    }
    lent_.clear();
  }
  void wait(Duration) override {}
  void wake() override { woken = true; }
  std::string take_error() override { return {}; }

  bool arrived = false;  // frames, since the last step
  bool woken = false;    // there is something else to step for
  std::string broken;    // the first rule that a frame broke

 private:
  Carrier* carrier_;
  int node_;
  StreamWatch* watch_;
  FrameMemory memory_;
  std::deque<std::pair<int, std::vector<uint8_t>>> inbox_;
  std::vector<std::vector<uint8_t>> lent_;
};

}  // namespace switchml::sim
