#include "session/path_speed.h"

#include <algorithm>
#include <array>
#include <vector>

#include "base/assert.h"
#include "base/limits.h"
#include "session/path_check.h"
#include "wire/packet.h"

namespace switchml {

namespace {

constexpr size_t kRoundTrips = 4;
constexpr size_t kLongestTrain = 96;
constexpr size_t kShortestTrain = 16;              // a shorter one is over before the queues are full
constexpr Duration kPatience = milliseconds(200);  // longer round trips are not known
constexpr Duration kMostPatience = milliseconds(800);
constexpr Duration kLeastTrainPatience = milliseconds(40);
constexpr uint64_t kQueueOverhead = 2;  // as the switch reckons (softswitch/grant.cc)

/// Packets that are under way together, each in a slot of its own.
class Volley {
 public:
  Volley(Transport& transport, const SessionParameters& session, size_t first_slot, size_t count, size_t payload)
      : transport_(transport), session_(session), first_slot_(first_slot), returned_(count, false) {
    for (size_t i = 0; i < count; ++i) frames_.push_back(path_check_frame(session, first_slot + i, payload));
  }

  /// Repeats what is lost, when nothing has come for a while, until all has returned, or `deadline`: another rank may
  /// wait for it.
  Status run(Duration patience, Time deadline) {
    for (Time now = begin_ = monotonic_now(); missing() > 0; now = monotonic_now()) {
      if (now >= deadline) {
        return {Code::kUnavailable, "switch " + session_.switch_name + " answers rank " +
                                        session_.name_of(session_.worker) + " no more: is a rank dead?"};
      }
      send();
      receive(patience, deadline);
      repeats_ = true;
      patience = std::min(2 * patience, kMostPatience);
    }
    return {};
  }

  /// Of what came before anything had to be repeated: how many, and from the begin until the last of them.
  size_t at_once() const { return at_once_; }
  Duration time() const { return last_ - begin_; }

 private:
  size_t missing() const { return static_cast<size_t>(std::count(returned_.begin(), returned_.end(), false)); }

  void send() {
    std::vector<TxFrame> burst;
    for (size_t i = 0; i < frames_.size(); ++i) {
      if (returned_[i]) continue;
      burst.push_back({frames_[i].data(), static_cast<uint32_t>(frames_[i].size()), &session_.switch_endpoint});
    }
    for (size_t at = 0; at < burst.size(); at += kBurst) {
      transport_.send(burst.data() + at, std::min<size_t>(kBurst, burst.size() - at));
    }
  }

  void receive(Duration patience, Time deadline) {
    std::array<RxFrame, kBurst> frames;
    Time end = std::min(monotonic_now() + patience, deadline);
    while (missing() > 0) {
      const size_t count = transport_.receive(frames.data(), frames.size());
      const Time now = monotonic_now();
      for (size_t i = 0; i < count; ++i) {
        if (take(frames[i], now)) end = std::min(now + patience, deadline);
      }
      transport_.release();
      if (count == 0 && now >= end) return;
      if (count == 0) transport_.wait(end - now);
    }
  }

  // Whether it is one that was missing: what an earlier volley had to repeat may come late.
  bool take(const RxFrame& frame, Time now) {
    const int slot = path_check_slot(session_, frame);
    const size_t i = static_cast<size_t>(slot) - first_slot_;
    if (slot < static_cast<int>(first_slot_) || i >= frames_.size() || returned_[i]) return false;
    if (frame.size != frames_[i].size()) return false;
    returned_[i] = true;
    if (repeats_) return true;
    ++at_once_;
    last_ = now;
    return true;
  }

  Transport& transport_;
  const SessionParameters& session_;
  const size_t first_slot_;
  std::vector<std::vector<uint8_t>> frames_;
  std::vector<bool> returned_;
  Time begin_{};
  Time last_{};
  bool repeats_ = false;
  size_t at_once_ = 0;
};

// The lanes of a shard that carry the elements of long tensors.
size_t data_slots(int slots_per_shard, bool native) {
  const LaneSlots lanes = LaneSlots::of(slots_per_shard, native);
  return static_cast<size_t>(lanes.has_bulk() ? lanes.bulk_data : lanes.data);
}

}  // namespace

Result<size_t> chunks_on_path(Transport& transport, const SessionParameters& session, Time deadline) {
  size_t slot = path_check_slots(session);
  const auto slots = static_cast<size_t>(session.slots_per_shard());
  if (slots < slot + kRoundTrips + kShortestTrain) return size_t{0};
  Duration round_trip = Duration::max();
  for (size_t i = 0; i < kRoundTrips; ++i) {
    Volley volley(transport, session, slot++, 1, 0);
    if (Status status = volley.run(kPatience, deadline); !status.ok()) return status;
    if (volley.at_once() == 1) round_trip = std::min(round_trip, volley.time());
  }
  const size_t train = std::min(kLongestTrain, slots - slot);
  Volley volley(transport, session, slot, train, session.payload_bytes);
  const Duration patience =
      round_trip < kPatience ? std::min(kLeastTrainPatience + 4 * round_trip, kPatience) : kPatience;
  if (Status status = volley.run(patience, deadline); !status.ok()) return status;
  if (round_trip == Duration::max() || 4 * volley.at_once() < 3 * train) return size_t{0};
  return chunks_on_path(std::max(round_trip, Duration(1)), volley.time(), volley.at_once());
}

size_t chunks_on_path(Duration round_trip, Duration time, size_t train) {
  SWITCHML_ASSERT(train > 0 && round_trip > Duration(0));
  const double one_by_one = to_seconds(std::max(time - round_trip, Duration(1))) / static_cast<double>(train);
  const double chunks = to_seconds(round_trip) / one_by_one + 1;
  return static_cast<size_t>(std::min(chunks, static_cast<double>(kMostChunksOnPath)));
}

int slots_for(size_t chunks, uint64_t queue_bytes, const SessionParameters& granted) {
  const size_t wanted = chunks + chunks / 4;
  const auto shards = static_cast<size_t>(granted.shards);
  const uint64_t queue = queue_bytes / (kQueueOverhead * (granted.payload_bytes + granted.header_bytes()));
  const size_t most = std::min<uint64_t>({kMostPoolBytes / granted.payload_bytes, kMaxSlots, queue * shards});
  auto slots = static_cast<size_t>(granted.slots);
  while (slots + shards <= most && shards * data_slots(static_cast<int>(slots / shards), granted.native) < wanted)
    slots += shards;
  return static_cast<int>(slots);
}

}  // namespace switchml
