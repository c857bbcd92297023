// What the calls of one process group share; kept alive by those that are under way.
#pragma once

#include <atomic>
#include <chrono>
#include <condition_variable>
#include <cstdint>
#include <deque>
#include <functional>
#include <memory>
#include <mutex>
#include <optional>
#include <string>
#include <utility>
#include <vector>

#include "c10d/abort_hooks.h"
#include "c10d/call_table.h"
#include "c10d/compat.h"
#include "c10d/completion.h"
#include "c10d/completion_hooks.h"
#include "c10d/device_staging.h"
#include "c10d/timeout_extensions.h"
#include "session/session.h"
#include "socket/close_on_fork.h"

namespace switchml {

/// Keeps the order of a group's calls while one of them is issued piece by piece. Thread-safe.
class CallOrder {
 public:
  bool is_held() const { return held_.load(std::memory_order_acquire); }
  /// Whether a call may be launched now; else `launch` runs when its turn has come. `holds`: those that come after it
  /// wait until release().
  bool pass(std::function<void()> launch, bool holds);
  /// All pieces of the call that holds the others are issued.
  void release();

 private:
  struct Waiting {
    std::function<void()> launch;
    bool holds;
  };
  std::mutex mutex_;
  std::deque<Waiting> waiting_;
  std::atomic<bool> held_{false};  // A call holds the others, or some still wait.
  bool holding_ = false;
  bool launching_ = false;  // A thread launches those that wait.
};

/// "switchml all_reduce on rank 1 of 4 (group default_pg)".
std::string call_context(const GroupInfo& group, Call call);

/// Thread-safe.
class GroupCore {
 public:
  /// `global_ranks`: of its members, where they are not 0, 1, ... `world`: which world they count in; null: not known.
  /// `pinned_limit`: PinnedBytes::limit(). `blocks_hosts`: waits for results on devices do.
  explicit GroupCore(GroupInfo group, std::vector<uint64_t> global_ranks = {}, const void* world = nullptr,
                     size_t pinned_limit = 0, bool blocks_hosts = false);

  /// Whether this process is a child that was forked from the group's: it has none of the group's threads.
  bool inherited() const { return fork_generation() != born_in_; }

  const GroupInfo& group() const { return *group_; }
  const std::shared_ptr<const GroupInfo>& shared_group() const { return group_; }
  CallTable& calls() { return calls_; }
  CompletionPool& pool() { return pool_; }
  /// What copies tensors of accelerators: inputs on level 0, results on level 1.
  CompletionPool& stager() { return stager_; }
  const std::shared_ptr<PinnedBytes>& pinned() const { return pinned_; }
  bool blocks_hosts() const { return blocks_hosts_; }
  CallOrder& order() { return order_; }
  /// The order of messages that this rank sends.
  CallOrder& sends() { return sends_; }
  /// Makes the pool's first thread. Throws where the system gives none, in the name of `call`.
  void start_pool(Call call);

  /// Its number in FlightLog::of_process().
  uint64_t flight_group() const { return flight_group_; }

  /// Number of this collective in the group, from 1.
  uint64_t next_sequence() { return sequence_.fetch_add(1, std::memory_order_relaxed) + 1; }
  uint64_t sequence() const { return sequence_.load(std::memory_order_relaxed); }
  void set_sequence(uint64_t sequence) { sequence_.store(sequence, std::memory_order_relaxed); }

  std::string context(Call call) const { return call_context(*group_, call); }

  /// Null in a group of one, after close(), and in a forked child.
  std::shared_ptr<Session> session() const;
  void set_session(std::shared_ptr<Session> session);
  /// Forgets the session; later calls fail with `reason`. The first reason stays.
  std::shared_ptr<Session> close(const Status& reason);
  /// Ok while the group can be used: not in a forked child.
  Status closed() const;
  /// closed(), or why the session failed.
  Status health() const;

  /// Tells the live page how many packets there were.
  void show_packets() const;

  /// Which rank of this group is gone, as `other`, another group of this process and world, knows; else ok.
  Status gone_from(const GroupCore& other) const;

  /// A call has failed, or will, and with it the session: its engine may know that a moment later. The first reason
  /// stays.
  void call_failed(const Status& why);
  /// Why the first call failed, or health(). Known before anybody hears of that call's failure.
  Status failure() const;

  AbortHooks& abort_hooks() { return abort_hooks_; }
  CompletionHooks& completion_hooks() { return completion_hooks_; }
  TimeoutExtensions& extensions() { return extensions_; }
  /// A call has failed. If that is the end of the group its abort hooks run, before anybody hears of the failure.
  void after_failure();

  /// Whether calls that begin from now on tell how long they took.
  bool timed() const { return timed_.load(std::memory_order_relaxed); }
  void time_calls() { timed_.store(true, std::memory_order_relaxed); }

  /// Which way calls of the group's engine go.
  Way engine_way() const { return engine_way_.load(std::memory_order_relaxed); }
  /// Which way messages between its ranks go.
  Way message_way() const { return engine_can_exchange() ? Way::kMemory : Way::kPeers; }
  /// Whether the group's engine does an all_to_all; the same on all ranks. A group of one needs none for that.
  bool engine_can_exchange() const;

  /// check_interruption(). What it throws ends the session on all ranks, which are told what this one waited for.
  void let_signals_in(const std::string& what);
  /// This rank does not go on: the session ends on all ranks, with `why`.
  void give_up(const std::string& why);
  /// Copies the inputs of a call; `session`, where it is not null, waits for them. An error ends the session, too, and
  /// so does the passing of `deadline`.
  Status feed(DeviceCopies& copies, const std::shared_ptr<Session>& session, Time deadline = kNever);
  /// How long the group has ended, or rests; nullopt: it does neither.
  std::optional<Duration> ended_for() const;
  /// Lets both pools end what they do. Nothing may be under way.
  void rest();

  /// Calls on their way through the switch: one begins, one has ended, wait for all (false: `limit` passed first).
  void begin_operation();
  void end_operation();
  bool wait_until_landed(std::chrono::milliseconds limit);

  /// The session's comparison of what each rank called, made once: the first disagreement is the one that matters.
  std::string compare_calls(const std::string& mine);

 private:
  const std::shared_ptr<const GroupInfo> group_;
  const std::vector<uint64_t> global_ranks_;
  const void* const world_;
  const unsigned born_in_ = fork_generation();
  const uint64_t flight_group_;
  CallTable calls_;
  CallOrder order_;
  CallOrder sends_;
  const std::shared_ptr<PinnedBytes> pinned_;
  const bool blocks_hosts_;
  std::atomic<uint64_t> sequence_{0};
  std::atomic<bool> timed_{false};
  std::atomic<Way> engine_way_{Way::kLocal};
  AbortHooks abort_hooks_;
  CompletionHooks completion_hooks_;
  TimeoutExtensions extensions_;

  mutable std::mutex mutex_;
  std::condition_variable landing_;
  std::shared_ptr<Session> session_;
  Status closed_;
  Status call_failure_;
  size_t in_flight_ = 0;
  bool rests_ = false;
  mutable std::optional<Time> ended_at_;  // When ended_for() has seen it first.

  std::once_flag compared_;
  std::string comparison_;

  CompletionPool pool_;  // last, with the next: their threads end before the rest goes
  CompletionPool stager_;
};

/// The copies of one call of the group. They settle on the group's stager when the last reference goes. Throws as
/// DeviceCopies does.
std::shared_ptr<DeviceCopies> new_copies(const std::shared_ptr<GroupCore>& core, const c10::Device& device,
                                         const char* call);

/// Collectives that were issued and may still run, for a barrier to wait for. Holds no tensor. Thread-safe.
class Outstanding {
 public:
  using WeakWork = c10::weak_intrusive_ptr<c10d::Work>;
  void add(const c10::intrusive_ptr<c10d::Work>& work);
  std::vector<WeakWork> all() const;
  void clear();

 private:
  static constexpr size_t kSweepAt = 64;  // forget completed ones at this length

  mutable std::mutex mutex_;
  std::deque<WeakWork> works_;
  size_t sweep_at_ = kSweepAt;
};

}  // namespace switchml
