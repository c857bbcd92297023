// Opening a session: the ranks of a group agree on a switch, a job and a secret through a key-value store, every rank
// joins with each of its sockets, and an engine starts. Where no switch is named and ranks are on several hosts, the
// first rank of each host hosts one for a part of every tensor.
#pragma once

#include <functional>
#include <map>
#include <memory>
#include <string>
#include <vector>

#include "base/config.h"
#include "engine/engine.h"
#include "shm/arena.h"
#include "shm/messages.h"
#include "store/rendezvous.h"
#include "switchd/server.h"

namespace switchml {

class ControllerClient;

class Session {
 public:
  /// A collective of the group: every rank calls it. Returns by `deadline`, until when ranks wait for each other, with
  /// an engine or with an error that is the same on all ranks where they could talk: it names the rank that did not
  /// come, the address that does not answer (for Config::connect_timeout), the setting or version in which a rank
  /// differs from rank 0, or the thread that a rank could not make. An interruption (base/interruption.h) is thrown,
  /// and an error of the others. `controller` (null: none can be had) is asked where Config::controller names one; with
  /// Config::fallback from a thread of the session too. `ended` (null: none) is asked while ranks are awaited: its
  /// error says why that is of no use.
  static Result<std::unique_ptr<Session>> open(const Config& config, const GroupInfo& group, Rendezvous& store,
                                               Time deadline, std::shared_ptr<ControllerClient> controller = nullptr,
                                               std::function<Status()> ended = nullptr);
  /// Leaves the session, stops the engine, then the embedded switch. A rank that hosts one lingers (at most 2 s)
  /// until the others have left, so that the last results still reach them, unless a rank is lost.
  virtual ~Session() = default;

  /// This rank has made its last call and is about to leave. With Config::fallback it stays until all others are as far
  /// (at most failure_timeout), because one that loses the switch now may need what this one knows; then nothing of the
  /// kind begins any more. Call it before the engine is aborted. Idempotent.
  virtual void await_others() = 0;

  virtual Engine& engine() = 0;
  /// How floats are summed; the same on all ranks, as long as the session lasts. "exact": rounded once by each who
  /// adds. "integer": by a switch of integers. "mixed": more than kFewElements by such a switch, and exactly otherwise.
  virtual std::string precision() const = 0;
  /// Whether the engine takes such a collective; likewise.
  virtual bool can(ReduceOp op, ElementType type) const = 0;
  /// Whether the engine moves bytes (format/collective.h, Movement); and whether also in an Exchange; likewise.
  virtual bool can_move() const = 0;
  virtual bool can_exchange() const = 0;
  /// Where tensors are allocated that all ranks see (shm/arena.h); null: nowhere. Outlives the session where it is
  /// held.
  virtual std::shared_ptr<shm::Arena> arena() const { return nullptr; }
  /// What carries messages between the ranks, which are all on one host; null: nothing of the session's. They end with
  /// the engine.
  virtual std::shared_ptr<shm::Messages> messages() const { return nullptr; }
  /// Of the switch that the group has, or had last; the first where it has several.
  virtual SessionParameters parameters() const = 0;
  /// How messages call all of its switches, with ", " between them.
  virtual std::string switch_names() const = 0;
  /// Whether the switch was lost and the ranks go on without it, for now.
  virtual bool without_switch() const = 0;
  /// The embedded switch, or null.
  virtual const SwitchServer* embedded() const = 0;
  /// "udp", "tcp": every rank speaks to the switch. "shm": the ranks, all on one host, reduce in memory that they
  /// share, without any switch. "shm+udp", "shm+tcp": the ranks of each host share memory, and each host speaks to the
  /// switch as one worker.
  virtual std::string transport() const = 0;

  /// This rank does not go on with the others: the engine fails on all ranks, with "rank N (who) gave up: " and `why`.
  virtual void give_up(const std::string& why) = 0;

  /// `callback` (null: none any more) is told why when another rank's process has ended without leaving, or its host is
  /// out of reach; at once if that was so before. The engine has failed by then. From a thread of the session.
  virtual void when_rank_is_lost(std::function<void(const Status&)> callback) = 0;

  /// The ranks of which that is so until now, and how it was noticed: "rank 2 (host, process) is gone: ...".
  virtual std::map<int, std::string> gone_ranks() const { return {}; }

  /// Every rank posts what it thinks the failed call was and reads the others' posts: "rank 2 called all_reduce(SUM,
  /// float32, 100 elements)". Blocks for at most a second. For error messages after kMismatch.
  virtual std::string compare_calls(const std::string& mine) = 0;
};

}  // namespace switchml
