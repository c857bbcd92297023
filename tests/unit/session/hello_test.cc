#include "session/hello.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <functional>
#include <utility>

#include "base/config.h"
#include "socket/address.h"

namespace switchml {
namespace {

using ::testing::AllOf;
using ::testing::HasSubstr;

std::vector<Blob> hellos_of(const std::vector<Config>& configs) {
  std::vector<Blob> hellos;
  for (size_t rank = 0; rank < configs.size(); ++rank) {
    auto hello = hello_of(configs[rank], {static_cast<int>(rank), static_cast<int>(configs.size()), "group g"});
    EXPECT_TRUE(hello.ok()) << hello.status().message();
    hellos.push_back(hello.ok() ? hello.value() : Blob());
  }
  return hellos;
}

TEST(Hello, EqualRanksAgree) {
  Config config;
  config.payload_bytes = 1024;
  EXPECT_TRUE(compare_hellos(hellos_of({config, config, config})).ok());
  EXPECT_TRUE(compare_hellos(hellos_of({config})).ok());
}

TEST(Hello, WhatMayDifferIsNotCompared) {
  Config other;
  other.failure_timeout = seconds(3);
  other.faults = "loss=0.1";
  auto hellos = hellos_of({Config(), other});
  hellos[1].set("host", "elsewhere");
  EXPECT_TRUE(compare_hellos(hellos).ok());
  EXPECT_EQ(hellos[0].text("faults"), "");
  EXPECT_EQ(hellos[1].text("faults"), "some");
}

TEST(Hello, TheFirstRankThatDiffersIsNamedWithBothValues) {
  Config other;
  other.slots = 8;
  Config last;
  last.fallback = !last.fallback;
  const Status status = compare_hellos(hellos_of({Config(), Config(), other, last}));
  EXPECT_EQ(status.code(), Code::kMismatch);
  EXPECT_THAT(status.message(),
              AllOf(HasSubstr("rank 2 has SWITCHML_SLOTS \"8\""), HasSubstr("rank 0 has none (the default)"),
                    HasSubstr("must be the same on all ranks")));
}

TEST(Hello, SettingsThatDifferAreNamed) {
  const std::pair<std::function<void(Config*)>, const char*> cases[] = {
      {[](Config* c) { c->shards = 2; }, "rank 1 has SWITCHML_SHARDS \"2\" but rank 0 has \"1\""},
      {[](Config* c) { c->payload_bytes = 256; }, "rank 1 has SWITCHML_PAYLOAD \"256\" but rank 0 has none"},
      {[](Config* c) { c->switch_address = "1.2.3.4:5"; },
       "rank 1 has SWITCHML_SWITCH \"1.2.3.4:5\" but rank 0 has none (the default)"},
      {[](Config* c) { c->transport = "shm"; }, "rank 1 has SWITCHML_TRANSPORT \"shm\" but rank 0 has \"auto\""},
      {[](Config* c) { c->precision = Precision::kInteger; },
       "rank 1 has SWITCHML_PRECISION \"integer\" but rank 0 has \"auto\""},
  };
  for (const auto& [change, part] : cases) {
    Config other;
    change(&other);
    EXPECT_THAT(compare_hellos(hellos_of({Config(), other})).message(), HasSubstr(part));
  }
}

TEST(Hello, GroupsOfOtherSizesDiffer) {
  auto hellos = hellos_of({Config(), Config()});
  hellos[1].set("size", 3);
  EXPECT_THAT(compare_hellos(hellos).message(), HasSubstr("rank 1 has group size \"3\" but rank 0 has \"2\""));
}

TEST(Hello, AddressesAreSaidToAControllerOnly) {
  EXPECT_EQ(hello_of({}, {0, 2, "g"})->text("addresses"), "");
  Config config;
  config.controller = "10.0.0.1:7000";
  EXPECT_THAT(hello_of(config, {0, 2, "g"})->text("addresses"), HasSubstr("127.0.0.1"));
}

TEST(Hello, WhatThisProcessCannotDoIsRefused) {
  Config config;
  config.kernels = "abacus";
  auto hello = hello_of(config, {0, 2, "g"});
  EXPECT_EQ(hello.status().code(), Code::kInvalidArgument);
  EXPECT_THAT(hello.status().message(), AllOf(HasSubstr("SWITCHML_KERNELS"), HasSubstr("abacus")));
  config = {};
  config.interface = "no-such-interface0";
  hello = hello_of(config, {0, 2, "g"});
  EXPECT_FALSE(hello.ok());
  EXPECT_THAT(hello.status().message(), HasSubstr("no-such-interface0"));
}

TEST(Roster, HasWhatRank0KnowsOfTheRanks) {
  Config faulty;
  faulty.faults = "seed=1";
  auto hellos = hellos_of({Config(), Config(), faulty});
  for (size_t rank = 0; rank < 3; ++rank) hellos[rank].set("processors", hellos[0].text("processors"));
  const auto near = read_hellos(Config(), hellos);
  ASSERT_TRUE(near.ok()) << near.status().to_string();
  EXPECT_TRUE(near->one_host() && near->faults);
  EXPECT_TRUE(near->addresses.ok());
  hellos[2].set("host", "elsewhere");
  for (size_t rank = 0; rank < 3; ++rank) hellos[rank].set("candidates", rank < 2 ? "10.0.0.1" : "10.0.0.2");
  const auto far = read_hellos(Config(), hellos);
  ASSERT_TRUE(far.ok()) << far.status().to_string();
  EXPECT_EQ(far->layout.hosts(), 2);
  ASSERT_TRUE(far->addresses.ok()) << far->addresses.status().to_string();
  EXPECT_EQ(to_literal(far->addresses.value()[1]), "10.0.0.2");
  Blob blob;
  far->write_neighbours({1, 1, 1}, &blob);
  EXPECT_EQ(read_neighbours(blob, 1).index, 1);
  EXPECT_EQ(read_neighbours(blob, 1).count, 2);
  EXPECT_EQ(read_neighbours(blob, 2).count, 1);
}

TEST(Roster, OfHostsThatCannotShareMemoryIsRefused) {
  Config shm;
  shm.transport = "shm";
  auto hellos = hellos_of({shm, shm});
  hellos[1].set("host", "elsewhere");
  EXPECT_THAT(read_hellos(shm, hellos).status().message(), HasSubstr("rank 1 is on another host"));
}

}  // namespace
}  // namespace switchml
