#include "rank.h"

#include <algorithm>
#include <cstring>
#include <utility>

namespace switchml::sim {

namespace {
// How long after its deadline a collective may end.
constexpr Duration kLateness = milliseconds(20);
// Frames in a receive buffer, also of a worker that was stopped for a second: it has 84 slots in a shard at most.
constexpr size_t kMostWaiting = 1000;
// What a shard with nothing to do may hold beyond what it began with, whatever it has done: a node of its queue of jobs
// (512 bytes), the list of timers that were due, the text of an error. More would hide what a few collectives leave.
constexpr Heap kMostGrowth{1024, 4};
constexpr Duration kLongestHold = milliseconds(5);  // of what is meant for one stream
}  // namespace

namespace {
RankOptions with_loss_told(RankOptions options) {
  const auto told = options.on_switch_lost;
  if (told) options.engine.on_switch_lost = [told](size_t, const Status&) { told(); };
  return options;
}
}  // namespace

Rank::Rank(const RankOptions& options, Program program, uint64_t seed, Carrier* carrier, Record* record, Ended ended)
    : options_(with_loss_told(options)),
      program_(std::move(program)),
      random_(seed),
      carrier_(carrier),
      record_(record),
      ended_(std::move(ended)),
      running_(program_.size()),
      next_submit_(record->now()) {
  for (int s = 0; s < options_.engine.session.shards; ++s) add_socket(s);
}

Rank::~Rank() {
  for (const Socket& socket : sockets_) {
    const WorkerCounters& counters = socket.shard->counters();
    record_->count(Fault::witness_failures, counters.witness_failures.get());
    record_->count(Fault::nonfinite_superblocks, counters.nonfinite_superblocks.get());
    record_->count(Fault::old_session, counters.results_foreign.get());
    record_->count(Fault::windows_shrank, counters.window_reductions.get());
    record_->count(Fault::zero_blocks, counters.zero_blocks_left_out.get());
    record_->count(Fault::numbers_wrapped, socket.watch->wrapped() ? 1 : 0);
  }
  for (Socket& socket : sockets_) {
    socket.shard.reset();
    check_heap(record_, socket.account, {}, {}, "which is gone");
  }
}

void Rank::add_socket(int index) {
  const SessionParameters& session = options_.engine.session;
  Socket socket;
  socket.watch = std::make_unique<StreamWatch>(session, index, options_.engine.first_seq);
  socket.account = node_of(options_.tenant, session.worker, index);
  auto transport = std::make_unique<SimTransport>(carrier_, socket.account, socket.watch.get());
  socket.transport = transport.get();
  // Shards fail together, as Engine sees to it.
  const auto on_failure = [this](const Status& status) {
    for (Socket& other : sockets_) in(other, [&status](Shard& shard) { shard.request_failure(status); });
  };
  {
    const Charge charge(socket.account);
    socket.shard = std::make_unique<Shard>(index, options_.engine, std::move(transport), record_->now(), on_failure);
  }
  socket.wakeup = socket.shard->next_wakeup();
  socket.memory = socket.shard->memory_bytes();
  socket.heap = heap_accounts[socket.account];
  sockets_.push_back(std::move(socket));
}

uint64_t Rank::witness_failures() const {
  uint64_t failures = 0;
  for (const Socket& socket : sockets_) failures += socket.shard->counters().witness_failures.get();
  return failures;
}

Time Rank::next() const {
  Time next = alarm_;
  for (const Socket& socket : sockets_) next = std::min(next, socket.due());
  if (submitted_ < program_.size() && submitted_ < ended_count_ + options_.window) next = std::min(next, next_submit_);
  for (const Chosen& chosen : chosen_) {
    if (!chosen.waiting.empty()) next = std::min(next, chosen.held_until);
  }
  return std::max(next, stopped_until_);
}

void Rank::deliver(int shard, int from, std::vector<uint8_t> bytes) {
  if (shard >= static_cast<int>(sockets_.size())) return;
  SimTransport& transport = *sockets_[static_cast<size_t>(shard)].transport;
  transport.deliver(from, std::move(bytes));
  if (transport.waiting() > kMostWaiting)
    record_->broken(Rule::kMemory, "a worker is sent more than its slots explain");
}

std::vector<uint32_t> Rank::suspend() {
  std::vector<uint32_t> all;
  for (Socket& socket : sockets_) {
    in(socket, [](Shard& shard) { shard.suspend(); });
    const auto accepted = socket.shard->accepted();
    all.insert(all.end(), accepted.begin(), accepted.end());
    socket.wakeup = socket.shard->next_wakeup();
  }
  return all;
}

std::vector<uint8_t> Rank::last_result(int slot) const {
  return sockets_[static_cast<size_t>(slot / slots_per_shard())].shard->last_result(slot % slots_per_shard());
}

void Rank::supply(const std::vector<uint8_t>& frame) {
  const wire::Header header = wire::read_header(frame.data());
  Socket& socket = sockets_[static_cast<size_t>(header.slot / slots_per_shard())];
  socket.watch->supplied(header.slot, header.seq);
  in(socket, [&](Shard& shard) { shard.supply(frame, record_->now()); });
}

void Rank::resume(const Route& route) {
  for (Socket& socket : sockets_) {
    socket.watch->move(route.job, route.epoch);
    in(socket, [&](Shard& shard) { shard.resume(route, nullptr, record_->now()); });
    socket.transport->woken = true;
  }
}

void Rank::step(Time now) {
  if (now < stopped_until_) return;
  do {
    submit_due(now);
    hand_on_chosen(now);
  } while (run_sockets(now));
  check_bounds(now);
  if (ended_count_ < submitted_) return;
  for (const Socket& socket : sockets_) {
    check_heap(record_, socket.account, socket.heap, kMostGrowth, "with nothing to do");
  }
}

void Rank::submit_due(Time now) {
  while (submitted_ < program_.size() && submitted_ < ended_count_ + options_.window && now >= next_submit_) {
    submit(submitted_, now);
    ++submitted_;
    const bool pause = options_.longest_pause > Duration(0) && random_.chance(0.3);
    const auto longest = static_cast<uint64_t>(options_.longest_pause.count()) + 1;
    if (pause) next_submit_ = now + Duration(static_cast<int64_t>(random_.below(longest)));
  }
}

void Rank::submit(size_t index, Time now) {
  const Call& call = program_[index];
  const int worker = options_.engine.session.worker;
  const int workers = options_.engine.session.workers;
  const ElementRange wanted = call.wanted(worker, workers);
  auto running = std::make_unique<Running>();
  running->input = given_by(call, worker, workers);
  const size_t bytes = wanted.count * result_bytes(call.op, call.type);
  running->output.assign(kGuard + bytes + kGuard, kGuardByte);
  uint8_t* output = running->output.data() + kGuard;
  if (call.in_place && bytes > 0) std::memcpy(output, running->input.data(), bytes);
  running->deadline = now + options_.patience;

  Collective c;
  c.op = call.op;
  c.type = call.type;
  c.count = call.count;
  c.kind = kind_of(call, wanted, running->input.data(), output);
  c.deadline = running->deadline;
  c.title = call.title.c_str();  // The program outlives its ranks.
  c.tag = call.tag;
  c.done = [this, index](const Status& status) { end_part(index, status); };
  running_[index] = std::move(running);
  if (options_.chooses_streams) {
    choose_stream(index, std::move(c));
  } else {
    hand_on(std::make_shared<SharedCollective>(std::move(c), options_.engine.session.shards));
  }
  if (alarm_ == kNever) alarm_ = now + options_.patience + kLateness;
}

// Where it finds what it gives, and puts what it wants.
decltype(Collective::kind) Rank::kind_of(const Call& call, const ElementRange& wanted, const uint8_t* input,
                                         uint8_t* output) const {
  const auto workers = static_cast<size_t>(options_.engine.session.workers);
  const bool is_root = options_.engine.session.worker == call.root;
  if (call.movement == Movement::kBroadcast) {
    return Broadcast{call.root, is_root ? input : nullptr, is_root ? nullptr : output};
  }
  if (call.movement == Movement::kNone) {
    Operands operands{call.in_place ? output : input, {}, {output, wanted.begin, wanted.begin + wanted.count}};
    operands.divisor = call.divisor;
    const int ranks = call.ranks_of(options_.engine.session.worker);
    const size_t bytes = call.count * element_bytes(call.type);
    for (int r = 0; ranks > 1 && r < ranks; ++r) operands.inputs.push_back(input + static_cast<size_t>(r) * bytes);
    if (!call.in_parts) return Reduce{std::move(operands), call.root};
    ReduceScatter scattered{std::move(operands), {}};
    for (size_t i = 0; i < workers; ++i) scattered.scatter_ends.push_back(call.count * (i + 1) / workers);
    return scattered;
  }
  Scatter scatter{call.root, {}, output};
  Gather gather{input, {}};
  for (size_t i = 0; i < workers; ++i) {
    if (call.movement == Movement::kGather && wanted.count > 0) {
      gather.receive_ranges.push_back({output + i * call.count, 0, call.count});
    } else if (call.movement == Movement::kScatter && is_root) {
      scatter.inputs.push_back(input + i * call.count);
    }
  }
  if (call.movement == Movement::kScatter) return scatter;
  return gather;
}

// As shm/engine.cc does it: what goes through the bulk stream is announced in the other one.
void Rank::choose_stream(size_t index, Collective collective) {
  const SessionParameters& session = options_.engine.session;
  const auto chunks = static_cast<size_t>(session.lanes_per_shard().data);
  const bool fits =
      elements_in_all(collective, session.workers) <= chunks * options_.packets.chunk(collective.op, collective.type);
  record_->count(Fault::streams_chosen);
  if (fits && collective.op != ReduceOp::kBarrier) return put(0, index, std::move(collective));
  running_[index]->parts = 2;
  Collective announcement = collective;
  announcement.tag = mix(collective.tag + collective.count);
  announcement.count = 0;
  if (Operands* operands = announcement.operands()) operands->output = {};
  put(0, index, std::move(announcement));
  put(1, index, std::move(collective));
}

void Rank::put(size_t stream, size_t index, Collective collective) {
  Chosen& chosen = chosen_[stream];
  const size_t number = chosen.over + chosen.parts.size();
  chosen.parts.push_back({index, false, {}});
  collective.stream = stream == 0 ? StreamChoice::kShort : StreamChoice::kBulk;
  collective.done = [this, stream, number](const Status& status) { end_in_order(stream, number, status); };
  chosen.waiting.push_back(std::make_shared<SharedCollective>(std::move(collective), options_.engine.session.shards));
}

void Rank::end_in_order(size_t stream, size_t number, const Status& status) {
  const Charge charge(kSimulator);
  Chosen& chosen = chosen_[stream];
  Chosen::Part* ended = number < chosen.over ? nullptr : &chosen.parts[number - chosen.over];
  if (ended == nullptr || ended->ended) return record_->broken(Rule::kTwice, "a part of a collective ends twice");
  ended->ended = true;
  ended->status = status;
  while (!chosen.parts.empty() && chosen.parts.front().ended) {
    const Chosen::Part part = std::move(chosen.parts.front());
    chosen.parts.pop_front();
    ++chosen.over;
    if (failure_.ok()) failure_ = part.status;
    end_part(part.index, failure_);
  }
}

void Rank::hand_on(const std::shared_ptr<SharedCollective>& collective) {
  const SessionParameters& session = options_.engine.session;
  const Collective& whole = collective->collective();
  const size_t span = options_.packets.span(whole.op, whole.type);
  const size_t total = elements_in_all(whole, session.workers);
  for (Socket& socket : sockets_) {
    in(socket, [&](Shard& shard) { shard.submit(collective, shard_part(total, span, shard.index(), session.shards)); });
  }
}

void Rank::hand_on_chosen(Time now) {
  for (;;) {
    const auto may_go = [now](const Chosen& chosen) { return !chosen.waiting.empty() && chosen.held_until <= now; };
    const bool first = may_go(chosen_[0]);
    const bool second = may_go(chosen_[1]);
    if (!first && !second) return;
    Chosen& chosen = chosen_[first && second ? random_.below(2) : first ? 0 : 1];
    hand_on(chosen.waiting.front());
    chosen.waiting.pop_front();
    if (random_.chance(0.3)) {
      chosen.held_until =
          now + Duration(static_cast<int64_t>(random_.below(static_cast<uint64_t>(kLongestHold.count()))));
    }
  }
}

void Rank::end_part(size_t index, const Status& status) {
  const Charge charge(kSimulator);
  Running& running = *running_[index];
  if (running.first_error.ok()) running.first_error = status;
  if (--running.parts == 0) return end(index, running.first_error);
  if (running.parts < 0) record_->broken(Rule::kTwice, "collective " + std::to_string(index) + " ends twice");
}

void Rank::end(size_t index, const Status& status) {
  const Charge charge(kSimulator);
  Running& running = *running_[index];
  if (++running.ends > 1) return record_->broken(Rule::kTwice, "collective " + std::to_string(index) + " ends twice");
  ++ended_count_;
  check_guards(running, index);
  ended_(index, status, running.output.data() + kGuard);
}

void Rank::check_guards(const Running& running, size_t index) {
  const auto whole = [](const uint8_t* guard) {
    return std::all_of(guard, guard + kGuard, [](uint8_t byte) { return byte == kGuardByte; });
  };
  const bool kept = whole(running.output.data()) && whole(running.output.data() + running.output.size() - kGuard);
  const SessionParameters& session = options_.engine.session;
  const bool unread =
      program_[index].in_place || running.input == given_by(program_[index], session.worker, session.workers);
  if (!kept || !unread) {
    record_->broken(Rule::kResult, "collective " + std::to_string(index) + " writes outside its output");
  }
}

bool Rank::run_sockets(Time now) {
  bool any = false;
  for (Socket& socket : sockets_) {
    if (socket.due() > now) continue;
    run(socket, now);
    any = true;
  }
  return any;
}

void Rank::run(Socket& socket, Time now) {
  socket.transport->arrived = socket.transport->woken = false;
  while (in(socket, [now](Shard& shard) { return shard.step(now); }) && socket.transport->waiting() > 0) {
  }
  const Duration gathering = in(socket, [now](Shard& shard) { return shard.coalescing(now); });
  socket.gathers_until = now + gathering;
  socket.wakeup = std::max(socket.shard->next_wakeup(), now + microseconds(1));
  if (gathering > Duration(0)) {
    record_->count(Fault::gathered);
    socket.wakeup = std::min(socket.wakeup, socket.gathers_until);
  }
  std::string broken = socket.transport->broken;
  if (broken.empty()) broken = socket.watch->check(socket.shard->counters().chunks_completed.get());
  if (!broken.empty()) record_->broken(Rule::kStream, broken);
  if (socket.shard->memory_bytes() != socket.memory) record_->broken(Rule::kMemory, "a shard's memory has changed");
}

void Rank::check_bounds(Time now) {
  Time oldest = kNever;
  for (size_t i = 0; i < submitted_; ++i) {
    if (running_[i] != nullptr && running_[i]->ends == 0) {
      oldest = running_[i]->deadline + kLateness;
      break;
    }
  }
  alarm_ = oldest;
  if (alarm_ == kNever || now < std::max(alarm_, stopped_until_ + kLateness)) return;
  record_->broken(Rule::kHang, "rank " + std::to_string(options_.engine.session.worker) +
                                   ": a collective has not ended though its deadline has passed");
  alarm_ = kNever;
}

}  // namespace switchml::sim
