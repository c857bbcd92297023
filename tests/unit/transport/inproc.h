// A transport within a process, for tests and measurements: endpoints of one hub exchange frames through bounded
// queues under a mutex.
#pragma once

#include <algorithm>
#include <condition_variable>
#include <cstring>
#include <deque>
#include <memory>
#include <mutex>
#include <string>
#include <unordered_map>
#include <utility>
#include <vector>

#include "transport/frame_memory.h"
#include "transport/transport.h"

namespace switchml {

namespace inproc {

using Bytes = std::vector<uint8_t>;

/// What has arrived for one endpoint.
struct Mailbox {
  std::mutex mutex;
  std::condition_variable changed;
  std::deque<std::pair<Endpoint, Bytes>> frames;
  bool woken = false;
};

/// Endpoints are numbers from 1 on, behind two zero bytes: no address family.
inline Endpoint numbered(uint32_t number) {
  Endpoint endpoint;
  std::memcpy(endpoint.bytes + 2, &number, sizeof number);
  endpoint.size = 2 + sizeof number;
  return endpoint;
}

/// 0 for what is no endpoint of a hub.
inline uint32_t number_of(const Endpoint& endpoint) {
  uint32_t number = 0;
  if (endpoint.size != 2 + sizeof number || endpoint.bytes[0] != 0 || endpoint.bytes[1] != 0) return 0;
  std::memcpy(&number, endpoint.bytes + 2, sizeof number);
  return number;
}

}  // namespace inproc

/// A little network. Endpoints made from it keep it alive. Thread-safe.
class InprocHub final : public std::enable_shared_from_this<InprocHub> {
 public:
  struct Options {
    size_t max_frame_bytes = 65507;
    size_t queue_frames = 1024;  // per endpoint; a frame to a full queue is lost
  };
  static std::shared_ptr<InprocHub> create(Options options) {
    return std::shared_ptr<InprocHub>(new InprocHub(options));
  }

  /// A transport with a fresh endpoint.
  std::unique_ptr<Transport> attach();
  const Options& options() const { return options_; }

  /// Frames to a full queue or to an endpoint that does not exist, and frames that are too long, are lost.
  void deliver(const Endpoint& from, const Endpoint& to, const uint8_t* data, size_t size) {
    const std::shared_ptr<inproc::Mailbox> mailbox = find(inproc::number_of(to));
    if (!mailbox || size > options_.max_frame_bytes) return;
    {
      const std::lock_guard<std::mutex> lock(mailbox->mutex);
      if (mailbox->frames.size() >= options_.queue_frames) return;
      mailbox->frames.emplace_back(from, inproc::Bytes(data, data + size));
    }
    mailbox->changed.notify_one();
  }

  void detach(uint32_t number) {
    const std::lock_guard<std::mutex> lock(mutex_);
    mailboxes_.erase(number);
  }

 private:
  explicit InprocHub(Options options) : options_(options) {}

  std::shared_ptr<inproc::Mailbox> find(uint32_t number) {
    const std::lock_guard<std::mutex> lock(mutex_);
    const auto at = mailboxes_.find(number);
    return at == mailboxes_.end() ? nullptr : at->second;
  }

  const Options options_;
  std::mutex mutex_;  // guards what follows
  std::unordered_map<uint32_t, std::shared_ptr<inproc::Mailbox>> mailboxes_;
  uint32_t last_ = 0;
};

class InprocTransport final : public Transport {
 public:
  InprocTransport(std::shared_ptr<InprocHub> hub, uint32_t number, std::shared_ptr<inproc::Mailbox> mailbox)
      : hub_(std::move(hub)), number_(number), mailbox_(std::move(mailbox)) {}
  ~InprocTransport() override { hub_->detach(number_); }

  const char* name() const override { return "inproc"; }
  TransportLimits limits() const override {
    const InprocHub::Options& options = hub_->options();
    return {options.max_frame_bytes, options.max_frame_bytes * options.queue_frames};
  }
  Endpoint local() const override { return inproc::numbered(number_); }
  size_t path_frame_bytes(const Endpoint& /*to*/) const override { return hub_->options().max_frame_bytes; }
  uint8_t* allocate(size_t bytes) override { return memory_.allocate(bytes); }

  size_t send(const TxFrame* frames, size_t count) override {
    for (size_t i = 0; i < count; ++i) hub_->deliver(local(), *frames[i].to, frames[i].data, frames[i].size);
    return count;
  }

  size_t receive(RxFrame* frames, size_t count) override {
    const std::lock_guard<std::mutex> lock(mailbox_->mutex);
    const size_t got = std::min(count, mailbox_->frames.size());
    for (size_t i = 0; i < got; ++i) {
      auto& [from, bytes] = mailbox_->frames.front();
      lent_.push_back(std::move(bytes));     // moving a vector leaves its bytes where they are
      frames[i].data = lent_.back().data();  // No more than what a socket knows is set.
      frames[i].size = static_cast<uint32_t>(lent_.back().size());
      frames[i].from = from;
      mailbox_->frames.pop_front();
    }
    return got;
  }
  void release() override { lent_.clear(); }

  void wait(Duration timeout) override {
    sleep(timeout, [&] { return mailbox_->woken || !mailbox_->frames.empty(); });
  }
  void pause(Duration timeout) override {
    sleep(timeout, [&] { return mailbox_->woken; });
  }
  void wake() override {
    {
      const std::lock_guard<std::mutex> lock(mailbox_->mutex);
      mailbox_->woken = true;
    }
    mailbox_->changed.notify_one();
  }
  std::string take_error() override { return {}; }

 private:
  template <typename Over>
  void sleep(Duration timeout, const Over& over) {
    std::unique_lock<std::mutex> lock(mailbox_->mutex);
    // A longer sleep would overflow the clock's arithmetic; returning early is allowed.
    mailbox_->changed.wait_for(lock, std::min<Duration>(timeout, std::chrono::hours(1)), over);
    mailbox_->woken = false;
  }

  const std::shared_ptr<InprocHub> hub_;
  const uint32_t number_;
  const std::shared_ptr<inproc::Mailbox> mailbox_;
  FrameMemory memory_;
  std::vector<inproc::Bytes> lent_;
};

inline std::unique_ptr<Transport> InprocHub::attach() {
  auto mailbox = std::make_shared<inproc::Mailbox>();
  const std::lock_guard<std::mutex> lock(mutex_);
  mailboxes_[++last_] = mailbox;
  return std::make_unique<InprocTransport>(shared_from_this(), last_, std::move(mailbox));
}

}  // namespace switchml
