// When the switch of a share is lost: the ranks hand each other what some have and others lack, and go on without it
// where they stopped; when it is back, or a controller has planned another one, they go there in the same way. No
// collective is repeated or lost.
#pragma once

#include <atomic>
#include <condition_variable>
#include <functional>
#include <memory>
#include <mutex>
#include <string>
#include <thread>
#include <vector>

#include "base/config.h"
#include "engine/switch_engine.h"
#include "failover/failback.h"
#include "failover/failback_pace.h"
#include "failover/news.h"
#include "failover/standby.h"
#include "store/rendezvous.h"
#include "store/store_channel.h"

namespace switchml {

struct FailoverOptions {
  Config config;
  GroupInfo group;
  SessionParameters session;
  ShareNumber share;
  std::vector<uint32_t> weights;  // All shares' weights.
  ControllerEntry controller;
  std::vector<int> leaders;     // the first rank of each host, which runs a switch in its place
  SwitchServer* own = nullptr;  // the group's switch if it runs in this process; borrowed
  /// Tells the other ranks; they call heard() with the text. Up to 255 bytes.
  std::function<void(const std::string& text)> tell;
};

/// Moves the streams of one share of a group's tensors. Thread-safe; has a thread of its own from the first loss or
/// offer on.
class Failover {
 public:
  /// All borrowed: they live longer.
  Failover(SwitchEngine& engine, Rendezvous& store, FailoverOptions options);
  /// stop().
  ~Failover();

  /// The switch is lost, as this rank has found. The first rank that finds it counts; returns at once.
  /// Those that are in its place are lost with a host, which ends the group.
  void begin(const std::string& why);
  /// What another rank told all.
  void heard(int rank, const std::string& text);
  /// A rank has left the group: no rank waits for it any more.
  void heard_leave(int rank);
  /// Rank 0: a controller has planned the tree `tree_id` for this share. All go there as soon as they can.
  void follow(uint64_t tree_id);
  /// Rank 0, of the first share: the shares are to have these weights, in their order, from some collective on.
  void share_out(const std::vector<uint32_t>& weights);
  /// Whether the streams go past the switch.
  bool moved() const;
  /// The session that the group has, or had last.
  SessionParameters session() const;
  /// Nothing begins any more. What others wait for is said first (at most 2 s); then a move that is under way fails.
  void stop();

 private:
  enum class Phase { kAtSwitch, kLost, kStandby, kBroken };
  using Step = void (Failover::*)();

  void leave_if_lost();                       // Under mutex_.
  void start_thread(const std::string& why);  // Under mutex_.
  void run();
  Step next_step();
  Step offer_wanted() const;  // Under mutex_.
  void leave_switch();
  Status go_without(const std::string& why);
  void offer();
  void offer_weights();
  void say_offer(int attempt);
  void accept_offer();
  void take_weights(const Blob& offer);
  void fail_back();
  void arrive(Failback::Found found);
  Failback failback();
  Status transfer(const std::string& purpose);
  /// Others do not wait for this rank any more; whether it may go on.
  bool end_transfer();
  Status may_wait(int rank, Duration waited);
  int moves() const;

  SwitchEngine& engine_;
  Relocatable& streams_;
  const FailoverOptions options_;
  StoreChannel channel_;
  std::atomic<bool> stopping_{false};

  mutable std::mutex mutex_;  // guards all below but what is said to be the thread's
  std::condition_variable changed_;
  Phase phase_ = Phase::kAtSwitch;
  bool closing_ = false;
  bool transferring_ = false;  // Others count on this rank, until end_transfer().
  int moves_ = 0;              // Moves that have ended.
  bool moved_ = false;
  News news_;  // this rank's own too
  SessionParameters session_;
  int taken_ = 0;                         // the last attempt that this rank went into, or never will
  uint64_t planned_ = 0;                  // the tree to go to; 0: none
  bool eager_ = false;                    // it is a new one: worth a try at once
  std::vector<uint32_t> weights_;         // The shares' present ones.
  std::vector<uint32_t> wanted_weights_;  // Empty: the present ones.
  std::thread thread_;

  // ---- the thread's ----
  std::string purpose_;  // Names the transfer under way, for messages.
  bool voting_ = false;  // An offer is being voted on.
  std::unique_ptr<Standby> standby_;
  FailbackPace pace_;
};

}  // namespace switchml
