#include "controllerd/controller_server.h"

#include <gtest/gtest.h>

#include <algorithm>
#include <cstdlib>
#include <fstream>
#include <functional>
#include <sstream>

#include "controllerd/state_text.h"
#include "fixture.h"
#include "socket/address.h"
#include "temporary_file.h"

namespace switchml {
namespace {

ControllerOptions options_for(const std::string& agent) {
  ControllerOptions options;
  options.listen = "127.0.0.1:0";
  controller::SwitchSpec spec;
  spec.name = "s";
  spec.agent = agent;
  spec.address = resolve_address("10.0.0.1:48879", "test").value();
  options.topology.switches.push_back(spec);
  return options;
}

/// A certificate of 127.0.0.1 that signs itself; empty where there is no openssl.
struct Certificate {
  Certificate() {
    const TemporaryFile key_file("");
    const TemporaryFile certificate_file("");
    const std::string command =
        "openssl req -x509 -newkey ec -pkeyopt ec_paramgen_curve:prime256v1 -nodes -days 2 "
        "-subj /CN=switchml-test -addext subjectAltName=IP:127.0.0.1 -keyout " +
        key_file.path() + " -out " + certificate_file.path() + " 2>/dev/null";
    if (std::system(command.c_str()) != 0) return;
    key = text_of(key_file.path());
    text = text_of(certificate_file.path());
  }
  static std::string text_of(const std::string& path) {
    std::ifstream file(path);
    std::ostringstream out;
    out << file.rdbuf();
    return out.str();
  }
  std::string text;
  std::string key;
};

#define NEEDS(certificate)        \
  if ((certificate).text.empty()) \
  GTEST_SKIP() << "needs the program openssl to make a certificate (apt install openssl)"

/// Who trusts this authority and shows nothing.
Caller trusting(const std::string& ca) { return {"", ca, "", ""}; }

bool connected(const ControllerServer& server, const Caller& caller = {}) {
  return eventually([&] {
    const auto state = ask_state(server.local(), caller);
    return state.ok() && state.value().switches(0).description().connected();
  });
}

TEST(Server, ServesAndEnds) {
  FakeAgent agent;
  auto server = ControllerServer::start(options_for(agent.address()));
  ASSERT_TRUE(server.ok()) << server.status().message();
  EXPECT_TRUE(connected(*server.value()));
  const std::string address = server.value()->local();
  const Time start = monotonic_now();
  server.value().reset();
  EXPECT_LT(monotonic_now() - start, seconds(60));
  EXPECT_FALSE(ask_state(address, {}).ok());
}

TEST(Server, AnAddressThatCannotBeHadIsNamed) {
  ControllerOptions options = options_for("127.0.0.1:1");
  options.listen = "192.0.2.1:9";  // of nobody
  const auto server = ControllerServer::start(options);
  ASSERT_FALSE(server.ok());
  EXPECT_EQ(server.status().code(), Code::kUnavailable);
  EXPECT_EQ(server.status().message(),
            "--listen=\"192.0.2.1:9\": cannot bind 192.0.2.1:9/tcp: Cannot assign requested address");
}

TEST(Server, SpeaksTlsWithItsCertificate) {
  const Certificate certificate;
  NEEDS(certificate);
  FakeAgent agent;
  ControllerOptions options = options_for(agent.address());
  options.tls.certificate = certificate.text;
  options.tls.key = certificate.key;
  const auto server = ControllerServer::start(options);
  ASSERT_TRUE(server.ok()) << server.status().message();
  EXPECT_TRUE(connected(*server.value(), trusting(certificate.text)));
  EXPECT_FALSE(ask_state(server.value()->local(), {}).ok()) << "without TLS";
  const Certificate other;
  EXPECT_FALSE(ask_state(server.value()->local(), trusting(other.text)).ok()) << "of another authority";
}

TEST(Server, ACertificateWithoutItsKeyIsRefused) {
  const Certificate certificate;
  NEEDS(certificate);
  ControllerOptions options = options_for("127.0.0.1:1");
  options.tls.certificate = certificate.text;
  options.tls.key = "no key";
  const auto server = ControllerServer::start(options);
  ASSERT_FALSE(server.ok());
  EXPECT_NE(server.status().message().find("--tls-cert and --tls-key: they do not fit"), std::string::npos);
}

TEST(Server, TakesOnlyCallersWithACertificateWhereItWantsOne) {
  const Certificate certificate;
  NEEDS(certificate);
  FakeAgent agent;
  ControllerOptions options = options_for(agent.address());
  options.tls.certificate = certificate.text;
  options.tls.key = certificate.key;
  const Certificate callers;
  options.tls.client_ca = callers.text;
  const auto server = ControllerServer::start(options);
  ASSERT_TRUE(server.ok()) << server.status().message();
  EXPECT_TRUE(connected(*server.value(), {"", certificate.text, callers.text, callers.key}));
  const Certificate other;
  const std::pair<Caller, const char*> refused[] = {
      {trusting(certificate.text), "If it asks for a certificate, --tls-cert and --tls-key are needed"},
      {{"", certificate.text, other.text, other.key}, "has its --tls-client-ca signed that certificate?"},
      {{"", certificate.text, callers.text, other.key}, "Do --tls-cert and --tls-key fit each other"}};
  for (const auto& [caller, part] : refused) {
    const auto state = ask_state(server.value()->local(), caller);
    ASSERT_FALSE(state.ok());
    EXPECT_NE(state.status().message().find(part), std::string::npos) << state.status().message();
  }
}

TEST(Server, IsAskedDirectlyWhateverProxyThereIs) {
  for (const char* const name : {"http_proxy", "https_proxy", "grpc_proxy"}) setenv(name, "http://127.0.0.1:1", 1);
  FakeAgent agent;
  const auto server = ControllerServer::start(options_for(agent.address()));
  ASSERT_TRUE(server.ok()) << server.status().message();
  EXPECT_TRUE(connected(*server.value())) << "neither the agent's link nor ask_state() goes through it";
  for (const char* const name : {"http_proxy", "https_proxy", "grpc_proxy"}) unsetenv(name);
}

TEST(Server, SpeaksTlsToAgents) {
  const Certificate certificate;
  NEEDS(certificate);
  grpc::SslServerCredentialsOptions tls;
  tls.pem_key_cert_pairs.push_back({certificate.key, certificate.text});
  FakeAgent agent(grpc::SslServerCredentials(tls));
  ControllerOptions options = options_for(agent.address());
  options.tls.agent_ca = certificate.text;
  const auto server = ControllerServer::start(options);
  ASSERT_TRUE(server.ok()) << server.status().message();
  EXPECT_TRUE(connected(*server.value()));
}

void open(const ControllerServer& server, const std::string& group, const std::vector<std::string>& ranks) {
  v1::OpenRequest request;
  request.set_protocol_version(wire::kVersion);
  request.set_client_key(std::hash<std::string>{}(group) | 1);
  request.set_group(group);
  request.set_workers(static_cast<uint32_t>(ranks.size()));
  request.set_shards(1);
  request.set_slots(8);
  request.set_payload_bytes(1024);
  for (const std::string& address : ranks) request.add_ranks()->add_addresses(address);
  const auto stub = v1::Controller::NewStub(grpc::CreateChannel(server.local(), grpc::InsecureChannelCredentials()));
  grpc::ClientContext context;
  context.set_deadline(std::chrono::system_clock::now() + seconds(15));
  v1::OpenReply reply;
  const grpc::Status status = stub->Open(&context, request, &reply);
  EXPECT_TRUE(status.ok()) << status.error_message();
}

TEST(Server, ItsStateForPeopleHasASessionAtOneSwitchAndATree) {
  Fabric fabric;
  ControllerOptions options = options_for("");
  options.topology = fabric.topology;
  const auto server = ControllerServer::start(options);
  ASSERT_TRUE(server.ok()) << server.status().message();
  EXPECT_TRUE(eventually([&] {
    return std::all_of(std::begin(fabric.agents), std::end(fabric.agents),
                       [](auto& agent) { return agent.listened.load(); });
  }));
  open(*server.value(), "tree", {"10.0.1.1", "10.0.1.2"});
  open(*server.value(), "alone", {"10.0.1.1", "10.0.1.1", "10.0.1.1"});
  const auto state = ask_state(server.value()->local(), {});
  ASSERT_TRUE(state.ok()) << state.status().message();
  const std::string text = state_text(state.value());
  for (const char* const part :
       {"switch spine at 10.0.0.1:48879: fake, 1 jobs, ", "switch leaf1 at 10.0.0.2:48879, below spine: fake, 2 jobs, ",
        "switch leaf2 at 10.0.0.3:48879, below spine: fake, 1 jobs, ",
        "\"tree\": 0 of 2 workers joined (not 0, 1), 8 slots of 1024 bytes on spine, leaf1, leaf2, lease ",
        "\"alone\": 0 of 3 workers joined (not 0, 1, 2), 8 slots of 1024 bytes on leaf1, lease ",
        "counters of leaf2, job 3: Bad-Name=1 packets_received=5"}) {
    EXPECT_NE(text.find(part), std::string::npos) << part << "\n" << text;
  }
}

TEST(Server, MetricsThatCannotBeHadAreNamed) {
  ControllerOptions options = options_for("127.0.0.1:1");
  options.metrics = "192.0.2.1:9";
  const auto server = ControllerServer::start(options);
  ASSERT_FALSE(server.ok());
  EXPECT_NE(server.status().message().find("--metrics=\"192.0.2.1:9\""), std::string::npos)
      << server.status().message();
}

}  // namespace
}  // namespace switchml
