// A queue pair: its way from nothing to a connection, and what it has under way.
#pragma once

#include <array>
#include <cstdint>
#include <deque>
#include <optional>
#include <string>
#include <vector>

#include "transport/rdma/port.h"
#include "wire/layout.h"

namespace switchml::rdma {

inline constexpr uint32_t kMostInline = 64;  // bytes: headers, requests and replies

/// What an unreliable pair's peer writes to. [RDMA-10]
struct PlaceMemory {
  uint8_t bits = 0;  // a place has 2^bits bytes
  uint32_t rkey = 0;
  uint64_t address = 0;
};

/// What the end of a pair must know of the other end.
struct PairInfo {
  uint32_t number = 0;  // the queue pair's, 24 bits
  uint32_t first_psn = 0;
  ibv_gid gid{};
  ibv_mtu mtu = IBV_MTU_256;
  wire::Service service = wire::Service::kReliableConnected;
  PlaceMemory places;  // unreliable pairs only

  wire::Introduction introduction() const;
  /// Empty: it is none of this service.
  static std::optional<PairInfo> read(const wire::Introduction& introduction, wire::Service service);
  friend bool operator==(const PairInfo& a, const PairInfo& b);
};

/// Buffers that hold copies until a card has sent them; several pairs may send the same one.
class SendBuffers {
 public:
  SendBuffers(uint8_t* memory, size_t stride, int count);
  /// An index; -1: all are in use.
  int take();
  uint8_t* data(int index) const { return memory_ + stride_ * static_cast<size_t>(index); }
  void keep(int index) { ++users_[static_cast<size_t>(index)]; }
  void release(int index);
  /// Messages with those that are left must say when they are complete.
  bool are_scarce() const { return 2 * free_.size() <= users_.size(); }
  /// Whether a pair that has so many may take another. Pairs with peers that take nothing leave some to the others. If
  /// one may not, buffers are scarce, and the end of a message in flight makes some free.
  bool are_for(size_t used) const { return used < free_.size(); }

 private:
  uint8_t* const memory_;
  const size_t stride_;
  std::vector<int> free_;
  std::vector<int> users_;
};

/// One thread. What it stands on outlives it.
class Pair {
 public:
  struct Parts {
    const Verbs* verbs;
    const Port* port;
    ibv_pd* domain;
    ibv_cq* received;  // takes completions of receives
    ibv_comp_channel* channel;
    SendBuffers* buffers;
    int depth = 0;                // messages under way, at most
    ibv_srq* receives = nullptr;  // reliable pairs only
    int own_receives = 0;         // the most receives of an unreliable pair
    PlaceMemory places = {};      // unreliable pairs only

    bool is_reliable() const { return receives != nullptr; }
  };

  /// Ready to be connected.
  static Result<std::unique_ptr<Pair>> create(const Parts& parts);
  Pair(const Pair&) = delete;
  Pair& operator=(const Pair&) = delete;
  /// It receives nothing any more, whatever the peer sends, and reads no buffer.
  ~Pair();

  const PairInfo& info() const { return info_; }
  Status connect(const PairInfo& peer);
  bool is_connected() const { return connected_; }
  const PairInfo& peer() const { return peer_; }
  /// Why nothing can be sent or received; empty: it can.
  const std::string& broken() const { return broken_; }
  void set_broken(const std::string& why);
  /// The card takes no further shared receive for it, and tells of the last.
  void set_flushed() { is_flushed_ = true; }
  /// Whether it may end without taking a shared receive with it, once completions that are there are taken.
  /// Precondition: it is broken.
  bool may_end() const { return (is_flushed_ && under_way_.empty()) || !connected_ || !is_in_error_; }

  struct Message {
    std::array<ibv_sge, 2> pieces{};
    int count = 1;                         // pieces used
    const wire::Target* target = nullptr;  // the memory that it is written to; null: it is sent
    std::optional<uint32_t> immediate;     // network byte order; tells the peer of a write
    int buffer = -1;                       // it is in this one, released when the card has sent it; -1: none
  };
  /// Whether so many messages can be added before others are complete.
  bool has_room(size_t messages);
  /// Adds one to the next post(). Precondition: there is room.
  void add(const Message& message);
  /// Hands what was added to the card.
  void post();
  /// Takes completions: buffers become free, errors are seen.
  void poll();
  /// The next completion of a message ends the card's wait().
  Status arm();
  size_t buffers_in_use() const { return in_use_; }
  bool has_under_way() const { return !under_way_.empty(); }

  /// Lets the peer's immediates take so many more receives. Precondition: it is unreliable.
  void post_receives(int count);

 private:
  static constexpr size_t kChain = 64;  // messages that one post() hands over

  explicit Pair(const Parts& parts) : parts_(parts) {}
  Status open();
  bool wants_signal(int buffer) const;
  void finish(size_t count);
  void withdraw(size_t count);
  void post_last();
  void release(int buffer);

  const Parts parts_;
  Owned<ibv_cq> sent_;
  Owned<ibv_qp> pair_;
  PairInfo info_;
  PairInfo peer_;
  bool connected_ = false;
  std::string broken_;
  bool is_in_error_ = false;  // the card knows: a pair that it does not hold to be broken may still receive
  bool is_flushed_ = false;
  std::deque<int> under_way_;  // the buffer of each, -1: none; in the order of their numbers
  uint64_t first_ = 0;         // number of under_way_.front()
  size_t in_use_ = 0;          // buffers in under_way_
  int unsignaled_ = 0;         // since the last that will say that it is complete
  std::array<ibv_send_wr, kChain> chain_{};
  std::array<std::array<ibv_sge, 2>, kChain> pieces_{};
  size_t added_ = 0;
};

}  // namespace switchml::rdma
