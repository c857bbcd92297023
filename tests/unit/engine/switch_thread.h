// Switches that run beside engines with their threads and the real clock, over the in-process transport.
#pragma once

#include <gtest/gtest.h>

#include <atomic>
#include <condition_variable>
#include <functional>
#include <memory>
#include <mutex>
#include <thread>
#include <vector>

#include "base/clock.h"
#include "engine/engine.h"
#include "softswitch/switch.h"
#include "transport/faulty.h"
#include "transport/inproc.h"
#include "wire/control.h"

namespace switchml::testing {

/// A switch on an in-process endpoint, with a thread of its own.
class SwitchThread : private softswitch::PacketSink {
 public:
  explicit SwitchThread(InprocHub& hub, const Faults& faults = {})
      : transport_(make_faulty_transport(hub.attach(), faults)), switch_({}), thread_([this] { run(); }) {}
  ~SwitchThread() override {
    stop_ = true;
    transport_->wake();
    thread_.join();
  }
  Endpoint address() const { return transport_->local(); }

  /// It hears nothing, and says nothing.
  std::atomic<bool> silent{false};

 private:
  void run() {
    while (!stop_) {
      RxFrame frames[16];
      const size_t n = transport_->receive(frames, 16);
      for (size_t i = 0; i < n && !silent; ++i)
        switch_.process(frames[i].data, frames[i].size, frames[i].from, monotonic_now(), *this);
      transport_->release();
      if (n == 0) transport_->wait(milliseconds(50));
    }
  }
  void unicast(const uint8_t* frame, size_t size, const Endpoint& to) override {
    const TxFrame tx{frame, static_cast<uint32_t>(size), &to};
    transport_->send(&tx, 1);
  }
  void multicast(const uint8_t* frame, size_t size, const Endpoint* const* to, size_t count) override {
    for (size_t i = 0; i < count; ++i) unicast(frame, size, *to[i]);
  }

  std::unique_ptr<Transport> transport_;
  softswitch::SoftSwitch switch_;
  std::atomic<bool> stop_{false};
  std::thread thread_;
};

/// Waits for a number of completions.
class Completions {
 public:
  std::function<void(const Status&)> add() {
    return [this](const Status& status) {
      const std::lock_guard<std::mutex> lock(mutex_);
      statuses_.push_back(status);
      changed_.notify_all();
    };
  }
  std::vector<Status> wait(size_t count) {
    std::unique_lock<std::mutex> lock(mutex_);
    changed_.wait_for(lock, std::chrono::seconds(20), [&] { return statuses_.size() >= count; });
    return statuses_;
  }

 private:
  std::mutex mutex_;
  std::condition_variable changed_;
  std::vector<Status> statuses_;
};

/// The reply to a control request of that number.
inline wire::Reply ask(Transport& transport, const Endpoint& to, const uint8_t* frame, size_t size, uint32_t request) {
  for (int attempt = 0; attempt < 200; ++attempt) {
    const TxFrame tx{frame, static_cast<uint32_t>(size), &to};
    transport.send(&tx, 1);
    transport.wait(milliseconds(100));
    RxFrame rx;
    wire::Reply reply;
    const bool got = transport.receive(&rx, 1) == 1 &&
                     wire::parse_reply(rx.data, rx.size, &reply) == wire::ParseError::kNone &&
                     reply.request_id == request;
    transport.release();
    if (got) return reply;
  }
  ADD_FAILURE() << "no reply";
  return {};
}

/// A session that the switch grants, for worker 0.
inline SessionParameters open_session(Transport& transport, const Endpoint& at, const wire::Open& open) {
  uint8_t frame[wire::kMaxControlBytes];
  const wire::Reply opened = ask(transport, at, frame, wire::build_open(open, 1, frame), 1);
  EXPECT_EQ(opened.status, wire::ReplyStatus::kOk);
  SessionParameters session;
  session.job = opened.open.job;
  session.epoch = opened.open.epoch;
  session.session_key = opened.open.session_key;
  session.slots = opened.open.slots;
  session.payload_bytes = opened.open.payload;
  session.exact = (opened.open.flags & wire::kOpenExact) != 0;
  session.workers = open.workers;
  session.shards = open.shards;
  session.switch_endpoint = at;
  session.switch_name = "test";
  return session;
}

inline void join(Transport& transport, const SessionParameters& session, int shard) {
  uint8_t frame[wire::kMaxControlBytes];
  wire::Membership member = session.membership();
  for (uint32_t request : {2U, 3U}) {  // and once more with the cookie
    const size_t size = wire::build_join(member, shard, request, frame);
    member.cookie = ask(transport, session.switch_endpoint, frame, size, request).join.cookie;
  }
}

}  // namespace switchml::testing
