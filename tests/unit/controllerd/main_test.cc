// The program switchml-controller.
#include <gtest/gtest.h>

#include <thread>

#include "fake_agent.h"
#include "program.h"
#include "temporary_file.h"

namespace switchml {
namespace {

std::unique_ptr<Program> controller(const std::vector<std::string>& arguments) {
  return std::make_unique<Program>(SWITCHML_CONTROLLER_PATH, arguments);
}

const char* const kNoSwitch = "--switch=127.0.0.1:1=10.0.0.1";

class Signals : public ::testing::TestWithParam<int> {};

TEST_P(Signals, EndItCleanly) {
  const auto program = controller({kNoSwitch, "--insecure-no-token", "--listen", "127.0.0.1:0", "--log-level=off"});
  const std::string line = program->line();
  EXPECT_EQ(line.rfind("listening on 127.0.0.1:", 0), 0U) << line;
  EXPECT_NE(line, "listening on 127.0.0.1:0");
  program->signal(GetParam());
  EXPECT_EQ(program->wait(), 0);
  EXPECT_EQ(program->errors(), "");
}

INSTANTIATE_TEST_SUITE_P(Main, Signals, ::testing::Values(SIGTERM, SIGINT));

TEST(Main, ASwitchThatIsNotThereIsNamedAndWaitedFor) {
  const auto program = controller({kNoSwitch, "--insecure-no-token", "--listen", "127.0.0.1:0"});
  program->line();
  const std::string errors = program->error_line();
  program->signal(SIGTERM);
  EXPECT_EQ(program->wait(), 0);
  EXPECT_NE(errors.find("switch \"switch\": its agent cannot be reached"), std::string::npos) << errors;
}

TEST(Main, EndsSoonAlthoughAnAgentHangs) {
  FakeAgent agent;
  const auto program = controller({"--switch=" + agent.address() + "=10.0.0.1", "--insecure-no-token", "--listen",
                                   "127.0.0.1:0", "--log-level=off"});
  const std::string address = after("listening on ", program->line());
  ASSERT_TRUE(eventually([&] { return agent.listened.load(); }));
  agent.hangs = true;
  const auto state = controller({"--state", address});  // asks for the counters, too
  const auto stub = v1::Controller::NewStub(grpc::CreateChannel(address, grpc::InsecureChannelCredentials()));
  std::thread opener([&] {
    v1::OpenRequest request;
    request.set_protocol_version(wire::kVersion);
    request.set_client_key(1);
    request.set_workers(1);
    request.set_shards(1);
    request.set_payload_bytes(1024);
    request.add_ranks()->add_addresses("10.0.1.1");
    v1::OpenReply reply;
    grpc::ClientContext context;
    EXPECT_EQ(stub->Open(&context, request, &reply).error_message(), "the controller is shutting down");
  });
  EXPECT_TRUE(eventually([&] { return agent.hanging >= 2; })) << "the install and the counters";
  const Time start = monotonic_now();
  program->signal(SIGTERM);
  EXPECT_EQ(program->wait(), 0);
  EXPECT_LT(monotonic_now() - start, seconds(60));
  opener.join();
}

TEST(Main, CheckReadsTheFilesAndLeaves) {
  const TemporaryFile good("switches:\n  - {name: s, agent: a:1, address: 10.0.0.1}\n");
  const auto program = controller({"--topology", good.path(), "--check"});
  EXPECT_EQ(program->wait(), 0);
  EXPECT_EQ(program->output(), good.path() + ": 1 switches, 0 workers: good\n");
  const TemporaryFile wrong("switches:\n  - {name: s, agent: a:1, address: here}\n");
  const auto refused = controller({"--topology", wrong.path(), "--check"});
  EXPECT_EQ(refused->wait(), 2);
  EXPECT_NE(refused->errors().find(wrong.path() + ":2: switch \"s\": address \"here\""), std::string::npos);
}

TEST(Main, BadArgumentsExitWithTwo) {
  const auto program = controller({kNoSwitch});
  EXPECT_EQ(program->wait(), 2);
  EXPECT_NE(program->errors().find("--insecure-no-token"), std::string::npos);
}

TEST(Main, APortThatIsTakenExitsWithOne) {
  const auto first = controller({kNoSwitch, "--insecure-no-token", "--listen", "127.0.0.1:0", "--log-level=off"});
  const std::string address = after("listening on ", first->line());
  const auto second = controller({kNoSwitch, "--insecure-no-token", "--listen", address, "--log-level=off"});
  EXPECT_EQ(second->wait(), 1);
  EXPECT_NE(second->errors().find("--listen=\"" + address + "\": cannot bind "), std::string::npos);
}

TEST(Main, StateIsPrinted) {
  FakeAgent agent;
  const TemporaryFile tokens("tokens:\n  - {name: a, token: aaaaaaaaaaaaaaaa}\n");
  const TemporaryFile token("aaaaaaaaaaaaaaaa\n");
  const auto program =
      controller({"--switch=" + agent.address() + "=10.0.0.1", "--tokens", tokens.path(), "--listen", "127.0.0.1:0"});
  const std::string address = after("listening on ", program->line());
  ASSERT_TRUE(eventually([&] { return agent.listened.load(); }));
  const auto state = controller({"--state", address, "--token-file", token.path()});
  EXPECT_EQ(state->wait(), 0);
  const std::string text = state->output();
  EXPECT_NE(text.find("switch switch at 10.0.0.1:48879: fake, "), std::string::npos) << text;
  EXPECT_NE(text.find("no sessions\n"), std::string::npos) << text;
  const auto stranger = controller({"--state", address});
  EXPECT_EQ(stranger->wait(), 1);
  EXPECT_NE(stranger->errors().find("no token"), std::string::npos);
}

TEST(Main, HelpAndVersion) {
  const auto help = controller({"--help"});
  EXPECT_EQ(help->wait(), 0);
  EXPECT_EQ(help->output().rfind("usage: switchml-controller", 0), 0U);
  const auto version = controller({"--version"});
  EXPECT_EQ(version->wait(), 0);
  EXPECT_EQ(version->output().rfind("switchml-controller ", 0), 0U);
}

}  // namespace
}  // namespace switchml
