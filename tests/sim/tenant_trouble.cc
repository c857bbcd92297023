// What goes wrong in a session beside the weather.
#include "nodes.h"
#include "tenant.h"

namespace switchml::sim {

namespace {
constexpr Trouble kTroubles[] = {Trouble::kNone,       Trouble::kNone,     Trouble::kNone,       Trouble::kKillWorker,
                                 Trouble::kRestartJob, Trouble::kCutLong,  Trouble::kKillSwitch, Trouble::kCutShort,
                                 Trouble::kStop,       Trouble::kMismatch, Trouble::kMove,       Trouble::kMove};
}  // namespace

void Tenant::draw_trouble() {
  trouble_ = random_.pick(kTroubles);
  if (world_.plain && trouble_ == Trouble::kMismatch) trouble_ = Trouble::kNone;
  trouble_after_ = uint64_t{1} << random_.below(11);
  trouble_after_ += random_.below(trouble_after_);
  disturbed_ = is_fatal(trouble_);
  fails_over_ = trouble_ == Trouble::kMove || (trouble_ == Trouble::kNone && random_.chance(0.3));
  lingers_ = fails_over_ || random_.chance(0.5);
  if (trouble_ != Trouble::kMismatch) return;
  mismatch_at_ = static_cast<int>(random_.below(program_.size()));
  odd_one_ = random_.below(static_cast<uint64_t>(options_.workers));
  record_->count(Fault::mismatched_calls);
}

void Tenant::make_trouble(Time now) {
  if (trouble_ == Trouble::kNone || trouble_ == Trouble::kMismatch || frames_ < trouble_after_) return;
  const Trouble what = trouble_;
  trouble_ = Trouble::kNone;
  const size_t victim = random_.below(ranks_.size());
  const int node =
      random_.chance(0.7) ? node_of(options_.number, static_cast<int>(victim), 0) : switch_of(static_cast<int>(victim));
  record_->note("job" + std::to_string(options_.number) + ": trouble " + std::to_string(static_cast<int>(what)));
  switch (what) {
    case Trouble::kKillWorker: record_->count(Fault::workers_killed); return leave(victim, false);
    case Trouble::kRestartJob:
      record_->count(Fault::jobs_restarted);
      for (size_t w = 0; w < ranks_.size() && phase_ == Phase::kRunning; ++w) leave(w, false);
      return;
    case Trouble::kKillSwitch: return world_.kill_switch(switch_of(static_cast<int>(victim)));
    case Trouble::kCutLong:
      record_->count(Fault::cuts_long);
      return world_.cut(node, milliseconds(random_.between(3500, 6000)));
    case Trouble::kCutShort:
      record_->count(Fault::cuts_healed);
      return world_.cut(node, milliseconds(random_.between(1, 600)));
    case Trouble::kStop:
      record_->count(Fault::workers_stopped);
      if (ranks_[victim] != nullptr) ranks_[victim]->stop(now + milliseconds(random_.between(1, 800)));
      return;
    case Trouble::kMove:
      lost_ = true;
      if (random_.chance(0.5)) world_.kill_switch(switch_of(static_cast<int>(victim)));
      return;
    case Trouble::kNone:
    case Trouble::kMismatch: return;
  }
}

}  // namespace switchml::sim
