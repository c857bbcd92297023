#include "switchd/options.h"

#include <gtest/gtest.h>
#include <sys/stat.h>

#include <string>
#include <vector>

#include "temporary_file.h"

namespace switchml {
namespace {

Result<CommandLine> parse(std::vector<std::string> arguments) {
  arguments.insert(arguments.begin(), "switchml-switchd");
  std::vector<char*> argv;
  for (std::string& argument : arguments) argv.push_back(argument.data());
  argv.push_back(nullptr);
  return parse_command_line(static_cast<int>(arguments.size()), argv.data());
}

TEST(Options, DefaultsListenEverywhere) {
  const auto line = parse({});
  ASSERT_TRUE(line.ok()) << line.status().to_string();
  EXPECT_EQ(line.value().listen, "0.0.0.0:48879");
  EXPECT_FALSE(line.value().help);
  EXPECT_EQ(line.value().log_level, LogLevel::kWarning);
  EXPECT_EQ(line.value().stats_interval.count(), 0);
}

TEST(Options, EveryOptionIsRead) {
  const auto parsed = parse({"--listen", "[::1]:7", "--slots=16", "--max-payload", "1024", "--lease=5", "--silence=2",
                             "--client-jobs=3", "--client-slots", "4", "--log-level", "info", "--stats-interval=2"});
  ASSERT_TRUE(parsed.ok()) << parsed.status().to_string();
  const CommandLine& line = parsed.value();
  EXPECT_EQ(line.listen, "[::1]:7");
  EXPECT_EQ(line.server.softswitch.slot_memory_bytes, size_t{16} << 20);
  EXPECT_EQ(line.server.softswitch.max_payload_bytes, 1024U);
  EXPECT_EQ(line.server.softswitch.lease, seconds(5));
  EXPECT_EQ(line.server.softswitch.silence, seconds(2));
  EXPECT_EQ(parse({}).value().server.softswitch.silence, seconds(15));
  EXPECT_EQ(line.server.softswitch.client_jobs, 3);
  EXPECT_EQ(line.server.softswitch.client_memory_bytes, size_t{4} << 20);
  EXPECT_EQ(line.log_level, LogLevel::kInfo);
  EXPECT_EQ(line.stats_interval, seconds(2));
  EXPECT_EQ(parse({"--slots=16"}).value().server.softswitch.client_memory_bytes, size_t{8} << 20) << "half";
  EXPECT_EQ(parse({}).value().server.softswitch.client_jobs, 128);
  EXPECT_TRUE(parse({"--help"}).value().help);
  EXPECT_TRUE(parse({"-h"}).value().help);
  EXPECT_TRUE(parse({"--version"}).value().version);
}

TEST(Options, ACardIsWhatThereIsOrWhatIsNamed) {
  using Wanted = ServerOptions::CardUse;
  EXPECT_EQ(parse({}).value().server.card, Wanted::kIfThereIsOne);
  EXPECT_EQ(parse({"--rdma=off"}).value().server.card, Wanted::kNone);
  EXPECT_EQ(parse({"--rdma=on"}).value().server.card, Wanted::kMust);
  EXPECT_EQ(parse({"--rdma=on", "--rdma=auto"}).value().server.card, Wanted::kIfThereIsOne);
  const ServerOptions named = parse({"--rdma=mlx5_1:2:3"}).value().server;
  EXPECT_EQ(named.card, Wanted::kMust);
  EXPECT_EQ(named.card_port.device, "mlx5_1");
  EXPECT_EQ(named.card_port.port, 2);
  EXPECT_EQ(named.card_port.gid_index, 3);
}

TEST(Options, WhatACardMarksIsKeptWhicheverItIs) {
  for (const char* const card : {"auto", "on", "mlx5_1"}) {
    const auto line = parse({"--rdma-traffic-class=104", std::string("--rdma=") + card, "--rdma-service-level=3"});
    ASSERT_TRUE(line.ok()) << line.status().to_string();
    EXPECT_EQ(line->server.card_port.traffic_class, 104) << card;
    EXPECT_EQ(line->server.card_port.service_level, 3) << card;
  }
}

struct Bad {
  std::vector<std::string> arguments;
  std::vector<std::string> parts;  // of the message
};

TEST(Options, BadOnesNameOptionValueAndWhatIsAllowed) {
  const Bad cases[] = {
      {{"--max-payload", "65537"}, {"--max-payload", "\"65537\""}},
      {{"--rdma", "mlx5_0:0"}, {"--rdma", "mlx5_0:0", "auto, on, off, or DEVICE"}},
      {{"--rdma="}, {"--rdma", "auto, on, off"}},
      {{"--rdma-traffic-class=256"}, {"--rdma-traffic-class", "256", "255"}},
      {{"--rdma-service-level=8"}, {"--rdma-service-level", "8", "7"}},
      {{"--slots", "0"}, {"--slots", "\"0\"", "1 to 1048576", "MiB"}},
      {{"--slots", "1048577"}, {"--slots", "1048577", "1 to 1048576"}},
      {{"--slots=12x"}, {"--slots", "12x", "1 to 1048576"}},
      {{"--max-payload", "1000"}, {"--max-payload", "1000", "or of 1024 up to 64512"}},
      {{"--max-payload", "65536"}, {"--max-payload", "65536", "up to 64512"}},
      {{"--lease", "0"}, {"--lease", "\"0\"", "1 to 86400"}},
      {{"--silence", "0"}, {"--silence", "\"0\"", "1 to 86400 (seconds)"}},
      {{"--lease", "-1"}, {"--lease", "-1", "seconds"}},
      {{"--client-jobs", "256"}, {"--client-jobs", "\"256\"", "1 to 255"}},
      {{"--client-slots", "0"}, {"--client-slots", "\"0\"", "MiB"}},
      {{"--log-level", "loud"}, {"--log-level", "loud", "debug, info"}},
      {{"--stats-interval", "x"}, {"--stats-interval", "\"x\"", "0 to 86400"}},
      {{"--listen="}, {"--listen", "ADDRESS:PORT"}},
      {{"--slots"}, {"--slots", "needs a value"}},
  };
  for (const Bad& bad : cases) {
    const auto line = parse(bad.arguments);
    ASSERT_FALSE(line.ok()) << bad.arguments[0];
    EXPECT_EQ(line.status().code(), Code::kInvalidArgument);
    for (const std::string& part : bad.parts) {
      EXPECT_NE(line.status().message().find(part), std::string::npos) << part << " in " << line.status().message();
    }
  }
}

TEST(Options, AKeyIsInAFileThatOnlyItsOwnerReads) {
  EXPECT_FALSE(parse({}).value().server.seal);
  const std::string digits = to_hex(random_seal_key());
  const TemporaryFile file(digits + "\n");
  const auto line = parse({"--key-file", file.path()});
  ASSERT_TRUE(line.ok()) << line.status().message();
  EXPECT_EQ(to_hex(line.value().server.seal.value()), digits);
  ASSERT_EQ(chmod(file.path().c_str(), 0640), 0);
  const TemporaryFile shorter(digits.substr(1));
  const TemporaryFile other(digits.substr(1) + "g");
  const Bad cases[] = {
      {{"--key-file", file.path()}, {"--key-file=\"" + file.path(), "others may read it (mode 0640)", "chmod 600"}},
      {{"--key-file", shorter.path()}, {"--key-file=\"" + shorter.path(), "64 hexadecimal digits, not 63"}},
      {{"--key-file", other.path()}, {"--key-file=\"" + other.path(), "character 64", "no hexadecimal digit"}},
      {{"--key-file=/nonexistent"}, {"--key-file=\"/nonexistent\": cannot be read"}},
      {{"--key-file="}, {"--key-file", "FILE"}},
  };
  for (const Bad& bad : cases) {
    const Status status = parse(bad.arguments).status();
    EXPECT_EQ(status.code(), Code::kInvalidArgument);
    for (const std::string& part : bad.parts) {
      EXPECT_NE(status.message().find(part), std::string::npos) << part << " in " << status.message();
    }
    EXPECT_EQ(status.message().find(digits.substr(1, 20)), std::string::npos) << "the key is in no message";
  }
}

TEST(Options, AnAgentHasAnAddressAndFiles) {
  EXPECT_EQ(parse({}).value().agent.listen, "");
  const TemporaryFile token("sesame open");
  const TemporaryFile certificate("CERT");
  const TemporaryFile key("KEY");
  const auto line = parse({"--agent", "127.0.0.1:0", "--agent-token-file", token.path(), "--agent-cert",
                           certificate.path(), "--agent-key", key.path()});
  ASSERT_TRUE(line.ok()) << line.status().message();
  EXPECT_EQ(line.value().agent.listen, "127.0.0.1:0");
  EXPECT_EQ(line.value().agent.token, "sesame");
  EXPECT_EQ(line.value().agent.certificate, "CERT");
  EXPECT_EQ(line.value().agent.key, "KEY");
  EXPECT_FALSE(line.value().insecure_no_token);
  EXPECT_TRUE(parse({"--agent", "127.0.0.1:0", "--insecure-no-token"}).value().insecure_no_token);
  const Bad cases[] = {
      {{"--agent", "h:1"}, {"--agent=\"h:1\"", "--agent-token-file FILE", "--insecure-no-token"}},
      {{"--agent", "h:1", "--agent-token-file", token.path(), "--insecure-no-token"},
       {"either --agent-token-file FILE, or"}},
      {{"--insecure-no-token"}, {"need --agent"}},
      {{"--agent", "127.0.0.1:0", "--insecure-no-token", "--rdma=on"}, {"--rdma and --agent exclude each other"}},
      {{"--agent", "here"}, {"--agent=\"here\"", "ADDRESS:PORT"}},
      {{"--agent", "h:70000"}, {"--agent=\"h:70000\"", "ADDRESS:PORT"}},
      {{"--agent", "h:1", "--agent-token-file="}, {"--agent-token-file=\"\"", "a file that can be read"}},
      {{"--agent-token-file", token.path()}, {"need --agent"}},
      {{"--agent", "h:1", "--insecure-no-token", "--agent-cert", key.path()},
       {"--agent-cert and --agent-key go together"}},
      {{"--agent", "h:1", "--insecure-no-token", "--agent-key", "/nonexistent"},
       {"--agent-key=\"/nonexistent\"", "PEM"}},
  };
  for (const Bad& each : cases) {
    const auto refused = parse(each.arguments);
    ASSERT_FALSE(refused.ok()) << each.parts[0];
    for (const std::string& part : each.parts) {
      EXPECT_NE(refused.status().message().find(part), std::string::npos) << refused.status().message();
    }
  }
}

}  // namespace
}  // namespace switchml
