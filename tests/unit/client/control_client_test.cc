#include "client/control_client.h"

#include <gtest/gtest.h>

#include <atomic>

#include "client/switch_entry.h"
#include "client/switches.h"
#include "engine/switch_thread.h"
#include "store/map_store.h"
#include "transport/faulty.h"
#include "transport/inproc.h"
#include "transport/udp.h"
#include "wire/checksum.h"

namespace switchml {
namespace {

using wire::ReplyStatus;

/// A switch made of one function: request -> frames that it answers with.
class FakeSwitch {
 public:
  using Frames = std::vector<std::vector<uint8_t>>;
  using Answer = std::function<Frames(const wire::Control&, const uint8_t* body)>;
  explicit FakeSwitch(std::function<Frames(const wire::Control&)> answer)
      : FakeSwitch([answer](const wire::Control& control, const uint8_t*) { return answer(control); }) {}
  explicit FakeSwitch(Answer answer)
      : hub_(InprocHub::create({})), here_(hub_->attach()), client_(hub_->attach()), answer_(std::move(answer)) {
    thread_ = std::thread([this] { run(); });
  }
  ~FakeSwitch() {
    stop_ = true;
    here_->wake();
    thread_.join();
  }
  ControlClient client() { return {*client_, here_->local(), "10.0.0.1:5"}; }
  std::atomic<int> requests{0};

 private:
  void run() {
    while (!stop_) {
      RxFrame frame;
      if (here_->receive(&frame, 1) == 0) {
        here_->wait(milliseconds(100));
        continue;
      }
      ++requests;
      const Endpoint from = frame.from;
      const auto frames = answer_(wire::read_control(frame.data), frame.data + wire::kControlBytes);
      here_->release();
      for (const auto& f : frames) {
        const TxFrame tx{f.data(), static_cast<uint32_t>(f.size()), &from};
        here_->send(&tx, 1);
      }
    }
  }
  std::shared_ptr<InprocHub> hub_;
  std::unique_ptr<Transport> here_;
  std::unique_ptr<Transport> client_;
  Answer answer_;
  std::atomic<bool> stop_{false};
  std::thread thread_;
};

std::vector<uint8_t> reply_to(wire::Control control, ReplyStatus status, const std::vector<uint8_t>& body = {}) {
  control.version = wire::kVersion;
  control.kind = static_cast<uint8_t>(wire::Kind::kReply);
  control.status = static_cast<uint16_t>(status);
  std::vector<uint8_t> frame(wire::kControlBytes);
  wire::write_control(control, frame.data());
  frame.insert(frame.end(), body.begin(), body.end());
  frame.resize(frame.size() + wire::kControlCheckBytes);
  wire::seal_control(frame.data(), frame.size() - wire::kControlCheckBytes);
  return frame;
}

std::vector<uint8_t> of_version(uint8_t version, const wire::Control& asked) {
  std::vector<uint8_t> frame(wire::kMaxControlBytes);
  frame.resize(wire::finish_reply(asked, ReplyStatus::kBadVersion, frame.data()));
  frame[0] = static_cast<uint8_t>(version << 4 | wire::kind_of(frame.data()));
  return frame;
}

std::vector<uint8_t> joined(uint16_t count, uint64_t cookie = 0) {
  wire::JoinReply reply;
  reply.joined = count;
  reply.cookie = cookie;
  std::vector<uint8_t> body(wire::kJoinReplyBytes);
  wire::write_join_reply(reply, body.data());
  return body;
}

Time soon() { return monotonic_now() + seconds(60); }
TEST(ControlClient, AsksAgainUntilItIsAnswered) {  // [CTL-5]
  int seen = 0;
  FakeSwitch fake([&seen](const wire::Control& control) {
    std::vector<std::vector<uint8_t>> none;
    if (++seen < 3) return none;
    return std::vector<std::vector<uint8_t>>{reply_to(control, ReplyStatus::kOk, joined(1))};
  });
  auto client = fake.client();
  EXPECT_TRUE(client.join({}, 0, soon()).ok());
  EXPECT_EQ(fake.requests, 3);
}

TEST(ControlClient, OtherFramesAreNotTheAnswer) {
  FakeSwitch fake([](const wire::Control& control) {
    wire::Control earlier = control;
    --earlier.request_id;
    wire::Control other = control;
    other.type = static_cast<uint8_t>(wire::Request::kClose);
    auto damaged = reply_to(control, ReplyStatus::kNotMember);
    damaged.back() ^= 1;
    return std::vector<std::vector<uint8_t>>{{},
                                             {0x42, 0x43},
                                             reply_to(earlier, ReplyStatus::kNotMember),
                                             reply_to(other, ReplyStatus::kOk),
                                             reply_to(control, ReplyStatus::kOk, {1, 2, 3}),
                                             damaged,
                                             of_version(wire::kVersion, control),
                                             reply_to(control, ReplyStatus::kOk, joined(7))};
  });
  auto client = fake.client();
  auto answer = client.join({}, 0, soon());
  ASSERT_TRUE(answer.ok()) << answer.status().to_string();
  EXPECT_EQ(answer->joined, 7);
}

TEST(ControlClient, AJoinShowsWhatItIsAskedFor) {  // [COOKIE-2]
  uint64_t cookie = 1000;
  std::vector<uint64_t> shown;
  FakeSwitch fake([&](const wire::Control& control, const uint8_t* body) {
    shown.push_back(wire::read_join(body).cookie);
    if (shown.size() == 2) return std::vector<std::vector<uint8_t>>{};  // lost: the same again
    const ReplyStatus status = shown.size() == 5 ? ReplyStatus::kOk : ReplyStatus::kProveAddress;
    // Its address changes twice.
    return std::vector<std::vector<uint8_t>>{reply_to(control, status, joined(7, ++cookie))};
  });
  auto client = fake.client();
  auto answer = client.join({}, 0, soon());
  ASSERT_TRUE(answer.ok()) << answer.status().to_string();
  EXPECT_EQ(answer->joined, 7);
  EXPECT_EQ(shown, (std::vector<uint64_t>{0, 1001, 1001, 1002, 1003}));
}

TEST(ControlClient, AnAddressThatIsNeverTheSameEndsTheJoin) {
  FakeSwitch fake([](const wire::Control& control) {
    return std::vector<std::vector<uint8_t>>{reply_to(control, ReplyStatus::kProveAddress, joined(0))};
  });
  auto client = fake.client();
  const Status status = client.join({}, 0, soon()).status();
  EXPECT_TRUE(contains(status, "come from another address each time")) << status.message();
  EXPECT_LT(fake.requests, 20);
}

TEST(ControlClient, EveryRefusalSaysWhoAndWhatToDo) {
  struct Case {
    ReplyStatus status;
    Code code;
    const char* part;
  };
  const Case cases[] = {
      {ReplyStatus::kNoSlots, Code::kUnavailable, "no slot memory left"},
      {ReplyStatus::kNoJobs, Code::kUnavailable, "no job number left"},
      {ReplyStatus::kQuota, Code::kUnavailable, "gives this host no more"},
      {ReplyStatus::kTooManyWorkers, Code::kInvalidArgument, "so many workers"},
      {ReplyStatus::kPayloadUnsupported, Code::kInvalidArgument, "SWITCHML_PAYLOAD"},
      {ReplyStatus::kUnknownSession, Code::kUnavailable, "does not know this job"},
      {ReplyStatus::kNotMember, Code::kUnavailable, "refused to open (not a member)"},
      {ReplyStatus::kBadRequest, Code::kUnavailable, "refused to open (bad request)"},
      {ReplyStatus::kNotInvited, Code::kInvalidArgument, "serves another group, in whose rank 0 it runs"},
      {ReplyStatus::kControlled, Code::kInvalidArgument,
       "is run by a controller: set SWITCHML_CONTROLLER to that one's address, and no SWITCHML_SWITCH"},
  };
  for (const Case& c : cases) {
    FakeSwitch fake(
        [&c](const wire::Control& control) { return std::vector<std::vector<uint8_t>>{reply_to(control, c.status)}; });
    auto client = fake.client();
    auto opened = client.open({}, soon());
    ASSERT_FALSE(opened.ok());
    EXPECT_EQ(opened.status().code(), c.code) << opened.status().to_string();
    EXPECT_TRUE(contains(opened.status(), "switch 10.0.0.1:5 ")) << opened.status().message();
    EXPECT_TRUE(contains(opened.status(), c.part)) << opened.status().message();
  }
}

TEST(ControlClient, AVersionMismatchNamesBothVersions) {
  FakeSwitch fake(
      [](const wire::Control& control) { return std::vector<std::vector<uint8_t>>{of_version(9, control)}; });
  auto client = fake.client();
  auto opened = client.open({}, soon());
  ASSERT_FALSE(opened.ok());
  EXPECT_EQ(opened.status().code(), Code::kMismatch);
  EXPECT_TRUE(contains(opened.status(), "version 9")) << opened.status().message();
  EXPECT_TRUE(contains(opened.status(), "version " + std::to_string(wire::kVersion))) << opened.status().message();
}

// It has no checksum, so damage may have made it of another reply.
TEST(ControlClient, OneReplyOfAnotherVersionIsAskedAgain) {  // [CTL-9]
  FakeSwitch fake([first = uint32_t{0}](const wire::Control& control) mutable {
    if (first == 0) first = control.request_id;
    return std::vector<std::vector<uint8_t>>{
        control.request_id == first ? of_version(9, control) : reply_to(control, ReplyStatus::kOk, joined(7))};
  });
  auto client = fake.client();
  const auto answer = client.join({}, 0, soon());
  ASSERT_TRUE(answer.ok()) << answer.status().to_string();
  EXPECT_EQ(answer->joined, 7);
}

TEST(ControlClient, SilenceEndsAtTheDeadline) {
  FakeSwitch fake([](const wire::Control&) { return std::vector<std::vector<uint8_t>>{}; });
  auto client = fake.client();
  const Time begin = monotonic_now();
  auto opened = client.open({}, begin + milliseconds(300));
  EXPECT_GE(monotonic_now() - begin, milliseconds(300));
  EXPECT_LT(monotonic_now() - begin, seconds(60));
  ASSERT_FALSE(opened.ok());
  EXPECT_EQ(opened.status().code(), Code::kUnavailable);
  EXPECT_TRUE(contains(opened.status(), "switch 10.0.0.1:5 does not answer")) << opened.status().message();
  EXPECT_TRUE(contains(opened.status(), "is switchml-switchd running there")) << opened.status().message();
  EXPECT_GE(fake.requests, 2);
}

TEST(ControlClient, AClosedPortIsSaidSo) {
  const Endpoint nobody = closed_port();
  UdpOptions options;
  options.peer = nobody;
  auto transport = make_udp_transport(options);
  ASSERT_TRUE(transport.ok());
  ControlClient client(*transport.value(), nobody, to_string(nobody));
  const Status status = client.open({}, monotonic_now() + milliseconds(200)).status();
  EXPECT_TRUE(contains(status, "refused")) << status.message();
  EXPECT_TRUE(contains(status, to_string(nobody))) << status.message();
}

TEST(ControlClient, OfASwitchInARankNobodyIsAskedToStartADaemon) {
  const Endpoint nobody = closed_port();
  auto transport = connect_to_switch(nobody);
  ASSERT_TRUE(transport.ok());
  ControlClient client(*transport.value(), nobody, to_string(nobody) + " (embedded in rank 1 of g)");
  const Status status = client.open({}, monotonic_now() + milliseconds(200)).status();
  EXPECT_FALSE(contains(status, "switchml-switchd")) << status.message();
  EXPECT_TRUE(contains(status, "does UDP pass between the hosts")) << status.message();
}

TEST(ControlClient, ClosingWhatIsOverIsNoError) {
  FakeSwitch fake([](const wire::Control& control) {
    return std::vector<std::vector<uint8_t>>{reply_to(control, ReplyStatus::kUnknownSession)};
  });
  auto client = fake.client();
  EXPECT_TRUE(client.close({}, soon()).ok());
}

void have_a_session(Transport& link, const Endpoint& at) {
  ControlClient client(link, at, "faulty");
  wire::Open asked;
  asked.client_key = 77;
  asked.workers = 1;
  asked.shards = 1;
  asked.payload = 1024;
  auto opened = client.open(asked, soon());
  ASSERT_TRUE(opened.ok()) << opened.status().to_string();
  const wire::Membership member{opened->job, opened->epoch, opened->session_key, 0};
  for (int i = 0; i < 5; ++i) {
    const auto joined = client.join(member, 0, soon());
    ASSERT_TRUE(joined.ok()) << joined.status().to_string();
    EXPECT_EQ(joined->joined, 1);
  }
  EXPECT_TRUE(client.close(member, soon()).ok());
}

TEST(ControlClient, AWholeSessionOverALossyTransport) {
  ServerOptions options;
  options.listen = endpoint_of("127.0.0.1:0");
  auto server = SwitchServer::start(options);
  ASSERT_TRUE(server.ok());
  UdpOptions udp;
  udp.peer = server.value()->local();
  auto transport = make_udp_transport(udp);
  ASSERT_TRUE(transport.ok());
  Faults faults;
  faults.send_loss = 0.3;
  faults.receive_loss = 0.3;
  faults.duplicate = 0.3;
  have_a_session(*make_faulty_transport(std::move(transport.value()), faults), udp.peer);
  EXPECT_EQ(server.value()->counters().sessions_opened.get(), 1U);
  EXPECT_EQ(server.value()->counters().sessions_closed.get(), 1U);
}

TEST(ControlClient, AWholeSessionWhereEveryFifthPacketIsDamagedEitherWay) {  // [CTL-8, CTL-9]
  for (uint64_t seed = 1; seed <= 5; ++seed) {
    const auto hub = InprocHub::create({});
    Faults faults;
    faults.corrupt = 0.2;
    faults.seed = 2 * seed;
    const testing::SwitchThread there(*hub, faults);
    faults.seed += 1;
    have_a_session(*make_faulty_transport(hub->attach(), faults), there.address());
  }
}

}  // namespace
}  // namespace switchml
