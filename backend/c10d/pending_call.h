// A call on its way through the engine: its parts, and what becomes of their results.
#pragma once

#include <atomic>
#include <functional>
#include <memory>
#include <mutex>
#include <optional>
#include <string>
#include <utility>
#include <vector>

#include "c10d/engine_call.h"
#include "c10d/integer_mean.h"

namespace switchml {

using Collectives = c10::SmallVector<Collective, 1>;

/// What a call has in memory, and how it gets to where the caller wants it.
struct Results {
  c10::SmallVector<at::Tensor, 2> kept;  // The parts point to this memory.
  std::vector<IntegerMean> means;
  c10::SmallVector<HostView, 1> outputs;
  std::vector<std::pair<at::Tensor, at::Tensor>> copies;  // From, to.

  void write() {
    for (const IntegerMean& mean : means) mean.write();
    for (HostView& view : outputs) view.write_back();
    for (auto& [from, to] : copies) to.copy_(from);
  }
};

/// Shared by the engine's callbacks; the last of them hands it to the completion pool.
class EngineCall::Pending : public std::enable_shared_from_this<EngineCall::Pending> {
 public:
  explicit Pending(std::shared_ptr<GroupCore> core_) : core(std::move(core_)) {}

  std::optional<OpenCall> call;  // Once it is issued.

  /// `waits`: this thread does what it can of it.
  void launch(bool waits);

  std::shared_ptr<GroupCore> core;
  Collectives parts;
  size_t parts_of_each = 1;  // tensor
  Results results;
  std::vector<Outstanding::WeakWork> before;
  const char* operation = "";
  int root = -1;                         // The root of a reduce.
  std::string detail;                    // Follows operation, type and count in messages.
  std::string what;                      // Replaces operation, type and count in messages.
  std::shared_ptr<DeviceCopies> copies;  // Null unless tensors of an accelerator are staged.
  bool inputs_first = false;             // It is issued when all of them are there.
  bool is_elsewhere = false;             // Where it begins, calls that follow are held back: no callback may run there.
  bool refused = false;                  // By Exchange::on_sizes_known, which knows what all have called.
  std::function<void(const std::shared_ptr<Pending>&)> more;  // EngineCall::then()

 private:
  bool feeds_first() const { return copies && (inputs_first || core->group().size == 1); }

  void begin(bool waits);
  void start(bool waits);
  void fly(Engine& engine, bool waits);
  void gate();
  size_t bytes() const;
  /// One part less; whether it was the last, which takes `self_`: a thread of the engine must not keep this.
  bool ended(const Status& outcome);
  static void post(std::shared_ptr<Pending> self);
  void complete();
  void go_on();
  bool awaits_earlier() const;
  /// Its errors are thrown to those that wait for that work itself.
  static void wait_for(const Outstanding::WeakWork& weak);
  [[noreturn]] void throw_failure();
  /// "call 7: all_reduce(SUM, float32, 100 elements)".
  std::string describe() const;

  std::shared_ptr<Pending> self_;  // While parts are unfinished.
  std::mutex mutex;
  Status status;  // the first error
  std::atomic<size_t> unfinished{0};
};

}  // namespace switchml
