// Gloo that does in memory what Gloo does over sockets, and remembers what it was asked for. It knows the types
// that Gloo knows and refuses the others, so a test sees whether a call would have reached Gloo in a form it accepts.
#pragma once

#include <functional>
#include <map>
#include <memory>
#include <mutex>
#include <stdexcept>
#include <string>
#include <utility>
#include <vector>

#include "c10d/compat.h"
#include "c10d/work.h"

namespace switchml {

using TensorList = std::vector<at::Tensor>;

/// One call of one rank. In-place calls have the same tensors as outputs and inputs.
struct GlooCall {
  std::string name;
  std::vector<TensorList> outputs;
  std::vector<TensorList> inputs;
  c10d::ReduceOp op;
  int root = 0;  // or the other end of a message; -1: any
  int tag = 0;
  std::vector<int64_t> output_splits;
  std::vector<int64_t> input_splits;
  c10::intrusive_ptr<SwitchWork> work;
};

/// Moves what the calls of all ranks ask for; `calls` has one per rank, all of the same name.
void carry_out(const std::vector<GlooCall>& calls);

/// Where the FakeGloos of one group meet: the n-th collectives of all ranks belong together, and complete when the last
/// of them has come. If they differ in name, or a reduction in size or type, they never do: Gloo may hang then.
/// Thread-safe.
class GlooMeeting {
 public:
  c10::intrusive_ptr<c10d::Work> collective(int rank, int size, GlooCall call);
  c10::intrusive_ptr<c10d::Work> send(int rank, GlooCall call);
  c10::intrusive_ptr<c10d::Work> receive(int rank, GlooCall call);
  /// Fails everything that waits: a group's end.
  void end();
  void made(int rank);

  /// What was asked for on a rank, in order.
  std::vector<GlooCall> calls(int rank);
  /// The last of them. Throws if there is none.
  GlooCall last(int rank);
  /// How many groups were made on a rank.
  int made_on(int rank);

 private:
  /// Remembers the call without its work, which must not outlive its group, and gives it a work.
  void note(int rank, GlooCall& call);
  void deliver(const GlooCall& sent, const GlooCall& received);

  std::mutex mutex_;
  std::map<int, std::vector<GlooCall>> calls_;
  std::map<int, int> made_;
  std::map<int, uint64_t> next_;                          // by rank
  std::map<uint64_t, std::map<int, GlooCall>> waiting_;   // collectives, by number and rank
  std::vector<std::pair<int, GlooCall>> sent_;            // messages without a receiver yet, with their sender
  std::vector<std::pair<int, GlooCall>> to_be_received_;  // receivers without a message yet
};

/// One rank's end of the meeting.
class FakeGloo final : public compat::Base {
 public:
  FakeGloo(std::shared_ptr<GlooMeeting> meeting, int rank, int size)
      : compat::Base(rank, size), meeting_(std::move(meeting)) {
    meeting_->made(rank);
  }
  ~FakeGloo() override { meeting_->end(); }
  const std::string getBackendName() const override { return "fake gloo"; }

  using Work = c10::intrusive_ptr<c10d::Work>;
  Work broadcast(TensorList& tensors, const c10d::BroadcastOptions& opts) override {
    return in_place("broadcast", tensors, {}, static_cast<int>(opts.rootRank));
  }
  Work allreduce(TensorList& tensors, const c10d::AllreduceOptions& opts) override {
    return in_place("allreduce", tensors, opts.reduceOp, 0);
  }
  Work allreduce_coalesced(TensorList& tensors, const c10d::AllreduceCoalescedOptions& opts) override {
    return in_place("allreduce_coalesced", tensors, opts.reduceOp, 0);
  }
  Work reduce(TensorList& tensors, const c10d::ReduceOptions& opts) override {
    return in_place("reduce", tensors, opts.reduceOp, static_cast<int>(opts.rootRank));
  }
  Work allgather(std::vector<TensorList>& outputs, TensorList& inputs, const c10d::AllgatherOptions&) override {
    return collective("allgather", outputs, {inputs}, 0);
  }
  Work _allgather_base(at::Tensor& output, at::Tensor& input, const c10d::AllgatherOptions&) override {
    return collective("_allgather_base", {{output}}, {{input}}, 0);
  }
  Work allgather_coalesced(std::vector<TensorList>& outputs, TensorList& inputs,
                           const c10d::AllgatherOptions&) override {
    return collective("allgather_coalesced", outputs, {inputs}, 0);
  }
  Work gather(std::vector<TensorList>& outputs, TensorList& inputs, const c10d::GatherOptions& opts) override {
    return collective("gather", outputs, {inputs}, static_cast<int>(opts.rootRank));
  }
  Work scatter(TensorList& outputs, std::vector<TensorList>& inputs, const c10d::ScatterOptions& opts) override {
    return collective("scatter", {outputs}, inputs, static_cast<int>(opts.rootRank));
  }
  Work alltoall_base(at::Tensor& output, at::Tensor& input, std::vector<int64_t>& output_splits,
                     std::vector<int64_t>& input_splits, const c10d::AllToAllOptions&) override {
    GlooCall call{"alltoall_base", {{output}}, {{input}}, {}, 0, 0, output_splits, input_splits, {}};
    return meeting_->collective(rank_, size_, checked(std::move(call)));
  }
  Work send(TensorList& tensors, int destination, int tag) override {
    return meeting_->send(rank_, checked({"send", {}, {tensors}, {}, destination, tag, {}, {}, {}}));
  }
  Work recv(TensorList& tensors, int source, int tag) override {
    return meeting_->receive(rank_, checked({"recv", {tensors}, {}, {}, source, tag, {}, {}, {}}));
  }
  Work recvAnysource(TensorList& tensors, int tag) override {
    return meeting_->receive(rank_, checked({"recvAnysource", {tensors}, {}, {}, -1, tag, {}, {}, {}}));
  }

 private:
  Work in_place(const char* name, const TensorList& tensors, const c10d::ReduceOp& op, int root) {
    return meeting_->collective(rank_, size_, checked({name, {tensors}, {tensors}, op, root, 0, {}, {}, {}}));
  }
  Work collective(const char* name, const std::vector<TensorList>& outputs, const std::vector<TensorList>& inputs,
                  int root) {
    return meeting_->collective(rank_, size_, checked({name, outputs, inputs, {}, root, 0, {}, {}, {}}));
  }
  /// Throws what Gloo would refuse.
  static GlooCall checked(GlooCall call);

  const std::shared_ptr<GlooMeeting> meeting_;
};

// ---- implementation ----

namespace fake_gloo {

inline bool knows(at::ScalarType type) {
  switch (type) {
    case at::kFloat:
    case at::kDouble:
    case at::kHalf:
    case at::kChar:
    case at::kByte:
    case at::kInt:
    case at::kLong: return true;
    default: return false;
  }
}

inline bool alike(const GlooCall& a, const GlooCall& b) {
  if (a.name != b.name) return false;
  if (a.name.find("reduce") == std::string::npos) return true;
  if (a.op.op_ != b.op.op_ || a.inputs[0].size() != b.inputs[0].size()) return false;
  for (size_t i = 0; i < a.inputs[0].size(); ++i) {
    const at::Tensor& one = a.inputs[0][i];
    const at::Tensor& other = b.inputs[0][i];
    if (one.scalar_type() != other.scalar_type() || one.numel() != other.numel()) return false;
  }
  return true;
}

inline at::Tensor combined(const at::Tensor& a, const at::Tensor& b, const c10d::ReduceOp& op) {
  switch (op.op_) {
    case c10d::ReduceOp::SUM: return at::add(a, b);
    case c10d::ReduceOp::PRODUCT: return at::mul(a, b);
    case c10d::ReduceOp::MIN: return at::minimum(a, b);
    case c10d::ReduceOp::MAX: return at::maximum(a, b);
    case c10d::ReduceOp::BAND: return at::bitwise_and(a, b);
    case c10d::ReduceOp::BOR: return at::bitwise_or(a, b);
    default: return at::bitwise_xor(a, b);
  }
}

/// Tensor `index` of all ranks, reduced.
inline at::Tensor reduced(const std::vector<GlooCall>& calls, size_t index) {
  at::Tensor total = calls[0].inputs[0][index].clone();
  for (size_t rank = 1; rank < calls.size(); ++rank) {
    total = combined(total, calls[rank].inputs[0][index], calls[0].op);
  }
  return total;
}

inline void reduce_all(const std::vector<GlooCall>& calls, bool only_root) {
  TensorList totals;
  for (size_t i = 0; i < calls[0].inputs[0].size(); ++i) totals.push_back(reduced(calls, i));
  if (calls[0].name == "allreduce") {  // sums across the list as well
    for (size_t i = 1; i < totals.size(); ++i) totals[0] = combined(totals[0], totals[i], calls[0].op);
    for (at::Tensor& total : totals) total = totals[0];
  }
  for (size_t rank = 0; rank < calls.size(); ++rank) {
    if (only_root && static_cast<int>(rank) != calls[0].root) continue;
    for (size_t i = 0; i < totals.size(); ++i) calls[rank].outputs[0][i].copy_(totals[i]);
  }
}

inline void exchange(const std::vector<GlooCall>& calls) {
  const size_t ranks = calls.size();
  for (size_t to = 0; to < ranks; ++to) {
    int64_t at = 0;
    for (size_t from = 0; from < ranks; ++from) {
      const auto splits_of = [ranks](const std::vector<int64_t>& splits, const at::Tensor& tensor) {
        if (!splits.empty()) return splits;
        return std::vector<int64_t>(ranks, tensor.size(0) / static_cast<int64_t>(ranks));
      };
      const at::Tensor& input = calls[from].inputs[0][0];
      const at::Tensor& output = calls[to].outputs[0][0];
      const std::vector<int64_t> given = splits_of(calls[from].input_splits, input);
      const std::vector<int64_t> taken = splits_of(calls[to].output_splits, output);
      int64_t begin = 0;
      for (size_t before = 0; before < to; ++before) begin += given[before];
      output.narrow(0, at, taken[from]).copy_(input.narrow(0, begin, given[to]));
      at += taken[from];
    }
  }
}

/// The n-th of a gathering's outputs on a rank, and of its inputs.
inline void gather_to(const std::vector<GlooCall>& calls, size_t rank) {
  const GlooCall& here = calls[rank];
  for (size_t from = 0; from < calls.size(); ++from) {
    const TensorList& input = calls[from].inputs[0];
    if (here.name == "_allgather_base") {
      const int64_t count = input[0].numel();
      const at::Tensor flat = here.outputs[0][0].view({-1});
      flat.narrow(0, static_cast<int64_t>(from) * count, count).copy_(input[0].reshape({-1}));
    } else if (here.name == "allgather_coalesced") {
      for (size_t i = 0; i < input.size(); ++i) here.outputs[from][i].copy_(input[i]);
    } else {
      here.outputs[0][from].copy_(input[0]);
    }
  }
}

}  // namespace fake_gloo

inline GlooCall FakeGloo::checked(GlooCall call) {
  for (const auto* lists : {&call.outputs, &call.inputs}) {
    for (const TensorList& list : *lists) {
      for (const at::Tensor& tensor : list) {
        if (!fake_gloo::knows(tensor.scalar_type())) {
          throw std::invalid_argument("fake gloo: " + call.name + " of " + c10::toString(tensor.scalar_type()));
        }
      }
    }
  }
  if (call.op.op_ == c10d::ReduceOp::AVG || call.op.op_ == c10d::ReduceOp::PREMUL_SUM) {
    throw std::invalid_argument("fake gloo: " + call.name + " with AVG or PREMUL_SUM");
  }
  return call;
}

inline void carry_out(const std::vector<GlooCall>& calls) {
  const at::AutoDispatchBelowADInplaceOrView like_writing_through_a_pointer;
  const std::string& name = calls[0].name;
  const auto root = static_cast<size_t>(calls[0].root);
  if (name == "allreduce" || name == "allreduce_coalesced" || name == "reduce") {
    fake_gloo::reduce_all(calls, name == "reduce");
  } else if (name == "alltoall_base") {
    fake_gloo::exchange(calls);
  } else if (name == "gather") {
    fake_gloo::gather_to(calls, root);
  } else {
    for (size_t rank = 0; rank < calls.size(); ++rank) {
      if (name == "broadcast") {
        if (rank != root) calls[rank].outputs[0][0].copy_(calls[root].inputs[0][0]);
      } else if (name == "scatter") {
        calls[rank].outputs[0][0].copy_(calls[root].inputs[0][rank]);
      } else {
        fake_gloo::gather_to(calls, rank);
      }
    }
  }
}

inline void GlooMeeting::note(int rank, GlooCall& call) {
  calls_[rank].push_back(call);
  call.work =
      c10::make_intrusive<SwitchWork>(rank, c10d::OpType::UNKNOWN, CallRecord("fake gloo: " + call.name), call.outputs);
}

inline c10::intrusive_ptr<c10d::Work> GlooMeeting::collective(int rank, int size, GlooCall call) {
  std::vector<GlooCall> all;
  {
    const std::lock_guard<std::mutex> lock(mutex_);
    note(rank, call);
    const uint64_t number = next_[rank]++;
    std::map<int, GlooCall>& round = waiting_[number];
    round[rank] = call;
    bool ready = round.size() == static_cast<size_t>(size);
    for (const auto& [unused, other] : round) ready = ready && fake_gloo::alike(other, call);
    if (!ready) return call.work;
    for (const auto& [unused, each] : round) all.push_back(each);
    waiting_.erase(number);
  }
  std::exception_ptr error;
  try {
    carry_out(all);
  } catch (...) {
    error = std::current_exception();
  }
  for (const GlooCall& each : all) {
    if (error) {
      each.work->fail(error);
    } else {
      each.work->succeed();
    }
  }
  return call.work;
}

inline void GlooMeeting::deliver(const GlooCall& sent, const GlooCall& received) {
  const at::AutoDispatchBelowADInplaceOrView like_writing_through_a_pointer;
  received.outputs[0][0].copy_(sent.inputs[0][0]);
  sent.work->succeed();
  received.work->succeed();
}

inline c10::intrusive_ptr<c10d::Work> GlooMeeting::send(int rank, GlooCall call) {
  const std::lock_guard<std::mutex> lock(mutex_);
  note(rank, call);
  for (auto it = to_be_received_.begin(); it != to_be_received_.end(); ++it) {
    const auto& [receiver, received] = *it;
    const bool expected = received.root == -1 || received.root == rank;
    if (receiver != call.root || !expected || received.tag != call.tag) continue;
    deliver(call, received);
    to_be_received_.erase(it);
    return call.work;
  }
  sent_.emplace_back(rank, call);
  return call.work;
}

inline c10::intrusive_ptr<c10d::Work> GlooMeeting::receive(int rank, GlooCall call) {
  const std::lock_guard<std::mutex> lock(mutex_);
  note(rank, call);
  for (auto it = sent_.begin(); it != sent_.end(); ++it) {
    const auto& [sender, message] = *it;
    const bool wanted = call.root == -1 || call.root == sender;
    if (message.root != rank || !wanted || message.tag != call.tag) continue;
    deliver(message, call);
    sent_.erase(it);
    return call.work;
  }
  to_be_received_.emplace_back(rank, call);
  return call.work;
}

inline void GlooMeeting::end() {
  std::vector<c10::intrusive_ptr<SwitchWork>> works;
  {
    const std::lock_guard<std::mutex> lock(mutex_);
    for (const auto& [unused, round] : waiting_) {
      for (const auto& [unused_rank, call] : round) works.push_back(call.work);
    }
    for (const auto& [unused, call] : sent_) works.push_back(call.work);
    for (const auto& [unused, call] : to_be_received_) works.push_back(call.work);
    waiting_.clear();
    sent_.clear();
    to_be_received_.clear();
  }
  for (const auto& work : works) work->fail(std::make_exception_ptr(std::runtime_error("fake gloo: the group ended")));
}

inline void GlooMeeting::made(int rank) {
  const std::lock_guard<std::mutex> lock(mutex_);
  ++made_[rank];
}

inline std::vector<GlooCall> GlooMeeting::calls(int rank) {
  const std::lock_guard<std::mutex> lock(mutex_);
  return calls_[rank];
}

inline GlooCall GlooMeeting::last(int rank) {
  const std::lock_guard<std::mutex> lock(mutex_);
  if (calls_[rank].empty()) throw std::out_of_range("fake gloo: rank " + std::to_string(rank) + " was asked nothing");
  return calls_[rank].back();
}

inline int GlooMeeting::made_on(int rank) {
  const std::lock_guard<std::mutex> lock(mutex_);
  return made_[rank];
}

}  // namespace switchml
