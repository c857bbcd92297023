#include "path/path_check.h"

#include <algorithm>
#include <array>
#include <string>

#include "base/limits.h"
#include "engine/make_format.h"

namespace switchml {

namespace {

// Beyond any doubt: where a tenth of all round trips fails, one packet in a hundred million is lost so often.
constexpr int kRounds = 8;  // [PATH-8]
constexpr Duration kFirstPatience = milliseconds(20);
// Times kRounds: longer than a busy machine keeps another rank from its processor.
constexpr Duration kLeastPatience = milliseconds(40);
constexpr Duration kMostPatience = milliseconds(250);

/// A length that is tried, in a slot of its own.
struct Trial {
  size_t payload = 0;  // bytes; 0: a packet without words
  std::vector<uint8_t> frame;
  bool returned = false;
};

class PathCheck {
 public:
  PathCheck(Transport& transport, const SessionParameters& session)
      : transport_(transport), session_(session), probe_(session) {
    for (const size_t payload :
         path_check_sizes(session.payload_bytes, session.slots_per_shard(), session.whole_chunks)) {
      add(payload);
    }
    add(0);
    transport_.allow_fragments(false);  // [PATH-6]
  }
  ~PathCheck() {
    transport_.allow_fragments(true);
    transport_.take_error();  // Later frames are no longer than what passes.
  }
  PathCheck(const PathCheck&) = delete;
  PathCheck& operator=(const PathCheck&) = delete;

  Result<size_t> run(Time deadline) {
    Duration patience = kFirstPatience;
    bool first = true;
    for (int rounds = 0; rounds < kRounds; first = false) {
      const Time sent = monotonic_now();
      if (sent >= deadline && !shortest().returned) return no_answer();
      if (sent >= deadline) break;
      send(first);
      const bool before = shortest().returned;
      receive(std::min(sent + patience, deadline));
      if (missing_ == 0) break;
      if (!shortest().returned) {
        patience = std::min(2 * patience, kMostPatience);
      } else if (before) {
        ++rounds;
      } else {
        patience = std::clamp<Duration>(2 * (returned_at_ - sent) + kLeastPatience, kLeastPatience, kMostPatience);
      }
    }
    const auto largest =
        std::find_if(trials_.begin(), trials_.end(), [](const Trial& trial) { return trial.returned; });
    return largest->payload != 0 ? Result<size_t>(largest->payload) : nothing_passes();
  }

 private:
  const Trial& shortest() const { return trials_.back(); }

  void add(size_t payload) {
    Trial trial;
    trial.payload = payload;
    trial.frame = probe_.frame(trials_.size(), payload);  // [PATH-3]
    trials_.push_back(std::move(trial));
    ++missing_;
  }

  /// What has not returned. The first time the shortest comes last and by itself: when its result is back, every
  /// rank has sent everything at least once. Otherwise short ones come first: a burst may travel as one large packet in
  /// pieces as long as its first one, the last not longer (UDP_SEGMENT), here and from the switch, and would be
  /// lost as one.
  void send(bool first) {
    std::vector<TxFrame> burst;
    for (auto trial = trials_.rbegin(); trial != trials_.rend(); ++trial) {
      if (!trial->returned) burst.push_back(frame_of(*trial));  // [PATH-7]
    }
    const size_t apart = first ? 1 : 0;
    transport_.send(burst.data() + apart, burst.size() - apart);
    transport_.send(burst.data(), apart);  // [PATH-7]
  }
  TxFrame frame_of(const Trial& trial) const {
    return {trial.frame.data(), static_cast<uint32_t>(trial.frame.size()), &session_.switch_endpoint};
  }

  /// Until everything has returned, or `end`. A rank that left earlier could owe others a contribution that was lost.
  void receive(Time end) {
    std::array<RxFrame, kBurst> frames;
    while (missing_ != 0) {
      const size_t count = transport_.receive(frames.data(), frames.size());
      for (size_t i = 0; i < count; ++i) take(frames[i]);
      transport_.release();
      const Time now = monotonic_now();
      if (count == 0 && now >= end) return;
      if (count == 0) transport_.wait(end - now);
    }
  }

  void take(const RxFrame& frame) {
    const int slot = probe_.slot_of(frame);
    if (slot < 0 || slot >= static_cast<int>(trials_.size())) return;
    Trial& trial = trials_[static_cast<size_t>(slot)];
    if (trial.returned || frame.size != trial.frame.size()) return;
    trial.returned = true;
    --missing_;
    if (&trial == &trials_.back()) returned_at_ = monotonic_now();
  }

  Status no_answer() const {
    return {Code::kUnavailable, "switch " + session_.switch_name +
                                    " let all ranks join, but no result comes back to rank " +
                                    session_.name_of(session_.worker) + ": is UDP" +
                                    (session_.switch_endpoint.carrier == Carrier::kRdma ? " port 4791, RDMA's," : "") +
                                    " let through both ways?"};
  }
  Status nothing_passes() const {
    return {Code::kUnavailable, "between rank " + session_.name_of(session_.worker) + " and switch " +
                                    session_.switch_name + " packets of " +
                                    std::to_string(trials_[trials_.size() - 2].payload) +
                                    " bytes of payload do not pass in one piece, and short ones do: raise the MTU on "
                                    "the way, or set SWITCHML_PAYLOAD, with which packets may be cut up"};
  }

  Transport& transport_;
  const SessionParameters& session_;
  const PathProbe probe_;
  std::vector<Trial> trials_;  // A trial's slot is its index. The longest is first, the one without words last.
  size_t missing_ = 0;         // Trials that have not returned.
  Time returned_at_{};         // When the shortest did.
};

}  // namespace

std::vector<size_t> path_check_sizes(size_t payload, int slots, bool whole_chunks) {
  std::vector<size_t> sizes = {payload};
  if (whole_chunks) return sizes;  // [PATH-4]
  // In the order of what links carry most often, for sessions that have few slots.
  for (const size_t size : {1408, 256, 1024, 512, 8192, 1280, 3072, 2048, 4096, 1152, 16384, 7168, 6144, 5120, 32768}) {
    if (size < payload && static_cast<int>(sizes.size()) + 1 < slots) sizes.push_back(size);  // [PATH-4]
  }
  std::sort(sizes.rbegin(), sizes.rend());
  return sizes;
}

PathProbe::PathProbe(const SessionParameters& session) : format_(make_format(session, false, counters_)) {}

std::vector<uint8_t> PathProbe::frame(size_t slot, size_t payload) const {
  return format_->frame_of_zeros(slot, kPathCheckSeq, payload);
}

int PathProbe::slot_of(const RxFrame& frame) const {
  ResultView result;
  const bool is_ours = format_->parse(frame, &result) == Format::Parsed::kResult;
  return is_ours && result.seq == kPathCheckSeq ? result.slot : -1;
}

size_t path_check_slots(const SessionParameters& session) {
  return path_check_sizes(session.payload_bytes, session.slots_per_shard(), session.whole_chunks).size() + 1;
}

Result<size_t> check_path(Transport& transport, const SessionParameters& session, Time deadline) {
  return PathCheck(transport, session).run(deadline);
}

}  // namespace switchml
