// The ranks of a session, from the first that starts to the last that leaves.
#include <algorithm>

#include "nodes.h"
#include "tenant.h"

namespace switchml::sim {

namespace {

constexpr Duration kPatience = seconds(60);
constexpr Duration kPatiencePerChunk = seconds(1);  // a fifth of all frames may be lost, on each of four links

Duration patience_for(const Program& program, int workers, const Packets& packets) {
  Duration patience = kPatience;
  for (const Call& call : program) {
    const size_t chunks = call.all(workers) / packets.chunk(call.op, call.type) + 1;
    patience += kPatiencePerChunk * static_cast<int64_t>(chunks);
  }
  return patience;
}

}  // namespace

void Tenant::start_ranks() {
  phase_ = Phase::kRunning;
  RankOptions options;
  options.tenant = options_.number;
  options.engine.session = session_;
  options.packets = packets();
  constexpr int kRtoMin[] = {1, 2, 5};
  constexpr int kRtoMax[] = {20, 50, 200};
  options.engine.rto_min = milliseconds(random_.pick(kRtoMin));
  options.engine.rto_max = milliseconds(random_.pick(kRtoMax));
  if (random_.chance(0.3)) options.engine.first_seq = 0xffffffffU - static_cast<uint32_t>(random_.below(30));
  options.engine.congestion_control = random_.chance(0.5);  // without it, enough chunks are under way to gather
  options.patience = is_fatal(trouble_) ? milliseconds(random_.between(500, 3000))
                                        : patience_for(program_, options_.workers, packets());
  if (fails_over_) options.patience += kPatience;
  options.engine.keep_results = fails_over_;
  if (fails_over_) options.on_switch_lost = [this] { lost_ = true; };
  options.chooses_streams = session_.lanes_per_shard().has_bulk() && !fails_over_ && random_.chance(0.6);
  options.window = 1 + random_.below(6);
  options.longest_pause = microseconds(random_.chance(0.5) ? 0 : random_.between(1, 20000));
  for (int w = 0; w < options_.workers; ++w) {
    options.engine.session.worker = w;
    options.engine.session.switch_endpoint = endpoint_of(switch_of(w));
    const auto worker = static_cast<size_t>(w);
    Program program = program_;
    if (mismatch_at_ >= 0 && worker == odd_one_) {
      Call& odd = program[static_cast<size_t>(mismatch_at_)];
      odd = disagree(random_, odd, packets());
    }
    const uint64_t seed = random_.next();
    ranks_.push_back(std::make_unique<Rank>(options, std::move(program), seed, carrier_, record_,
                                            [this, worker](size_t index, const Status& status, const uint8_t* output) {
                                              judge(worker, index, status, output);
                                            }));
  }
}

void Tenant::step_ranks(Time now) {
  make_trouble(now);
  step_move(now);
  for (size_t w = 0; phase_ == Phase::kRunning && w < ranks_.size(); ++w) {
    if (ranks_[w] == nullptr) continue;
    if (ranks_[w]->next() <= now) ranks_[w]->step(now);
    if (!lingers_ && ranks_[w]->over()) leave(w, true);
  }
  const auto through = [](const auto& rank) { return rank == nullptr || rank->over(); };
  if (phase_ != Phase::kRunning || !lingers_ || !std::all_of(ranks_.begin(), ranks_.end(), through)) return;
  for (size_t w = 0; phase_ == Phase::kRunning && w < ranks_.size(); ++w) leave(w, true);
}

// A worker that is killed says nothing; one that is through leaves at once, whoever still works.
void Tenant::leave(size_t worker, bool closes) {
  if (ranks_[worker] == nullptr) return;
  const bool alarm = ranks_[worker]->witness_failures() > 0 && !tainted_ && mismatch_at_ < 0;
  if (alarm) {
    record_->broken(Rule::kWitness, "results failed their witness though nothing was damaged and the calls agree");
  }
  ranks_[worker].reset();
  if (closes) {
    const wire::Membership member{session_.job, session_.epoch, session_.session_key, static_cast<uint8_t>(worker)};
    uint8_t frame[wire::kMaxControlBytes];
    const size_t size = wire::build_close(member, ++request_ids_, frame);
    const int w = static_cast<int>(worker);
    for (int i = random_.between(1, 3); i > 0; --i)
      carrier_->carry(node_of(options_.number, w, 0), switch_of(w), frame, size);
  }
  if (std::any_of(ranks_.begin(), ranks_.end(), [](const auto& rank) { return rank != nullptr; })) return;
  ++sessions_done_;
  begin_session();
}

}  // namespace switchml::sim
