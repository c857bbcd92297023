#include "path/path_speed.h"

#include <algorithm>
#include <array>
#include <deque>
#include <vector>

#include "base/assert.h"
#include "base/limits.h"
#include "path/path_check.h"
#include "wire/packet.h"

namespace switchml {

namespace {

constexpr size_t kRoundTrips = 4;                  // [RATE-2]
constexpr size_t kLongestTrain = 96;               // [RATE-2]
constexpr size_t kShortestTrain = 16;              // a shorter one is over before the queues are full [RATE-3]
constexpr Duration kPatience = milliseconds(200);  // longer round trips are not known
constexpr Duration kMostPatience = milliseconds(800);
constexpr Duration kGlance = microseconds(100);
constexpr Duration kLeastTrainPatience = milliseconds(40);
constexpr uint64_t kQueueOverhead = 2;  // as the switch reckons (softswitch/grant.cc)

/// Packets that are under way together, each in a slot of its own: so many of each session.
class PacketTrain {
 public:
  PacketTrain(const std::vector<TimedLink>& links, const std::deque<PathProbe>& probes, size_t first_slot,
              size_t of_each, size_t payload)
      : links_(links),
        probes_(probes),
        first_slot_(first_slot),
        of_each_(of_each),
        returned_(links.size() * of_each, false) {
    for (size_t link = 0; link < links.size(); ++link) {
      for (size_t i = 0; i < of_each; ++i) frames_.push_back(probes[link].frame(first_slot + i, payload));
    }
  }

  /// Repeats what is lost, when nothing has come for a while, until all has returned, or `deadline`: another rank may
  /// wait for it.
  Status run(Duration patience, Time deadline) {  // [RATE-4]
    for (Time now = begin_ = monotonic_now(); missing() > 0; now = monotonic_now()) {
      if (now >= deadline) return no_answer();
      send();
      receive(patience, deadline);
      repeats_ = true;
      patience = std::min(2 * patience, kMostPatience);
    }
    return {};
  }

  /// How many came before anything had to be repeated, and the time from the begin until the last of them.
  size_t at_once() const { return at_once_; }
  Duration time() const { return last_ - begin_; }
  /// So few were lost that the time says something.
  bool tells() const { return 4 * at_once_ >= 3 * frames_.size(); }

 private:
  size_t missing() const { return static_cast<size_t>(std::count(returned_.begin(), returned_.end(), false)); }

  Status no_answer() const {
    const auto first = std::find(returned_.begin(), returned_.end(), false) - returned_.begin();
    const SessionParameters& session = *links_[static_cast<size_t>(first) / of_each_].session;
    return {Code::kUnavailable, "switch " + session.switch_name + " answers rank " + session.name_of(session.worker) +
                                    " no more: is a rank dead?"};
  }

  void send() {
    for (size_t link = 0; link < links_.size(); ++link) {
      std::vector<TxFrame> burst;
      for (size_t i = link * of_each_; i < (link + 1) * of_each_; ++i) {
        if (returned_[i]) continue;
        burst.push_back(
            {frames_[i].data(), static_cast<uint32_t>(frames_[i].size()), &links_[link].session->switch_endpoint});
      }
      for (size_t at = 0; at < burst.size(); at += kBurst) {
        links_[link].transport->send(burst.data() + at, std::min<size_t>(kBurst, burst.size() - at));
      }
    }
  }

  void receive(Duration patience, Time deadline) {
    Time end = std::min(monotonic_now() + patience, deadline);
    while (missing() > 0) {
      bool came = false;
      for (size_t link = 0; link < links_.size(); ++link) came = receive_from(link, patience, deadline, &end) || came;
      const Time now = monotonic_now();
      if (!came && now >= end) return;
      if (!came) wait(end - now);
    }
  }

  // Links of their own are looked at in turn.
  void wait(Duration time) {
    turn_ = (turn_ + 1) % links_.size();
    links_[turn_].transport->wait(links_.size() == 1 ? time : std::min<Duration>(time, kGlance));
  }

  bool receive_from(size_t link, Duration patience, Time deadline, Time* end) {
    std::array<RxFrame, kBurst> frames;
    Transport& transport = *links_[link].transport;
    const size_t count = transport.receive(frames.data(), frames.size());
    const Time now = monotonic_now();
    for (size_t i = 0; i < count; ++i) {
      if (take(link, frames[i], now)) *end = std::min(now + patience, deadline);
    }
    transport.release();
    return count > 0;
  }

  // Whether it is one that was missing: what an earlier train had to repeat may come late.
  bool take(size_t link, const RxFrame& frame, Time now) {
    const auto slot = static_cast<size_t>(probes_[link].slot_of(frame));
    const size_t i = link * of_each_ + slot - first_slot_;
    if (slot - first_slot_ >= of_each_ || returned_[i] || frame.size != frames_[i].size()) return false;
    returned_[i] = true;
    if (repeats_) return true;
    ++at_once_;
    last_ = now;
    return true;
  }

  const std::vector<TimedLink> links_;
  const std::deque<PathProbe>& probes_;
  const size_t first_slot_;
  const size_t of_each_;
  std::vector<std::vector<uint8_t>> frames_;
  std::vector<bool> returned_;
  Time begin_{};
  Time last_{};
  bool repeats_ = false;
  size_t turn_ = 0;
  size_t at_once_ = 0;
};

/// Bytes that this host's link carries, each way, when each rank puts so many frames into each session: what it sends
/// to switches of others, and what its own one sends to them.
double carried_bytes(const std::vector<TimedLink>& links, size_t of_each) {
  const SessionParameters& session = *links.front().session;
  size_t frames = 0;
  for (const TimedLink& link : links) {
    frames += of_each * (link.on_this_host ? static_cast<size_t>(session.workers - 1) : 1);
  }
  return static_cast<double>(frames * (session.header_bytes() + session.payload_bytes));
}

// The lanes of a shard that carry the elements of long tensors.
size_t data_slots(int slots_per_shard, bool exact) {
  const LaneSlots lanes = LaneSlots::of(slots_per_shard, exact);
  return static_cast<size_t>(lanes.has_bulk() ? lanes.bulk_data : lanes.data);
}

}  // namespace

Result<PathSpeed> measure_paths(const std::vector<TimedLink>& links, Time deadline) {
  const SessionParameters& session = *links.front().session;
  size_t slot = path_check_slots(session);
  const auto slots = static_cast<size_t>(session.slots_per_shard());
  const size_t most = (kLongestTrain + links.size() - 1) / links.size();  // [RATE-3]
  const size_t of_each = slots > slot + kRoundTrips ? std::min(most, slots - slot - kRoundTrips) : 0;
  if (of_each * links.size() < kShortestTrain) return PathSpeed();
  std::deque<PathProbe> probes;
  for (const TimedLink& link : links) probes.emplace_back(*link.session);
  Duration round_trip = Duration::max();
  for (size_t i = 0; i < kRoundTrips; ++i) {
    PacketTrain train({links.front()}, probes, slot++, 1, 0);
    if (Status status = train.run(kPatience, deadline); !status.ok()) return status;
    if (train.at_once() == 1) round_trip = std::min(round_trip, train.time());
  }
  PacketTrain train(links, probes, slot, of_each, session.payload_bytes);
  const Duration patience =
      round_trip < kPatience ? std::min(kLeastTrainPatience + 4 * round_trip, kPatience) : kPatience;
  if (Status status = train.run(patience, deadline); !status.ok()) return status;
  PathSpeed speed;
  if (round_trip == Duration::max() || !train.tells()) return speed;
  // On a busy machine a round trip may last as long as the train.
  const double time = to_seconds(std::max({train.time() - round_trip, train.time() / 2, Duration(1)}));
  const double share = static_cast<double>(train.at_once()) / static_cast<double>(of_each * links.size());
  speed.rate = share * carried_bytes(links, of_each) * 8 / time / 1e6;
  if (links.size() == 1)
    speed.chunks = chunks_on_path(std::max(round_trip, Duration(1)), train.time(), train.at_once());
  return speed;
}

size_t chunks_on_path(Duration round_trip, Duration time, size_t train) {
  SWITCHML_ASSERT(train > 0 && round_trip > Duration(0));
  const double one_by_one = to_seconds(std::max(time - round_trip, Duration(1))) / static_cast<double>(train);
  const double chunks = to_seconds(round_trip) / one_by_one + 1;
  return static_cast<size_t>(std::min(chunks, static_cast<double>(kMostChunksOnPath)));
}

int slots_for(size_t chunks, uint64_t queue_bytes, const SessionParameters& granted) {
  const size_t wanted = chunks + chunks / 4;  // [RATE-5]
  const auto shards = static_cast<size_t>(granted.shards);
  const uint64_t queue = queue_bytes / (kQueueOverhead * (granted.payload_bytes + granted.header_bytes()));
  const size_t most = std::min<uint64_t>({kMostPoolBytes / granted.payload_bytes, kMaxSlots, queue * shards});
  auto slots = static_cast<size_t>(granted.slots);
  while (slots + shards <= most && shards * data_slots(static_cast<int>(slots / shards), granted.exact) < wanted)
    slots += shards;
  return static_cast<int>(slots);
}

}  // namespace switchml
