// Two engines of one group as one: sums that a switch of integers can add go through that switch, if they are large
// enough, and everything else through the exact engine, with its aggregators on the ranks' hosts. What goes through the
// switch is announced there, so that all calls have one order, and ranks that disagree find out whichever engine each
// of them chose.
#pragma once

#include <atomic>
#include <memory>
#include <mutex>
#include <string>
#include <utility>
#include <vector>

#include "engine/engine.h"

namespace switchml {

/// Elements up to which a sum goes exactly though the switch could add it, by default. One of few is mostly a metric, a
/// loss or a norm. Its elements differ so much in size that a block of integers would lose some of them.
constexpr size_t kFewElements = 8192;  // [PAIR-1]

/// Engines that fail together: with what one of them fails, the others do. Thread-safe.
class SharedFate {
 public:
  /// One of them has failed; from a thread of its own too. The first failure counts.
  void fail(const Status& status);
  /// Those that fail then, borrowed until forget(); at once if one has failed before.
  void bind(Engine& switched, Engine& exact);
  /// Returns when no engine is touched any more.
  void forget();

 private:
  void tell();  // under mutex_

  std::atomic<bool> failed_{false};
  std::mutex mutex_;
  Status failure_;
  std::vector<Engine*> engines_;
};

/// The pair. Borrows both engines; `switched` adds integers, `exact` takes everything, and up to `few` elements (the
/// same on all ranks) in any case. The counters of `switched` come first.
class PairedEngine final : public Engine {
 public:
  PairedEngine(Engine& switched, Engine& exact, size_t few) : switched_(switched), exact_(exact), few_(few) {}

  void submit(Collective collective) override;
  bool sums_to_float32() const override { return exact_.sums_to_float32(); }
  void wake() override;
  void abort(const std::string& reason) override;
  void fail(const Status& status) override;

  Status status() const override;
  int shards() const override { return switched_.shards() + exact_.shards(); }
  const WorkerCounters& counters(int shard) const override;
  size_t memory_bytes() const override { return switched_.memory_bytes() + exact_.memory_bytes(); }

 private:
  /// A function of what ranks agree about.
  bool goes_to_switch(const Collective& collective) const;

  Engine& switched_;
  Engine& exact_;
  const size_t few_;
  std::mutex order_;  // Calls have one order in both.
};

}  // namespace switchml
