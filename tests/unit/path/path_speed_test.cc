#include "path/path_speed.h"

#include <gtest/gtest.h>

#include <algorithm>
#include <atomic>
#include <deque>
#include <functional>
#include <optional>

#include "base/limits.h"
#include "base/random.h"
#include "client/control_client.h"
#include "client/switch_entry.h"
#include "client/switches.h"
#include "path/path_check.h"
#include "store/map_store.h"
#include "transport/decorator.h"

namespace switchml {
namespace {

// ---- from times ----

TEST(ChunksOnPath, AreWhatARoundTripHasRoomFor) {
  // 100 chunks take 5 ms one after the other, 50 us each; 200 of them are under way in 10 ms, and one is being sent.
  EXPECT_EQ(chunks_on_path(milliseconds(10), milliseconds(15), 100), 201U);
  EXPECT_EQ(chunks_on_path(milliseconds(1), milliseconds(6), 100), 21U);
  EXPECT_EQ(chunks_on_path(microseconds(50), milliseconds(5), 100), 2U) << "the path is short beside a chunk's time";
  EXPECT_EQ(chunks_on_path(milliseconds(10), milliseconds(10), 100), kMostChunksOnPath) << "as fast as can be told";
  EXPECT_EQ(chunks_on_path(milliseconds(10), milliseconds(9), 100), kMostChunksOnPath);
}

SessionParameters granted(int slots, int shards, size_t payload, bool exact = false) {
  SessionParameters session;
  session.exact = exact;
  session.slots = slots;
  session.shards = shards;
  session.payload_bytes = payload;
  return session;
}

size_t bulk_slots(int slots, int shards, bool exact) {
  return static_cast<size_t>(shards * LaneSlots::of(slots / shards, exact).bulk_data);
}

void expect_as_many_as_keep_the_path_full(bool exact) {
  for (const int shards : {1, 2, 3}) {
    const SessionParameters session = granted(128 / shards * shards, shards, 1024, exact);
    for (size_t chunks = 1; chunks < 620; chunks += 7) {
      const int slots = slots_for(chunks, UINT64_MAX, session);
      EXPECT_EQ(slots % shards, 0);
      EXPECT_GE(slots, session.slots);
      if (LaneSlots::of(slots / shards).has_bulk()) {
        EXPECT_GE(bulk_slots(slots, shards, exact), chunks + chunks / 4);
      }
      if (slots > session.slots) {
        EXPECT_LT(bulk_slots(slots - shards, shards, exact), chunks + chunks / 4) << "and no more";
      }
    }
  }
}

TEST(SlotsFor, AsManyAsKeepThePathFull) {  // [RATE-5]
  expect_as_many_as_keep_the_path_full(false);
  expect_as_many_as_keep_the_path_full(true);
  EXPECT_LT(slots_for(500, UINT64_MAX, granted(128, 1, 1024, true)), slots_for(500, UINT64_MAX, granted(128, 1, 1024)))
      << "none are for calls";
}

TEST(SlotsFor, NoMoreThanAMegabyteHolds) {  // [RATE-5]
  EXPECT_EQ(slots_for(kMostChunksOnPath, UINT64_MAX, granted(128, 1, 1024)), 1024);
  EXPECT_EQ(slots_for(kMostChunksOnPath, UINT64_MAX, granted(128, 1, 256)), 4096);
  EXPECT_EQ(slots_for(kMostChunksOnPath, UINT64_MAX, granted(128, 1, 8192)), 128);
  EXPECT_EQ(slots_for(kMostChunksOnPath, UINT64_MAX, granted(16, 1, 63 * 1024)), 16);
  EXPECT_EQ(slots_for(kMostChunksOnPath, UINT64_MAX, granted(126, 3, 1024)), 1023);
  EXPECT_EQ(slots_for(0, UINT64_MAX, granted(128, 1, 1024)), 128) << "not known";
}

TEST(SlotsFor, NoMoreThanASocketQueues) {  // [RATE-5]
  const uint64_t result = 2 * (1024 + wire::kHeaderBytes);
  EXPECT_EQ(slots_for(kMostChunksOnPath, 300 * result, granted(128, 1, 1024)), 300);
  EXPECT_EQ(slots_for(kMostChunksOnPath, 300 * result - 1, granted(128, 1, 1024)), 299);
  EXPECT_EQ(slots_for(kMostChunksOnPath, 300 * result, granted(128, 2, 1024)), 600) << "each shard has a socket";
  EXPECT_EQ(slots_for(kMostChunksOnPath, 10 * result, granted(128, 1, 1024)), 128) << "as granted";
  const uint64_t exact = 2 * (1024 + wire::kExactHeaderBytes);
  EXPECT_EQ(slots_for(kMostChunksOnPath, 300 * exact, granted(128, 1, 1024, true)), 300);
  EXPECT_EQ(slots_for(kMostChunksOnPath, 300 * exact - 1, granted(128, 1, 1024, true)), 299);
}

// ---- from packets ----

/// A link to the switch that is long and slow: results come so much later, and one after the other.
class LongLink : public TransportDecorator {
 public:
  struct Path {
    Duration delay{};
    Duration each{};  // of a frame with words
    int losses = 0;   // so many frames with words are lost on their way back
  };
  LongLink(std::unique_ptr<Transport> below, const Path& path)
      : TransportDecorator(*below), below_(std::move(below)), path_(path) {}

  size_t receive(RxFrame* frames, size_t count) override {
    fetch();
    size_t lent = 0;
    while (lent < count && !late_.empty() && late_.front().due <= monotonic_now()) {
      lent_.push_back(std::move(late_.front().bytes));
      late_.pop_front();
      frames[lent] = {lent_.back().data(), static_cast<uint32_t>(lent_.back().size()), {}};
      ++lent;
    }
    return lent;
  }
  void release() override { lent_.clear(); }
  void wait(Duration timeout) override {
    fetch();
    const Duration until = late_.empty() ? timeout : std::min(timeout, late_.front().due - monotonic_now());
    if (until > Duration(0)) below_->wait(until);
  }

 private:
  struct Late {
    Time due;
    std::vector<uint8_t> bytes;
  };
  void fetch() {
    RxFrame frames[kBurst];
    while (const size_t count = below_->receive(frames, kBurst)) {
      const Time now = monotonic_now();
      for (size_t i = 0; i < count; ++i) {
        const bool has_words = frames[i].size > wire::kExactHeaderBytes;
        if (has_words && path_.losses > 0) {
          --path_.losses;
          continue;
        }
        last_ = std::max(now + path_.delay, last_ + (has_words ? path_.each : Duration(0)));
        late_.push_back({last_, {frames[i].data, frames[i].data + frames[i].size}});
      }
      below_->release();
    }
  }

  std::unique_ptr<Transport> below_;
  Path path_;
  Time last_{};
  std::deque<Late> late_;
  std::deque<std::vector<uint8_t>> lent_;
};

using Path = LongLink::Path;

Time soon() { return monotonic_now() + seconds(5); }

/// What each of the ranks, each behind a link of its own, finds in a session of a switch on loopback.
std::vector<Result<PathSpeed>> chunks_of(const std::vector<Path>& paths, int slots = 128, int absent = -1,
                                         Duration limit = seconds(10), bool exact = false) {
  auto server = start_switch({});
  SessionParameters session;
  session.switch_endpoint = server->local();
  session.switch_name = to_string(server->local());
  session.workers = static_cast<int>(paths.size());
  auto opener = connect_to_switch(server->local());
  wire::Open asked;
  asked.client_key = random_bits();
  asked.workers = static_cast<uint16_t>(paths.size());
  asked.shards = 1;
  asked.slots = static_cast<uint16_t>(slots);
  asked.payload = 1024;
  asked.flags = exact ? wire::kOpenExact : uint16_t{0};
  auto grant = ControlClient(*opener.value(), server->local(), "switch").open(asked, soon());
  EXPECT_TRUE(grant.ok()) << grant.status().to_string();
  Blob blob;
  write_grant(grant.value(), &blob);
  EXPECT_TRUE(read_grant(blob, &session).ok());
  EXPECT_EQ(session.exact, exact);

  std::vector<std::optional<Result<PathSpeed>>> found(paths.size());
  std::atomic<size_t> joined{0};
  each_rank(static_cast<int>(paths.size()), [&](int rank) {
    const auto r = static_cast<size_t>(rank);
    LongLink link(std::move(connect_to_switch(session.switch_endpoint).value()), paths[r]);
    SessionParameters mine = session;
    mine.worker = rank;
    ControlClient client(link, mine.switch_endpoint, "switch");
    EXPECT_TRUE(client.join(mine.membership(), 0, soon()).ok());
    ++joined;
    while (joined < paths.size()) std::this_thread::yield();
    found[r].emplace(rank == absent ? Result<PathSpeed>(PathSpeed())
                                    : measure_paths({{&link, &mine, false}}, monotonic_now() + limit));
  });
  std::vector<Result<PathSpeed>> out;
  for (auto& one : found) out.push_back(std::move(*one));
  return out;
}

/// Whether one of many sessions finds it. A rank that a busy machine lets run late sees another path in one of them.
bool some_session_finds(const std::vector<Path>& paths, bool exact,
                        const std::function<bool(const std::vector<Result<PathSpeed>>&)>& found) {
  for (int tries = 0; tries < 50; ++tries) {
    const auto speeds = chunks_of(paths, 128, -1, seconds(10), exact);
    for (const auto& speed : speeds) {
      EXPECT_TRUE(speed.ok()) << speed.status().to_string();
      if (!speed.ok()) return false;
    }
    if (found(speeds)) return true;
  }
  return false;
}

bool some_session_of_equals_finds(const Path& path, bool exact, const std::function<bool(const PathSpeed&)>& found) {
  return some_session_finds({path, path}, exact, [&](const std::vector<Result<PathSpeed>>& speeds) {
    return std::all_of(speeds.begin(), speeds.end(),
                       [&](const Result<PathSpeed>& speed) { return found(speed.value()); });
  });
}

TEST(PathSpeed, ALongPathThatIsFastHasRoomForMany) {
  for (const bool exact : {false, true}) {
    EXPECT_TRUE(some_session_of_equals_finds({milliseconds(50), {}, 0}, exact,
                                             [](const PathSpeed& speed) { return speed.chunks > 100; }));
  }
}

TEST(PathSpeed, ALongPathThatIsSlowHasNot) {
  // 96 chunks of 2 ms after 20 ms.
  EXPECT_TRUE(some_session_of_equals_finds({milliseconds(20), milliseconds(2), 0}, false, [](const PathSpeed& speed) {
    return speed.chunks >= 2 && speed.chunks < 30;
  }));
}

TEST(PathSpeed, TheRateIsWhatTheTrainTakes) {  // [RATE-2]
  // 96 frames of 1044 bytes, one every 2 ms: 4.2 Mbit/s, and twice that at most where the round trip seems long.
  EXPECT_TRUE(some_session_of_equals_finds({milliseconds(20), milliseconds(2), 0}, false, [](const PathSpeed& speed) {
    return speed.rate > 0.01 && speed.rate < 8.5;
  }));
}

TEST(PathSpeed, ATrainWithFewLossesTellsAsMuch) {  // [RATE-4]
  EXPECT_TRUE(
      some_session_finds({{milliseconds(50), {}, 10}, {milliseconds(50), {}, 0}}, false,
                         [](const std::vector<Result<PathSpeed>>& speeds) { return speeds[0].value().chunks > 90; }));
}

TEST(PathSpeed, AVeryLongPathIsNotKnown) {
  const auto found = chunks_of({{milliseconds(300), {}, 0}, {milliseconds(1), {}, 0}});
  for (const auto& chunks : found) ASSERT_TRUE(chunks.ok()) << chunks.status().to_string();
  EXPECT_EQ(found[0]->chunks, 0U);
}

TEST(PathSpeed, WithManyLossesItIsNotKnown) {
  const auto found = chunks_of({{milliseconds(5), {}, 60}, {milliseconds(5), {}, 0}});
  for (const auto& chunks : found) ASSERT_TRUE(chunks.ok()) << chunks.status().to_string();
  EXPECT_EQ(found[0]->chunks, 0U);
}

TEST(PathSpeed, FewSlotsTellNothing) {  // [RATE-3]
  for (const auto& chunks : chunks_of(std::vector<Path>(2), 16)) {
    ASSERT_TRUE(chunks.ok()) << chunks.status().to_string();
    EXPECT_EQ(chunks->chunks, 0U);
  }
}

TEST(PathSpeed, ARankThatIsMissingIsNotWaitedForBeyondTheDeadline) {
  const auto found = chunks_of(std::vector<Path>(2), 128, 1, milliseconds(300));
  ASSERT_FALSE(found[0].ok());
  EXPECT_EQ(found[0].status().code(), Code::kUnavailable);
}

}  // namespace
}  // namespace switchml
