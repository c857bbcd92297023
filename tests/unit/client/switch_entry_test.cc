#include "client/switch_entry.h"

#include <gtest/gtest.h>

#include <string>

#include "base/limits.h"
#include "client/switches.h"

namespace switchml {
namespace {

wire::OpenReply some_grant() {
  wire::OpenReply granted;
  granted.job = 7;
  granted.epoch = 0xfedcba98U;
  granted.session_key = 0xffffffffffffffffULL;
  granted.slots = 64;
  granted.payload = 1024;
  granted.flags = wire::kOpenWholeChunks;
  granted.lease_ms = 30000;
  return granted;
}

SessionParameters with_shards(int shards) {
  SessionParameters session;
  session.shards = shards;
  session.switch_name = "s";
  return session;
}

TEST(SwitchEntry, AGrantIsReadAsItWasWritten) {
  Blob blob;
  write_grant(some_grant(), &blob);
  SessionParameters session = with_shards(2);
  ASSERT_TRUE(read_grant(blob, &session).ok());
  EXPECT_EQ(session.job, 7);
  EXPECT_EQ(session.epoch, 0xfedcba98U);
  EXPECT_EQ(session.session_key, 0xffffffffffffffffULL);
  EXPECT_EQ(session.slots, 64);
  EXPECT_EQ(session.payload_bytes, 1024U);
  EXPECT_TRUE(session.whole_chunks);
  EXPECT_EQ(session.lease, seconds(30));
  EXPECT_EQ(session.most_silence, seconds(5)) << "three times in what a switch takes for silence";
}

TEST(SwitchEntry, AGrantThatCannotBeUsedIsRefused) {
  const auto refused = [](const std::string& key, const std::string& value, int shards = 2) {
    Blob blob;
    write_grant(some_grant(), &blob);
    blob.set(key, value);
    SessionParameters session = with_shards(shards);
    const Status status = read_grant(blob, &session);
    EXPECT_TRUE(status.ok() || status.message().find("switch s granted a session") == 0) << status.message();
    return !status.ok();
  };
  EXPECT_FALSE(refused("slots", "64"));
  EXPECT_TRUE(refused("slots", "65")) << "not the same for each shard";
  EXPECT_TRUE(refused("slots", std::to_string(kMaxSlots + 1)));
  EXPECT_TRUE(refused("slots", "64", 64)) << "too few for a shard";
  EXPECT_TRUE(refused("job", "0"));
  EXPECT_TRUE(refused("epoch", "0"));
  EXPECT_TRUE(refused("payload", "100"));
  EXPECT_TRUE(refused("payload", "0"));
  EXPECT_TRUE(refused("lease_ms", "0"));
  EXPECT_TRUE(refused("key", "x"));
}

TEST(SwitchEntry, EveryShardHasATransportAndJoins) {
  const auto server = start_switch();
  ASSERT_NE(server, nullptr);
  Config config = quick_config();
  config.shards = 3;
  auto links = connect_shards(config, 0, {server->local()}, {});
  ASSERT_TRUE(links.ok());
  EXPECT_EQ(links->size(), 3U);
  SessionParameters session = with_shards(3);
  session.switch_endpoint = server->local();
  session.job = 1;
  session.epoch = 1;
  const Status status = join_shard(*links.value()[2], session, 2, monotonic_now() + seconds(5));
  EXPECT_EQ(status.code(), Code::kUnavailable) << "there is no such session";
}

}  // namespace
}  // namespace switchml
