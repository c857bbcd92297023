// The program switchml-switchd, started as a user does.
#include <gtest/gtest.h>

#include <csignal>
#include <string>
#include <vector>

#include "program.h"

namespace switchml {
namespace {

class Switchd : public Program {
 public:
  explicit Switchd(std::vector<std::string> arguments) : Program(SWITCHML_SWITCHD_PATH, std::move(arguments)) {}
};

class Signals : public ::testing::TestWithParam<int> {};

TEST_P(Signals, EndItCleanlyWithItsCounters) {
  Switchd program({"--listen", "127.0.0.1:0", "--log-level", "info"});
  const std::string line = program.line();
  EXPECT_EQ(line.rfind("listening on 127.0.0.1:", 0), 0U) << line;
  EXPECT_NE(line, "listening on 127.0.0.1:0");
  program.signal(GetParam());
  EXPECT_EQ(program.wait(), 0);
  EXPECT_NE(program.errors().find("final counters"), std::string::npos);
}

INSTANTIATE_TEST_SUITE_P(Main, Signals, ::testing::Values(SIGTERM, SIGINT));

TEST(Main, IsQuietByDefault) {
  Switchd program({"--listen", "127.0.0.1:0"});
  program.line();
  program.signal(SIGTERM);
  EXPECT_EQ(program.wait(), 0);
  EXPECT_EQ(program.errors(), "");
}

TEST(Main, StatisticsComePeriodically) {
  Switchd program({"--listen=127.0.0.1:0", "--log-level=info", "--stats-interval=1"});
  program.line();
  usleep(1500 * 1000);
  program.signal(SIGTERM);
  EXPECT_EQ(program.wait(), 0);
  EXPECT_NE(program.errors().find("switchml: counters:"), std::string::npos);
}

TEST(Main, BadArgumentsExitWithTwoAndNameThem) {
  const std::pair<std::vector<std::string>, std::string> cases[] = {
      {{"--slots", "0"}, "--slots=\"0\""},
      {{"--listen", "nonsense:notaport"}, "nonsense:notaport"},
      {{"--nonsense"}, "--nonsense"},
      {{"--lease"}, "--lease"},
  };
  for (const auto& [arguments, part] : cases) {
    Switchd program(arguments);
    EXPECT_EQ(program.wait(), 2) << part;
    const std::string errors = program.errors();
    EXPECT_NE(errors.find(part), std::string::npos) << errors;
    EXPECT_EQ(program.output(), "");
  }
}

TEST(Main, APortThatIsTakenExitsWithOne) {
  Switchd first({"--listen", "127.0.0.1:0"});
  const std::string address = first.line().substr(std::string("listening on ").size());
  Switchd second({"--listen", address});
  EXPECT_EQ(second.wait(), 1);
  EXPECT_NE(second.errors().find(address), std::string::npos);
}

TEST(Main, HelpAndVersion) {
  Switchd help({"--help"});
  EXPECT_EQ(help.wait(), 0);
  EXPECT_EQ(help.output().rfind("usage: switchml-switchd", 0), 0U);
  Switchd version({"--version"});
  EXPECT_EQ(version.wait(), 0);
  EXPECT_EQ(version.output().rfind("switchml-switchd ", 0), 0U);
}

TEST(Main, AnAgentIsAnnouncedOrRefusedWithTheReason) {
  Switchd program({"--listen", "127.0.0.1:0", "--agent", "127.0.0.1:0", "--insecure-no-token"});
#ifdef SWITCHML_HAS_AGENT
  program.line();
  const std::string line = program.line();
  EXPECT_EQ(line.rfind("agent on 127.0.0.1:", 0), 0U) << line;
  EXPECT_NE(line, "agent on 127.0.0.1:0");
  program.signal(SIGTERM);
  EXPECT_EQ(program.wait(), 0);
  Switchd tokenless({"--listen", "127.0.0.1:0", "--agent", "127.0.0.1:0", "--agent-token-file", "/nonexistent"});
  EXPECT_EQ(tokenless.wait(), 2);
  EXPECT_NE(tokenless.errors().find("--agent-token-file=\"/nonexistent\""), std::string::npos);
  Switchd open({"--listen", "127.0.0.1:0", "--agent", "127.0.0.1:0"});
  EXPECT_EQ(open.wait(), 2) << "nobody has agreed to an agent without a token";
  EXPECT_NE(open.errors().find("--insecure-no-token"), std::string::npos);
#else
  EXPECT_EQ(program.wait(), 2);
  // Why, the two ways to get one, and where it is then.
  const std::string errors = program.errors();
  for (const char* part : {"--agent=\"127.0.0.1:0\"", "pip", "make setup", "libgrpc++-dev", "cmake --build"}) {
    EXPECT_NE(errors.find(part), std::string::npos) << part << " is not in: " << errors;
  }
#endif
}

}  // namespace
}  // namespace switchml
