#include "controllerd/controller_options.h"

#include <gtest/gtest.h>

#include <cstdlib>
#include <vector>

#include "socket/address.h"
#include "temporary_file.h"

namespace switchml {
namespace {

Result<ControllerCommand> parse(std::vector<std::string> arguments) {
  arguments.insert(arguments.begin(), "switchml-controller");
  std::vector<char*> argv;
  for (std::string& argument : arguments) argv.push_back(argument.data());
  argv.push_back(nullptr);
  return parse_controller_command(static_cast<int>(arguments.size()), argv.data());
}

const char* const kSwitchOption = "--switch=127.0.0.1:1=10.0.0.1";

TEST(ControllerOptions, TheSimplestCase) {
  const auto command = parse({kSwitchOption, "--insecure-no-token"});
  ASSERT_TRUE(command.ok()) << command.status().message();
  EXPECT_EQ(command.value().options.listen, "0.0.0.0:48880");
  EXPECT_EQ(command.value().options.topology.switches.size(), 1U);
  EXPECT_EQ(command.value().options.topology.lease, seconds(1800));
  EXPECT_TRUE(command.value().options.tokens.empty());
  EXPECT_TRUE(command.value().options.metrics.empty());
  EXPECT_EQ(command.value().log_level, LogLevel::kWarning);
  EXPECT_FALSE(command.value().check);
}

TEST(ControllerOptions, EveryOptionIsRead) {
  const TemporaryFile topology("switches:\n  - {name: s, agent: a:1, address: 10.0.0.1}\n");
  const TemporaryFile tokens("tokens:\n  - {name: a, token: aaaaaaaaaaaaaaaa}\n");
  const TemporaryFile certificate("CERT");
  const TemporaryFile key("KEY");
  const TemporaryFile ca("CA");
  const auto command =
      parse({"--topology", topology.path(), "--tokens", tokens.path(), "--listen", "[::1]:7", "--tls-cert",
             certificate.path(), "--tls-key", key.path(), "--tls-client-ca", ca.path(), "--agent-ca", ca.path(),
             "--metrics=127.0.0.1:9", "--lease=5", "--log-level=info", "--check"});
  ASSERT_TRUE(command.ok()) << command.status().message();
  const ControllerOptions& options = command.value().options;
  EXPECT_EQ(options.listen, "[::1]:7");
  EXPECT_EQ(options.tokens.size(), 1U);
  EXPECT_EQ(options.tls.certificate, "CERT");
  EXPECT_EQ(options.tls.key, "KEY");
  EXPECT_EQ(options.tls.client_ca, "CA");
  EXPECT_EQ(options.tls.agent_ca, "CA");
  EXPECT_EQ(options.metrics, "127.0.0.1:9");
  EXPECT_EQ(options.topology.lease, seconds(5));
  EXPECT_EQ(command.value().log_level, LogLevel::kInfo);
  EXPECT_TRUE(command.value().check);
  EXPECT_TRUE(parse({"--help"}).value().help);
  EXPECT_TRUE(parse({"-h"}).value().help);
  EXPECT_TRUE(parse({"--version"}).value().version);
}

TEST(ControllerOptions, StateNeedsAnAddressAndMayHaveAToken) {
  const TemporaryFile token("sesame");
  const auto command = parse({"--state", "127.0.0.1:9", "--token-file", token.path()});
  ASSERT_TRUE(command.ok()) << command.status().message();
  EXPECT_EQ(command.value().state, "127.0.0.1:9");
  EXPECT_EQ(command.value().caller.token, "sesame");
  EXPECT_TRUE(command.value().caller.ca.empty());
  setenv("SWITCHML_CONTROLLER_TOKEN", "from-variable", 1);
  EXPECT_EQ(parse({"--state", "127.0.0.1:9"}).value().caller.token, "from-variable");
  unsetenv("SWITCHML_CONTROLLER_TOKEN");
}

TEST(ControllerOptions, StateMayShowACertificate) {
  const TemporaryFile ca("CA");
  const TemporaryFile certificate("CERT");
  const TemporaryFile key("KEY");
  const auto command =
      parse({"--state=h:1", "--tls-ca", ca.path(), "--tls-cert", certificate.path(), "--tls-key", key.path()});
  ASSERT_TRUE(command.ok()) << command.status().message();
  EXPECT_EQ(command.value().caller.ca, "CA");
  EXPECT_EQ(command.value().caller.certificate, "CERT");
  EXPECT_EQ(command.value().caller.key, "KEY");
}

TEST(ControllerOptions, BadOnesNameOptionValueAndWhatIsAllowed) {
  const TemporaryFile pem("PEM");
  const std::pair<std::vector<std::string>, std::vector<std::string>> cases[] = {
      {{}, {"--topology FILE", "--switch AGENT=ADDRESS"}},
      {{kSwitchOption, "--topology", "x"}, {"either"}},
      {{kSwitchOption, kSwitchOption, "--insecure-no-token"}, {"--switch is for one switch", "--topology"}},
      {{kSwitchOption}, {"--tokens FILE", "--insecure-no-token"}},
      {{kSwitchOption, "--insecure-no-token", "--tokens", "x"}, {"exclude each other"}},
      {{"--switch=x", "--insecure-no-token"}, {"--switch=\"x\"", "AGENT=ADDRESS"}},
      {{"--topology=/nonexistent", "--insecure-no-token"}, {"/nonexistent: cannot be read"}},
      {{kSwitchOption, "--tokens=/nonexistent"}, {"/nonexistent: cannot be read"}},
      {{kSwitchOption, "--insecure-no-token", "--listen", "here"}, {"--listen=\"here\"", "ADDRESS:PORT"}},
      {{kSwitchOption, "--insecure-no-token", "--metrics", "h:99999"}, {"--metrics=\"h:99999\"", "ADDRESS:PORT"}},
      {{kSwitchOption, "--insecure-no-token", "--lease", "0"}, {"--lease=\"0\"", "1 to 86400"}},
      {{kSwitchOption, "--insecure-no-token", "--lease", "1e3"}, {"--lease=\"1e3\"", "1 to 86400"}},
      {{kSwitchOption, "--insecure-no-token", "--log-level", "loud"}, {"--log-level=\"loud\"", "debug, info"}},
      {{kSwitchOption, "--insecure-no-token", "--tls-cert", pem.path()}, {"--tls-cert and --tls-key go together"}},
      {{kSwitchOption, "--insecure-no-token", "--tls-client-ca", pem.path()}, {"--tls-client-ca needs --tls-cert"}},
      {{kSwitchOption, "--insecure-no-token", "--agent-ca", "/nonexistent"}, {"--agent-ca", "/nonexistent", "PEM"}},
      {{kSwitchOption, "--insecure-no-token", "--token-file", pem.path()}, {"--token-file goes with --state only"}},
      {{"--state", "h:0"}, {"--state=\"h:0\"", "1 to 65535"}},
      {{"--state", "0.0.0.0:1"}, {"--state=\"0.0.0.0:1\"", "not the wildcard"}},
      {{"--state", "h:1", "--metrics", "h:2"}, {"--metrics does not go with --state"}},
      {{"--state", "h:1", "--tls-cert", pem.path(), "--tls-key", pem.path()},
       {"--tls-cert and --tls-key need --tls-ca"}},
      {{"--state", "h:1", "--tls-ca", pem.path(), "--tls-key", pem.path()}, {"--tls-cert and --tls-key go together"}},
      {{"--state", "h:1", "--tls-ca", "/nonexistent"}, {"--tls-ca=\"/nonexistent\"", "PEM"}},
      {{"--state", "h"}, {"--state=\"h\"", "ADDRESS:PORT"}},
      {{"--state", "h:1", "--token-file", "/nonexistent"}, {"--token-file=\"/nonexistent\""}},
      {{kSwitchOption, "--tokens="}, {"--tokens=\"\"", "FILE"}},
      {{"--nonsense"}, {"no option \"--nonsense\""}},
  };
  for (const auto& [arguments, parts] : cases) {
    const auto command = parse(arguments);
    ASSERT_FALSE(command.ok()) << parts[0];
    for (const std::string& part : parts) {
      EXPECT_NE(command.status().message().find(part), std::string::npos) << command.status().message();
    }
  }
}

}  // namespace
}  // namespace switchml
