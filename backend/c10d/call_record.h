// A call of a process group as statistics, the flight log, profiles, timeouts and hooks hear of it, whichever way it
// goes.
#pragma once

#include <chrono>
#include <memory>
#include <optional>
#include <string>
#include <vector>

#include "base/clock.h"
#include "c10d/group_core.h"

namespace switchml {

/// From now to `deadline`, rounded up; 0: there is none.
std::chrono::milliseconds time_until(Time deadline);

/// Lists of tensors, mostly one.
using OutputLists = c10::SmallVector<std::vector<at::Tensor>, 1>;

/// A value, which does not keep the group. In order: the constructor, log(), begin(), started(), ended(), succeeded().
class CallRecord {
 public:
  /// A call of no group, of which nothing is told.
  explicit CallRecord(std::string context, uint64_t sequence = 0);
  /// Counts the call. A collective gets the group's next number, a message that of the last collective.
  CallRecord(const std::shared_ptr<GroupCore>& core, Call call, Way way);
  /// A precheck accompanies a call that is counted, has its number, and is not told of.
  static CallRecord of_precheck(const std::shared_ptr<GroupCore>& core, Call call);

  /// The call enters the flight log. `timeout`: 0 is none.
  void log(at::ArrayRef<at::Tensor> inputs, at::ArrayRef<std::vector<at::Tensor>> outputs,
           std::chrono::milliseconds timeout);
  /// It is timed from now on, if the group's calls are timed, and takes up the extensions of timeouts.
  void begin();
  /// It was handed to what carries it out.
  void started() const;
  /// The other end of a message. Negative: it is not known yet.
  void set_peer(int peer, int tag) const;
  /// GroupCore::let_signals_in(), for a wait of this call.
  void let_signals_in() const;
  /// The call is over. Before its work completes.
  void ended(bool good, std::optional<float> duration_ms = {}) const;
  /// After its work has completed without an error: runs the hooks. `key`: compat::completion_key() of its work.
  void succeeded(uint64_t key, std::optional<float> duration_ms = {}) const;

  /// "switchml all_reduce on rank 1 of 4 (group default_pg)".
  std::string context() const { return group_ ? call_context(*group_, call_) : context_; }
  /// The name of the call in a profile; null: it has none.
  const char* title() const { return is_told_ ? profiling_title(call_) : nullptr; }
  uint64_t sequence() const { return sequence_; }
  /// When it began, if it is timed.
  std::optional<Time> begun() const { return begun_; }

 private:
  CallRecord(const std::shared_ptr<GroupCore>& core, Call call, uint64_t sequence, bool is_told);

  std::weak_ptr<GroupCore> core_;
  std::shared_ptr<const GroupInfo> group_;  // Null of a call of no group.
  Call call_ = Call::kAllReduce;
  std::string context_;  // Of a call of no group.
  uint64_t sequence_ = 0;
  bool is_told_ = false;
  uint64_t flight_ = 0;  // The number in FlightLog; 0: it has none.
  std::optional<Time> begun_;
  uint64_t extension_ = 0;  // TimeoutExtensions::take_up()
};

}  // namespace switchml
