// all_to_all: in memory as an Exchange of the engine, between hosts as messages.
#include <algorithm>
#include <atomic>
#include <cstring>
#include <mutex>
#include <optional>
#include <utility>

#include "c10d/call_text.h"
#include "c10d/message_call.h"
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

/// Between hosts each pair of ranks sends each other its parts, once all have agreed on them.
class PairwiseExchange : public std::enable_shared_from_this<PairwiseExchange> {
 public:
  PairwiseExchange(const std::shared_ptr<GroupCore>& core, Call call, OpType type, const Tensors& inputs,
                   const Tensors& outputs, const AllToAllSizes& sizes, Time deadline)
      : messages_(messages_of(*core, call)),
        sizes_(sizes),
        deadline_(deadline),
        name_(to_string(call)),
        call_(core, CallRecord(core, call, Way::kPeers), type, inputs, {outputs}, time_until(deadline)),
        record_(call_.record()) {}

  /// Memory for a tensor's elements; what was made for an output reaches it in the end.
  uint8_t* keep(const at::Tensor& tensor, HostView::Use use, bool apart) {
    views_.emplace_back(tensor, use, apart, copies_of(tensor));
    return static_cast<uint8_t*>(views_.back().data());
  }
  /// The next rank's.
  void add(const uint8_t* from, int64_t sent, uint8_t* to, int64_t expected) {
    ends_.push_back({from, static_cast<size_t>(sent), to, static_cast<size_t>(expected)});
  }

  WorkPtr start(const WorkPtr& agreement) {
    call_.leave_thread();
    if (copies_) copies_->follow_caller();
    WorkPtr work = call_.work();
    agreement->getFuture()->addCallback([self = shared_from_this()](c10::ivalue::Future& future) {
      if (future.hasError()) {
        self->error_ = future.exception_ptr();
        self->over();
      } else if (self->copies_) {
        self->call_.core()->stager().post([self] { self->feed(); });
      } else {
        self->exchange();
      }
    });
    return work;
  }

 private:
  struct Ends {
    const uint8_t* from;
    size_t sent;
    uint8_t* to;
    size_t expected;
  };

  std::shared_ptr<DeviceCopies> copies_of(const at::Tensor& tensor) {
    if (!device_) device_ = tensor.device();
    require_same_device(*device_, tensor.device(), name_);
    if (tensor.is_cpu()) return nullptr;
    if (!copies_) copies_ = new_copies(call_.core(), tensor.device(), name_);
    return copies_;
  }

  void feed() {
    status_ = call_.core()->feed(*copies_, nullptr, deadline_);
    status_.ok() ? exchange() : over();
  }

  // What all ranks agree on needs no message where it is nothing.
  void exchange() {
    record_.started();
    try {
      sizes_.check(record_.context());
    } catch (...) {
      error_ = std::current_exception();
      return over();
    }
    const auto ranks = static_cast<int>(ends_.size());
    const int rank = call_.core()->group().rank;
    if (const Ends& own = ends_[static_cast<size_t>(rank)]; own.sent > 0) std::memcpy(own.to, own.from, own.sent);
    for (int i = 1; i < ranks; ++i) {  // A rank hears of its ranks in another order than they do of it.
      const int source = (rank - i + ranks) % ranks;
      post(false, source, ends_[static_cast<size_t>(source)].expected);
    }
    for (int i = 1; i < ranks; ++i) {
      const int to = (rank + i) % ranks;
      post(true, to, ends_[static_cast<size_t>(to)].sent);
    }
    ended(Status());
  }

  void post(bool sends, int peer, size_t bytes) {
    if (bytes == 0) return;
    Message message;
    message.peer = peer;
    message.tag = tag_of_collective(record_.sequence());
    message.bytes = bytes;
    message.deadline = deadline_;
    message.from = ends_[static_cast<size_t>(peer)].from;
    message.to = ends_[static_cast<size_t>(peer)].to;
    message.done = [self = shared_from_this()](const Status& status, int) { self->ended(status); };
    ++unfinished_;
    sends ? messages_->send(std::move(message)) : messages_->receive(std::move(message));
  }

  void ended(const Status& status) {
    if (!status.ok()) {
      const std::lock_guard<std::mutex> lock(mutex_);
      if (status_.ok()) status_ = status;
    }
    if (unfinished_.fetch_sub(1) == 1) over();
  }

  void over() {
    call_.post([self = shared_from_this()]() mutable { std::exchange(self, nullptr)->complete(); });
  }

  void complete() {
    const DeviceCopies::Current current(copies_);
    call_.complete([this] {
      std::vector<HostView> views = std::exchange(views_, {});
      if (copies_ && (error_ || !status_.ok())) copies_->drop_results();
      if (!status_.ok()) call_.core()->call_failed(status_);
      if (!status_.ok()) throw_status(status_, record_.context());
      if (error_) std::rethrow_exception(error_);
      for (HostView& view : views) view.write_back();
    });
  }

  const std::shared_ptr<Messages> messages_;
  const AllToAllSizes sizes_;
  const Time deadline_;
  const char* const name_;
  OpenCall call_;
  const CallRecord record_;
  std::optional<c10::Device> device_;  // All tensors are there.
  std::shared_ptr<DeviceCopies> copies_;
  std::vector<HostView> views_;
  std::vector<Ends> ends_;          // One for each rank.
  std::atomic<int> unfinished_{1};  // messages, and that there are no more
  std::mutex mutex_;
  Status status_;  // The first message that fails sets it.
  std::exception_ptr error_;
};

}  // namespace

// Only two ranks know how much one sends to the other. Each tells all through the precheck, so that all refuse alike.

WorkPtr ProcessGroupSwitchML::alltoall_base(at::Tensor& output, at::Tensor& input, std::vector<int64_t>& output_splits,
                                            std::vector<int64_t>& input_splits, const c10d::AllToAllOptions& opts) {
  arguments(Call::kAllToAllSingle).all_to_all_single(output, input, output_splits, input_splits);
  const bool shares = overlap(output, input);
  const Parts expected = parts_of(output, output_splits, size_);
  const Parts sent = parts_of(input, input_splits, size_);
  const AllToAllSizes exchange(rank_, size_, sent, expected);
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
  arguments(Call::kAllToAllSingle).own_elements({output});
  const auto between =
      std::make_shared<PairwiseExchange>(core_, Call::kAllToAllSingle, OpType::ALLTOALL_BASE, Tensors{input},
                                         Tensors{output}, exchange, deadline(opts.timeout));
  const uint8_t* from = between->keep(input, HostView::Use::kRead, shares);
  uint8_t* to = between->keep(output, HostView::Use::kWrite, shares);
  for (size_t rank = 0; rank < expected.size(); from += sent[rank].bytes, to += expected[rank].bytes, ++rank) {
    between->add(from, sent[rank].bytes, to, expected[rank].bytes);
  }
  EngineCall agreement = engine_call(Call::kAllToAllSingle, OpType::ALLTOALL_BASE, c10d::ReduceOp::SUM, {opts.timeout});
  agreement.precheck(type_name(input.scalar_type()), exchange.numbers());
  return remember(between->start(agreement.issue({})));
}

// The engine takes the pieces as one tensor of bytes.
WorkPtr ProcessGroupSwitchML::alltoall(Tensors& outputs, Tensors& inputs, const c10d::AllToAllOptions& opts) {
  arguments(Call::kAllToAll).all_to_all(outputs, inputs);
  const Parts sent = parts_of(inputs);
  const Parts expected = parts_of(outputs);
  const at::AutoDispatchBelowADInplaceOrView guard;
  const AllToAllSizes exchange(rank_, size_, sent, expected);
  if (core_->engine_can_exchange()) {
    EngineCall call = movement(Call::kAllToAll, OpType::ALLTOALL, outputs, "a tensor for each rank", Terms::of(opts));
    if (Footprint::clash(outputs)) call.apart();
    const at::Tensor from = call.packed(inputs);
    exchange.issue(&call, from, call.memory_of(outputs));
    call.show_inputs(inputs);
    return remember(call.issue(outputs));
  }
  arguments(Call::kAllToAll).own_elements(outputs);
  const bool apart = overlap(outputs, inputs) || Footprint::clash(outputs);
  const auto between = std::make_shared<PairwiseExchange>(core_, Call::kAllToAll, OpType::ALLTOALL, inputs, outputs,
                                                          exchange, deadline(opts.timeout));
  for (size_t rank = 0; rank < outputs.size(); ++rank) {
    const uint8_t* from = between->keep(inputs[rank], HostView::Use::kRead, apart);
    between->add(from, sent[rank].bytes, between->keep(outputs[rank], HostView::Use::kWrite, apart),
                 expected[rank].bytes);
  }
  EngineCall agreement = engine_call(Call::kAllToAll, OpType::ALLTOALL, c10d::ReduceOp::SUM, {opts.timeout});
  agreement.precheck("", exchange.numbers());
  return remember(between->start(agreement.issue({})));
}

}  // namespace switchml
