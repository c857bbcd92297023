#include "engine/paired_engine.h"

#include <algorithm>
#include <utility>

#include "base/fnv.h"
#include "format/task.h"

namespace switchml {

namespace {

// No elements, but all that ranks must agree about.
Collective announcement_of(const Collective& collective) {
  Collective announced;
  announced.op = collective.op;
  announced.type = collective.type;
  announced.operands()->divisor = collective.operands()->divisor;
  announced.deadline = collective.deadline;
  announced.sequence = collective.sequence;
  announced.title = collective.title;
  announced.tag = fnv1a(&collective.count, sizeof collective.count, collective.tag);  // [PAIR-2]
  announced.total_count = std::max(collective.count, collective.total_count);
  return announced;
}

}  // namespace

// An engine that is told says so again, from within.
void SharedFate::fail(const Status& status) {
  if (failed_.exchange(true)) return;
  const std::lock_guard<std::mutex> lock(mutex_);
  failure_ = status;
  tell();
}

void SharedFate::bind(Engine& switched, Engine& exact) {
  const std::lock_guard<std::mutex> lock(mutex_);
  engines_ = {&switched, &exact};
  if (!failure_.ok()) tell();
}

void SharedFate::forget() {
  const std::lock_guard<std::mutex> lock(mutex_);
  engines_.clear();
}

void SharedFate::tell() {
  for (Engine* engine : engines_) engine->fail(failure_);
}

bool PairedEngine::goes_to_switch(const Collective& collective) const {
  return !collective.exactly && collective.operands() != nullptr && collective.op != ReduceOp::kBarrier &&
         collective.count > few_ && integer_can(collective.op, collective.type);
}

void PairedEngine::submit(Collective collective) {
  const std::lock_guard<std::mutex> lock(order_);
  if (!goes_to_switch(collective)) {
    exact_.submit(std::move(collective));
    return;
  }
  Collective announced = announcement_of(collective);
  const auto both = std::make_shared<SharedCollective>(collective, 2);
  announced.done = collective.done = [both](const Status& outcome) { both->finish(outcome); };
  exact_.submit(std::move(announced));  // [PAIR-2]
  switched_.submit(std::move(collective));
}

void PairedEngine::wake() {
  switched_.wake();
  exact_.wake();
}

void PairedEngine::abort(const std::string& reason) {
  switched_.abort(reason);
  exact_.abort(reason);
}

void PairedEngine::fail(const Status& status) {
  switched_.fail(status);
  exact_.fail(status);
}

Status PairedEngine::status() const {
  const Status status = switched_.status();
  return status.ok() ? exact_.status() : status;
}

const WorkerCounters& PairedEngine::counters(int shard) const {
  return shard < switched_.shards() ? switched_.counters(shard) : exact_.counters(shard - switched_.shards());
}

}  // namespace switchml
