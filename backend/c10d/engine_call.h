// A c10d call on its way through the engine: one or more of its collectives that complete one Work.
#pragma once

#include <functional>
#include <memory>
#include <string>
#include <vector>

#include "c10d/engine_operation.h"
#include "c10d/group_core.h"
#include "c10d/staging.h"
#include "c10d/work.h"

namespace switchml {

/// Collects the parts of one call, then issues them. Used on the caller's thread, once, but for then().
class EngineCall {
 public:
  EngineCall(std::shared_ptr<GroupCore> core, Call call, c10d::OpType type, const c10d::ReduceOp& op, Time deadline);

  /// For calls with tensors that share memory. Call it first. Every input is read before anything is written: results
  /// are made elsewhere, and copied in the order of the parts.
  void apart() { apart_ = true; }
  /// The caller waits for the result at once: issue() returns when it is there, or half a second later, if nothing of
  /// the group's is under way.
  void waited_for() { waits_ = true; }
  /// Sums that are added after this go exactly, though a switch of integers could add them. All ranks must do so.
  void exactly() { exactly_ = true; }
  /// The result replaces the tensor.
  void in_place(const at::Tensor& tensor);
  /// The result replaces the tensor where `is_root`; elsewhere it stays as it is.
  void to_root(const at::Tensor& tensor, bool is_root);
  /// The root of a reduce: ranks that name different ones get a mismatch.
  void root(int rank);
  /// What profiles and the flight log have as the call's inputs, where those were packed for it.
  void show_inputs(const std::vector<at::Tensor>& inputs) { inputs_.assign(inputs.begin(), inputs.end()); }
  /// What else ranks must agree about, in words: "pieces of 10 + 12".
  void detail(const std::string& text);
  /// Elements [begin, begin + output.numel()) of the reduced `input` go to `output`.
  void slice(const at::Tensor& input, const at::Tensor& output, size_t begin);
  /// The same; all ranks have such slices, rank r one that ends at element ends[r].
  void slice(const at::Tensor& input, const at::Tensor& output, size_t begin, std::vector<size_t> ends);
  /// Sums `count` elements of a narrow type to float32 (ReduceOp::kSumToFloat32): `input` has their bytes, and elements
  /// [begin, end) of the result go to `output`, which has as many floats. `ends`: as with slice(); none: all ranks want
  /// all. Precondition: sums_to_float32().
  void sum_to_float32(const at::Tensor& input, ElementType type, size_t count, const at::Tensor& output, size_t begin,
                      size_t end, std::vector<size_t> ends);
  /// Whether the group's engine does so.
  bool sums_to_float32() const;
  /// In the end, after all results are written.
  void copy(const at::Tensor& from, const at::Tensor& to);
  // ---- what moves, of any type ----
  /// What ranks must agree about, in words, instead of operation, type and number of elements.
  void agree_about(const std::string& what);
  /// The root's tensor replaces the others'.
  void broadcast(const at::Tensor& tensor, int root);
  /// Each rank gets its own of the root's `pieces`, which are alike; they are looked at there alone.
  void scatter(const std::vector<at::Tensor>& pieces, const at::Tensor& output, int root);
  /// `outputs`: by rank, what gets the inputs of each, which have as many elements. None: this rank wants nothing.
  void gather(const std::vector<at::Tensor>& inputs, const std::vector<at::Tensor>& outputs);
  /// The same of one input, to the equal parts of a tensor.
  void gather_into(const at::Tensor& input, const at::Tensor& output);
  /// Each rank gets parts of the `input` of all: format/collective.h, Exchange.
  using OnSizesKnown = decltype(Exchange::on_sizes_known);
  void exchange(const at::Tensor& input, std::vector<uint64_t> sizes, OnSizesKnown on_sizes_known);
  /// A tensor of bytes with all that the tensors have, one after the other.
  at::Tensor packed(const std::vector<at::Tensor>& tensors);
  /// Memory for a result, from which it reaches `output` in the end.
  void* memory_of(const at::Tensor& output);
  std::vector<void*> memory_of(const std::vector<at::Tensor>& outputs);

  /// What follows when all ranks have done the parts so far: `more` adds others to the same call, on any thread. What
  /// the group calls meanwhile waits, so that all calls keep one order.
  void then(std::function<void(EngineCall& call)> more);

  /// No elements: completes when every rank has called it, and `before` (of this rank) are complete as well.
  void barrier(std::vector<Outstanding::WeakWork> before);

  /// Fails on every rank with a mismatch unless all ranks make the same precheck, of the same call, at this point; and
  /// sums `numbers` (int64, of the same size on all ranks) in place: what each rank has to tell all. `what`: "float32".
  void precheck(const std::string& what, const at::Tensor& numbers);

  /// `outputs` are the future's value; so are several lists of them.
  c10::intrusive_ptr<c10d::Work> issue(const std::vector<at::Tensor>& outputs) { return issue_lists(outputs); }
  c10::intrusive_ptr<c10d::Work> issue_lists(at::ArrayRef<std::vector<at::Tensor>> lists);

 private:
  class Pending;
  void add(const at::Tensor& input, const at::Tensor& output, size_t begin, size_t end);
  void add(Collective part, const at::Tensor& input, const at::Tensor& output, size_t begin, size_t end);
  bool averages_integers(const at::Tensor& tensor) const {
    return op_.op_ == c10d::ReduceOp::AVG && at::isIntegralType(tensor.scalar_type(), false);
  }
  /// Two parts; `output` is undefined where nothing of the result is wanted.
  void add_integer_mean(const at::Tensor& input, const at::Tensor& output, size_t begin, size_t end);
  at::Tensor prepared(const at::Tensor& tensor);
  /// The call's, made for the first tensor of an accelerator; null for one of the host.
  std::shared_ptr<DeviceCopies> copies_of(const at::Tensor& tensor);
  /// Throws unless all tensors of the call are on one device.
  void require_one_device(at::ArrayRef<std::vector<at::Tensor>> lists) const;
  at::Tensor target(const at::Tensor& output, bool apart);
  template <typename Kind>
  Collective moved(Kind kind, size_t bytes) const;
  const void* given(const at::Tensor& input, bool apart);
  /// To memory_of() the outputs, by rank.
  void gather(const at::Tensor& input, const std::vector<at::Tensor>& outputs, const std::vector<void*>& to);
  void tag_parts();

  std::shared_ptr<Pending> flight_;
  const Call call_;
  const c10d::OpType type_;
  const c10d::ReduceOp op_;
  const Time deadline_;
  c10::SmallVector<at::Tensor, 1> inputs_;
  bool apart_ = false;
  bool exactly_ = false;
  bool waits_ = false;
  bool precheck_ = false;
};

}  // namespace switchml
