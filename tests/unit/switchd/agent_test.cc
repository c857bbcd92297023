#ifdef SWITCHML_HAS_AGENT
#include "switchd/agent.h"

#include <grpcpp/grpcpp.h>
#include <gtest/gtest.h>

#include <thread>

#include "api/switchml_control.grpc.pb.h"
#include "socket/address.h"
#include "transport/raw_socket.h"
#include "wire/control.h"

namespace switchml {
namespace {

/// A switch with its agent, and a controller's end of it.
class AgentTest : public ::testing::Test {
 protected:
  void start(const std::string& token = "") {
    agent_ = Agent::create({"127.0.0.1:0", token, "", ""});
    ServerOptions options;
    options.listen = resolve_address("127.0.0.1:0", "test").value();
    options.softswitch.max_payload_bytes = 2048;
    options.softswitch.slot_memory_bytes = 1 << 20;
    options.control = agent_.get();
    auto server = SwitchServer::start(options);
    ASSERT_TRUE(server.ok()) << server.status().message();
    server_ = std::move(server.value());
    const Status status = agent_->serve(*server_);
    ASSERT_TRUE(status.ok()) << status.message();
    stub_ = v1::DataPlane::NewStub(grpc::CreateChannel(agent_->local(), grpc::InsecureChannelCredentials()));
  }
  ~AgentTest() override {
    if (agent_) agent_->stop();
    server_.reset();
  }
  static std::unique_ptr<grpc::ClientContext> context(const std::string& token = "") {
    auto context = std::make_unique<grpc::ClientContext>();
    context->set_deadline(std::chrono::system_clock::now() + seconds(10));
    if (!token.empty()) context->AddMetadata("authorization", "Bearer " + token);
    return context;
  }
  static v1::InstallRequest session() {
    v1::InstallRequest request;
    request.set_job(5);
    request.set_epoch(77);
    request.set_shards(1);
    request.set_slots(4);
    request.set_payload_bytes(1024);
    request.add_members(0);
    request.add_members(1);
    return request;
  }
  grpc::Status install(const v1::InstallRequest& request) {
    v1::InstallReply reply;
    return stub_->Install(context().get(), request, &reply);
  }
  grpc::Status set_member(uint32_t worker, const std::string& address, int shard = 0) {
    v1::SetMemberRequest request;
    request.set_job(5);
    request.set_epoch(77);
    request.set_worker(worker);
    request.set_shard(shard);
    request.mutable_place()->set_address(address);
    v1::SetMemberReply reply;
    return stub_->SetMember(context().get(), request, &reply);
  }
  v1::ContributorsReply ask(uint32_t slot, uint32_t seq) {
    v1::ContributorsRequest request;
    request.set_job(5);
    request.set_epoch(77);
    request.set_slot(slot);
    request.set_seq(seq);
    v1::ContributorsReply reply;
    const grpc::Status status = stub_->Contributors(context().get(), request, &reply);
    EXPECT_TRUE(status.ok()) << status.error_message();
    return reply;
  }
  std::vector<uint32_t> contributors(uint32_t slot, uint32_t seq) {
    const auto members = ask(slot, seq).members();
    return {members.begin(), members.end()};
  }
  v1::Capabilities capabilities() {
    v1::Capabilities can;
    EXPECT_TRUE(stub_->Capabilities(context().get(), {}, &can).ok());
    return can;
  }

  std::unique_ptr<Agent> agent_;
  std::unique_ptr<SwitchServer> server_;
  std::unique_ptr<v1::DataPlane::Stub> stub_;
};

std::vector<uint8_t> contribution(uint8_t worker) {
  wire::Header header;
  header.version = wire::kVersion;
  header.kind = static_cast<uint8_t>(wire::Kind::kContribution);
  header.job = 5;
  header.epoch = 77;
  header.worker = worker;
  header.seq = 1;
  header.witness = 10;
  std::vector<uint8_t> frame(wire::kHeaderBytes);
  wire::write_header(header, frame.data());
  return frame;
}

TEST_F(AgentTest, SaysWhatTheSwitchCanDo) {
  start();
  const v1::Capabilities can = capabilities();
  EXPECT_EQ(can.kind(), "software");
  EXPECT_EQ(can.protocol_version(), wire::kVersion);
  EXPECT_EQ(can.payload_bytes(0), 2048U);
  EXPECT_TRUE(can.any_payload());
  EXPECT_TRUE(can.trees());
  EXPECT_EQ(can.members(), 128U);
  EXPECT_EQ(can.jobs(), 255U);
  EXPECT_EQ(can.operations_size(), 2);
  EXPECT_EQ(can.memory_bytes(), 1U << 20);
  EXPECT_GT(can.receive_buffer_bytes(), 0U);
  EXPECT_EQ(can.pages(), 0U);
  EXPECT_EQ(can.instance(), capabilities().instance());
}

TEST_F(AgentTest, AnInstalledSessionAggregates) {
  start();
  ASSERT_TRUE(install(session()).ok());
  EXPECT_TRUE(install(session()).ok()) << "the very same again";
  RawSocket workers[2] = {RawSocket("127.0.0.1:0"), RawSocket("127.0.0.1:0")};
  for (uint32_t w = 0; w < 2; ++w) ASSERT_TRUE(set_member(w, to_string(workers[w].local())).ok());
  workers[0].send(contribution(0), server_->local());
  for (int i = 0; i < 200 && contributors(0, 1).empty(); ++i) usleep(5000);
  EXPECT_EQ(contributors(0, 1), std::vector<uint32_t>{0});
  EXPECT_EQ(ask(0, 1).dropped_length(), 0U);
  std::vector<uint8_t> longer = contribution(1);
  longer.push_back(0);
  workers[1].send(longer, server_->local());
  for (int i = 0; i < 12000 && ask(0, 1).dropped_length() == 0; ++i) usleep(5000);
  EXPECT_EQ(ask(0, 1).dropped_length(), 1U);
  workers[1].send(contribution(1), server_->local());
  for (RawSocket& worker : workers) {
    const auto got = worker.receive();
    wire::DataPacket result;
    ASSERT_EQ(wire::parse_data(got.bytes.data(), got.bytes.size(), wire::Kind::kResult, &result),
              wire::ParseError::kNone);
    EXPECT_EQ(result.header.witness, 20U);
  }
  v1::CountersReply counters;
  ASSERT_TRUE(stub_->Counters(context().get(), {}, &counters).ok());
  EXPECT_EQ(counters.jobs(0).values().at("uses_completed"), 1U);
  v1::RemoveRequest remove;
  remove.set_job(5);
  remove.set_epoch(77);
  v1::RemoveReply removed;
  EXPECT_TRUE(stub_->Remove(context().get(), remove, &removed).ok());
  EXPECT_TRUE(stub_->Remove(context().get(), remove, &removed).ok()) << "not there: no error";
  EXPECT_FALSE(set_member(0, "127.0.0.1:9").ok());
}

TEST_F(AgentTest, BadRequestsAreNamed) {
  start();
  const auto refusal = [&](void (*change)(v1::InstallRequest*)) {
    v1::InstallRequest request = session();
    change(&request);
    const grpc::Status status = install(request);
    EXPECT_EQ(status.error_code(), grpc::StatusCode::INVALID_ARGUMENT);
    return status.error_message();
  };
  EXPECT_EQ(refusal([](v1::InstallRequest* r) { r->set_job(256); }), "job 256: allowed are 1 to 255");
  EXPECT_EQ(refusal([](v1::InstallRequest* r) { r->add_members(128); }), "member 128: allowed are 0 to 127");
  EXPECT_EQ(refusal([](v1::InstallRequest* r) { r->set_shards(17); }), "shards 17: allowed are 1 to 16");
  EXPECT_EQ(refusal([](v1::InstallRequest* r) { r->set_slots(5000); }), "slots 5000: allowed are 1 to 4096");
  EXPECT_NE(refusal([](v1::InstallRequest* r) { r->set_payload_bytes(4096); }).find("up to 2048"), std::string::npos);
  EXPECT_NE(refusal([](v1::InstallRequest* r) {
              r->mutable_uplink()->mutable_parent()->set_address("up");
            }).find("address \"up\""),
            std::string::npos);
  ASSERT_TRUE(install(session()).ok());
  v1::InstallRequest other = session();
  other.set_epoch(78);
  EXPECT_EQ(install(other).error_code(), grpc::StatusCode::FAILED_PRECONDITION);
  other.set_job(6);
  other.set_slots(4096);
  EXPECT_EQ(install(other).error_code(), grpc::StatusCode::RESOURCE_EXHAUSTED);
  EXPECT_NE(set_member(0, "nowhere").error_message().find("\"nowhere\""), std::string::npos);
  EXPECT_FALSE(set_member(7, "127.0.0.1:9").ok());
  EXPECT_FALSE(set_member(0, "127.0.0.1:9", 3).ok());
}

TEST_F(AgentTest, ResetForgetsAndSaysSo) {
  start();
  ASSERT_TRUE(install(session()).ok());
  const uint64_t before = capabilities().instance();
  v1::ResetReply reply;
  ASSERT_TRUE(stub_->Reset(context().get(), {}, &reply).ok());
  EXPECT_NE(capabilities().instance(), before);
  EXPECT_FALSE(set_member(0, "127.0.0.1:9").ok());
}

TEST_F(AgentTest, RequestsOfWorkersGoToTheControllerAndBack) {
  start();
  const auto stream_context = context();
  const auto reader = stub_->PacketsIn(stream_context.get(), v1::PacketsInRequest());
  RawSocket worker("127.0.0.1:0");
  uint8_t frame[wire::kMaxControlBytes];
  const size_t size = wire::build_join({5, 77, 1, 0}, 0, 3, frame);
  std::atomic<bool> got{false};
  std::thread sender([&] {
    for (int i = 0; i < 100 && !got; ++i) {
      worker.send({frame, frame + size}, server_->local());
      usleep(20000);
    }
  });
  v1::ControlPacket packet;
  EXPECT_TRUE(reader->Read(&packet));
  got = true;
  sender.join();
  EXPECT_EQ(packet.payload(), std::string(reinterpret_cast<char*>(frame), size));
  EXPECT_EQ(packet.worker().address(), to_string(worker.local()));
  packet.set_payload("answer");
  v1::PacketOutReply reply;
  ASSERT_TRUE(stub_->PacketOut(context().get(), packet, &reply).ok());
  const auto answer = worker.receive();
  EXPECT_EQ(std::string(answer.bytes.begin(), answer.bytes.end()), "answer");
  EXPECT_EQ(answer.from, server_->local());

  // Another controller takes the stream over.
  const auto other_context = context();
  const auto other = stub_->PacketsIn(other_context.get(), v1::PacketsInRequest());
  while (reader->Read(&packet)) {
  }
  EXPECT_EQ(reader->Finish().error_code(), grpc::StatusCode::ABORTED);
  other_context->TryCancel();
}

TEST_F(AgentTest, WantsItsToken) {
  start("sesame");
  v1::Capabilities can;
  EXPECT_EQ(stub_->Capabilities(context().get(), {}, &can).error_code(), grpc::StatusCode::UNAUTHENTICATED);
  EXPECT_EQ(stub_->Capabilities(context("sesam").get(), {}, &can).error_code(), grpc::StatusCode::UNAUTHENTICATED);
  EXPECT_TRUE(stub_->Capabilities(context("sesame").get(), {}, &can).ok());
  EXPECT_EQ(install(session()).error_code(), grpc::StatusCode::UNAUTHENTICATED);
  EXPECT_EQ(set_member(0, "127.0.0.1:9").error_code(), grpc::StatusCode::UNAUTHENTICATED);
}

TEST_F(AgentTest, APortThatIsTakenIsNamed) {
  start();
  const auto second = Agent::create({agent_->local(), "", "", ""});
  const Status status = second->serve(*server_);
  EXPECT_EQ(status.code(), Code::kUnavailable);
  const std::string address = agent_->local();
  EXPECT_EQ(status.message(), "--agent=\"" + address + "\": cannot bind " + address + "/tcp: Address already in use");
}

}  // namespace
}  // namespace switchml
#endif  // SWITCHML_HAS_AGENT
