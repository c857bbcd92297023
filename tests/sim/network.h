// The network: frames under way, and everything that may happen to them there. Virtual time, seeded chance.
#pragma once

#include <cstdint>
#include <functional>
#include <queue>
#include <vector>

#include "base/clock.h"
#include "nodes.h"
#include "random.h"
#include "record.h"

namespace switchml::sim {

/// How bad the network is. Probabilities are per frame.
struct Weather {
  double loss = 0;
  double duplicate = 0;
  double late = 0;           // held back for 5 ms to `latest`: past several uses of a slot
  double damage_caught = 0;  // dropped by a checksum
  double damage_passed = 0;  // delivered all the same
  Duration base = microseconds(20);
  Duration jitter = microseconds(30);  // more than the base: overtaking
  Duration latest = milliseconds(100);
};
Weather draw_weather(Random& random);

struct Delivery {
  int from = 0;
  int to = 0;
  bool damaged = false;  // The network's checksum has not found it.
  std::vector<uint8_t> bytes;
};

class Network {
 public:
  /// Changes some bits of a frame if a receiver may find the damage; false: it must stay as it is.
  using Damage = std::function<bool(std::vector<uint8_t>* bytes)>;
  Network(Random* random, Record* record, Damage damage);

  void set_weather(const Weather& weather) { weather_ = weather; }
  const Weather& weather() const { return weather_; }
  /// Cuts a host off until `until`. Frames that have left it may still arrive.
  void cut(int node, Time until) { cut_until_[static_cast<size_t>(host_of(node))] = until; }
  /// Cuts the link from one host to another until `until`; frames on it are lost. The way back is another link.
  void cut_link(int from, int to, Time until);

  void send(int from, int to, const uint8_t* data, size_t size);
  /// When the next frame arrives; kNever if none is under way.
  Time next() const { return queue_.empty() ? kNever : queue_.top().at; }
  /// Takes a frame that has arrived by now; false if there is none.
  bool pop(Time now, Delivery* out);
  /// Gives a delivered frame's memory back.
  void recycle(std::vector<uint8_t> bytes) { free_.push_back(std::move(bytes)); }
  size_t under_way() const { return queue_.size(); }

 private:
  struct Flying {
    Time at;
    uint64_t order;
    size_t place;  // Index into places_.
  };
  struct Later {
    bool operator()(const Flying& a, const Flying& b) const { return a.at != b.at ? a.at > b.at : a.order > b.order; }
  };
  struct Link {
    int from;  // Both are hosts.
    int to;
    Time cut_until;
  };
  struct Place {
    Delivery delivery;
    uint64_t order = 0;
  };
  bool is_cut(int node) const { return record_->now() < cut_until_[static_cast<size_t>(host_of(node))]; }
  bool is_link_cut(int from, int to) const;
  /// Whether a cut loses a frame between the two, or at the receiver; then it is counted.
  bool takes(bool host_is_cut, int from, int to);
  Duration delay();
  void launch(int from, int to, const uint8_t* data, size_t size);
  size_t free_place();

  Random* random_;
  Record* record_;
  Damage damage_;
  Weather weather_;
  std::vector<Time> cut_until_;
  std::vector<Link> links_;              // Cut links.
  std::vector<uint64_t> highest_order_;  // Destination -> highest delivered order.
  std::priority_queue<Flying, std::vector<Flying>, Later> queue_;
  std::vector<Place> places_;
  std::vector<size_t> free_places_;
  std::vector<std::vector<uint8_t>> free_;
  uint64_t sent_ = 0;
};

}  // namespace switchml::sim
