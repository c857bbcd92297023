// The collectives that reduce nothing: through memory, or between hosts by the engine, where that can be; else by Gloo.
#include <algorithm>
#include <utility>

#include "c10d/byte_views.h"
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

using Works = std::vector<WorkPtr>;

/// One all_gather_into_tensor. Copies share what they hold.
class GatherIntoTensor {
 public:
  /// `apart`: the result reaches the output in finish().
  GatherIntoTensor(const at::Tensor& output, const at::Tensor& input, int rank, int ranks, bool apart) : ranks_(ranks) {
    direct_ = compat::kGlooGathersIntoTensor && !ByteViews::needed(input);
    // The usual way in place, or where it will be overwritten?
    const auto* own = static_cast<const char*>(output.data_ptr()) + static_cast<size_t>(rank) * input.nbytes();
    const bool shares = overlap(output, input) && input.data_ptr() != own;
    to_ = std::make_shared<HostView>(output, HostView::Use::kWrite, apart);
    from_ = std::make_shared<HostView>(input, HostView::Use::kRead, apart || shares);
  }

  WorkPtr issue(compat::Base& gloo, const c10d::AllgatherOptions& opts) {
    at::Tensor output = to_->host();
    at::Tensor input = from_->host();
    if (direct_) return gloo._allgather_base(output, input, opts);
    // One all_gather into the parts of the output's bytes.
    const at::AutoDispatchBelowADInplaceOrView guard;
    std::vector<Tensors> parts(1);
    Tensors source;
    if (input.numel() > 0) {
      const at::Tensor bytes = output.view({output.numel()}).view(at::kByte);
      for (const at::Tensor& part : bytes.chunk(ranks_)) parts[0].push_back(part);
      source.push_back(input.view({input.numel()}).view(at::kByte));
    } else {
      parts[0] = placeholders(static_cast<size_t>(ranks_));
      source = placeholders(1);
    }
    return gloo.allgather(parts, source, opts);
  }

  void finish() { to_->write_back(); }

 private:
  int ranks_;
  bool direct_ = false;
  std::shared_ptr<HostView> to_;
  std::shared_ptr<HostView> from_;
};

}  // namespace

WorkPtr ProcessGroupSwitchML::through_gloo(Call call, OpType type, const Tensors& inputs,
                                           const std::vector<Tensors>& outputs, const std::string& what,
                                           std::chrono::milliseconds timeout, GlooDelegate::Issue issue,
                                           std::function<void()> finish, const at::Tensor& numbers) {
  const Tensors results = flattened(outputs);
  arguments(call).own_elements(results);
  const Status closed = core_->closed();
  if (!closed.ok()) throw_status(closed, core_->context(call));
  core_->start_pool(call);
  const CallRecord record(core_, call, Way::kGloo);
  WorkPtr precheck;
  if (size_ > 1) {
    EngineCall agreement = engine_call(call, type, c10d::ReduceOp::SUM, {timeout});
    if (numbers.defined()) {
      agreement.precheck(what, numbers);
    } else {
      agreement.precheck(what);
    }
    precheck = agreement.issue({});
  }
  milliseconds limit = timeout.count() > 0 ? timeout : timeout_.load();
  if (limit.count() > 0) limit += core_->extensions().total();
  return remember(
      delegate_->start(record, type, precheck, limit, std::move(issue), inputs, outputs, std::move(finish)));
}

EngineCall ProcessGroupSwitchML::movement(Call call, OpType type, const Tensors& results, const std::string& what,
                                          Terms terms) const {
  arguments(call).own_elements(results);
  EngineCall result = engine_call(call, type, c10d::ReduceOp::SUM, terms);
  result.agree_about(what);
  return result;
}

bool ProcessGroupSwitchML::engine_moves(const Tensors& inputs, const Tensors& outputs) const {
  const auto dense = [](const at::Tensor& tensor) { return tensor.layout() == at::kStrided; };
  return core_->engine_can_move() && std::all_of(inputs.begin(), inputs.end(), dense) &&
         std::all_of(outputs.begin(), outputs.end(), dense);
}

// What goes by Gloo captures copies of what it was given: it reaches Gloo only when its precheck has passed, and
// Gloo may move from its arguments.

WorkPtr ProcessGroupSwitchML::broadcast(Tensors& tensors, const c10d::BroadcastOptions& opts) {
  arguments(Call::kBroadcast).broadcast(tensors, opts);
  const std::string what = tensors_text(tensors) + ", from rank " + std::to_string(opts.rootRank);
  if (tensors.size() == 1 && engine_moves(tensors, tensors)) {
    EngineCall call = movement(Call::kBroadcast, OpType::BROADCAST, tensors, what, Terms::of(opts));
    call.broadcast(tensors[0], static_cast<int>(opts.rootRank));
    return remember(call.issue(tensors));
  }
  ByteViews views;
  auto issue = [given = views.outputs(tensors), opts](compat::Base& gloo) mutable {
    return Works{gloo.broadcast(given, opts)};
  };
  return through_gloo(Call::kBroadcast, OpType::BROADCAST, tensors, {tensors}, what, opts.timeout, std::move(issue),
                      views.finish());
}

// ---- all_gather and its variants ----

WorkPtr ProcessGroupSwitchML::allgather(std::vector<Tensors>& outputs, Tensors& inputs,
                                        const c10d::AllgatherOptions& opts) {
  arguments(Call::kAllGather).all_gather(outputs, inputs);
  const Tensors results = flattened(outputs);
  if (inputs.size() == 1 && outputs.size() == 1 && engine_moves(inputs, results)) {
    EngineCall call = movement(Call::kAllGather, OpType::ALLGATHER, results, tensors_text(inputs), Terms::of(opts));
    if (Footprint::clash(results)) call.apart();
    call.gather(inputs[0], results);
    return remember(call.issue(results));
  }
  const bool empty = all_empty(inputs) && all_empty(results);
  const bool bytes = !empty && bytes_needed(inputs, outputs);
  ByteViews views(Footprint::clash(results));
  auto to = views_of(outputs, [&](const Tensors& list) {
    if (empty) return placeholders(list.size());
    return bytes ? views.outputs(list) : list;
  });
  Tensors from = empty ? placeholders(inputs.size()) : bytes ? views.inputs(inputs) : inputs;
  auto issue = [to, from, opts](compat::Base& gloo) mutable { return Works{gloo.allgather(to, from, opts)}; };
  return through_gloo(Call::kAllGather, OpType::ALLGATHER, inputs, outputs, tensors_text(inputs), opts.timeout,
                      std::move(issue), views.finish());
}

WorkPtr ProcessGroupSwitchML::allgather_coalesced(std::vector<Tensors>& outputs, Tensors& inputs,
                                                  const c10d::AllgatherOptions& opts) {
  arguments(Call::kAllGatherCoalesced).all_gather_coalesced(outputs, inputs);
  const Tensors results = flattened(outputs);
  if (engine_moves(inputs, results)) {
    EngineCall call = movement(Call::kAllGatherCoalesced, OpType::ALLGATHER_COALESCED, results, tensors_text(inputs),
                               Terms::of(opts));
    if (Footprint::clash(results) || overlap(results, inputs)) call.apart();
    const std::vector<void*> places = call.memory_of(results);  // Results are written in this order.
    for (size_t i = 0; i < inputs.size(); ++i) {
      std::vector<void*> to;
      for (size_t rank = 0; rank < outputs.size(); ++rank) to.push_back(places[rank * inputs.size() + i]);
      call.gather(inputs[i], results, to);
    }
    return remember(call.issue_lists(outputs));
  }
  const bool bytes = bytes_needed(inputs, outputs);
  ByteViews views(Footprint::clash(results));
  auto to = views_of(outputs, [&](const Tensors& list) { return bytes ? views.outputs(list) : list; });
  Tensors from = bytes ? views.inputs(inputs) : inputs;
  auto issue = [to, from, opts](compat::Base& gloo) mutable { return Works{gloo.allgather_coalesced(to, from, opts)}; };
  return through_gloo(Call::kAllGatherCoalesced, OpType::ALLGATHER_COALESCED, inputs, outputs, tensors_text(inputs),
                      opts.timeout, std::move(issue), views.finish());
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
  const bool apart = Footprint::clash(outputs, inputs);
  if (engine_moves(inputs, outputs)) {
    EngineCall gathering = movement(call, type, outputs, tensors_text(inputs), Terms::of(opts));
    if (apart) gathering.apart();
    for (size_t i = 0; i < inputs.size(); ++i) gathering.gather_into(inputs[i], outputs[i]);
    return remember(gathering.issue(outputs));
  }
  std::vector<GatherIntoTensor> gathers;
  for (size_t i = 0; i < outputs.size(); ++i) gathers.emplace_back(outputs[i], inputs[i], rank_, size_, apart);
  auto issue = [gathers, opts](compat::Base& gloo) mutable {
    Works works;
    for (GatherIntoTensor& gather : gathers) works.push_back(gather.issue(gloo, opts));
    return works;
  };
  auto finish = [gathers]() mutable {
    for (GatherIntoTensor& gather : gathers) gather.finish();
  };
  return through_gloo(call, type, inputs, {outputs}, tensors_text(inputs), opts.timeout, std::move(issue),
                      std::move(finish));
}

// ---- gather, scatter ----

WorkPtr ProcessGroupSwitchML::gather(std::vector<Tensors>& outputs, Tensors& inputs, const c10d::GatherOptions& opts) {
  arguments(Call::kGather).gather(outputs, inputs, opts.rootRank);
  const Tensors results = flattened(outputs);
  const std::string what = tensors_text(inputs) + ", to rank " + std::to_string(opts.rootRank);
  if (engine_moves(inputs, results)) {
    EngineCall call = movement(Call::kGather, OpType::GATHER, results, what, Terms::of(opts));
    if (Footprint::clash(results)) call.apart();
    call.gather(inputs[0], results);
    return remember(call.issue(results));
  }
  const bool bytes = bytes_needed(inputs, outputs);
  ByteViews views(Footprint::clash(results));
  auto to = views_of(outputs, [&](const Tensors& list) { return bytes ? views.outputs(list) : list; });
  Tensors from = bytes ? views.inputs(inputs) : inputs;
  auto issue = [to, from, opts](compat::Base& gloo) mutable { return Works{gloo.gather(to, from, opts)}; };
  return through_gloo(Call::kGather, OpType::GATHER, inputs, outputs, what, opts.timeout, std::move(issue),
                      views.finish());
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
  const std::string what = tensors_text(outputs) + ", from rank " + std::to_string(opts.rootRank);
  if (engine_moves(flattened(inputs), outputs)) {
    EngineCall call = movement(Call::kScatter, OpType::SCATTER, outputs, what, Terms::of(opts));
    if (overlap(outputs, flattened(inputs))) call.apart();
    call.scatter(flattened(inputs), outputs[0], static_cast<int>(opts.rootRank));
    return remember(call.issue(outputs));
  }
  // Gloo writes the root's own part while it sends the others.
  const bool shares = overlap(outputs, flattened(inputs));
  const bool bytes = shares || bytes_needed(outputs, inputs);
  ByteViews views(shares);
  Tensors to = bytes ? views.outputs(outputs) : outputs;
  auto from = views_of(inputs, [&](const Tensors& list) { return bytes ? views.inputs(list) : list; });
  auto issue = [to, from, opts](compat::Base& gloo) mutable { return Works{gloo.scatter(to, from, opts)}; };
  return through_gloo(Call::kScatter, OpType::SCATTER, flattened(inputs), {outputs}, what, opts.timeout,
                      std::move(issue), views.finish());
}

}  // namespace switchml
