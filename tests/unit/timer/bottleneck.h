// Flows through one link with a queue, in virtual time. What finds the queue full is lost, what finds it long is
// marked; who sent it hears of that when it would have been answered.
#pragma once

#include <algorithm>
#include <cstddef>
#include <cstdint>
#include <functional>
#include <queue>
#include <vector>

#include "base/clock.h"
#include "timer/congestion_window.h"

namespace switchml {

/// How many packets a flow may have under way.
class FlowWindow {
 public:
  virtual ~FlowWindow() = default;
  virtual int size() const = 0;
  virtual void on_answered(Duration round_trip, Time now) = 0;
  virtual void on_congestion(Time sent, Time now) = 0;
};

/// Ours, which has always more to send.
class CubicFlow final : public FlowWindow {
 public:
  explicit CubicFlow(int flows = 1, int most = 10000) : window_(5, most, flows) {}
  int size() const override { return window_.chunks(); }
  void on_answered(Duration round_trip, Time now) override { window_.on_answered(round_trip, false, now); }
  void on_congestion(Time sent, Time now) override { window_.on_congestion(sent, now); }

 private:
  CongestionWindow window_;
};

/// TCP as in RFC 5681, with nothing of ours in it.
class RenoFlow final : public FlowWindow {
 public:
  int size() const override { return static_cast<int>(window_); }
  void on_answered(Duration /*round_trip*/, Time /*now*/) override {
    window_ += window_ < threshold_ ? 1 : 1 / window_;
  }
  void on_congestion(Time sent, Time now) override {
    if (sent <= halved_at_) return;
    halved_at_ = now;
    threshold_ = window_ = window_ > 4 ? window_ / 2 : 2;
  }

 private:
  double window_ = 10;
  double threshold_ = 1e9;
  Time halved_at_ = Time::min();
};

struct Link {
  Duration packet;               // what one takes
  Duration round_trip;           // without a queue
  size_t queue = 0;              // packets
  size_t mark_above = SIZE_MAX;  // packets in the queue
};

class Bottleneck {
 public:
  struct Flow {
    FlowWindow* window;
    Time begins{};
    int under_way = 0;
    uint64_t arrived = 0;
    uint64_t lost = 0;
  };

  explicit Bottleneck(const Link& link) : link_(link) {}
  void add(FlowWindow* window, Time begins = {}) {
    flows_.push_back({window, begins});
    events_.push({begins, 0, flows_.size() - 1, Kind::kBegin, begins});
  }
  void run_until(Time end) {
    while (!events_.empty() && events_.top().at <= end) step();
    now_ = end;
  }
  void forget_counts() {
    for (Flow& flow : flows_) flow.arrived = flow.lost = 0;
  }
  const std::vector<Flow>& flows() const { return flows_; }

 private:
  enum class Kind { kBegin, kAnswered, kMarked, kLost };
  struct Event {
    Time at;
    uint64_t order;
    size_t flow;
    Kind kind;
    Time sent;
    bool operator<(const Event& other) const { return at != other.at ? at > other.at : order > other.order; }
  };

  void step() {
    const Event event = events_.top();
    events_.pop();
    now_ = event.at;
    Flow& flow = flows_[event.flow];
    if (event.kind != Kind::kBegin) --flow.under_way;
    if (event.kind == Kind::kMarked || event.kind == Kind::kLost) flow.window->on_congestion(event.sent, now_);
    if (event.kind == Kind::kMarked || event.kind == Kind::kAnswered) {
      ++flow.arrived;
      flow.window->on_answered(now_ - event.sent, now_);
    }
    while (flow.under_way < flow.window->size()) send(event.flow);
  }
  void send(size_t index) {
    Flow& flow = flows_[index];
    ++flow.under_way;
    const Time begins = std::max(now_, free_at_);
    const auto before = static_cast<size_t>((begins - now_) / link_.packet);
    Kind kind = before > link_.mark_above ? Kind::kMarked : Kind::kAnswered;
    if (before >= link_.queue) {
      kind = Kind::kLost;
      ++flow.lost;
    } else {
      free_at_ = begins + link_.packet;
    }
    events_.push({std::max(free_at_, now_) + link_.round_trip, ++order_, index, kind, now_});
  }

  const Link link_;
  std::vector<Flow> flows_;
  std::priority_queue<Event> events_;
  uint64_t order_ = 0;
  Time now_{};
  Time free_at_{};
};

}  // namespace switchml
