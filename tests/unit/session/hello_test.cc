#include "session/hello.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "base/config.h"

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

}  // namespace
}  // namespace switchml
