// The collectives that the companion does.
#include <utility>

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

bool bytes_needed(const Tensors& a, const std::vector<Tensors>& b) {
  return ByteViews::needed(a) || ByteViews::needed(flattened(b));
}

std::vector<Tensors> views_of(const std::vector<Tensors>& lists, const std::function<Tensors(const Tensors&)>& view) {
  std::vector<Tensors> result;
  for (const Tensors& list : lists) result.push_back(view(list));
  return result;
}

bool all_empty(const Tensors& tensors) {
  for (const at::Tensor& tensor : tensors) {
    if (tensor.layout() != at::kStrided || tensor.numel() != 0) return false;
  }
  return !tensors.empty();
}

/// One byte each, in place of empty tensors: an old Gloo divides by their size.
Tensors placeholders(size_t count) {
  Tensors result;
  for (size_t i = 0; i < count; ++i) result.push_back(at::zeros({1}, at::kByte));
  return result;
}

}  // namespace

c10::intrusive_ptr<compat::Base> ProcessGroupSwitchML::companion(Call call) {
  const Status closed = core_->closed();
  if (!closed.ok()) throw_status(closed, core_->context(call));
  core_->calls().add(call, Path::kCompanion);
  const bool point_to_point = call == Call::kSend || call == Call::kRecv || call == Call::kRecvAnySource;
  if (!point_to_point) core_->next_sequence();
  return companion_.get();
}

WorkPtr ProcessGroupSwitchML::move_bytes(Call call, OpType type, Tensors outputs,
                                         const std::function<WorkPtr(ByteViews&)>& issue) {
  ByteViews views;
  WorkPtr work = issue(views);
  return remember(companion_.compose(call, type, {std::move(work)}, std::move(outputs), views.finish()));
}

WorkPtr ProcessGroupSwitchML::broadcast(Tensors& tensors, const c10d::BroadcastOptions& opts) {
  require_host(tensors, "broadcast");
  const auto gloo = companion(Call::kBroadcast);
  if (!ByteViews::needed(tensors)) return remember(gloo->broadcast(tensors, opts));
  return move_bytes(Call::kBroadcast, OpType::BROADCAST, tensors, [&](ByteViews& views) {
    Tensors bytes = views.outputs(tensors);
    return gloo->broadcast(bytes, opts);
  });
}

// ---- all_gather and its variants ----

WorkPtr ProcessGroupSwitchML::allgather(std::vector<Tensors>& outputs, Tensors& inputs,
                                        const c10d::AllgatherOptions& opts) {
  require_host(inputs, "all_gather");
  require_host(flattened(outputs), "all_gather");
  const auto gloo = companion(Call::kAllGather);
  if (all_empty(inputs) && all_empty(flattened(outputs))) {
    std::vector<Tensors> to = views_of(outputs, [](const Tensors& list) { return placeholders(list.size()); });
    Tensors from = placeholders(inputs.size());
    std::vector<WorkPtr> parts{gloo->allgather(to, from, opts)};
    return remember(
        companion_.compose(Call::kAllGather, OpType::ALLGATHER, std::move(parts), flattened(outputs), nullptr));
  }
  if (!bytes_needed(inputs, outputs)) return remember(gloo->allgather(outputs, inputs, opts));
  return move_bytes(Call::kAllGather, OpType::ALLGATHER, flattened(outputs), [&](ByteViews& views) {
    std::vector<Tensors> to = views_of(outputs, [&](const Tensors& list) { return views.outputs(list); });
    Tensors from = views.inputs(inputs);
    return gloo->allgather(to, from, opts);
  });
}

WorkPtr ProcessGroupSwitchML::gather_into_tensor(compat::Base& gloo, at::Tensor& output, at::Tensor& input,
                                                 const c10d::AllgatherOptions& opts) {
  if (output.numel() != input.numel() * size_) {
    compat::throw_value_error("switchml all_gather_into_tensor: the output has " + std::to_string(output.numel()) +
                              " elements and the input " + std::to_string(input.numel()) + "; allowed: an output of " +
                              std::to_string(size_) + " times the input");
  }
  if (compat::kGlooGathersIntoTensor && !ByteViews::needed(input) && !ByteViews::needed(output) &&
      input.is_contiguous() && output.is_contiguous()) {
    return gloo._allgather_base(output, input, opts);
  }
  // One all_gather into the parts of the output's bytes.
  auto view = std::make_shared<HostView>(output, HostView::Use::kWrite);
  auto from = std::make_shared<HostView>(input, HostView::Use::kRead);
  const at::AutoDispatchBelowADInplaceOrView guard;
  std::vector<Tensors> parts(1);
  Tensors source;
  if (input.numel() > 0) {
    const at::Tensor bytes = view->host().view({output.numel()}).view(at::kByte);
    for (const at::Tensor& part : bytes.chunk(size_)) parts[0].push_back(part);
    source.push_back(from->host().view({input.numel()}).view(at::kByte));
  } else {
    parts[0] = placeholders(static_cast<size_t>(size_));
    source = placeholders(1);
  }
  WorkPtr work = gloo.allgather(parts, source, opts);
  return companion_.compose(Call::kAllGatherIntoTensor, OpType::_ALLGATHER_BASE, {std::move(work)}, {output},
                            [view, from] { view->write_back(); });
}

WorkPtr ProcessGroupSwitchML::_allgather_base(at::Tensor& output, at::Tensor& input,
                                              const c10d::AllgatherOptions& opts) {
  require_host({output, input}, "all_gather_into_tensor");
  const auto gloo = companion(Call::kAllGatherIntoTensor);
  return remember(gather_into_tensor(*gloo, output, input, opts));
}

WorkPtr ProcessGroupSwitchML::allgather_coalesced(std::vector<Tensors>& outputs, Tensors& inputs,
                                                  const c10d::AllgatherOptions& opts) {
  require_host(inputs, "all_gather_coalesced");
  require_host(flattened(outputs), "all_gather_coalesced");
  const auto gloo = companion(Call::kAllGatherCoalesced);
  if (!bytes_needed(inputs, outputs)) return remember(gloo->allgather_coalesced(outputs, inputs, opts));
  return move_bytes(Call::kAllGatherCoalesced, OpType::ALLGATHER_COALESCED, flattened(outputs), [&](ByteViews& views) {
    std::vector<Tensors> to = views_of(outputs, [&](const Tensors& list) { return views.outputs(list); });
    Tensors from = views.inputs(inputs);
    return gloo->allgather_coalesced(to, from, opts);
  });
}

WorkPtr ProcessGroupSwitchML::allgather_into_tensor_coalesced(Tensors& outputs, Tensors& inputs,
                                                              const c10d::AllgatherOptions& opts) {
  require_host(outputs, "all_gather_into_tensor_coalesced");
  require_host(inputs, "all_gather_into_tensor_coalesced");
  if (outputs.size() != inputs.size() || outputs.empty()) {
    compat::throw_value_error("switchml all_gather_into_tensor_coalesced: " + std::to_string(outputs.size()) +
                              " outputs and " + std::to_string(inputs.size()) +
                              " inputs; allowed: at least one, and one output for each input");
  }
  const auto gloo = companion(Call::kAllGatherIntoTensorCoalesced);
  std::vector<WorkPtr> parts;
  for (size_t i = 0; i < outputs.size(); ++i) parts.push_back(gather_into_tensor(*gloo, outputs[i], inputs[i], opts));
  return remember(companion_.compose(Call::kAllGatherIntoTensorCoalesced, OpType::ALLGATHER_COALESCED, std::move(parts),
                                     outputs, nullptr));
}

// ---- gather, scatter ----

WorkPtr ProcessGroupSwitchML::gather(std::vector<Tensors>& outputs, Tensors& inputs, const c10d::GatherOptions& opts) {
  require_host(inputs, "gather");
  require_host(flattened(outputs), "gather");
  const auto gloo = companion(Call::kGather);
  if (!bytes_needed(inputs, outputs)) return remember(gloo->gather(outputs, inputs, opts));
  return move_bytes(Call::kGather, OpType::GATHER, flattened(outputs), [&](ByteViews& views) {
    std::vector<Tensors> to = views_of(outputs, [&](const Tensors& list) { return views.outputs(list); });
    Tensors from = views.inputs(inputs);
    return gloo->gather(to, from, opts);
  });
}

WorkPtr ProcessGroupSwitchML::scatter(Tensors& outputs, std::vector<Tensors>& inputs,
                                      const c10d::ScatterOptions& opts) {
  require_host(outputs, "scatter");
  require_host(flattened(inputs), "scatter");
  const auto gloo = companion(Call::kScatter);
  if (!bytes_needed(outputs, inputs)) return remember(gloo->scatter(outputs, inputs, opts));
  return move_bytes(Call::kScatter, OpType::SCATTER, outputs, [&](ByteViews& views) {
    Tensors to = views.outputs(outputs);
    std::vector<Tensors> from = views_of(inputs, [&](const Tensors& list) { return views.inputs(list); });
    return gloo->scatter(to, from, opts);
  });
}

// ---- all_to_all ----

WorkPtr ProcessGroupSwitchML::alltoall_base(at::Tensor& output, at::Tensor& input, std::vector<int64_t>& output_splits,
                                            std::vector<int64_t>& input_splits, const c10d::AllToAllOptions& opts) {
  require_host({output, input}, "all_to_all_single");
  const auto gloo = companion(Call::kAllToAllSingle);
  const bool direct = !ByteViews::needed(output) && !ByteViews::needed(input);
  if (direct) return remember(gloo->alltoall_base(output, input, output_splits, input_splits, opts));
  return move_bytes(Call::kAllToAllSingle, OpType::ALLTOALL_BASE, {output}, [&](ByteViews& views) {
    at::Tensor to = views.output(output);
    at::Tensor from = views.input(input);
    return gloo->alltoall_base(to, from, output_splits, input_splits, opts);
  });
}

// Gloo has none of its own everywhere: the pieces go through one alltoall_base as bytes.
WorkPtr ProcessGroupSwitchML::alltoall(Tensors& outputs, Tensors& inputs, const c10d::AllToAllOptions& opts) {
  require_host(outputs, "all_to_all");
  require_host(inputs, "all_to_all");
  const size_t ranks = static_cast<size_t>(size_);
  if (outputs.size() != ranks || inputs.size() != ranks) {
    compat::throw_value_error("switchml all_to_all: " + std::to_string(outputs.size()) + " outputs and " +
                              std::to_string(inputs.size()) + " inputs; allowed: " + std::to_string(size_) +
                              " of each, one for each rank");
  }
  std::vector<int64_t> output_splits;
  std::vector<int64_t> input_splits;
  int64_t output_bytes = 0;
  int64_t input_bytes = 0;
  for (size_t r = 0; r < ranks; ++r) {
    output_splits.push_back(outputs[r].numel() * static_cast<int64_t>(outputs[r].element_size()));
    input_splits.push_back(inputs[r].numel() * static_cast<int64_t>(inputs[r].element_size()));
    output_bytes += output_splits.back();
    input_bytes += input_splits.back();
  }
  const auto gloo = companion(Call::kAllToAll);
  const at::AutoDispatchBelowADInplaceOrView guard;
  at::Tensor to = at::empty({output_bytes}, at::kByte);
  at::Tensor from = at::empty({input_bytes}, at::kByte);
  int64_t begin = 0;
  for (size_t r = 0; r < ranks; begin += input_splits[r], ++r) {
    if (input_splits[r] == 0) continue;
    from.narrow(0, begin, input_splits[r]).copy_(inputs[r].contiguous().view({inputs[r].numel()}).view(at::kByte));
  }
  // Gloo may move from its arguments.
  at::Tensor gloo_to = to;
  std::vector<int64_t> gloo_splits = output_splits;
  WorkPtr work = gloo->alltoall_base(gloo_to, from, gloo_splits, input_splits, opts);
  auto finish = [to, from, outputs, output_splits] {
    int64_t at = 0;
    for (size_t r = 0; r < outputs.size(); at += output_splits[r], ++r) {
      if (output_splits[r] == 0) continue;
      // Own memory per piece, so that it is aligned for its type.
      const at::Tensor piece = to.narrow(0, at, output_splits[r]).clone();
      outputs[r].copy_(piece.view(outputs[r].scalar_type()).view(outputs[r].sizes()));
    }
  };
  return remember(companion_.compose(Call::kAllToAll, OpType::ALLTOALL, {std::move(work)}, outputs, std::move(finish)));
}

// ---- point to point ----
// A barrier does not wait for these: their other end may come after it.

WorkPtr ProcessGroupSwitchML::send(Tensors& tensors, int destination, int tag) {
  require_host(tensors, "send");
  const auto gloo = companion(Call::kSend);
  ByteViews views;
  Tensors bytes = views.inputs(tensors);
  return gloo->send(bytes, destination, tag);
}

// Gloo receives into contiguous tensors only, so their bytes are always an alias.
WorkPtr ProcessGroupSwitchML::recv(Tensors& tensors, int source, int tag) {
  require_host(tensors, "recv");
  const auto gloo = companion(Call::kRecv);
  const bool alias = tensors.size() == 1 && tensors[0].is_contiguous();
  ByteViews views;
  Tensors bytes = alias ? views.outputs(tensors) : tensors;
  return gloo->recv(bytes, source, tag);
}

WorkPtr ProcessGroupSwitchML::recvAnysource(Tensors& tensors, int tag) {
  require_host(tensors, "recv");
  const auto gloo = companion(Call::kRecvAnySource);
  const bool alias = tensors.size() == 1 && tensors[0].is_contiguous();
  ByteViews views;
  Tensors bytes = alias ? views.outputs(tensors) : tensors;
  return gloo->recvAnysource(bytes, tag);
}

}  // namespace switchml
