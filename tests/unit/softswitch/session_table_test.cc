#include "softswitch/session_table.h"

#include <gtest/gtest.h>

#include <set>

#include "fixture.h"
#include "slots/slot_store.h"

namespace switchml::softswitch {
namespace {

using wire::ReplyStatus;

class Sessions : public ::testing::Test {
 protected:
  static SessionLimits limits() {
    SessionLimits l;
    l.slot_memory_bytes = 5 << 18;
    l.max_payload_bytes = kMaxPayloadBytes;
    l.lease = seconds(30);
    l.seed = 42;
    return l;
  }
  static wire::Join join_of(const wire::OpenReply& r, int worker, int shard = 0) {
    return {r.session_key, r.epoch, r.job, static_cast<uint8_t>(worker), static_cast<uint16_t>(shard), 0};
  }
  static wire::Close close_of(const wire::OpenReply& r, int worker) {
    return {r.session_key, r.epoch, r.job, static_cast<uint8_t>(worker), 0};
  }
  /// Shows the cookie that it is asked for.
  JoinOutcome join(wire::Join asked, const Endpoint& from, Time now) {
    const auto told = table_.join(asked, from, now);
    if (told.status != ReplyStatus::kProveAddress) return told;
    asked.cookie = told.reply.cookie;
    return table_.join(asked, from, now);
  }
  SessionTable table_{limits()};
  Time now_{};
};

TEST_F(Sessions, OpenIsIdempotentByClientKey) {  // [OPEN-2, CTL-5]
  const auto first = table_.open(ask_for(2), now_);
  ASSERT_EQ(first.status, ReplyStatus::kOk);
  ASSERT_NE(first.fresh, nullptr);
  const auto again = table_.open(ask_for(2), now_);
  EXPECT_EQ(again.status, ReplyStatus::kOk);
  EXPECT_EQ(again.fresh, nullptr);
  EXPECT_EQ(again.reply.epoch, first.reply.epoch);
  EXPECT_EQ(again.reply.session_key, first.reply.session_key);
  EXPECT_EQ(table_.sessions(), 1);
  EXPECT_EQ(table_.open(ask_for(3), now_).status, ReplyStatus::kBadRequest) << "the same key for another group";
}

TEST_F(Sessions, NoClientKeyOpensWhatAControllerHasInstalled) {
  InstalledSession installed;
  installed.job = 3;
  installed.epoch = 77;
  installed.shards = 1;
  installed.slots = 8;
  installed.payload_bytes = 256;
  installed.members = WorkerSet::first(2);
  ASSERT_NE(table_.install(installed, now_), nullptr);
  const auto opened = table_.open(ask_for(2, 1, 4, 256, 0), now_);
  ASSERT_EQ(opened.status, ReplyStatus::kOk);
  EXPECT_NE(opened.fresh, nullptr);
  EXPECT_NE(opened.reply.job, 3);
}

TEST_F(Sessions, EpochsAreNeverZeroNorThoseOfTheSessionBefore) {  // [PKT-8]
  SessionLimits one = limits();
  one.max_jobs = 1;
  SessionTable table(one);
  std::set<uint32_t> epochs;
  std::set<uint64_t> keys;
  uint32_t last = 0;
  for (uint64_t key = 1; key <= 300; ++key) {
    const auto opened = table.open(ask_for(2, 1, 4, 256, key), now_);
    ASSERT_EQ(opened.status, ReplyStatus::kOk);
    EXPECT_EQ(opened.reply.job, 1);
    EXPECT_NE(opened.reply.epoch, 0U);
    EXPECT_NE(opened.reply.epoch, last);
    last = opened.reply.epoch;
    epochs.insert(last);
    keys.insert(opened.reply.session_key);
    table.end(1);
    EXPECT_EQ(table.find(1, last), nullptr);
  }
  EXPECT_GT(epochs.size(), 298U);
  EXPECT_EQ(keys.size(), 300U);
}

TEST_F(Sessions, AnotherSeedGivesOtherEpochs) {
  SessionLimits other = limits();
  other.seed = 43;
  SessionTable table(other);
  EXPECT_NE(table.open(ask_for(2), now_).reply.session_key, table_.open(ask_for(2), now_).reply.session_key);
}

TEST_F(Sessions, JobNumbersRunOutAndRestBeforeTheyComeBack) {  // [PKT-6]
  for (int job = 1; job <= kMaxJobs; ++job) {
    const auto opened = table_.open(ask_for(1, 1, 4, 256, static_cast<uint64_t>(job)), now_);
    ASSERT_EQ(opened.status, ReplyStatus::kOk);
    EXPECT_EQ(opened.reply.job, job);
  }
  EXPECT_EQ(table_.open(ask_for(1, 1, 4, 256, 1000), now_).status, ReplyStatus::kNoJobs);
  table_.end(7);
  table_.end(3);
  EXPECT_EQ(table_.open(ask_for(1, 1, 4, 256, 1001), now_).reply.job, 3);
  table_.end(3);
  EXPECT_EQ(table_.open(ask_for(1, 1, 4, 256, 1002), now_).reply.job, 7);
}

TEST_F(Sessions, MemoryIsAQuotaOverAllSessions) {
  const auto first = table_.open(ask_for(1, 1, 400, 1024, 1), now_);
  ASSERT_EQ(first.status, ReplyStatus::kOk);
  EXPECT_EQ(first.reply.slots, 400);
  EXPECT_EQ(table_.slot_memory_in_use(), 400 * SlotStore::slot_bytes(1024));
  const auto second = table_.open(ask_for(1, 1, 400, 1024, 2), now_);
  ASSERT_EQ(second.status, ReplyStatus::kOk);
  EXPECT_LT(second.reply.slots, 400);
  EXPECT_LE(table_.slot_memory_in_use(), limits().slot_memory_bytes);
  EXPECT_EQ(table_.open(ask_for(1, 1, 4, 1024, 3), now_).status, ReplyStatus::kNoSlots);
  table_.end(first.reply.job);
  EXPECT_EQ(table_.open(ask_for(1, 1, 4, 1024, 3), now_).status, ReplyStatus::kOk);
  table_.end(second.reply.job);
  table_.end(3);
  EXPECT_EQ(table_.slot_memory_in_use(), 0U);
  EXPECT_EQ(table_.sessions(), 0);
}

TEST_F(Sessions, AClientHasSoManyJobsAtATime) {
  SessionLimits two = limits();
  two.client_jobs = 2;
  SessionTable table(two);
  const auto open = [&](uint64_t key, const Endpoint& client) {
    return table.open(ask_for(1, 1, 4, 256, key), now_, client);
  };
  EXPECT_EQ(open(1, endpoint(1)).status, ReplyStatus::kOk);
  const auto second = open(2, endpoint(1));
  EXPECT_EQ(second.status, ReplyStatus::kOk);
  const auto third = open(3, endpoint(1));
  EXPECT_EQ(third.status, ReplyStatus::kQuota);
  EXPECT_EQ(third.fresh, nullptr);
  EXPECT_EQ(open(2, endpoint(1)).status, ReplyStatus::kOk) << "the open of before, repeated";
  EXPECT_EQ(open(4, endpoint(2)).status, ReplyStatus::kOk) << "another client";
  EXPECT_EQ(open(5, Endpoint{}).status, ReplyStatus::kOk) << "nobody who is counted";
  table.end(second.reply.job);
  EXPECT_EQ(open(3, endpoint(1)).status, ReplyStatus::kOk);
  EXPECT_EQ(table.sessions(), 4);
}

TEST_F(Sessions, AClientHasSoMuchOfTheMemory) {
  SessionLimits half = limits();
  half.client_memory_bytes = half.slot_memory_bytes / 2;
  SessionTable table(half);
  const auto open = [&](uint64_t key, int slots, const Endpoint& client) {
    return table.open(ask_for(1, 1, slots, 1024, key), now_, client);
  };
  const auto first = open(1, 400, endpoint(1));
  ASSERT_EQ(first.status, ReplyStatus::kOk);
  EXPECT_LT(first.reply.slots, 400) << "cut down to the share";
  EXPECT_LE(table.slot_memory_in_use(), half.client_memory_bytes);
  EXPECT_EQ(open(2, 4, endpoint(1)).status, ReplyStatus::kQuota);
  EXPECT_EQ(open(3, 400, endpoint(2)).reply.slots, first.reply.slots);
  EXPECT_EQ(open(4, 4, endpoint(3)).status, ReplyStatus::kNoSlots) << "the memory is all used, not a share of it";
  table.end(first.reply.job);
  EXPECT_EQ(open(2, 4, endpoint(1)).status, ReplyStatus::kOk);
}

TEST_F(Sessions, JoinCountsPairsAndIsIdempotent) {  // [CTL-5]
  const auto r = table_.open(ask_for(2, 2), now_).reply;
  EXPECT_EQ(join(join_of(r, 0, 0), endpoint(0, 0), now_).reply.joined, 1);
  EXPECT_EQ(join(join_of(r, 0, 0), endpoint(0, 0), now_).reply.joined, 1);
  EXPECT_TRUE(table_.find(r.job, r.epoch)->joined_workers() == WorkerSet{}) << "one of two shards";
  EXPECT_EQ(join(join_of(r, 0, 1), endpoint(0, 1), now_).reply.joined, 2);
  EXPECT_EQ(table_.find(r.job, r.epoch)->joined_workers().low, 1U);
  EXPECT_EQ(join(join_of(r, 1, 0), endpoint(1, 0), now_).reply.joined, 3);
  EXPECT_EQ(join(join_of(r, 1, 1), endpoint(1, 1), now_).reply.joined, 4);
  EXPECT_EQ(table_.find(r.job, r.epoch)->audience(1).size(), 2U);
  EXPECT_EQ(*table_.find(r.job, r.epoch)->audience(1)[1], endpoint(1, 1));
}

TEST_F(Sessions, JoinNeedsTheSessionItsKeyAndARealMember) {  // [JOIN-1]
  const auto r = table_.open(ask_for(2, 2), now_).reply;
  wire::Join asked = join_of(r, 0);
  asked.epoch ^= 1;
  EXPECT_EQ(join(asked, endpoint(0), now_).status, ReplyStatus::kUnknownSession);
  asked = join_of(r, 0);
  asked.job ^= 1;
  EXPECT_EQ(join(asked, endpoint(0), now_).status, ReplyStatus::kUnknownSession);
  asked = join_of(r, 0);
  asked.session_key ^= 1;
  EXPECT_EQ(join(asked, endpoint(0), now_).status, ReplyStatus::kNotMember);
  EXPECT_EQ(join(join_of(r, 2), endpoint(0), now_).status, ReplyStatus::kNotMember);
  EXPECT_EQ(join(join_of(r, 255), endpoint(0), now_).status, ReplyStatus::kNotMember);
  EXPECT_EQ(join(join_of(r, 0, 2), endpoint(0), now_).status, ReplyStatus::kNotMember);
  EXPECT_EQ(join(join_of(r, 0, 65535), endpoint(0), now_).status, ReplyStatus::kNotMember);
  EXPECT_EQ(table_.find(r.job, r.epoch)->joined_pairs(), 0);
}

TEST_F(Sessions, AJoinMustShowWhatWasSentToItsAddress) {  // [COOKIE-1, COOKIE-2, COOKIE-4]
  const auto r = table_.open(ask_for(2, 2), now_).reply;
  const auto told = table_.join(join_of(r, 0), endpoint(0), now_ + seconds(29));
  EXPECT_EQ(told.status, ReplyStatus::kProveAddress);
  EXPECT_EQ(told.reply.joined, 0);
  EXPECT_EQ(table_.find(r.job, r.epoch)->joined_pairs(), 0);
  EXPECT_EQ(table_.expired(now_ + seconds(31)).size(), 1U) << "nothing is renewed";
  wire::Join shown = join_of(r, 0);
  shown.cookie = told.reply.cookie;
  EXPECT_EQ(table_.join(shown, endpoint(1), now_).status, ReplyStatus::kProveAddress) << "from another address";
  wire::Join other = shown;
  other.worker = 1;
  EXPECT_EQ(table_.join(other, endpoint(0), now_).status, ReplyStatus::kProveAddress) << "as another worker";
  other = shown;
  other.shard = 1;
  EXPECT_EQ(table_.join(other, endpoint(0), now_).status, ReplyStatus::kProveAddress) << "with another shard";
  other = shown;
  other.session_key ^= 1;
  const auto stranger = table_.join(other, endpoint(0), now_);
  EXPECT_EQ(stranger.status, ReplyStatus::kNotMember);
  EXPECT_EQ(stranger.reply.cookie, 0U) << "told to those who have the key alone";
  EXPECT_EQ(table_.find(r.job, r.epoch)->joined_pairs(), 0);
  for (int i = 0; i < 2; ++i) {
    const auto joined = table_.join(shown, endpoint(0), now_ + seconds(29));
    EXPECT_EQ(joined.status, ReplyStatus::kOk);
    EXPECT_EQ(joined.reply.joined, 1);
    EXPECT_EQ(joined.reply.cookie, shown.cookie);
  }
  EXPECT_TRUE(table_.expired(now_ + seconds(31)).empty());
  const auto moved = table_.join(shown, endpoint(7), now_);
  EXPECT_EQ(moved.status, ReplyStatus::kProveAddress);
  EXPECT_NE(moved.reply.cookie, shown.cookie);
  EXPECT_EQ(table_.find(r.job, r.epoch)->member(0, 0), endpoint(0));
}

TEST_F(Sessions, NoSessionAndNoSwitchTakesTheCookieOfAnother) {  // [COOKIE-1]
  SessionLimits other = limits();
  other.seed = 43;
  SessionTable table(other);
  const auto r = table_.open(ask_for(1), now_).reply;
  const auto s = table.open(ask_for(1), now_).reply;
  const auto next = table_.open(ask_for(1, 1, 8, 1024, 2), now_).reply;
  std::set<uint64_t> cookies;
  cookies.insert(table_.join(join_of(r, 0), endpoint(0), now_).reply.cookie);
  cookies.insert(table.join(join_of(s, 0), endpoint(0), now_).reply.cookie);
  cookies.insert(table_.join(join_of(next, 0), endpoint(0), now_).reply.cookie);
  EXPECT_EQ(cookies.size(), 3U);
}

TEST_F(Sessions, ARestartedSocketReplacesItsOldAddressWithTheKeyOnly) {  // [JOIN-4]
  const auto r = table_.open(ask_for(2), now_).reply;
  join(join_of(r, 0), endpoint(0), now_);
  wire::Join forged = join_of(r, 0);
  forged.session_key = 0;
  EXPECT_EQ(join(forged, endpoint(66), now_).status, ReplyStatus::kNotMember);
  EXPECT_EQ(table_.find(r.job, r.epoch)->member(0, 0), endpoint(0));
  EXPECT_EQ(join(join_of(r, 0), endpoint(5), now_).reply.joined, 1);
  EXPECT_EQ(table_.find(r.job, r.epoch)->member(0, 0), endpoint(5));
  ASSERT_EQ(table_.find(r.job, r.epoch)->audience(0).size(), 1U);
  EXPECT_EQ(*table_.find(r.job, r.epoch)->audience(0)[0], endpoint(5));
}

TEST_F(Sessions, TheLastToLeaveEndsTheSession) {  // [JOIN-3, CLOSE-2]
  const auto r = table_.open(ask_for(2, 2), now_).reply;
  for (int w = 0; w < 2; ++w) {
    for (int s = 0; s < 2; ++s) join(join_of(r, w, s), endpoint(w, s), now_);
  }
  const auto first = table_.close(close_of(r, 1), now_);
  EXPECT_EQ(first.status, ReplyStatus::kOk);
  EXPECT_FALSE(first.last);
  EXPECT_EQ(table_.find(r.job, r.epoch)->audience(0).size(), 1U);
  EXPECT_EQ(join(join_of(r, 1), endpoint(1), now_).status, ReplyStatus::kNotMember) << "left for good";
  EXPECT_FALSE(table_.close(close_of(r, 1), now_).last) << "a repeated close";
  EXPECT_TRUE(table_.close(close_of(r, 0), now_).last);
  table_.end(r.job);
  EXPECT_EQ(table_.close(close_of(r, 0), now_).status, ReplyStatus::kUnknownSession);
}

TEST_F(Sessions, CloseNeedsTheKeyAndARealWorker) {  // [CLOSE-1]
  const auto r = table_.open(ask_for(2), now_).reply;
  join(join_of(r, 0), endpoint(0), now_);
  wire::Close close = close_of(r, 0);
  close.session_key ^= 1;
  EXPECT_EQ(table_.close(close, now_).status, ReplyStatus::kNotMember);
  EXPECT_EQ(table_.close(close_of(r, 2), now_).status, ReplyStatus::kNotMember);
  EXPECT_EQ(table_.find(r.job, r.epoch)->joined_pairs(), 1);
}

TEST_F(Sessions, SignsOfLifeRenewTheLease) {  // [JOIN-1, LEASE-1]
  const auto r = table_.open(ask_for(2), now_).reply;
  EXPECT_TRUE(table_.expired(now_ + seconds(30)).empty());
  EXPECT_EQ(table_.expired(now_ + seconds(30) + nanoseconds(1)), std::vector<uint8_t>{r.job});
  join(join_of(r, 0), endpoint(0), now_ + seconds(20));
  EXPECT_TRUE(table_.expired(now_ + seconds(50)).empty());
  EXPECT_EQ(table_.expired(now_ + seconds(51)).size(), 1U);
  wire::Join stranger = join_of(r, 0);
  stranger.session_key ^= 1;
  join(stranger, endpoint(0), now_ + seconds(49));
  EXPECT_EQ(table_.expired(now_ + seconds(51)).size(), 1U) << "a stranger renews nothing";
}

TEST_F(Sessions, RenewNeedsTheKey) {
  const auto r = table_.open(ask_for(2), now_).reply;
  EXPECT_FALSE(table_.renew(r.job, r.epoch, r.session_key ^ 1, now_ + seconds(20)));
  EXPECT_FALSE(table_.renew(r.job, r.epoch ^ 1, r.session_key, now_ + seconds(20)));
  EXPECT_EQ(table_.expired(now_ + seconds(31)).size(), 1U);
  EXPECT_TRUE(table_.renew(r.job, r.epoch, r.session_key, now_ + seconds(20)));
  EXPECT_TRUE(table_.expired(now_ + seconds(50)).empty());
}

TEST_F(Sessions, SeveralSwitchesGrantTheLeast) {
  GrantLimits chip;
  chip.payloads = {256};
  chip.page_slots = 128;
  chip.free_pages = 1;
  chip.whole_chunks = true;
  GrantLimits software;
  software.free_slot_memory_bytes = 1 << 20;
  software.max_payload_bytes = kMaxPayloadBytes;
  const auto opened = table_.open(ask_for(2, 1, 400), {software, chip}, now_);
  ASSERT_EQ(opened.status, ReplyStatus::kOk);
  EXPECT_EQ(opened.reply.slots, 128);
  EXPECT_EQ(opened.reply.payload, 256U);
  EXPECT_EQ(opened.reply.flags, wire::kOpenWholeChunks);
  EXPECT_TRUE(opened.fresh->whole_chunks());
  EXPECT_EQ(table_.find_client(1), opened.fresh);
  EXPECT_EQ(opened.fresh->granted().session_key, opened.reply.session_key);
  chip.free_pages = 0;
  const auto refused = table_.open(ask_for(2, 1, 400, 1024, 2), {software, chip}, now_);
  EXPECT_EQ(refused.status, ReplyStatus::kNoSlots);
  EXPECT_EQ(refused.refused_by, 1U);
  EXPECT_EQ(table_.find_client(2), nullptr);
}

}  // namespace
}  // namespace switchml::softswitch
