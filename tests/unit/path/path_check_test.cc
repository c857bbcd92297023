#include "path/path_check.h"

#include <gtest/gtest.h>

#include <algorithm>
#include <atomic>
#include <optional>
#include <string>
#include <utility>
#include <vector>

#include "base/limits.h"
#include "base/random.h"
#include "client/control_client.h"
#include "client/switch_entry.h"
#include "client/switches.h"
#include "store/map_store.h"
#include "transport/decorator.h"
#include "transport/udp.h"

namespace switchml {
namespace {

constexpr size_t kHeader = wire::kHeaderBytes;
constexpr size_t kLongestHeader = wire::kExactHeaderBytes;

/// A link to the switch that carries only so much each way, and loses frames that it could carry.
class NarrowLink : public TransportDecorator {
 public:
  struct Path {
    size_t up = SIZE_MAX;  // bytes of the largest frame
    size_t down = SIZE_MAX;
    int losses = 0;               // so many of each length with words, each way, are lost before one passes
    bool fragments_pass = false;  // as long as they are allowed, any size does
  };
  NarrowLink(std::unique_ptr<Transport> below, const Path& path)
      : TransportDecorator(*below), below_(std::move(below)), path_(path) {}

  void allow_fragments(bool allowed) override {
    fragments_ = allowed;
    ++changes;
  }
  size_t send(const TxFrame* frames, size_t count) override {
    for (size_t i = 1; i < count; ++i) EXPECT_GT(frames[i].size, frames[i - 1].size) << "they could go as one";
    for (size_t i = 0; i < count; ++i) {
      longest = std::max<size_t>(longest, frames[i].size);
      ++sent;
      if (passes(frames[i].size, path_.up, seen_up_)) below_->send(&frames[i], 1);
    }
    return count;
  }
  size_t receive(RxFrame* frames, size_t count) override {
    const size_t got = below_->receive(frames, count);
    size_t kept = 0;
    for (size_t i = 0; i < got; ++i) {
      if (passes(frames[i].size, path_.down, seen_down_)) frames[kept++] = frames[i];
    }
    if (got != 0 && kept == 0) below_->release();
    return kept;
  }

  bool fragments() const { return fragments_; }
  int changes = 0;
  int sent = 0;
  size_t longest = 0;

 private:
  bool passes(size_t size, size_t limit, std::map<size_t, int>& seen) {
    if (size > limit && !(fragments_ && path_.fragments_pass)) return false;
    return size <= kLongestHeader || ++seen[size] > path_.losses;
  }
  std::unique_ptr<Transport> below_;
  const Path path_;
  bool fragments_ = true;
  std::map<size_t, int> seen_up_;
  std::map<size_t, int> seen_down_;
};

using Path = NarrowLink::Path;

/// Ranks, each behind a link of its own, in a session of a switch on loopback.
class Ranks {
 public:
  static Ranks exact(const std::vector<Path>& paths, int slots = 0) { return Ranks(paths, 8192, {}, slots, true); }
  explicit Ranks(const std::vector<Path>& paths, size_t payload = 8192, ServerOptions options = {}, int slots = 0,
                 bool exact = false)
      : server_(start_switch(options)) {
    session_.switch_endpoint = server_->local();
    session_.switch_name = to_string(server_->local());
    session_.workers = static_cast<int>(paths.size());
    for (const Path& path : paths) {
      links.push_back(std::make_unique<NarrowLink>(std::move(connect_to_switch(server_->local()).value()), path));
    }
    auto opener = connect_to_switch(server_->local());
    wire::Open asked;
    asked.client_key = random_bits();
    asked.workers = static_cast<uint16_t>(paths.size());
    asked.shards = 1;
    asked.slots = static_cast<uint16_t>(slots);
    asked.payload = static_cast<uint32_t>(payload);
    asked.flags = exact ? wire::kOpenExact : uint16_t{0};
    auto granted = ControlClient(*opener.value(), server_->local(), "switch").open(asked, soon());
    EXPECT_TRUE(granted.ok()) << granted.status().to_string();
    Blob blob;
    write_grant(granted.value(), &blob);
    EXPECT_TRUE(read_grant(blob, &session_).ok());
    EXPECT_EQ(session_.exact, exact);
  }

  /// What each rank finds. All but `absent` take part.
  std::vector<Result<size_t>> check(Duration limit = seconds(10), int absent = -1) {
    std::vector<std::optional<Result<size_t>>> found(links.size());
    std::atomic<int> joined{0};
    each_rank(static_cast<int>(links.size()), [&](int rank) {
      NarrowLink& link = *links[static_cast<size_t>(rank)];
      SessionParameters mine = session_;
      mine.worker = rank;
      ControlClient client(link, mine.switch_endpoint, "switch");
      EXPECT_TRUE(client.join(mine.membership(), 0, soon()).ok());
      ++joined;
      while (joined < static_cast<int>(links.size())) std::this_thread::yield();
      found[static_cast<size_t>(rank)].emplace(rank == absent ? Result<size_t>(0)
                                                              : check_path(link, mine, monotonic_now() + limit));
    });
    std::vector<Result<size_t>> out;
    for (auto& one : found) out.push_back(std::move(*one));
    return out;
  }

  std::vector<std::unique_ptr<NarrowLink>> links;

 private:
  static Time soon() { return monotonic_now() + seconds(60); }
  std::unique_ptr<SwitchServer> server_;
  SessionParameters session_;
};

/// Ranks that have found these payloads, each its own. A busy machine may keep one from running for longer than packets
/// are waited for, so other sessions find less.
template <typename MakeRanks>
Ranks that_find(const std::vector<size_t>& payloads, const MakeRanks& make_ranks) {
  for (int tries = 1;; ++tries) {
    Ranks ranks = make_ranks();
    const auto found = ranks.check();
    const bool is_so = std::equal(found.begin(), found.end(), payloads.begin(), payloads.end(),
                                  [](const auto& one, size_t payload) { return one.ok() && one.value() == payload; });
    if (is_so) return ranks;
    if (tries < 20) continue;
    for (size_t rank = 0; rank < found.size(); ++rank) {
      EXPECT_EQ(found[rank].ok() ? std::to_string(found[rank].value()) : found[rank].status().to_string(),
                std::to_string(payloads.at(rank)))
          << "rank " << rank;
    }
    return ranks;
  }
}

TEST(PathCheckSizes, AllThatAFrameOfAJumboLinkMayHave) {  // [PATH-4]
  EXPECT_EQ(path_check_sizes(8192, 128, false),
            (std::vector<size_t>{8192, 7168, 6144, 5120, 4096, 3072, 2048, 1408, 1280, 1152, 1024, 512, 256}));
  EXPECT_EQ(path_check_sizes(1408, 128, false), (std::vector<size_t>{1408, 1280, 1152, 1024, 512, 256}));
  EXPECT_EQ(path_check_sizes(1024, 128, false), (std::vector<size_t>{1024, 512, 256}));
  EXPECT_EQ(path_check_sizes(256, 128, false), (std::vector<size_t>{256}));
  const auto long_ones = path_check_sizes(kMaxPayloadBytes, 16, false);
  EXPECT_EQ(long_ones.front(), kMaxPayloadBytes);
  EXPECT_EQ(long_ones.size(), 15U);
}

TEST(PathCheckSizes, LeaveOneSlotForAPacketWithoutWords) {  // [PATH-4]
  for (int slots = 4; slots < 20; ++slots) {
    const auto sizes = path_check_sizes(kMaxPayloadBytes, slots, false);
    EXPECT_LT(sizes.size(), static_cast<size_t>(slots));
    EXPECT_TRUE(std::is_sorted(sizes.rbegin(), sizes.rend()));
  }
  EXPECT_EQ(path_check_sizes(8192, 4, false), (std::vector<size_t>{8192, 1408, 256}));
  EXPECT_EQ(path_check_sizes(1024, 128, true), (std::vector<size_t>{1024}));
}

TEST(PathCheck, AWidePathCarriesThePayload) {  // [PATH-1, PATH-3]
  const Ranks ranks = that_find({8192, 8192, 8192}, [] { return Ranks(std::vector<Path>(3)); });
  for (const auto& link : ranks.links) {
    EXPECT_EQ(link->longest, kHeader + 8192);
    EXPECT_TRUE(link->fragments()) << "what comes later may be cut up again";
    EXPECT_EQ(link->changes, 2);
  }
}

TEST(PathCheck, TheNarrowestWayOfAnyRankCounts) {
  const std::pair<size_t, size_t> cases[] = {{1500, 1408}, {1420, 1280}, {1280, 1152}, {1072, 1024}, {4200, 4096},
                                             {2000, 1408}, {1071, 512},  {600, 512},   {500, 256}};
  for (const auto& [mtu, carries] : cases) {
    const std::vector<Path> paths = {{}, {mtu - 28, SIZE_MAX}, {}};
    that_find({carries, carries, carries}, [&] { return Ranks(paths); });  // what one cannot contribute nobody gets
  }
}

TEST(PathCheck, TheWayBackCountsToo) {
  that_find({8192, 3072, 8192}, [] { return Ranks({{}, {SIZE_MAX, 3100}, {}}); });
}

// Where the payload passes to some ranks and not to others, the losses of the first must not cost the others.
TEST(PathCheck, LossesOfOneRankDoNotNarrowThePathOfAnother) {  // [PATH-7]
  Path lossy;
  lossy.losses = 3;
  that_find({8192, 4096, 8192}, [&] { return Ranks({lossy, {SIZE_MAX, 4200}, lossy}); });
}

TEST(PathCheck, PacketsMustNotPassInFragments) {  // [PATH-6]
  Path path{1472, 1472};
  path.fragments_pass = true;
  that_find({1408, 1408}, [&] { return Ranks({path, path}); });
}

TEST(PathCheck, AExactSessionHasTheLongerHeader) {  // [PATH-5]
  const Ranks wide = that_find({8192, 8192, 8192}, [] { return Ranks::exact(std::vector<Path>(3)); });
  for (const auto& link : wide.links) EXPECT_EQ(link->longest, wire::kExactHeaderBytes + 8192);
  for (const auto& [frame, carries] : {std::pair<size_t, size_t>{1472, 1408},
                                       {1408 + 24, 1408},
                                       {1408 + 23, 1280},
                                       {1024 + 24, 1024},
                                       {1024 + 23, 512}}) {
    const std::vector<Path> paths = {{}, {frame, SIZE_MAX}, {}};
    that_find({carries, carries, carries}, [&] { return Ranks::exact(paths); });
  }
  Path lossy;
  lossy.losses = 3;
  that_find({8192, 8192, 8192}, [&] { return Ranks::exact({lossy, {}, lossy}); });
  that_find({1408, 1408}, [] { return Ranks::exact({{1472, 1472}, {}}, 4); });
}

TEST(PathCheck, LostPacketsDoNotMakeThePathNarrow) {  // [PATH-7, PATH-8]
  Path lossy;
  lossy.losses = 3;
  that_find({8192, 8192, 8192, 8192}, [&] { return Ranks({lossy, {}, lossy, lossy}); });
}

TEST(PathCheck, FewSlotsAreEnough) {
  that_find({1408, 1408}, [] { return Ranks({{1472, 1472}, {}}, 8192, {}, 4); });
}

TEST(PathCheck, ASwitchOfWholeChunksIsAskedForThoseOnly) {  // [PATH-4]
  ServerOptions options;
  options.softswitch.whole_chunks = true;
  const Ranks wide = that_find({1024, 1024}, [&] { return Ranks(std::vector<Path>(2), 1024, options); });
  EXPECT_EQ(wide.links[0]->longest, kHeader + 1024);

  Ranks narrow({{}, {1000, 1000}}, 1024, options);
  for (const auto& one : narrow.check()) {
    ASSERT_FALSE(one.ok());
    EXPECT_EQ(one.status().code(), Code::kUnavailable);
    EXPECT_NE(one.status().message().find("packets of 1024 bytes of payload do not pass"), std::string::npos)
        << one.status().message();
  }
}

TEST(PathCheck, ANarrowPathIsFoundInATimeThatIsBounded) {
  const Ranks ranks = that_find({1408, 1408}, [] { return Ranks({{1472, 1472}, {1472, 1472}}); });
  for (const auto& link : ranks.links) EXPECT_LT(link->sent, 150) << "8 rounds of at most 14 frames, and those before";
}

TEST(PathCheck, ARankThatNeverContributesIsNotWaitedForBeyondTheDeadline) {
  Ranks ranks(std::vector<Path>(2));
  const auto found = ranks.check(milliseconds(300), 1);
  ASSERT_FALSE(found[0].ok());
  EXPECT_EQ(found[0].status().code(), Code::kUnavailable);
  EXPECT_NE(found[0].status().message().find("no result comes back to rank 0"), std::string::npos);
}

}  // namespace
}  // namespace switchml
