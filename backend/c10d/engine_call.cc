#include "c10d/engine_call.h"

#include <algorithm>
#include <atomic>
#include <cstring>
#include <sstream>
#include <utility>

#include "base/fnv.h"
#include "base/log.h"
#include "c10d/integer_mean.h"

namespace switchml {

using Collectives = c10::SmallVector<Collective, 1>;

/// What a call has in memory, and how it gets to where the caller wants it.
struct Results {
  c10::SmallVector<at::Tensor, 2> kept;  // The parts point to this memory.
  std::vector<IntegerMean> means;
  c10::SmallVector<HostView, 1> outputs;
  std::vector<std::pair<at::Tensor, at::Tensor>> copies;  // From, to.

  void write() {
    for (const IntegerMean& mean : means) mean.write();
    for (HostView& view : outputs) view.write_back();
    for (auto& [from, to] : copies) to.copy_(from);
  }
};

/// Shared by the engine's callbacks; the last of them hands it to the completion pool.
class EngineCall::Pending : public std::enable_shared_from_this<EngineCall::Pending> {
 public:
  explicit Pending(std::shared_ptr<GroupCore> core_) : core(std::move(core_)) {}

  std::optional<OpenCall> call;  // Once it is issued.

  /// `waits`: this thread does what it can of it.
  void launch(bool waits) {
    const bool holds = more != nullptr || feeds_first();
    if (holds || core->order().is_held()) {
      call->leave_thread();
      const auto later = [self = shared_from_this()] {
        self->is_elsewhere = true;
        self->begin(false);
      };
      if (!core->order().pass(later, holds)) return;
    }
    begin(waits);
  }

  std::shared_ptr<GroupCore> core;
  Collectives parts;
  size_t parts_of_each = 1;  // tensor
  Results results;
  std::vector<Outstanding::WeakWork> before;
  const char* operation = "";
  int root = -1;                         // The root of a reduce.
  std::string detail;                    // Follows operation, type and count in messages.
  std::string what;                      // Replaces operation, type and count in messages.
  std::shared_ptr<DeviceCopies> copies;  // Null unless tensors of an accelerator are staged.
  bool inputs_first = false;             // It is issued when all of them are there.
  bool is_elsewhere = false;             // Where it begins, calls that follow are held back: no callback may run there.
  bool refused = false;                  // By Exchange::on_sizes_known, which knows what all have called.
  std::function<void(const std::shared_ptr<Pending>&)> more;  // EngineCall::then()

 private:
  bool feeds_first() const { return copies && (inputs_first || core->group().size == 1); }

  void begin(bool waits) {
    if (!feeds_first()) return start(waits);
    core->stager().post([self = shared_from_this()] {
      self->is_elsewhere = true;
      self->status = self->core->feed(*self->copies, nullptr, self->parts.front().deadline);
      self->status.ok() ? self->start(false) : post(self);
      self->core->order().release();
    });
  }

  void start(bool waits) {
    const std::shared_ptr<Session> session = core->session();
    self_ = shared_from_this();
    unfinished.store(parts.size() + 1);
    if (session) {
      if (copies) gate();
      fly(session->engine(), waits && !copies);
      if (copies && !feeds_first()) {
        core->stager().post(
            [core = core, copies = copies, session] { static_cast<void>(core->feed(*copies, session)); });
      }
    } else {
      const Status closed = core->closed();
      for (const Collective& part : parts) ended(closed.ok() ? complete_alone(part) : closed);
    }
    if (unfinished.load() > 1) call->leave_thread();
    if (!ended(Status::ok_status())) return;
    const std::shared_ptr<Pending> self = std::move(self_);
    // All is over: no other thread is needed, but where it would take this one long.
    const bool is_quick = core->group().size == 1 || (status.ok() && !awaits_earlier());
    if (is_quick && !is_elsewhere) return complete();
    call->leave_thread();
    post(self);
  }

  void fly(Engine& engine, bool waits) {
    const std::unique_ptr<CallerTurn> turn = waits ? engine.begin_turn(bytes()) : nullptr;
    // The engine gets copies: `parts` stays for messages.
    for (const Collective& part : parts) {
      Collective collective = part;
      collective.done = [this](const Status& outcome) {
        if (ended(outcome)) post(std::move(self_));
      };
      engine.submit(std::move(collective));
    }
    if (!turn) return;
    // No longer than wait() waits before it lets signals in: their handlers, and Python's lock, may depend on others of
    // this group, which do no work during a turn.
    const CompletionPool::Wait waiting;
    turn->work_until([this] { return unfinished.load() == 1; });
  }

  void gate() {
    const auto written = [weak = std::weak_ptr<DeviceCopies>(copies), core = core.get()] {
      if (const auto copies_ = weak.lock()) core->stager().post([copies_] { copies_->copy_out_early(); }, 1);
    };
    for (Collective& part : parts) copies->gate(&part, written);
  }

  size_t bytes() const {
    size_t sum = 0;
    for (const Collective& part : parts) sum += part.count * element_bytes(part.type);
    return sum;
  }
  /// One part less; whether it was the last, which takes `self_`: a thread of the engine must not keep this.
  bool ended(const Status& outcome) {
    if (!outcome.ok()) {
      const std::lock_guard<std::mutex> lock(mutex);
      if (status.ok()) status = outcome;
    }
    return unfinished.fetch_sub(1) == 1;
  }
  static void post(std::shared_ptr<Pending> self) {
    const OpenCall& call = *self->call;
    call.post([self = std::move(self)]() mutable { std::exchange(self, nullptr)->complete(); });
  }

  void complete() {
    if (more && status.ok()) return go_on();
    if (std::exchange(more, nullptr)) core->order().release();
    const DeviceCopies::Current current(copies);
    call->complete([this] {
      Results delivered;
      std::swap(delivered, results);
      if (!status.ok() && copies) copies->drop_results();
      if (!status.ok()) throw_failure();
      for (const Outstanding::WeakWork& weak : before) wait_for(weak);
      delivered.write();
    });
  }

  void go_on() {
    const std::shared_ptr<Pending> self = shared_from_this();  // What is started may end at once.
    const auto add_parts = std::exchange(more, nullptr);
    const Collectives done = std::exchange(parts, {});
    try {
      const at::ThreadLocalStateGuard guard(call->thread_state());
      const at::AutoDispatchBelowADInplaceOrView below_autograd;
      add_parts(self);
    } catch (...) {
      more = nullptr;
      parts = done;
      status = Status(Code::kUnavailable, exception_text(std::current_exception()).value_or("an unknown error"));
      core->give_up(status.message());
      core->order().release();
      return complete();
    }
    const bool is_last = !more;
    is_elsewhere = true;
    start(false);
    if (is_last) core->order().release();
  }

  bool awaits_earlier() const {
    return std::any_of(before.begin(), before.end(), [](const Outstanding::WeakWork& weak) {
      const c10::intrusive_ptr<c10d::Work> earlier = weak.lock();
      return earlier && !earlier->isCompleted();
    });
  }
  /// Its errors are thrown to those that wait for that work itself.
  static void wait_for(const Outstanding::WeakWork& weak) {
    const c10::intrusive_ptr<c10d::Work> earlier = weak.lock();
    if (!earlier) return;
    try {
      earlier->wait();
    } catch (const std::exception& error) {
      SWITCHML_LOG(kDebug) << "a barrier waited for a collective that failed: " << error.what();
    }
  }

  [[noreturn]] void throw_failure() {
    if (!refused) core->call_failed(status);
    const std::string text = call->record().context() + " [" + describe() + "]";
    if (status.code() != Code::kMismatch || refused) throw_status(status, text);
    // What the engine says of a precheck is about the precheck, not about the call that it accompanies.
    const std::string reason = what.empty() ? status.message() : "ranks called different collectives";
    const std::string comparison = core->compare_calls(describe());
    throw_status(Status(Code::kMismatch, reason + (comparison.empty() ? "" : "; " + comparison)), text);
  }

  /// "call 7: all_reduce(SUM, float32, 100 elements)".
  std::string describe() const {
    std::ostringstream text;
    text << "call " << call->record().sequence() << ": " << parts.front().title.text() << '(';
    if (!what.empty()) {
      text << what;
    } else if (parts.front().op != ReduceOp::kBarrier) {
      text << operation << ", " << switchml::to_string(parts.front().type) << ", ";
      const size_t tensors = parts.size() / parts_of_each;
      for (size_t i = 0; i < std::min<size_t>(tensors, 8); ++i) {
        text << (i == 0 ? "" : " + ") << parts[i * parts_of_each].count;
      }
      if (tensors > 8) text << " + ... (" << tensors << " tensors)";
      text << " elements";
      if (!detail.empty()) text << ", " << detail;
      if (root >= 0) text << ", to rank " << root;
    }
    text << ')';
    return text.str();
  }

  std::shared_ptr<Pending> self_;  // While parts are unfinished.
  std::mutex mutex;
  Status status;  // the first error
  std::atomic<size_t> unfinished{0};
};

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
  part.deadline = deadline_;
  part.title = title_of(call_);
  Operands& operands = *part.operands();
  operands.input = input.data_ptr();
  operands.output = {output.defined() ? output.data_ptr() : nullptr, begin * numbers, end * numbers};
  if (op_.op_ == c10d::ReduceOp::AVG && is_floating(part.type)) {
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
