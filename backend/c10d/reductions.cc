// The collectives that a switch can do, in part or always.
#include <algorithm>
#include <limits>
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

/// Done with Gloo's sum: it has no PREMUL_SUM, and AVG not in every version nor for every type.
bool derived(const c10d::ReduceOp& op) { return op.op_ == c10d::ReduceOp::AVG || op.op_ == c10d::ReduceOp::PREMUL_SUM; }

/// A reduction in place that Gloo can do, and what makes the call's results of its result; null: nothing is left to do.
struct GlooReduction {
  Tensors tensors;
  c10d::ReduceOp op;
  std::function<void()> finish;
};

/// Gloo adds memory to memory, whatever the strides: copies of those tensors that are not contiguous.
GlooReduction as_it_lies(const Tensors& tensors, const c10d::ReduceOp& op, bool writes) {
  const auto views = std::make_shared<std::vector<HostView>>();
  Tensors plain;
  for (const at::Tensor& tensor : tensors) {
    const bool dense = tensor.layout() == at::kStrided;
    if (dense) views->emplace_back(tensor, writes ? HostView::Use::kReadWrite : HostView::Use::kRead);
    plain.push_back(dense ? views->back().host() : tensor);
  }
  return {plain, op, [views] {
            for (HostView& view : *views) view.write_back();
          }};
}

at::Tensor copied(const at::Tensor& tensor) {
  return tensor.layout() == at::kStrided ? tensor.clone(at::MemoryFormat::Contiguous) : tensor.clone();
}

/// Integers in the order of the floats, as words are on the wire [WORD-2]. A NaN is above all of them.
at::Tensor keys_of(const at::Tensor& floats) {
  constexpr int64_t kNan = std::numeric_limits<int64_t>::max();
  const at::Tensor bits = floats.view(at::kLong);
  return at::where(bits.lt(0), bits.bitwise_xor(kNan), bits).masked_fill_(floats.isnan(), kNan);
}

at::Tensor floats_of(const at::Tensor& keys) {
  return at::where(keys.lt(0), keys.bitwise_xor(std::numeric_limits<int64_t>::max()), keys).view(at::kDouble);
}

bool is_extreme_of_floats(const Tensors& tensors, const c10d::ReduceOp& op) {
  if (op.op_ != c10d::ReduceOp::MIN && op.op_ != c10d::ReduceOp::MAX) return false;
  return std::any_of(tensors.begin(), tensors.end(), [](const at::Tensor& tensor) {
    return tensor.layout() == at::kStrided && tensor.is_floating_point();
  });
}

/// Gloo itself keeps a NaN only if rank 0 has it. The smallest is the largest of what is negated.
GlooReduction extreme_of_floats(const Tensors& tensors, bool smallest, bool writes) {
  const at::AutoDispatchBelowADInplaceOrView guard;
  Tensors keys;
  for (const at::Tensor& tensor : tensors) {
    const at::Tensor wide = tensor.to(at::kDouble, /*non_blocking=*/false, /*copy=*/true, at::MemoryFormat::Contiguous);
    keys.push_back(keys_of(smallest ? wide.neg_() : wide));
  }
  auto finish = [keys, tensors, smallest, writes] {
    for (size_t i = 0; writes && i < tensors.size(); ++i) {
      const at::Tensor wide = floats_of(keys[i]);
      tensors[i].copy_(smallest ? wide.neg() : wide);
    }
  };
  return {keys, c10d::ReduceOp(c10d::ReduceOp::MAX), finish};
}

/// `writes`: whether this rank gets the result.
GlooReduction gloo_reduction(const Tensors& tensors, const c10d::ReduceOp& op, int ranks, bool writes) {
  if (is_extreme_of_floats(tensors, op)) {
    return extreme_of_floats(tensors, op.op_ == c10d::ReduceOp::MIN, writes);
  }
  if (!derived(op) || tensors.empty()) return as_it_lies(tensors, op, writes);
  const bool premultiply = op.op_ == c10d::ReduceOp::PREMUL_SUM;
  Tensors sums;
  for (const at::Tensor& tensor : tensors) {
    sums.push_back(premultiply ? compat::premultiplied(tensor, op) : copied(tensor));
  }
  auto finish = [sums, tensors, ranks, premultiply, writes] {
    for (size_t i = 0; writes && i < tensors.size(); ++i) {
      tensors[i].copy_(premultiply ? sums[i] : at::div(sums[i], ranks));
    }
  };
  return {sums, c10d::ReduceOp(c10d::ReduceOp::SUM), finish};
}

/// A reduction in place by Gloo, with these options but another operation.
template <typename Options>
auto by(ProcessGroupSwitchML::WorkPtr (compat::Base::*reduce)(Tensors&, const Options&), const Options& options) {
  return [reduce, options](compat::Base& gloo, Tensors& tensors, const c10d::ReduceOp& op) {
    Options same = options;
    same.reduceOp = op;
    return (gloo.*reduce)(tensors, same);
  };
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

/// Complex numbers add as their real and imaginary parts do: a view of these, where the operation is a sum. Anything
/// else as it is.
at::Tensor parts_of(const at::Tensor& tensor, const c10d::ReduceOp& op) {
  if (!tensor.is_complex() || tensor.is_conj() || tensor.layout() != at::kStrided) return tensor;
  const bool sums = op.op_ == c10d::ReduceOp::SUM || op.op_ == c10d::ReduceOp::AVG ||
                    (op.op_ == c10d::ReduceOp::PREMUL_SUM && compat::has_real_factor(op));
  if (!sums) return tensor;
  const at::AutoDispatchBelowADInplaceOrView guard;
  return at::view_as_real(tensor);
}

Tensors parts_of(const Tensors& tensors, const c10d::ReduceOp& op) {
  Tensors parts;
  for (const at::Tensor& tensor : tensors) parts.push_back(parts_of(tensor, op));
  return parts;
}

}  // namespace

bool ProcessGroupSwitchML::engine_takes(const at::Tensor& tensor, const c10d::ReduceOp& op) const {
  if (tensor.layout() != at::kStrided) return false;
  const std::optional<ReduceOp> operation = engine_operation(op, tensor.scalar_type());
  return operation && core_->engine_can(*operation, *element_type(tensor.scalar_type()));
}

bool ProcessGroupSwitchML::engine_takes(const Tensors& tensors, const c10d::ReduceOp& op) const {
  if (tensors.empty()) return false;
  return std::all_of(tensors.begin(), tensors.end(), [&](const at::Tensor& tensor) {
    return engine_takes(tensor, op) && tensor.scalar_type() == tensors[0].scalar_type();
  });
}

ProcessGroupSwitchML::WorkPtr ProcessGroupSwitchML::allreduce(Tensors& tensors, const c10d::AllreduceOptions& opts) {
  arguments(Call::kAllReduce).all_reduce(tensors, opts.reduceOp);
  const Tensors parts = parts_of(tensors, opts.reduceOp);
  if (parts.size() == 1 && engine_takes(parts, opts.reduceOp)) {
    EngineCall call = engine_call(Call::kAllReduce, OpType::ALLREDUCE, opts.reduceOp, Terms::of(opts));
    call.in_place(parts[0]);
    return remember(call.issue(tensors));
  }
  // Lists of several tensors are Gloo's (it sums across the list); so are sparse ones.
  return reduce_by_gloo(Call::kAllReduce, OpType::ALLREDUCE, tensors, opts.reduceOp, opts.timeout, true,
                        by(&compat::Base::allreduce, opts));
}

ProcessGroupSwitchML::WorkPtr ProcessGroupSwitchML::allreduce_sparse(Tensors& tensors,
                                                                     const c10d::AllreduceOptions& opts) {
  arguments(Call::kAllReduceSparse).all_reduce(tensors, opts.reduceOp);
  // Gloo's allreduce knows sparse tensors; its allreduce_sparse is newer and calls the same.
  return through_gloo(
      Call::kAllReduceSparse, OpType::ALLREDUCE, tensors, {tensors},
      operation_name(opts.reduceOp) + (", " + tensors_text(tensors)), opts.timeout,
      [tensors, opts](compat::Base& gloo) mutable { return std::vector<WorkPtr>{gloo.allreduce(tensors, opts)}; },
      nullptr);
}

ProcessGroupSwitchML::WorkPtr ProcessGroupSwitchML::allreduce_coalesced(Tensors& tensors,
                                                                        const c10d::AllreduceCoalescedOptions& opts) {
  arguments(Call::kAllReduceCoalesced).all_reduce_coalesced(tensors);
  const Tensors parts = parts_of(tensors, opts.reduceOp);
  if (engine_takes(parts, opts.reduceOp)) {
    EngineCall call =
        engine_call(Call::kAllReduceCoalesced, OpType::ALLREDUCE_COALESCED, opts.reduceOp, Terms::of(opts));
    if (Footprint::clash(parts)) call.apart();
    for (const at::Tensor& part : parts) call.in_place(part);
    return remember(call.issue(tensors));
  }
  return reduce_by_gloo(Call::kAllReduceCoalesced, OpType::ALLREDUCE_COALESCED, tensors, opts.reduceOp, opts.timeout,
                        true, by(&compat::Base::allreduce_coalesced, opts));
}

ProcessGroupSwitchML::WorkPtr ProcessGroupSwitchML::reduce(Tensors& tensors, const c10d::ReduceOptions& opts) {
  arguments(Call::kReduce).reduce(tensors, opts);
  const Tensors parts = parts_of(tensors, opts.reduceOp);
  if (engine_takes(parts, opts.reduceOp)) {
    EngineCall call = engine_call(Call::kReduce, OpType::REDUCE, opts.reduceOp, Terms::of(opts));
    call.root(static_cast<int>(opts.rootRank));
    call.to_root(parts[0], opts.rootRank == rank_);
    return remember(call.issue(tensors));
  }
  return reduce_by_gloo(Call::kReduce, OpType::REDUCE, tensors, opts.reduceOp, opts.timeout, opts.rootRank == rank_,
                        by(&compat::Base::reduce, opts), ", to rank " + std::to_string(opts.rootRank));
}

ProcessGroupSwitchML::WorkPtr ProcessGroupSwitchML::reduce_by_gloo(Call call, OpType type, const Tensors& tensors,
                                                                   const c10d::ReduceOp& op, milliseconds timeout,
                                                                   bool writes, ReduceInPlace reduce,
                                                                   const std::string& detail) {
  arguments(call).reducible(tensors, op);
  GlooReduction gloo_does = gloo_reduction(tensors, op, size_, writes);
  auto issue = [given = std::move(gloo_does.tensors), gloo_op = gloo_does.op, reduce = std::move(reduce)](
                   compat::Base& gloo) mutable { return std::vector<WorkPtr>{reduce(gloo, given, gloo_op)}; };
  return through_gloo(call, type, tensors, {tensors}, operation_name(op) + (", " + tensors_text(tensors)) + detail,
                      timeout, std::move(issue), std::move(gloo_does.finish));
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
  const Tensors from = parts_of(inputs, opts.reduceOp), to = parts_of(outputs, opts.reduceOp);
  for (size_t i = 0; i < from.size(); ++i) {
    if (engine_takes(from[i], opts.reduceOp) && to[i].scalar_type() == from[i].scalar_type()) continue;
    return reduce_scatter_by_gloo(call, outputs, inputs, std::nullopt, opts);
  }
  EngineCall scattering = engine_call(call, type, opts.reduceOp, Terms::of(opts));
  if (Footprint::clash(to, from)) scattering.apart();
  for (size_t i = 0; i < from.size(); ++i) {
    scattering.slice(from[i], to[i], static_cast<size_t>(to[i].numel()) * static_cast<size_t>(rank_),
                     equal_ends(to[i], size_));
  }
  return remember(scattering.issue(outputs));
}

ProcessGroupSwitchML::WorkPtr ProcessGroupSwitchML::reduce_scatter(Tensors& outputs, std::vector<Tensors>& inputs,
                                                                   const c10d::ReduceScatterOptions& opts) {
  arguments(Call::kReduceScatter).reduce_scatter(outputs, inputs);
  const Tensors pieces = parts_of(inputs[0], opts.reduceOp);
  const at::Tensor to = parts_of(outputs[0], opts.reduceOp);
  const size_t begin = elements_before(pieces, rank_);
  const bool join = total_bytes(pieces) <= kJoinBytes;
  if (!engine_takes(pieces, opts.reduceOp) || to.scalar_type() != pieces[0].scalar_type()) {
    return reduce_scatter_by_gloo(Call::kReduceScatter, outputs, {joined(inputs[0])}, elements_before(inputs[0], rank_),
                                  opts, ", pieces: " + tensors_text(inputs[0]));
  }
  EngineCall call = engine_call(Call::kReduceScatter, OpType::REDUCE_SCATTER, opts.reduceOp, Terms::of(opts));
  call.detail("pieces: " + tensors_text(inputs[0]));
  if (join) {
    std::vector<size_t> ends;
    for (int r = 0; r < size_; ++r) ends.push_back(elements_before(pieces, r + 1));
    call.slice(joined(pieces), to, begin, ends);
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

// Gloo's own reduce_scatter came late and in parts, so it is a sum of which each rank keeps its own part: at `begin`,
// or at its share of equal parts.
ProcessGroupSwitchML::WorkPtr ProcessGroupSwitchML::reduce_scatter_by_gloo(Call call, const Tensors& outputs,
                                                                           const Tensors& inputs,
                                                                           std::optional<size_t> begin,
                                                                           const c10d::ReduceScatterOptions& opts,
                                                                           const std::string& detail) {
  arguments(call).reducible(inputs, opts.reduceOp);
  Tensors sums;
  for (const at::Tensor& input : inputs) {
    sums.push_back(input.clone(at::MemoryFormat::Contiguous).view({input.numel()}));
  }
  GlooReduction gloo_does = gloo_reduction(sums, opts.reduceOp, size_, true);
  c10d::AllreduceOptions options;
  options.reduceOp = gloo_does.op;
  options.timeout = opts.timeout;
  auto issue = [given = std::move(gloo_does.tensors), options](compat::Base& gloo) {
    std::vector<WorkPtr> works;
    for (const at::Tensor& tensor : given) {
      Tensors list{tensor};
      works.push_back(gloo.allreduce(list, options));
    }
    return works;
  };
  auto finish = [sums, outputs, begin, rank = rank_, sums_finish = std::move(gloo_does.finish)] {
    if (sums_finish) sums_finish();
    for (size_t i = 0; i < outputs.size(); ++i) {
      const int64_t count = outputs[i].numel();
      const int64_t first = begin ? static_cast<int64_t>(*begin) : count * rank;
      outputs[i].copy_(sums[i].narrow(0, first, count).view(outputs[i].sizes()));
    }
  };
  return through_gloo(call, OpType::REDUCE_SCATTER, inputs, {outputs},
                      operation_name(opts.reduceOp) + (", " + tensors_text(inputs)) + detail, opts.timeout,
                      std::move(issue), std::move(finish));
}

// ---- barrier ----

ProcessGroupSwitchML::WorkPtr ProcessGroupSwitchML::barrier(const c10d::BarrierOptions& opts) {
  EngineCall call = engine_call(Call::kBarrier, OpType::BARRIER, c10d::ReduceOp::SUM, Terms::of(opts));
  call.barrier(outstanding_.all());
  return remember(call.issue({}));
}

}  // namespace switchml
