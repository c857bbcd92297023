#include "session/plan.h"

#include <gtest/gtest.h>

#include "base/limits.h"
#include "client/switch_entry.h"

namespace switchml {
namespace {

/// What one rank of a group reads.
class PlanTest : public ::testing::Test {
 protected:
  PlanTest() {
    for (size_t i = 0; i < 2; ++i) {
      SwitchAddress at;
      at.endpoint = literal_address("127.0.0.1", static_cast<uint16_t>(1000 + i)).value();
      at.name = "s" + std::to_string(i);
      at.weight = static_cast<uint32_t>(i + 1);
      at.host = static_cast<int>(i);
      switches_.push_back(at);
      said_.put(session_key(i), grant());
    }
    said_.set("secret0", 7);
    said_.set("secret1", 8);
  }
  static Blob grant(uint32_t payload = 1024, uint64_t more_flags = 0) {
    wire::OpenReply granted;
    granted.job = 3;
    granted.epoch = 4;
    granted.session_key = 5;
    granted.slots = 64;
    granted.payload = payload;
    granted.flags = wire::kOpenExact | more_flags;
    granted.lease_ms = 1000;
    Blob blob;
    write_grant(granted, &blob);
    return blob;
  }
  Result<Plan> read(const HostLayout& hosts = {}) const {
    return read_plan(said_, {config_, group_, hosts, literal_address("10.0.0.1", 0).value()}, switches_);
  }

  Config config_;
  GroupInfo group_{1, 4, "group g"};
  std::vector<SwitchAddress> switches_;
  Blob said_;
};

TEST_F(PlanTest, HasASessionWithEachSwitch) {
  config_.shards = 2;
  const auto plan = read();
  ASSERT_TRUE(plan.ok()) << plan.status().to_string();
  ASSERT_EQ(plan->sessions.size(), 2U);
  for (size_t i = 0; i < 2; ++i) {
    const SessionParameters& session = plan->sessions[i];
    EXPECT_EQ(session.switch_endpoint, switches_[i].endpoint);
    EXPECT_EQ(session.switch_name, switches_[i].name);
    EXPECT_EQ(session.weight, switches_[i].weight);
    EXPECT_EQ(session.worker, 1);
    EXPECT_EQ(session.workers, 4);
    EXPECT_EQ(session.shards, 2);
    EXPECT_EQ(session.payload_bytes, 1024U);
    EXPECT_EQ(session.secret[1], 8U);
    EXPECT_EQ(session.beside, -1) << "there are more workers than switches";
    EXPECT_EQ(session.least_chunk_bytes, 0U);
    EXPECT_FALSE(session.controlled);
    EXPECT_EQ(to_literal(session.own_address), "10.0.0.1");
  }
  EXPECT_TRUE(plan->sends(3) && plan->speaks(3));
  EXPECT_FALSE(plan->checks_paths || plan->may_take_tcp || plan->may_take_rdma);
}

TEST_F(PlanTest, HostsAreWorkersIfRank0SaysSo) {
  const HostLayout hosts = HostLayout::of({"a", "a", "b", "b"});
  EXPECT_EQ(read(hosts)->hosts.ranks(), 0);
  said_.set("hosts", "workers");
  const auto plan = read(hosts);
  ASSERT_TRUE(plan.ok()) << plan.status().to_string();
  const SessionParameters& session = plan->sessions[1];
  EXPECT_EQ(session.worker, 0);
  EXPECT_EQ(session.workers, 2);
  EXPECT_EQ(session.ranks, 4);
  EXPECT_EQ(session.shards, hosts.owners());
  EXPECT_EQ(session.name_of(1), "2 or 3 (one host)");
  EXPECT_EQ(session.beside, 1);
  EXPECT_EQ(plan->first_shard(1), 1);
  EXPECT_TRUE(plan->speaks(2));
  EXPECT_FALSE(plan->speaks(3));
}

TEST_F(PlanTest, SumsTravelExactlyWhereTheyMeetOnTheWay) {  // [PART-9]
  said_.set("hosts", "workers");
  const HostLayout hosts = HostLayout::of({"a", "a", "a", "b"});
  EXPECT_EQ(read(hosts)->sessions[0].partial_sum_ranks, 0U) << "they are rounded, unless the precision is exact";
  config_.precision = Precision::kExact;
  EXPECT_EQ(read(hosts)->sessions[0].partial_sum_ranks, 3U);
  said_.put(session_key(1), grant(256));
  EXPECT_EQ(read(hosts).status().message(),
            "SWITCHML_PRECISION=\"exact\" cannot be had: a payload of 256 bytes is too short, at least 512 are needed");
  said_.set("hosts", "");
  EXPECT_EQ(read(hosts)->sessions[1].partial_sum_ranks, 0U) << "terms meet at the switch alone";
  said_.put(session_key(1), grant(512, wire::kOpenTree));
  const auto tree = read();
  for (const SessionParameters& session : tree->sessions) EXPECT_EQ(session.partial_sum_ranks, size_t{kMaxWorkers});
  said_.put(session_key(1), grant());
  switches_[0].tree_id = 9;
  EXPECT_EQ(read()->sessions[1].partial_sum_ranks, size_t{kMaxWorkers}) << "it may move to a tree";
  switches_[0].tree_id = 0;
  config_.controller = "10.0.0.1:9";
  EXPECT_EQ(read()->sessions[1].partial_sum_ranks, 0U);
  config_.fallback = true;
  EXPECT_EQ(read()->sessions[1].partial_sum_ranks, size_t{kMaxWorkers}) << "it may come back to a tree";
}

TEST_F(PlanTest, SaysWhatElseTheRanksMayTake) {
  for (const char* key : {"check", "tcp", "rdma"}) said_.set(key, 1);
  said_.set("local/1", "1/2/8/1");
  const auto plan = read();
  EXPECT_TRUE(plan->checks_paths && plan->may_take_tcp && plan->may_take_rdma);
  EXPECT_EQ(plan->local.count, 2);
  said_.set("carrier", "tcp");
  const auto over_tcp = read();
  EXPECT_EQ(over_tcp->carrier, Carrier::kTcp);
  for (const SessionParameters& session : over_tcp->sessions) {
    EXPECT_EQ(session.switch_endpoint.carrier, Carrier::kTcp);
    EXPECT_GT(session.least_chunk_bytes, 0U);
  }
}

TEST_F(PlanTest, WithoutACarrierTheLinksStay) {
  for (SwitchAddress& at : switches_) at.endpoint = with_carrier(at.endpoint, Carrier::kPlaces);
  said_.set("carrier", "rdma");
  EXPECT_EQ(read()->carrier, Carrier::kPlaces) << "which has the same name";
  said_.set("carrier", "");
  EXPECT_EQ(read()->carrier, Carrier::kPlaces);
}

TEST_F(PlanTest, OfAnotherVersionIsRefused) {
  said_.set("secret1", "none");
  EXPECT_EQ(read().status().message(), "rank 0 sent no secret: install the same switchml on all ranks");
  said_.set("secret1", 8);
  Blob other = grant();
  other.set("slots", 1);
  said_.put(session_key(1), other);
  EXPECT_EQ(read().status().code(), Code::kMismatch);
  EXPECT_EQ(read().status().message().rfind("switch s1 granted a session that this version cannot use", 0), 0U);
}

}  // namespace
}  // namespace switchml
