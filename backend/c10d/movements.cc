// The collectives that reduce nothing.
#include <utility>

#include "c10d/call_text.h"
#include "c10d/process_group.h"

namespace switchml {

using c10d::OpType;
using WorkPtr = ProcessGroupSwitchML::WorkPtr;
using Tensors = ProcessGroupSwitchML::Tensors;

namespace {

Tensors flattened(const std::vector<Tensors>& lists) {
  Tensors all;
  for (const Tensors& list : lists) all.insert(all.end(), list.begin(), list.end());
  return all;
}

Tensors empty_like(const Tensors& tensors) {
  const at::AutoDispatchBelowADInplaceOrView guard;
  Tensors result;
  for (const at::Tensor& tensor : tensors) result.push_back(at::empty(tensor.sizes(), tensor.options()));
  return result;
}

}  // namespace

EngineCall ProcessGroupSwitchML::movement(Call call, OpType type, const Tensors& results, const std::string& what,
                                          Terms terms) const {
  arguments(call).own_elements(results);
  EngineCall result = engine_call(call, type, c10d::ReduceOp::SUM, terms);
  result.agree_about(what);
  return result;
}

// One of several tensors goes to the other ranks, and on all ranks to the rest of the list.
WorkPtr ProcessGroupSwitchML::broadcast(Tensors& tensors, const c10d::BroadcastOptions& opts) {
  arguments(Call::kBroadcast).broadcast(tensors, opts);
  const std::string what = tensors_text(tensors) + ", from rank " + std::to_string(opts.rootRank);
  EngineCall call = movement(Call::kBroadcast, OpType::BROADCAST, tensors, what, Terms::of(opts));
  const at::Tensor& first = tensors[static_cast<size_t>(opts.rootTensor)];
  call.broadcast(first, static_cast<int>(opts.rootRank));
  for (const at::Tensor& tensor : tensors) {
    if (!tensor.is_same(first)) call.copy(first, tensor);
  }
  return remember(call.issue(tensors));
}

// ---- all_gather and its variants, gather ----

EngineCall ProcessGroupSwitchML::gathering(Call call, OpType type, const Tensors& inputs, const Tensors& results,
                                           const std::string& what, Terms terms) const {
  EngineCall result = movement(call, type, results, what, terms);
  if (Footprint::clash(results) || (inputs.size() > 1 && overlap(results, inputs))) result.apart();
  result.gather(inputs, results);
  return result;
}

// Each list of outputs gets all inputs of all ranks.
WorkPtr ProcessGroupSwitchML::allgather(std::vector<Tensors>& outputs, Tensors& inputs,
                                        const c10d::AllgatherOptions& opts) {
  const Arguments given = arguments(Call::kAllGather);
  given.all_gather(outputs, inputs);
  const bool several = outputs.size() > 1;
  if (several) given.own_elements(flattened(outputs));
  const Tensors all = several ? empty_like(outputs[0]) : outputs[0];
  EngineCall call = gathering(Call::kAllGather, OpType::ALLGATHER, inputs, all, tensors_text(inputs), Terms::of(opts));
  for (const Tensors& list : outputs) {
    for (size_t i = 0; several && i < list.size(); ++i) call.copy(all[i], list[i]);
  }
  return remember(call.issue_lists(outputs));
}

WorkPtr ProcessGroupSwitchML::allgather_coalesced(std::vector<Tensors>& outputs, Tensors& inputs,
                                                  const c10d::AllgatherOptions& opts) {
  arguments(Call::kAllGatherCoalesced).all_gather_coalesced(outputs, inputs);
  EngineCall call = gathering(Call::kAllGatherCoalesced, OpType::ALLGATHER_COALESCED, inputs, flattened(outputs),
                              tensors_text(inputs), Terms::of(opts));
  return remember(call.issue_lists(outputs));
}

WorkPtr ProcessGroupSwitchML::_allgather_base(at::Tensor& output, at::Tensor& input,
                                              const c10d::AllgatherOptions& opts) {
  return gather_into_tensors(Call::kAllGatherIntoTensor, OpType::_ALLGATHER_BASE, {output}, {input}, opts);
}

WorkPtr ProcessGroupSwitchML::allgather_into_tensor_coalesced(Tensors& outputs, Tensors& inputs,
                                                              const c10d::AllgatherOptions& opts) {
  return gather_into_tensors(Call::kAllGatherIntoTensorCoalesced, OpType::ALLGATHER_COALESCED, outputs, inputs, opts);
}

WorkPtr ProcessGroupSwitchML::gather_into_tensors(Call call, OpType type, const Tensors& outputs, const Tensors& inputs,
                                                  const c10d::AllgatherOptions& opts) {
  arguments(call).all_gather_into_tensors(outputs, inputs);
  EngineCall result = movement(call, type, outputs, tensors_text(inputs), Terms::of(opts));
  if (Footprint::clash(outputs, inputs)) result.apart();
  for (size_t i = 0; i < inputs.size(); ++i) result.gather_into(inputs[i], outputs[i]);
  return remember(result.issue(outputs));
}

WorkPtr ProcessGroupSwitchML::gather(std::vector<Tensors>& outputs, Tensors& inputs, const c10d::GatherOptions& opts) {
  arguments(Call::kGather).gather(outputs, inputs, opts.rootRank);
  const Tensors results = flattened(outputs);
  const std::string what = tensors_text(inputs) + ", to rank " + std::to_string(opts.rootRank);
  return remember(gathering(Call::kGather, OpType::GATHER, inputs, results, what, Terms::of(opts)).issue(results));
}

// The parts are views of the output, so that there is no list to make.
WorkPtr ProcessGroupSwitchML::gather_single(at::Tensor& output, at::Tensor& input, const c10d::GatherOptions& opts) {
  std::vector<Tensors> outputs;
  if (opts.rootRank == rank_) {
    arguments(Call::kGather).gather_single(output, input);
    outputs.emplace_back();
    const int64_t count = input.numel();
    const at::Tensor flat = output.view({output.numel()});
    for (int64_t rank = 0; rank < size_; ++rank) {
      outputs[0].push_back(flat.narrow(0, rank * count, count).view(input.sizes()));
    }
  }
  Tensors inputs{input};
  return gather(outputs, inputs, opts);
}

WorkPtr ProcessGroupSwitchML::scatter(Tensors& outputs, std::vector<Tensors>& inputs,
                                      const c10d::ScatterOptions& opts) {
  arguments(Call::kScatter).scatter(outputs, inputs, opts.rootRank);
  const Tensors pieces = flattened(inputs);
  const std::string what = tensors_text(outputs) + ", from rank " + std::to_string(opts.rootRank);
  EngineCall call = movement(Call::kScatter, OpType::SCATTER, outputs, what, Terms::of(opts));
  if (overlap(outputs, pieces)) call.apart();
  call.scatter(pieces, outputs[0], static_cast<int>(opts.rootRank));
  return remember(call.issue(outputs));
}

}  // namespace switchml
