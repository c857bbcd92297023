// The collectives that reduce nothing: through memory, or between hosts by the engine, where that can be; else by Gloo.
#include <algorithm>
#include <cstring>
#include <numeric>
#include <utility>

#include "c10d/byte_views.h"
#include "c10d/call_text.h"
#include "c10d/memory_message.h"
#include "c10d/message_work.h"
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

/// What one rank sends to another, or expects of it.
struct Part {
  int64_t bytes;
  at::ScalarType type;
};
using Parts = std::vector<Part>;

Parts parts_of(const Tensors& tensors) {
  Parts result;
  for (const at::Tensor& tensor : tensors) {
    result.push_back({tensor.numel() * static_cast<int64_t>(tensor.element_size()), tensor.scalar_type()});
  }
  return result;
}

std::vector<int64_t> bytes_of(const Parts& pieces) {
  std::vector<int64_t> result;
  for (const Part& piece : pieces) result.push_back(piece.bytes);
  return result;
}

/// Of an all_to_all_single: along the first dimension, in equal parts where no splits are given.
Parts parts_of(const at::Tensor& tensor, const std::vector<int64_t>& splits, int ranks) {
  const int64_t rows = tensor.dim() == 0 ? 1 : tensor.size(0);
  const int64_t bytes = tensor.numel() * static_cast<int64_t>(tensor.element_size());
  Parts result(static_cast<size_t>(ranks), Part{bytes / ranks, tensor.scalar_type()});
  for (size_t r = 0; r < splits.size() && r < result.size(); ++r) {
    result[r].bytes = rows == 0 ? 0 : splits[r] * (bytes / rows);
  }
  return result;
}

/// What ranks send to each other in an all_to_all, and what they expect of each other. Every rank says its own, and
/// sees the same disagreement. Copies share the numbers.
class AllToAllSizes {
 public:
  AllToAllSizes(int rank, int ranks, const Parts& sent, const Parts& expected)
      : rank_(rank), ranks_(ranks), numbers_(at::zeros({2, ranks, ranks}, at::kLong)) {
    for (size_t other = 0; other < static_cast<size_t>(ranks); ++other) {
      number(0, rank, static_cast<int>(other)) = encoded(sent[other]);
      number(1, rank, static_cast<int>(other)) = encoded(expected[other]);
    }
  }

  /// For a sum over all ranks, which is all that they say.
  const at::Tensor& numbers() const { return numbers_; }
  void check(const std::string& context) const {
    if (const Status status = compared(); !status.ok()) throw_status(status, context);
  }

  /// Through the engine. `to`: by rank, where what it sends to this one goes.
  void issue(Reduction* call, const at::Tensor& input, const std::vector<void*>& to) const {
    call->exchange(input, own(),
                   [copy = *this, to](const std::vector<uint64_t>& of_all) { return copy.plan(of_all, to); });
  }

 private:
  static constexpr int kTypeBits = 8;

  std::vector<uint64_t> own() const {
    std::vector<uint64_t> result;
    for (const int which : {0, 1}) {
      for (int other = 0; other < ranks_; ++other) {
        result.push_back(static_cast<uint64_t>(number(which, rank_, other)));
      }
    }
    return result;
  }
  Result<ExchangePlan> plan(const std::vector<uint64_t>& of_all, const std::vector<void*>& to) const {
    size_t next = 0;
    for (int rank = 0; rank < ranks_; ++rank) {
      for (const int which : {0, 1}) {
        for (int other = 0; other < ranks_; ++other) {
          number(which, rank, other) = static_cast<int64_t>(of_all[next++]);
        }
      }
    }
    if (Status status = compared(); !status.ok()) return status;
    ExchangePlan result;
    for (int from = 0; from < ranks_; ++from) {
      const size_t begin = sent_before(from, rank_);
      result.receive_ranges.push_back({to[static_cast<size_t>(from)], begin, sent_before(from, rank_ + 1)});
      result.count = std::max(result.count, sent_before(from, ranks_));
    }
    return result;
  }

  // Nothing is nothing, of whatever type.
  static int64_t encoded(const Part& piece) {
    return piece.bytes == 0 ? 0 : piece.bytes << kTypeBits | static_cast<int64_t>(piece.type);
  }
  static std::string text(int64_t number) {
    if (number == 0) return "nothing";
    return std::to_string(number >> kTypeBits) + " bytes of " +
           type_name(static_cast<at::ScalarType>(number & ((1 << kTypeBits) - 1)));
  }
  Status compared() const {
    for (int from = 0; from < ranks_; ++from) {
      for (int to = 0; to < ranks_; ++to) {
        const int64_t sent = number(0, from, to);
        const int64_t expected = number(1, to, from);
        if (sent == expected) continue;
        return {Code::kMismatch, "rank " + std::to_string(from) + " sends " + text(sent) + " to rank " +
                                     std::to_string(to) + ", which expects " + text(expected)};
      }
    }
    return {};
  }
  /// Bytes that a rank sends to those before `to`.
  size_t sent_before(int from, int to) const {
    size_t bytes = 0;
    for (int other = 0; other < to; ++other) bytes += static_cast<size_t>(number(0, from, other) >> kTypeBits);
    return bytes;
  }
  int64_t& number(int which, int row, int column) const {
    return numbers_.data_ptr<int64_t>()[(which * ranks_ + row) * ranks_ + column];
  }

  int rank_;
  int ranks_;
  at::Tensor numbers_;
};

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
    Reduction agreement = reduction(call, type, c10d::ReduceOp::SUM, {timeout});
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

Reduction ProcessGroupSwitchML::movement(Call call, OpType type, const Tensors& results, const std::string& what,
                                         Terms terms) const {
  arguments(call).own_elements(results);
  Reduction result = reduction(call, type, c10d::ReduceOp::SUM, terms);
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
    Reduction call = movement(Call::kBroadcast, OpType::BROADCAST, tensors, what, Terms::of(opts));
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
    Reduction call = movement(Call::kAllGather, OpType::ALLGATHER, results, tensors_text(inputs), Terms::of(opts));
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

WorkPtr ProcessGroupSwitchML::_allgather_base(at::Tensor& output, at::Tensor& input,
                                              const c10d::AllgatherOptions& opts) {
  arguments(Call::kAllGatherIntoTensor).all_gather_into_tensors({output}, {input});
  if (engine_moves({input}, {output})) {
    Reduction call =
        movement(Call::kAllGatherIntoTensor, OpType::_ALLGATHER_BASE, {output}, tensors_text({input}), Terms::of(opts));
    call.gather_into(input, output);
    return remember(call.issue({output}));
  }
  GatherIntoTensor gather(output, input, rank_, size_, false);
  auto issue = [gather, opts](compat::Base& gloo) mutable { return Works{gather.issue(gloo, opts)}; };
  return through_gloo(Call::kAllGatherIntoTensor, OpType::_ALLGATHER_BASE, {input}, {{output}}, tensors_text({input}),
                      opts.timeout, std::move(issue), [gather]() mutable { gather.finish(); });
}

WorkPtr ProcessGroupSwitchML::allgather_coalesced(std::vector<Tensors>& outputs, Tensors& inputs,
                                                  const c10d::AllgatherOptions& opts) {
  arguments(Call::kAllGatherCoalesced).all_gather_coalesced(outputs, inputs);
  const Tensors results = flattened(outputs);
  if (engine_moves(inputs, results)) {
    Reduction call = movement(Call::kAllGatherCoalesced, OpType::ALLGATHER_COALESCED, results, tensors_text(inputs),
                              Terms::of(opts));
    if (Footprint::clash(results) || overlap(results, inputs)) call.apart();
    const std::vector<void*> places = call.memory_of(results);  // in the order in which results are written
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

WorkPtr ProcessGroupSwitchML::allgather_into_tensor_coalesced(Tensors& outputs, Tensors& inputs,
                                                              const c10d::AllgatherOptions& opts) {
  arguments(Call::kAllGatherIntoTensorCoalesced).all_gather_into_tensors(outputs, inputs);
  const bool apart = Footprint::clash(outputs, inputs);
  if (engine_moves(inputs, outputs)) {
    Reduction call = movement(Call::kAllGatherIntoTensorCoalesced, OpType::ALLGATHER_COALESCED, outputs,
                              tensors_text(inputs), Terms::of(opts));
    if (apart) call.apart();
    for (size_t i = 0; i < inputs.size(); ++i) call.gather_into(inputs[i], outputs[i]);
    return remember(call.issue(outputs));
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
  return through_gloo(Call::kAllGatherIntoTensorCoalesced, OpType::ALLGATHER_COALESCED, inputs, {outputs},
                      tensors_text(inputs), opts.timeout, std::move(issue), std::move(finish));
}

// ---- gather, scatter ----

WorkPtr ProcessGroupSwitchML::gather(std::vector<Tensors>& outputs, Tensors& inputs, const c10d::GatherOptions& opts) {
  arguments(Call::kGather).gather(outputs, inputs, opts.rootRank);
  const Tensors results = flattened(outputs);
  const std::string what = tensors_text(inputs) + ", to rank " + std::to_string(opts.rootRank);
  if (engine_moves(inputs, results)) {
    Reduction call = movement(Call::kGather, OpType::GATHER, results, what, Terms::of(opts));
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
    Reduction call = movement(Call::kScatter, OpType::SCATTER, outputs, what, Terms::of(opts));
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

// ---- all_to_all ----
// How much goes from whom to whom only those two know: each tells all through the precheck, so that all refuse alike.

WorkPtr ProcessGroupSwitchML::alltoall_base(at::Tensor& output, at::Tensor& input, std::vector<int64_t>& output_splits,
                                            std::vector<int64_t>& input_splits, const c10d::AllToAllOptions& opts) {
  arguments(Call::kAllToAllSingle).all_to_all_single(output, input, output_splits, input_splits);
  const bool shares = overlap(output, input);
  const Parts expected = parts_of(output, output_splits, size_);
  const AllToAllSizes exchange(rank_, size_, parts_of(input, input_splits, size_), expected);
  if (core_->engine_can_exchange() && engine_moves({input}, {output})) {
    Reduction call = movement(Call::kAllToAllSingle, OpType::ALLTOALL_BASE, {output}, type_name(input.scalar_type()),
                              Terms::of(opts));
    if (shares) call.apart();
    auto* next = static_cast<char*>(call.memory_of(output));
    std::vector<void*> to;
    for (const int64_t bytes : bytes_of(expected)) {
      to.push_back(next);
      next += bytes;
    }
    exchange.issue(&call, input, to);
    return remember(call.issue({output}));
  }
  const bool bytes = shares || ByteViews::needed(output) || ByteViews::needed(input);
  ByteViews views(shares);
  at::Tensor to = bytes ? views.output(output) : output;
  at::Tensor from = bytes ? views.input(input) : input;
  auto issue = [to, from, output_splits, input_splits, opts, exchange,
                context = core_->context(Call::kAllToAllSingle)](compat::Base& gloo) mutable {
    exchange.check(context);
    return Works{gloo.alltoall_base(to, from, output_splits, input_splits, opts)};
  };
  return through_gloo(Call::kAllToAllSingle, OpType::ALLTOALL_BASE, {input}, {{output}}, type_name(input.scalar_type()),
                      opts.timeout, std::move(issue), views.finish(), exchange.numbers());
}

// Gloo has none of its own everywhere: the pieces go through one alltoall_base as bytes.
WorkPtr ProcessGroupSwitchML::alltoall(Tensors& outputs, Tensors& inputs, const c10d::AllToAllOptions& opts) {
  arguments(Call::kAllToAll).all_to_all(outputs, inputs);
  const Parts sent = parts_of(inputs);
  const Parts expected = parts_of(outputs);
  const std::vector<int64_t> input_splits = bytes_of(sent);
  const std::vector<int64_t> output_splits = bytes_of(expected);
  const at::AutoDispatchBelowADInplaceOrView guard;
  const AllToAllSizes exchange(rank_, size_, sent, expected);
  const at::Tensor from = at::empty({std::accumulate(input_splits.begin(), input_splits.end(), int64_t{0})}, at::kByte);
  auto* next = static_cast<char*>(from.data_ptr());
  for (const at::Tensor& input : inputs) {
    const HostView piece(input, HostView::Use::kRead);
    if (input.nbytes() > 0) std::memcpy(next, piece.data(), input.nbytes());
    next += input.nbytes();
  }
  if (core_->engine_can_exchange() && engine_moves(inputs, outputs)) {
    Reduction call = movement(Call::kAllToAll, OpType::ALLTOALL, outputs, "a tensor for each rank", Terms::of(opts));
    if (Footprint::clash(outputs)) call.apart();
    exchange.issue(&call, from, call.memory_of(outputs));
    call.show_inputs(inputs);
    return remember(call.issue(outputs));
  }
  const at::Tensor to = at::empty({std::accumulate(output_splits.begin(), output_splits.end(), int64_t{0})}, at::kByte);
  auto issue = [gloo_to = at::Tensor(to), gloo_from = at::Tensor(from), to_splits = std::vector<int64_t>(output_splits),
                from_splits = std::vector<int64_t>(input_splits), opts, exchange,
                context = core_->context(Call::kAllToAll)](compat::Base& gloo) mutable {
    exchange.check(context);
    return Works{gloo.alltoall_base(gloo_to, gloo_from, to_splits, from_splits, opts)};
  };
  auto finish = [to, from, outputs, output_splits] {
    int64_t at = 0;
    for (size_t r = 0; r < outputs.size(); at += output_splits[r], ++r) {
      if (output_splits[r] == 0) continue;
      // Own memory per piece, so that it is aligned for its type.
      const at::Tensor piece = to.narrow(0, at, output_splits[r]).clone();
      outputs[r].copy_(piece.view(outputs[r].scalar_type()).view(outputs[r].sizes()));
    }
  };
  return through_gloo(Call::kAllToAll, OpType::ALLTOALL, inputs, {outputs}, "", opts.timeout, std::move(issue),
                      std::move(finish), exchange.numbers());
}

// ---- point to point ----
// A barrier does not wait for these: their other end may come after it.

WorkPtr ProcessGroupSwitchML::message(Call call, OpType type, const Tensors& tensors, int peer, int tag,
                                      const std::function<WorkPtr(compat::Base&)>& by_gloo) {
  const std::shared_ptr<Session> session = core_->session();
  if (const Status closed = core_->closed(); !closed.ok()) throw_status(closed, core_->context(call));
  if (const auto memory = session ? session->messages() : nullptr) {
    return sent(message_in_memory(core_, memory, call, type, tensors, peer, tag, deadline({})));
  }
  if (const Status failure = core_->failure(); !failure.ok()) throw_status(failure, core_->context(call));
  const auto gloo = delegate_->get();
  const WorkPtr work = MessageWork::start(core_, call, type, tensors, peer, tag, [&] { return by_gloo(*gloo); });
  messages_.add(work);
  if (!core_->failure().ok()) work->abort();  // it came too late for abort_messages()
  return sent(work);
}

WorkPtr ProcessGroupSwitchML::send(Tensors& tensors, int destination, int tag) {
  arguments(Call::kSend).send(tensors, destination, tag);
  return message(Call::kSend, OpType::SEND, tensors, destination, tag, [&](compat::Base& gloo) {
    Tensors bytes = ByteViews().inputs(tensors);
    return gloo.send(bytes, destination, tag);
  });
}

WorkPtr ProcessGroupSwitchML::recv(Tensors& tensors, int source, int tag) {
  arguments(Call::kRecv).recv(tensors, source, tag);
  return message(Call::kRecv, OpType::RECV, tensors, source, tag, [&](compat::Base& gloo) {
    Tensors bytes = ByteViews().outputs(tensors);
    return gloo.recv(bytes, source, tag);
  });
}

WorkPtr ProcessGroupSwitchML::recvAnysource(Tensors& tensors, int tag) {
  arguments(Call::kRecvAnySource).recv_any_source(tensors, tag);
  return message(Call::kRecvAnySource, OpType::RECVANYSOURCE, tensors, shm::kAnySource, tag, [&](compat::Base& gloo) {
    Tensors bytes = ByteViews().outputs(tensors);
    return gloo.recvAnysource(bytes, tag);
  });
}

}  // namespace switchml
