// The collectives that reduce.
#include <string>
#include <utility>

#include "c10d/call_text.h"
#include "c10d/process_group.h"

namespace switchml {
namespace {

using c10d::OpType;
using Tensors = ProcessGroupSwitchML::Tensors;

/// Up to here the pieces of a reduce_scatter are put together first: fewer packets. Above, each piece is a collective
/// of its own and nothing is copied.
constexpr size_t kJoinBytes = 1 << 20;

at::Tensor combined(const at::Tensor& a, const at::Tensor& b, const c10d::ReduceOp& op) {
  switch (op.op_) {
    case c10d::ReduceOp::MIN: return at::minimum(a, b);
    case c10d::ReduceOp::MAX: return at::maximum(a, b);
    case c10d::ReduceOp::PRODUCT: return at::mul(a, b);
    case c10d::ReduceOp::BAND: return at::bitwise_and(a, b);
    case c10d::ReduceOp::BOR: return at::bitwise_or(a, b);
    case c10d::ReduceOp::BXOR: return at::bitwise_xor(a, b);
    default: return at::add(a, b);
  }
}

at::Tensor combined(const Tensors& tensors, const c10d::ReduceOp& op) {
  const at::AutoDispatchBelowADInplaceOrView guard;
  const at::ScalarType type = tensors[0].scalar_type();
  const at::ScalarType wide = compat::is_float8(type) ? at::kFloat : type;  // PyTorch has no arithmetic of these.
  at::Tensor all = tensors[0].to(wide);
  for (size_t i = 1; i < tensors.size(); ++i) all = combined(all, tensors[i].to(wide), op);
  return all.to(type);
}

at::Tensor joined(const Tensors& pieces) {
  const at::AutoDispatchBelowADInplaceOrView guard;
  int64_t total = 0;
  for (const at::Tensor& piece : pieces) total += piece.numel();
  at::Tensor all = at::empty({total}, pieces[0].options());
  int64_t begin = 0;
  for (const at::Tensor& piece : pieces) {
    all.narrow(0, begin, piece.numel()).view(piece.sizes()).copy_(piece);
    begin += piece.numel();
  }
  return all;
}

size_t total_bytes(const Tensors& pieces) {
  size_t total = 0;
  for (const at::Tensor& piece : pieces) total += static_cast<size_t>(piece.numel()) * piece.element_size();
  return total;
}

size_t elements_before(const Tensors& pieces, int index) {
  size_t begin = 0;
  for (int i = 0; i < index; ++i) begin += static_cast<size_t>(pieces[static_cast<size_t>(i)].numel());
  return begin;
}

}  // namespace

EngineCall ProcessGroupSwitchML::reduction(Call call, OpType type, const Tensors& tensors, const c10d::ReduceOp& op,
                                           Terms terms) const {
  arguments(call).reducible(tensors, op);
  return engine_call(call, type, op, terms);
}

ProcessGroupSwitchML::WorkPtr ProcessGroupSwitchML::reduce_in_place(Call call, OpType type, const Tensors& tensors,
                                                                    const c10d::ReduceOp& op, Terms terms,
                                                                    std::optional<int64_t> root) {
  EngineCall reducing = reduction(call, type, tensors, op, terms);
  if (root) reducing.root(static_cast<int>(*root));
  if (tensors.size() > 1 && Footprint::clash(tensors)) reducing.apart();
  for (const at::Tensor& tensor : tensors) reducing.to_root(tensor, !root || *root == rank_);
  return remember(reducing.issue(tensors));
}

ProcessGroupSwitchML::WorkPtr ProcessGroupSwitchML::allreduce(Tensors& tensors, const c10d::AllreduceOptions& opts) {
  return all_reduce(Call::kAllReduce, tensors, opts);
}

ProcessGroupSwitchML::WorkPtr ProcessGroupSwitchML::allreduce_sparse(Tensors& tensors,
                                                                     const c10d::AllreduceOptions& opts) {
  return all_reduce(Call::kAllReduceSparse, tensors, opts);
}

// Where there are several tensors, each gets the reduction of all of them on all ranks.
ProcessGroupSwitchML::WorkPtr ProcessGroupSwitchML::all_reduce(Call call, const Tensors& tensors,
                                                               const c10d::AllreduceOptions& opts) {
  const Arguments given = arguments(call);
  given.all_reduce(tensors, opts.reduceOp);
  if (tensors[0].layout() == at::kSparse) return all_reduce_sparse(call, tensors, opts);
  if (tensors.size() == 1) return reduce_in_place(call, OpType::ALLREDUCE, tensors, opts.reduceOp, Terms::of(opts));
  given.own_elements(tensors);
  EngineCall reducing = reduction(call, OpType::ALLREDUCE, tensors, opts.reduceOp, Terms::of(opts));
  const at::Tensor all = combined(tensors, opts.reduceOp);
  reducing.in_place(all);
  for (const at::Tensor& tensor : tensors) reducing.copy(all, tensor);
  reducing.show_inputs(tensors);
  return remember(reducing.issue(tensors));
}

ProcessGroupSwitchML::WorkPtr ProcessGroupSwitchML::allreduce_coalesced(Tensors& tensors,
                                                                        const c10d::AllreduceCoalescedOptions& opts) {
  arguments(Call::kAllReduceCoalesced).all_reduce_coalesced(tensors);
  return reduce_in_place(Call::kAllReduceCoalesced, OpType::ALLREDUCE_COALESCED, tensors, opts.reduceOp,
                         Terms::of(opts));
}

ProcessGroupSwitchML::WorkPtr ProcessGroupSwitchML::reduce(Tensors& tensors, const c10d::ReduceOptions& opts) {
  arguments(Call::kReduce).reduce(tensors, opts);
  return reduce_in_place(Call::kReduce, OpType::REDUCE, tensors, opts.reduceOp, Terms::of(opts), opts.rootRank);
}

// ---- reduce_scatter ----

static std::vector<size_t> equal_ends(const at::Tensor& slice, int ranks) {
  std::vector<size_t> ends;
  for (int r = 1; r <= ranks; ++r) ends.push_back(static_cast<size_t>(slice.numel()) * static_cast<size_t>(r));
  return ends;
}

ProcessGroupSwitchML::WorkPtr ProcessGroupSwitchML::_reduce_scatter_base(at::Tensor& output, at::Tensor& input,
                                                                         const c10d::ReduceScatterOptions& opts) {
  return reduce_scatter_tensors(Call::kReduceScatterTensor, OpType::_REDUCE_SCATTER_BASE, {output}, {input}, opts);
}

ProcessGroupSwitchML::WorkPtr ProcessGroupSwitchML::reduce_scatter_tensor_coalesced(
    Tensors& outputs, Tensors& inputs, const c10d::ReduceScatterOptions& opts) {
  return reduce_scatter_tensors(Call::kReduceScatterTensorCoalesced, OpType::REDUCE_SCATTER, outputs, inputs, opts);
}

ProcessGroupSwitchML::WorkPtr ProcessGroupSwitchML::reduce_scatter_tensors(Call call, OpType type,
                                                                           const Tensors& outputs,
                                                                           const Tensors& inputs,
                                                                           const c10d::ReduceScatterOptions& opts) {
  arguments(call).reduce_scatter_tensors(outputs, inputs);
  EngineCall scattering = reduction(call, type, inputs, opts.reduceOp, Terms::of(opts));
  if (Footprint::clash(outputs, inputs)) scattering.apart();
  for (size_t i = 0; i < inputs.size(); ++i) {
    const size_t count = static_cast<size_t>(outputs[i].numel());
    scattering.slice(inputs[i], outputs[i], count * static_cast<size_t>(rank_), equal_ends(outputs[i], size_));
  }
  return remember(scattering.issue(outputs));
}

ProcessGroupSwitchML::WorkPtr ProcessGroupSwitchML::reduce_scatter(Tensors& outputs, std::vector<Tensors>& inputs,
                                                                   const c10d::ReduceScatterOptions& opts) {
  arguments(Call::kReduceScatter).reduce_scatter(outputs, inputs);
  const Tensors& pieces = inputs[0];
  const at::Tensor& to = outputs[0];
  EngineCall call = reduction(Call::kReduceScatter, OpType::REDUCE_SCATTER, pieces, opts.reduceOp, Terms::of(opts));
  call.detail("pieces: " + tensors_text(pieces));
  if (total_bytes(pieces) <= kJoinBytes) {
    std::vector<size_t> ends;
    for (int r = 0; r < size_; ++r) ends.push_back(elements_before(pieces, r + 1));
    call.slice(joined(pieces), to, elements_before(pieces, rank_), ends);
  } else {
    Footprint memory;
    memory.writes(to, static_cast<size_t>(rank_));
    for (size_t r = 0; r < pieces.size(); ++r) memory.reads(pieces[r], r);
    if (memory.clashes()) call.apart();
    for (int r = 0; r < size_; ++r) {
      const at::Tensor& piece = pieces[static_cast<size_t>(r)];
      if (r == rank_) {
        call.slice(piece, to, 0);
      } else {
        call.to_root(piece, false);
      }
    }
  }
  return remember(call.issue(outputs));
}

// ---- barrier ----

ProcessGroupSwitchML::WorkPtr ProcessGroupSwitchML::barrier(const c10d::BarrierOptions& opts) {
  EngineCall call = engine_call(Call::kBarrier, OpType::BARRIER, c10d::ReduceOp::SUM, Terms::of(opts));
  call.barrier(outstanding_.all());
  return remember(call.issue({}));
}

}  // namespace switchml
