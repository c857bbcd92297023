#include "c10d/engine_call.h"

#include <cstring>
#include <utility>

#include "base/fnv.h"
#include "c10d/pending_call.h"

namespace switchml {

EngineCall::EngineCall(std::shared_ptr<GroupCore> core, Call call, c10d::OpType type, const c10d::ReduceOp& op,
                       Time deadline)
    : flight_(std::make_shared<Pending>(std::move(core))), call_(call), type_(type), op_(op), deadline_(deadline) {
  flight_->operation = operation_name(op_);
}

at::Tensor EngineCall::prepared(const at::Tensor& tensor) {
  inputs_.push_back(tensor);
  at::Tensor source = tensor;
  if (op_.op_ == c10d::ReduceOp::PREMUL_SUM) {
    const at::AutoDispatchBelowADInplaceOrView guard;
    source = compat::premultiplied(tensor, op_);
  }
  return HostView(source, HostView::Use::kRead, false, copies_of(source)).host();
}

std::shared_ptr<DeviceCopies> EngineCall::copies_of(const at::Tensor& tensor) {
  if (tensor.is_cpu()) return nullptr;
  std::shared_ptr<DeviceCopies>& copies = flight_->copies;
  if (!copies) copies = new_copies(flight_->core, tensor.device(), to_string(call_));
  require_same_device(copies->device(), tensor.device(), to_string(call_));
  return copies;
}

void EngineCall::require_one_device(at::ArrayRef<std::vector<at::Tensor>> lists) const {
  const c10::Device& device = flight_->copies->device();
  for (const at::Tensor& tensor : inputs_) require_same_device(device, tensor.device(), to_string(call_));
  for (const std::vector<at::Tensor>& list : lists) {
    for (const at::Tensor& tensor : list) require_same_device(device, tensor.device(), to_string(call_));
  }
}

/// Complex numbers add as their real and imaginary parts do.
static size_t numbers_per_element(const at::Tensor& tensor) { return tensor.is_complex() ? 2 : 1; }

void EngineCall::add(const at::Tensor& input, const at::Tensor& output, size_t begin, size_t end) {
  const size_t numbers = numbers_per_element(input);
  Collective part;
  const std::optional<ReduceOp> operation = engine_operation(op_, input.scalar_type());
  SWITCHML_ASSERT(operation.has_value());
  part.op = *operation;
  part.type = *element_type(c10::toRealValueType(input.scalar_type()));
  part.count = static_cast<size_t>(input.numel()) * numbers;
  add(std::move(part), input, output, begin * numbers, end * numbers);
}

void EngineCall::add(Collective part, const at::Tensor& input, const at::Tensor& output, size_t begin, size_t end) {
  part.deadline = deadline_;
  part.title = title_of(call_);
  part.exactly = exactly_;
  Operands& operands = *part.operands();
  operands.input = input.data_ptr();
  operands.output = {output.defined() ? output.data_ptr() : nullptr, begin, end};
  if (op_.op_ == c10d::ReduceOp::AVG && sums_floats(part.op, part.type)) {
    operands.divisor = static_cast<uint32_t>(flight_->core->group().size);
  }
  flight_->results.kept.push_back(input);
  if (output.defined() && !output.is_same(input)) flight_->results.kept.push_back(output);
  flight_->parts.push_back(std::move(part));
}

void EngineCall::add_integer_mean(const at::Tensor& input, const at::Tensor& output, size_t begin, size_t end) {
  const at::AutoDispatchBelowADInplaceOrView guard;
  inputs_.push_back(input);
  flight_->parts_of_each = 2;
  const int ranks = flight_->core->group().size;
  const IntegerMean::Terms given = IntegerMean::terms_of(input, ranks);
  IntegerMean::Terms sums;
  if (output.defined()) {
    flight_->results.means.emplace_back(output, ranks);
    sums = flight_->results.means.back().sums();
  }
  const std::shared_ptr<DeviceCopies> copies = copies_of(input);
  add(HostView(given.quotients, HostView::Use::kRead, false, copies).host(), sums.quotients, begin, end);
  add(HostView(given.remainders, HostView::Use::kRead, false, copies).host(), sums.remainders, begin, end);
}

void EngineCall::root(int rank) { flight_->root = rank; }
void EngineCall::detail(const std::string& text) { flight_->detail = text; }

void EngineCall::in_place(const at::Tensor& tensor) { to_root(tensor, true); }

void EngineCall::to_root(const at::Tensor& tensor, bool is_root) {
  const size_t count = static_cast<size_t>(tensor.numel());
  if (averages_integers(tensor)) {
    return add_integer_mean(tensor, is_root ? tensor : at::Tensor(), 0, is_root ? count : 0);
  }
  if (!is_root) {
    add(prepared(tensor), at::Tensor(), 0, 0);
    return;
  }
  if (op_.op_ == c10d::ReduceOp::PREMUL_SUM || apart_) {
    add(prepared(tensor), target(tensor, apart_), 0, count);
    return;
  }
  inputs_.push_back(tensor);
  HostView view(tensor, HostView::Use::kReadWrite, false, copies_of(tensor));
  add(view.host(), view.host(), 0, count);
  if (view.is_copy()) flight_->results.outputs.push_back(std::move(view));
}

void EngineCall::slice(const at::Tensor& input, const at::Tensor& output, size_t begin) {
  const size_t end = begin + static_cast<size_t>(output.numel());
  if (averages_integers(input)) return add_integer_mean(input, output, begin, end);
  const at::Tensor source = prepared(input);
  const char* own = static_cast<const char*>(source.data_ptr()) + begin * source.element_size();
  // Neither in place nor apart: the engine would read what it has written.
  const bool shares = overlap(source, output) && output.data_ptr() != own;
  add(source, target(output, apart_ || shares), begin, end);
}

void EngineCall::slice(const at::Tensor& input, const at::Tensor& output, size_t begin, std::vector<size_t> ends) {
  slice(input, output, begin);
  for (size_t& end : ends) end *= numbers_per_element(input);
  for (size_t i = 1; i <= flight_->parts_of_each; ++i) {
    Collective& part = flight_->parts[flight_->parts.size() - i];
    part.kind = ReduceScatter{*part.operands(), ends};
  }
}

bool EngineCall::sums_to_float32() const {
  const std::shared_ptr<Session> session = flight_->core->session();
  return session && session->engine().sums_to_float32();
}

void EngineCall::sum_to_float32(const at::Tensor& input, ElementType type, size_t count, const at::Tensor& output,
                                size_t begin, size_t end, std::vector<size_t> ends) {
  inputs_.push_back(input);
  const at::Tensor terms = HostView(input, HostView::Use::kRead, false, copies_of(input)).host();
  Collective part;
  part.op = ReduceOp::kSumToFloat32;
  part.type = type;
  part.count = count;
  add(std::move(part), terms, target(output, overlap(terms, output)), begin, end);
  Collective& added = flight_->parts.back();
  if (!ends.empty()) added.kind = ReduceScatter{*added.operands(), std::move(ends)};
}

/// Memory for a result, from which it reaches `output` in the end.
at::Tensor EngineCall::target(const at::Tensor& output, bool apart) {
  if (!apart || !output.is_cpu()) {
    flight_->results.outputs.emplace_back(output, HostView::Use::kWrite, apart, copies_of(output));
    return flight_->results.outputs.back().host();
  }
  const at::AutoDispatchBelowADInplaceOrView guard;
  at::Tensor result = at::empty(output.sizes(), output.options().memory_format(at::MemoryFormat::Contiguous));
  flight_->results.copies.emplace_back(result, output);
  return result;
}

// ---- what moves ----

void EngineCall::agree_about(const std::string& what) { flight_->what = what; }

template <typename Kind>
Collective EngineCall::moved(Kind kind, size_t bytes) const {
  Collective part;
  part.kind = std::move(kind);
  part.type = ElementType::kUInt8;  // [MOVED-1]
  part.count = bytes;
  part.deadline = deadline_;
  part.title = title_of(call_);
  return part;
}

const void* EngineCall::given(const at::Tensor& input, bool apart) {
  inputs_.push_back(input);
  flight_->results.kept.push_back(HostView(input, HostView::Use::kRead, apart, copies_of(input)).host());
  return flight_->results.kept.back().data_ptr();
}

at::Tensor EngineCall::packed(const std::vector<at::Tensor>& tensors) {
  int64_t bytes = 0;
  for (const at::Tensor& tensor : tensors) bytes += static_cast<int64_t>(tensor.nbytes());
  for (const at::Tensor& tensor : tensors) {
    require_same_device(tensors.front().device(), tensor.device(), to_string(call_));
  }
  const std::shared_ptr<DeviceCopies> copies = copies_of(tensors.front());
  flight_->inputs_first = true;
  at::Tensor all = copies ? copies->memory({bytes}, at::kByte) : at::empty({bytes}, at::kByte);
  int64_t begin = 0;
  for (const at::Tensor& tensor : tensors) {
    const int64_t end = begin + static_cast<int64_t>(tensor.nbytes());
    if (copies) {
      const at::Tensor plain = HostView::is_plain(tensor) ? tensor : tensor.resolve_conj().resolve_neg().contiguous();
      copies->read(plain.view({plain.numel()}).view(at::kByte), all.slice(0, begin, end));
    } else if (tensor.numel() > 0) {
      const HostView piece(tensor, HostView::Use::kRead);
      std::memcpy(static_cast<char*>(all.data_ptr()) + begin, piece.data(), tensor.nbytes());
    }
    begin = end;
  }
  return all;
}

void* EngineCall::memory_of(const at::Tensor& output) {
  flight_->results.kept.push_back(target(output, apart_));
  return flight_->results.kept.back().data_ptr();
}

std::vector<void*> EngineCall::memory_of(const std::vector<at::Tensor>& outputs) {
  std::vector<void*> all;
  for (const at::Tensor& output : outputs) all.push_back(memory_of(output));
  return all;
}

void EngineCall::copy(const at::Tensor& from, const at::Tensor& to) {
  flight_->results.copies.emplace_back(from, to);
  for (const at::Tensor& tensor : {from, to}) {
    if (const std::shared_ptr<DeviceCopies> copies = copies_of(tensor)) copies->keep(tensor);
  }
}

void EngineCall::broadcast(const at::Tensor& tensor, int root) {
  const bool is_root = root == flight_->core->group().rank;
  const Broadcast part{root, is_root ? given(tensor, false) : nullptr, is_root ? nullptr : memory_of(tensor)};
  flight_->parts.push_back(moved(part, tensor.nbytes()));
}

void EngineCall::scatter(const std::vector<at::Tensor>& pieces, const at::Tensor& output, int root) {
  Scatter part;
  part.root = root;
  if (root == flight_->core->group().rank) {
    for (const at::Tensor& piece : pieces) part.inputs.push_back(given(piece, false));
    flight_->inputs_first = true;
  }
  part.output = memory_of(output);
  flight_->parts.push_back(moved(std::move(part), output.nbytes()));
}

void EngineCall::gather_into(const at::Tensor& input, const at::Tensor& output) {
  auto* begin = static_cast<char*>(memory_of(output));
  std::vector<void*> to;
  for (int rank = 0; rank < flight_->core->group().size; ++rank) {
    to.push_back(begin + static_cast<size_t>(rank) * input.nbytes());
  }
  gather(input, {output}, to);
}

void EngineCall::gather(const std::vector<at::Tensor>& inputs, const std::vector<at::Tensor>& outputs) {
  const std::vector<void*> places = memory_of(outputs);  // Results are written in this order.
  for (size_t i = 0; i < inputs.size(); ++i) {
    std::vector<void*> to;
    for (size_t at = i; at < places.size(); at += inputs.size()) to.push_back(places[at]);
    gather(inputs[i], outputs, to);
  }
}

// An input that is the output's own part is read before that is written, chunk by chunk.
void EngineCall::gather(const at::Tensor& input, const std::vector<at::Tensor>& outputs, const std::vector<void*>& to) {
  Gather part;
  const bool in_place = !to.empty() && to[static_cast<size_t>(flight_->core->group().rank)] == input.data_ptr();
  part.input = given(input, !in_place && overlap({input}, outputs));
  for (void* output : to) part.receive_ranges.push_back({output, 0, input.nbytes()});
  flight_->parts.push_back(moved(std::move(part), input.nbytes()));
}

void EngineCall::exchange(const at::Tensor& input, std::vector<uint64_t> sizes, OnSizesKnown on_sizes_known) {
  Exchange part;
  part.input = given(input, false);
  part.send_count = input.nbytes();
  part.sizes = std::move(sizes);
  part.on_sizes_known = [flight = std::weak_ptr<Pending>(flight_),
                         on_sizes_known = std::move(on_sizes_known)](const std::vector<uint64_t>& of_all) {
    Result<ExchangePlan> plan = on_sizes_known(of_all);
    const std::shared_ptr<Pending> held = flight.lock();
    if (held && !plan.ok()) held->refused = true;
    return plan;
  };
  flight_->parts.push_back(moved(std::move(part), 0));
  flight_->parts.back().total_count = input.nbytes();
}

void EngineCall::then(std::function<void(EngineCall&)> more) {
  EngineCall next(*this);
  next.flight_.reset();  // It holds this.
  flight_->more = [next, more = std::move(more)](const std::shared_ptr<Pending>& flight) mutable {
    next.flight_ = flight;
    more(next);
    next.tag_parts();
  };
}

// ---- what has no elements ----

void EngineCall::barrier(std::vector<Outstanding::WeakWork> before) {
  flight_->before = std::move(before);
  Collective part;
  part.op = ReduceOp::kBarrier;
  part.deadline = deadline_;
  part.title = title_of(call_);
  flight_->parts.push_back(std::move(part));
}

void EngineCall::precheck(const std::string& what, const at::Tensor& numbers) {
  precheck_ = true;
  flight_->what = what;
  in_place(numbers);
}

// SUM, AVG of integers and PREMUL_SUM look alike to the switch, and so does a list's first tensor to one that comes
// alone; ranks must agree about them all the same.
void EngineCall::tag_parts() {
  Collectives& parts = flight_->parts;
  for (size_t i = 0; i < parts.size(); ++i) {
    const uint64_t numbers[] = {static_cast<uint64_t>(op_.op_), static_cast<uint64_t>(flight_->root + 1), i,
                                parts.size()};
    uint64_t hash = fnv1a(numbers, sizeof numbers);
    for (const std::string* text : {&flight_->what, &flight_->detail}) hash = fnv1a(text->data(), text->size(), hash);
    parts[i].tag = hash;
    parts[i].sequence = flight_->call->record().sequence();
    if (auto* reduce = std::get_if<Reduce>(&parts[i].kind)) reduce->root = flight_->root;
  }
}

c10::intrusive_ptr<c10d::Work> EngineCall::issue_lists(at::ArrayRef<std::vector<at::Tensor>> lists) {
  const std::shared_ptr<GroupCore>& core = flight_->core;
  if (flight_->copies) require_one_device(lists);
  if (core->group().size > 1) core->start_pool(call_);
  // A precheck accompanies a call that is counted already.
  CallRecord record = precheck_ ? CallRecord::of_precheck(core, call_) : CallRecord(core, call_, core->engine_way());
  flight_->call.emplace(core, std::move(record), type_, inputs_, OutputLists(lists.begin(), lists.end()),
                        time_until(deadline_));
  c10::intrusive_ptr<SwitchWork> work = flight_->call->work();
  work->record().started();
  if (flight_->copies) flight_->copies->follow_caller();
  tag_parts();
  std::exchange(flight_, nullptr)->launch(waits_);
  return work;
}

}  // namespace switchml
