#include "controllerd/server.h"

#include <gtest/gtest.h>

#include <cstdlib>
#include <fstream>
#include <sstream>

#include "controllerd/state_text.h"
#include "fake_agent.h"
#include "temporary_file.h"
#include "transport/address.h"

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

bool connected(const ControllerServer& server, const std::string& ca = "") {
  return eventually([&] {
    const auto state = ask_state(server.local(), "", ca);
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
  EXPECT_LT(monotonic_now() - start, seconds(4));
  EXPECT_FALSE(ask_state(address, "", "").ok());
}

TEST(Server, AnAddressThatCannotBeHadIsNamed) {
  ControllerOptions options = options_for("127.0.0.1:1");
  options.listen = "192.0.2.1:9";  // of nobody
  const auto server = ControllerServer::start(options);
  ASSERT_FALSE(server.ok());
  EXPECT_EQ(server.status().code(), Code::kUnavailable);
  EXPECT_EQ(server.status().message(), "cannot listen on 192.0.2.1:9");
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
  EXPECT_TRUE(connected(*server.value(), certificate.text));
  EXPECT_FALSE(ask_state(server.value()->local(), "", "").ok()) << "without TLS";
  const Certificate other;
  EXPECT_FALSE(ask_state(server.value()->local(), "", other.text).ok()) << "of another authority";
}

TEST(Server, ACertificateWithoutItsKeyIsRefused) {
  const Certificate certificate;
  NEEDS(certificate);
  ControllerOptions options = options_for("127.0.0.1:1");
  options.tls.certificate = certificate.text;
  options.tls.key = "no key";
  const auto server = ControllerServer::start(options);
  ASSERT_FALSE(server.ok());
  EXPECT_NE(server.status().message().find("certificate and key do not fit"), std::string::npos);
}

TEST(Server, TakesOnlyCallersWithACertificateWhereItWantsOne) {
  const Certificate certificate;
  NEEDS(certificate);
  FakeAgent agent;
  ControllerOptions options = options_for(agent.address());
  options.tls.certificate = certificate.text;
  options.tls.key = certificate.key;
  options.tls.client_ca = certificate.text;
  const auto server = ControllerServer::start(options);
  ASSERT_TRUE(server.ok()) << server.status().message();
  EXPECT_FALSE(ask_state(server.value()->local(), "", certificate.text).ok());
  grpc::SslCredentialsOptions mine;
  mine.pem_root_certs = mine.pem_cert_chain = certificate.text;
  mine.pem_private_key = certificate.key;
  const auto stub = v1::Controller::NewStub(grpc::CreateChannel(server.value()->local(), grpc::SslCredentials(mine)));
  grpc::ClientContext context;
  context.set_deadline(std::chrono::system_clock::now() + seconds(10));
  v1::DescribeReply reply;
  EXPECT_TRUE(stub->Describe(&context, v1::DescribeRequest(), &reply).ok());
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
