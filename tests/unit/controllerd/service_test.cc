#include "controllerd/service.h"

#include <gtest/gtest.h>

#include "fixture.h"

namespace switchml {
namespace {

v1::OpenRequest open_message(uint64_t client_key = 1) {
  v1::OpenRequest message;
  message.set_protocol_version(wire::kVersion);
  message.set_client_key(client_key);
  message.set_group("test");
  message.set_workers(2);
  message.set_shards(1);
  message.set_payload_bytes(1024);
  message.add_ranks()->add_addresses("10.0.1.1");
  message.add_ranks()->add_addresses("10.0.1.2");
  return message;
}

/// The service behind a port, and a client of it.
class Service : public ::testing::Test {
 protected:
  void start(std::vector<Token> tokens) {
    service_ = std::make_unique<ControllerService>(dispatcher_, std::move(tokens));
    grpc::ServerBuilder builder;
    int port = 0;
    builder.AddListeningPort("127.0.0.1:0", grpc::InsecureServerCredentials(), &port);
    builder.RegisterService(service_.get());
    server_ = builder.BuildAndStart();
    stub_ = v1::Controller::NewStub(
        grpc::CreateChannel("127.0.0.1:" + std::to_string(port), grpc::InsecureChannelCredentials()));
    dispatcher_.connect();
    ASSERT_TRUE(all_connected(dispatcher_));
  }
  std::unique_ptr<grpc::ClientContext> context(const std::string& token = "") {
    auto context = std::make_unique<grpc::ClientContext>();
    context->set_deadline(std::chrono::system_clock::now() + seconds(15));
    if (!token.empty()) context->AddMetadata("authorization", "Bearer " + token);
    return context;
  }
  grpc::Status open(const v1::OpenRequest& message, v1::OpenReply* reply, const std::string& token = "") {
    return stub_->Open(context(token).get(), message, reply);
  }

  Fabric fabric_;
  Dispatcher dispatcher_{fabric_.topology, 42, grpc::InsecureChannelCredentials()};
  std::unique_ptr<ControllerService> service_;
  std::unique_ptr<grpc::Server> server_;
  std::unique_ptr<v1::Controller::Stub> stub_;
};

TEST_F(Service, OpenRenewStateClose) {
  start({});
  v1::OpenReply reply;
  ASSERT_TRUE(open(open_message(), &reply).ok());
  EXPECT_GT(reply.session().job(), 0U);
  EXPECT_EQ(reply.payload_bytes(), 1024U);
  EXPECT_EQ(reply.slots(), 128U);
  EXPECT_EQ(reply.lease_ms(), 1800000U);
  EXPECT_FALSE(reply.whole_chunks());
  ASSERT_EQ(reply.switch_addresses_size(), 2);
  EXPECT_EQ(reply.switch_addresses(0), "10.0.0.2:48879");
  EXPECT_EQ(reply.switch_addresses(1), "10.0.0.3:48879");
  v1::RenewReply renewed;
  ASSERT_TRUE(stub_->Renew(context().get(), reply.session(), &renewed).ok());
  EXPECT_EQ(renewed.lease_ms(), 1800000U);

  v1::StateRequest ask;
  ask.set_counters(true);
  v1::StateReply state;
  ASSERT_TRUE(stub_->State(context().get(), ask, &state).ok());
  ASSERT_EQ(state.sessions_size(), 1);
  EXPECT_EQ(state.sessions(0).group(), "test");
  EXPECT_EQ(state.sessions(0).switches(0), "spine");
  EXPECT_EQ(state.sessions(0).joined_size(), 0);
  ASSERT_EQ(state.switches_size(), 3);
  EXPECT_EQ(state.switches(2).counters(0).values().at("packets_received"), 5U);

  v1::CloseReply closed;
  EXPECT_TRUE(stub_->Close(context().get(), reply.session(), &closed).ok());
  EXPECT_TRUE(stub_->Close(context().get(), reply.session(), &closed).ok()) << "over already";
  EXPECT_EQ(stub_->Renew(context().get(), reply.session(), &renewed).error_code(), grpc::StatusCode::NOT_FOUND);
}

TEST_F(Service, LocateSaysWhereRanksSendTo) {
  start({});
  v1::LocateRequest request;
  v1::LocateReply reply;
  EXPECT_EQ(stub_->Locate(context().get(), request, &reply).error_message(), "ranks: 0 of them; allowed are 1 to 128");
  request.add_ranks()->add_addresses("10.0.1.2");
  request.add_ranks()->add_addresses("10.0.1.1");
  ASSERT_TRUE(stub_->Locate(context().get(), request, &reply).ok());
  ASSERT_EQ(reply.shares_size(), 1);
  ASSERT_EQ(reply.shares(0).switch_addresses_size(), 2);
  EXPECT_EQ(reply.shares(0).switch_addresses(0), "10.0.0.3:48879");
  EXPECT_TRUE(dispatcher_.sessions().empty());
  request.mutable_ranks(0)->set_addresses(0, "10.9.9.9");
  const grpc::Status status = stub_->Locate(context().get(), request, &reply);
  EXPECT_EQ(status.error_code(), grpc::StatusCode::INVALID_ARGUMENT);
  EXPECT_NE(status.error_message().find("10.9.9.9"), std::string::npos);
}

TEST_F(Service, DescribeSaysWhatSwitchesCanDo) {
  start({});
  v1::DescribeReply reply;
  ASSERT_TRUE(stub_->Describe(context().get(), v1::DescribeRequest(), &reply).ok());
  ASSERT_EQ(reply.switches_size(), 3);
  EXPECT_EQ(reply.switches(1).name(), "leaf1");
  EXPECT_EQ(reply.switches(1).parent(), "spine");
  EXPECT_EQ(reply.switches(1).address(), "10.0.0.2:48879");
  EXPECT_TRUE(reply.switches(1).connected());
  EXPECT_EQ(reply.switches(1).capabilities().kind(), "fake");
  EXPECT_EQ(reply.switches(1).capabilities().operations_size(), 2);
  EXPECT_GT(reply.switches(1).free_slots(), 0U);
}

TEST_F(Service, APlanIsSetByWhoMay) {
  start({{"aaaaaaaaaaaaaaaa", {"team-a", 1, 0}}, {"bbbbbbbbbbbbbbbb", {"planner", 0, 0, true}}});
  v1::SetPlanRequest plan;
  for (const char* const worker : {"w2", "w1"}) plan.add_workers(worker);
  v1::PlannedShare& share = *plan.add_shares();
  share.set_weight(2);
  share.add_switches()->set_name("leaf2");
  v1::PlannedSwitch& leaf = *share.add_switches();
  leaf.set_name("leaf1");
  leaf.set_parent("leaf2");
  (*share.mutable_switch_of())["w1"] = "leaf1";
  (*share.mutable_switch_of())["w2"] = "leaf2";
  v1::SetPlanReply reply;
  EXPECT_EQ(stub_->SetPlan(context().get(), plan, &reply).error_code(), grpc::StatusCode::UNAUTHENTICATED);
  const grpc::Status other = stub_->SetPlan(context("aaaaaaaaaaaaaaaa").get(), plan, &reply);
  EXPECT_EQ(other.error_code(), grpc::StatusCode::PERMISSION_DENIED);
  EXPECT_EQ(other.error_message(), "the token \"team-a\" may not plan for others: it has no `plans: true`");
  const auto set = [&] { return stub_->SetPlan(context("bbbbbbbbbbbbbbbb").get(), plan, &reply).error_message(); };
  EXPECT_EQ(set(), "");
  const auto located = dispatcher_.locate({{literal("10.0.1.1")}, {literal("10.0.1.2")}});
  ASSERT_TRUE(located.ok()) << located.status().message();
  ASSERT_EQ(located->size(), 1U);
  EXPECT_EQ(located->front().weight, 2U);
  plan.set_workers(0, "w9");
  EXPECT_EQ(set(), "worker \"w9\" is none of the topology's workers");
}

TEST_F(Service, OnlyTokensThatAreKnownAreServed) {
  start({{"aaaaaaaaaaaaaaaa", {"team-a", 1, 0}}, {"bbbbbbbbbbbbbbbb", {"team-b", 0, 0}}});
  v1::OpenReply reply;
  grpc::Status status = open(open_message(), &reply);
  EXPECT_EQ(status.error_code(), grpc::StatusCode::UNAUTHENTICATED);
  EXPECT_NE(status.error_message().find("SWITCHML_CONTROLLER_TOKEN"), std::string::npos);
  EXPECT_EQ(open(open_message(), &reply, "guess").error_code(), grpc::StatusCode::UNAUTHENTICATED);
  v1::RenewReply renewed;
  v1::CloseReply closed;
  v1::StateReply state;
  v1::DescribeReply described;
  v1::LocateReply located;
  EXPECT_EQ(stub_->Locate(context().get(), {}, &located).error_code(), grpc::StatusCode::UNAUTHENTICATED);
  EXPECT_EQ(stub_->Renew(context().get(), {}, &renewed).error_code(), grpc::StatusCode::UNAUTHENTICATED);
  EXPECT_EQ(stub_->Close(context().get(), {}, &closed).error_code(), grpc::StatusCode::UNAUTHENTICATED);
  EXPECT_EQ(stub_->State(context().get(), {}, &state).error_code(), grpc::StatusCode::UNAUTHENTICATED);
  EXPECT_EQ(stub_->Describe(context().get(), {}, &described).error_code(), grpc::StatusCode::UNAUTHENTICATED);
  EXPECT_TRUE(open(open_message(1), &reply, "aaaaaaaaaaaaaaaa").ok());
  status = open(open_message(2), &reply, "aaaaaaaaaaaaaaaa");
  EXPECT_EQ(status.error_code(), grpc::StatusCode::RESOURCE_EXHAUSTED) << "its quota is one job";
  EXPECT_EQ(status.error_message(), "\"team-a\" has 1 jobs; max_jobs allows 1");
  v1::OpenRequest named = open_message(3);
  named.set_group("Gruppe \xc3\xa4\xc2\xa0\xe2\x82\xac");
  EXPECT_TRUE(open(named, &reply, "bbbbbbbbbbbbbbbb").ok()) << "letters of all languages";
  EXPECT_EQ(dispatcher_.sessions()[0].owner, "team-a");
}

TEST_F(Service, BadMessagesAreNamed) {
  start({});
  const auto socket_error = [&](void (*change)(v1::OpenRequest*), grpc::StatusCode code) {
    v1::OpenRequest message = open_message(9);
    change(&message);
    v1::OpenReply reply;
    const grpc::Status status = open(message, &reply);
    EXPECT_EQ(status.error_code(), code) << status.error_message();
    return status.error_message();
  };
  const auto invalid = grpc::StatusCode::INVALID_ARGUMENT;
  EXPECT_EQ(socket_error([](v1::OpenRequest* m) { m->set_workers(70000); }, invalid),
            "workers 70000: allowed are 1 to 128");
  EXPECT_EQ(socket_error([](v1::OpenRequest* m) { m->set_group("a\nb\x1b[2Jc\x7f"); }, invalid),
            "group \"a?b?[2Jc?\" has control characters (shown as ?): allowed are all others");
  EXPECT_NE(socket_error(
                [](v1::OpenRequest* m) {
                  m->set_group(
                      "\xc2\x9b"
                      "2J");
                },
                invalid)
                .find("group"),
            std::string::npos);
  EXPECT_EQ(
      socket_error([](v1::OpenRequest* m) { m->mutable_ranks(1)->set_addresses(0, "host"); }, invalid).substr(0, 28),
      "ranks[1].addresses: \"host\" i");
  EXPECT_EQ(socket_error([](v1::OpenRequest* m) { m->add_operations(static_cast<v1::Operation>(7)); }, invalid),
            "operations: 7 is none; allowed are 1 (SUM) and 2 (MAX)");
  EXPECT_NE(socket_error([](v1::OpenRequest* m) { m->mutable_ranks(0)->set_addresses(0, "10.9.9.9"); }, invalid)
                .find("rank 0 with addresses (10.9.9.9:0)"),
            std::string::npos);
  EXPECT_NE(socket_error(
                [](v1::OpenRequest* m) {
                  while (m->ranks(0).addresses_size() < 17) m->mutable_ranks(0)->add_addresses("10.0.1.1");
                },
                invalid)
                .find("17 of them; allowed are 0 to 16"),
            std::string::npos);
  EXPECT_NE(socket_error([](v1::OpenRequest* m) { m->set_protocol_version(2); }, grpc::StatusCode::FAILED_PRECONDITION)
                .find("protocol_version 2"),
            std::string::npos);
  v1::SessionName name;
  name.set_job(256);
  v1::RenewReply renewed;
  EXPECT_EQ(stub_->Renew(context().get(), name, &renewed).error_message(), "job 256: allowed are 1 to 255");
}

TEST_F(Service, OperationsNamedAreTheOnlyOnesNeeded) {
  fabric_.agents[1].can.clear_operations();
  fabric_.agents[1].can.add_operations(v1::SUM);
  fabric_.agents[1].restart_switch();
  start({});
  ASSERT_TRUE(eventually([&] {
    const auto views = dispatcher_.switches();
    return views[1].connected && !views[1].capabilities->max;
  }));
  v1::OpenReply reply;
  v1::OpenRequest message = open_message();
  EXPECT_EQ(open(message, &reply).error_code(), grpc::StatusCode::INVALID_ARGUMENT) << "none named: all needed";
  message.add_operations(v1::SUM);
  EXPECT_TRUE(open(message, &reply).ok());
}

}  // namespace
}  // namespace switchml
