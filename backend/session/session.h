// A running group: its ranks, what they work with, and what that can do. The ranks agree on it and join through a
// key-value store (session/agreement.h); then an engine starts. Where no switch is named and ranks are on several
// hosts, the first rank of each host hosts one for a part of every tensor; with precision=integer rank 0 alone hosts
// one. A switch that adds integers has the ranks' hosts beside it, which do exactly what it cannot, and by default
// sums of few elements.
#pragma once

#include <functional>
#include <map>
#include <memory>
#include <string>
#include <vector>

#include "base/config.h"
#include "engine/paired_engine.h"
#include "messages/messages.h"
#include "session/abilities.h"
#include "session/attachment.h"
#include "session/membership.h"
#include "shm/arena.h"
#include "store/rendezvous.h"
#include "switchd/server.h"

namespace switchml {

class ControllerClient;

class Session {
 public:
  /// A collective of the group: every rank calls it. Returns by `deadline`, until when ranks wait for each other, with
  /// an engine or with an error that is the same on all ranks where they could talk: it names the rank that did not
  /// come, the address that does not answer (for Config::connect_timeout), the setting or version in which a rank
  /// differs from rank 0, or the thread that a rank could not make. An interruption (base/interruption.h) is thrown
  /// here; the others get an error. `controller` (null: none can be had) is asked where Config::controller names one;
  /// with Config::fallback from a thread of the session too. `ended` (null: none) is asked while ranks are awaited: its
  /// error says why that is of no use.
  static Result<std::unique_ptr<Session>> open(const Config& config, const GroupInfo& group, Rendezvous& store,
                                               Time deadline, std::shared_ptr<ControllerClient> controller = nullptr,
                                               std::function<Status()> ended = nullptr);
  /// Ends the attachments (session/attachment.h).
  ~Session();
  Session(const Session&) = delete;
  Session& operator=(const Session&) = delete;

  /// This rank has made its last call and is about to leave. With Config::fallback it stays until all others are as far
  /// (at most failure_timeout), because one that loses the switch now may need what this one knows; then no failover
  /// begins any more. Call it before the engine is aborted. Idempotent.
  void await_others() { first_->await_others(); }

  Engine& engine() { return pair_ ? *pair_ : first_->engine(); }
  const Abilities& abilities() const { return abilities_; }
  /// Memory for tensors that all ranks, or this rank's card, reach in place (shm/arena.h); null: there is none. It
  /// outlives the session where it is held.
  std::shared_ptr<shm::Arena> arena() const { return exact_ ? nullptr : first_->arena(); }
  /// What carries messages between the ranks. They end with the engine.
  std::shared_ptr<Messages> messages() const {
    const std::shared_ptr<Messages> in_memory = exact_or_first().messages();
    return in_memory ? in_memory : first_->messages();
  }
  /// Calls and messages end with Code::kAborted, now and later.
  void abort(const std::string& reason);
  /// The session with the switch that the group has, or had last; the first where it has several.
  SessionParameters parameters() const { return first_->sessions().front(); }
  /// How messages call all of its switches, with ", " between them.
  std::string switch_names() const { return names_of(first_->sessions()); }
  /// Whether the switch was lost and the ranks go on without it, for now.
  bool without_switch() const { return first_->without_switch(); }
  /// The embedded switch, or null.
  const SwitchServer* embedded() const { return exact_or_first().embedded(); }

  /// This rank does not go on with the others: the engine fails on all ranks, with "rank N (its process) gave up: " and
  /// `why`.
  void give_up(const std::string& why);
  /// `callback` (null: none any more) is told why when another rank's process has ended without leaving, or its host is
  /// out of reach; at once if that was so before. The engine has failed by then. From a thread of the session.
  void when_rank_is_lost(std::function<void(const Status&)> callback) { membership_.when_lost(std::move(callback)); }
  /// The ranks that are lost so far, and how it was noticed: "rank 2 (host, process) is gone: ...".
  std::map<int, std::string> gone_ranks() const { return membership_.gone_ranks(); }
  /// Every rank posts what it thinks the failed call was and reads the others' posts: "rank 2 called all_reduce(SUM,
  /// float32, 100 elements)". Blocks for at most a second. For error messages after kMismatch.
  std::string compare_calls(const std::string& mine) { return membership_.compare_calls(mine); }

  Membership& membership() { return membership_; }

 private:
  Session(const GroupInfo& group, Rendezvous& store);
  Status attach(const Config& config, Time deadline, std::shared_ptr<ControllerClient> controller,
                std::function<Status()> ended);
  Status attach_hosts(const Config& config, Time deadline);
  const Attachment& exact_or_first() const { return exact_ ? *exact_ : *first_; }

  const std::shared_ptr<SharedFate> fate_;  // Of the engines of a pair.
  Membership membership_;
  const std::unique_ptr<Rendezvous> exact_store_;  // Keys of a pair's exact attachment.
  std::unique_ptr<Attachment> first_;              // To the group's switches, or to memory.
  std::unique_ptr<Attachment> exact_;              // To the ranks' hosts, beside a switch of integers.
  std::unique_ptr<PairedEngine> pair_;
  Abilities abilities_;
};

}  // namespace switchml
