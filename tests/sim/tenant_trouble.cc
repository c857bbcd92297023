// What goes wrong in a session beside the weather.
#include "nodes.h"
#include "tenant.h"

namespace switchml::sim {

namespace {
constexpr Trouble kTroubles[] = {Trouble::kNone,        Trouble::kNone,         Trouble::kNone,    Trouble::kKillWorker,
                                 Trouble::kRestartJob,  Trouble::kKillSwitch,   Trouble::kCutLong, Trouble::kCutShort,
                                 Trouble::kCutLinkLong, Trouble::kCutLinkShort, Trouble::kStop,    Trouble::kMismatch,
                                 Trouble::kMove,        Trouble::kMove};
Duration draw_long_cut(Random& random) { return milliseconds(random.between(3500, 6000)); }
Duration draw_short_cut(Random& random) { return milliseconds(random.between(1, 600)); }
}  // namespace

void Tenant::draw_trouble() {
  trouble_ = random_.pick(kTroubles);
  if (world_.plain && trouble_ == Trouble::kMismatch) trouble_ = Trouble::kNone;
  if (exact_ && trouble_ == Trouble::kMove) trouble_ = Trouble::kNone;  // such sessions do not
  trouble_after_ = uint64_t{1} << random_.below(11);
  trouble_after_ += random_.below(trouble_after_);
  disturbed_ = is_fatal(trouble_);
  fails_over_ = trouble_ == Trouble::kMove || (trouble_ == Trouble::kNone && !exact_ && random_.chance(0.3));
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
    case Trouble::kCutLong: record_->count(Fault::cuts_long); return world_.cut(node, draw_long_cut(random_));
    case Trouble::kCutShort: record_->count(Fault::cuts_healed); return world_.cut(node, draw_short_cut(random_));
    case Trouble::kCutLinkLong: return cut_link(victim, draw_long_cut(random_));
    case Trouble::kCutLinkShort: return cut_link(victim, draw_short_cut(random_));
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

// Between the victim and its switch, or between that switch and the root: both ways, or one.
void Tenant::cut_link(size_t victim, Duration how_long) {
  const int leaf = switch_of(static_cast<int>(victim));
  const bool trunk = leaf != 0 && random_.chance(0.5);
  const int below = trunk ? leaf : node_of(options_.number, static_cast<int>(victim), 0);
  const int above = trunk ? 0 : leaf;
  record_->count(trunk ? Fault::trunks_cut : Fault::links_cut);
  const uint64_t ways = random_.below(3);
  if (ways < 2) record_->count(Fault::cut_one_way);
  if (ways != 0) world_.cut_link(below, above, how_long);
  if (ways != 1) world_.cut_link(above, below, how_long);
}

}  // namespace switchml::sim
