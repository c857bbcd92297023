// all_to_all: between hosts by Gloo, in memory as an Exchange of the engine.
#include <algorithm>
#include <cstring>
#include <numeric>
#include <utility>

#include "c10d/byte_views.h"
#include "c10d/call_text.h"
#include "c10d/process_group.h"

namespace switchml {

using c10d::OpType;
using WorkPtr = ProcessGroupSwitchML::WorkPtr;
using Tensors = ProcessGroupSwitchML::Tensors;

namespace {

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

/// The parts of an all_to_all_single lie along the first dimension; without splits they are equal.
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
  void issue(EngineCall* call, const at::Tensor& input, const std::vector<void*>& to) const {
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

}  // namespace

// Only two ranks know how much one sends to the other. Each tells all through the precheck, so that all refuse alike.

WorkPtr ProcessGroupSwitchML::alltoall_base(at::Tensor& output, at::Tensor& input, std::vector<int64_t>& output_splits,
                                            std::vector<int64_t>& input_splits, const c10d::AllToAllOptions& opts) {
  arguments(Call::kAllToAllSingle).all_to_all_single(output, input, output_splits, input_splits);
  const bool shares = overlap(output, input);
  const Parts expected = parts_of(output, output_splits, size_);
  const AllToAllSizes exchange(rank_, size_, parts_of(input, input_splits, size_), expected);
  if (core_->engine_can_exchange()) {
    EngineCall call = movement(Call::kAllToAllSingle, OpType::ALLTOALL_BASE, {output}, type_name(input.scalar_type()),
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
    return std::vector<WorkPtr>{gloo.alltoall_base(to, from, output_splits, input_splits, opts)};
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
  if (core_->engine_can_exchange()) {
    EngineCall call = movement(Call::kAllToAll, OpType::ALLTOALL, outputs, "a tensor for each rank", Terms::of(opts));
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
    return std::vector<WorkPtr>{gloo.alltoall_base(gloo_to, gloo_from, to_splits, from_splits, opts)};
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

}  // namespace switchml
