#include "switchd/server.h"

#include <gtest/gtest.h>
#include <poll.h>

#include <algorithm>
#include <condition_variable>
#include <mutex>
#include <thread>

#include "raw_worker.h"
#include "transport/tcp_reach.h"

namespace switchml {
namespace {

void exchange(const char* address, Carrier carrier = Carrier::kPackets, bool directly = false,
              const std::optional<SealKey>& key = {}) {
  ServerOptions options;
  options.listen = loopback(address);
  options.seal = key;
  auto server = SwitchServer::start(options);
  ASSERT_TRUE(server.ok()) << server.status().to_string();
  const Endpoint at = with_carrier(server.value()->local(), carrier);
  EXPECT_NE(port_of(at), 0);
  RawWorker workers[2] = {RawWorker(at, key), RawWorker(at, key)};

  uint8_t frame[wire::kMaxControlBytes];
  wire::Open open;
  open.client_key = 1;
  open.workers = 2;
  open.shards = 1;
  open.payload = 65536;
  if (carrier == Carrier::kTcp) open.flags = wire::kOpenStream;
  const wire::OpenReply session = workers[0].ask(frame, wire::build_open(open, 1, frame)).open;
  ASSERT_NE(session.epoch, 0U);
  EXPECT_EQ(session.payload, kMaxPayloadBytes);
  for (uint8_t w = 0; w < 2; ++w) {
    const wire::Membership member{session.job, session.epoch, session.session_key, w};
    EXPECT_EQ(workers[w].join(member).join.joined, w + 1);
    if (directly && w == 0) workers[w].link_directly(*server.value(), member);
  }
  // A small frame (copied and batched) and one of the full size (sent from the slot).
  uint16_t slot = 0;
  for (const size_t words : {size_t{3}, kMaxPayloadBytes / 4}) {
    workers[0].send(contribution(session, 0, slot, words, 100));
    workers[1].send(contribution(session, 1, slot, words, 0xffffff00));
    for (RawWorker& worker : workers) {
      const auto result = worker.receive();
      wire::DataPacket packet;
      ASSERT_EQ(wire::parse_data(result.data(), result.size(), wire::Kind::kResult, &packet), wire::ParseError::kNone);
      ASSERT_EQ(packet.words, words);
      EXPECT_EQ(packet.header.slot, slot);
      for (size_t i = 0; i < words; ++i) {
        ASSERT_EQ(wire::detail::load<uint32_t>(packet.payload + 4 * i),
                  100U + 0xffffff00U + 2 * static_cast<uint32_t>(i));
      }
    }
    ++slot;
  }
  EXPECT_EQ(server.value()->counters().uses_completed.get(), 2U);
  server.value().reset();
  if (carrier == Carrier::kPackets) workers[0].send(contribution(session, 0, 2, 1, 1));
  EXPECT_TRUE(workers[0].receive(milliseconds(100)).empty()) << "a stopped server is silent";
}

// For a member on this host that waits for results.
TEST(Server, AnotherThreadServesInItsPlace) {
  for (const Carrier carrier : {Carrier::kPackets, Carrier::kTcp}) {
    ServerOptions options;
    options.listen = loopback("127.0.0.1:0");
    auto server = SwitchServer::start(options);
    ASSERT_TRUE(server.ok());
    EXPECT_EQ(server.value()->side_work(Carrier::kRdma), nullptr);
    SideWork* const work = server.value()->side_work(carrier);
    ASSERT_NE(work, nullptr);
    RawWorker worker(with_carrier(server.value()->local(), carrier));
    uint8_t frame[wire::kMaxControlBytes];
    wire::Open open;
    open.client_key = 1;
    open.workers = 2;
    open.shards = 1;
    const size_t size = wire::build_open(open, 1, frame);
    const auto requests = [&server] { return server.value()->counters().control_requests.get(); };
    for (uint64_t round = 0; round < 20; ++round) {
      const Time end = monotonic_now() + seconds(60);
      bool taken = work->take();
      for (; !taken && monotonic_now() < end; taken = work->take()) std::this_thread::yield();
      ASSERT_TRUE(taken) << "its thread lets the work go";
      worker.send({frame, frame + size});
      while (requests() == 3 * round) {
        pollfd polled{work->readable(), POLLIN, 0};
        ASSERT_EQ(::poll(&polled, 1, 60'000), 1);
        ASSERT_EQ(requests(), 3 * round) << "its thread leaves the work alone";
        work->step();
      }
      EXPECT_FALSE(worker.receive().empty());
      work->give_back();
      worker.ask(frame, size);  // Its thread looks for more by itself,
      work->rouse();
      worker.ask(frame, size);  // and at once if it is asked to.
    }
  }
}

TEST(Server, AHostHasItsShareFromWhereverItAsks) {
  ServerOptions options;
  options.listen = loopback("127.0.0.1:0");
  options.softswitch.client_jobs = 2;
  auto server = SwitchServer::start(options);
  ASSERT_TRUE(server.ok());
  std::vector<wire::ReplyStatus> answers;
  for (uint64_t key = 1; key <= 3; ++key) {
    RawWorker worker(with_carrier(server.value()->local(), key == 1 ? Carrier::kPackets : Carrier::kTcp));
    wire::Open asked;
    asked.client_key = key;
    asked.workers = 1;
    asked.shards = 1;
    asked.payload = 1024;
    uint8_t frame[wire::kMaxControlBytes];
    answers.push_back(worker.ask(frame, wire::build_open(asked, 1, frame)).status);
  }
  using wire::ReplyStatus;
  EXPECT_EQ(answers, (std::vector<ReplyStatus>{ReplyStatus::kOk, ReplyStatus::kOk, ReplyStatus::kQuota}));
}

TEST(Server, AddsOverIpv4Loopback) { exchange("127.0.0.1:0"); }

TEST(Server, AddsOverIpv6Loopback) {
  UdpOptions probe;
  probe.bind = loopback("[::1]:0");
  if (!make_udp_transport(probe).ok()) GTEST_SKIP() << "this host has no IPv6 loopback";
  exchange("[::1]:0");
}

TEST(Server, AddsOverTcp) { exchange("127.0.0.1:0", Carrier::kTcp); }

TEST(Server, AddsForAMemberOfItsProcess) {
  exchange("127.0.0.1:0", Carrier::kPackets, true);
  exchange("127.0.0.1:0", Carrier::kTcp, true);
}

TEST(Server, AddsWhatIsSealed) {
  for (const Carrier carrier : {Carrier::kPackets, Carrier::kTcp}) {
    for (const bool directly : {false, true}) exchange("127.0.0.1:0", carrier, directly, random_seal_key());
  }
}

TEST(Server, ASealedOneAnswersOnlyThoseThatHaveItsKey) {  // [SEAL-15]
  ServerOptions options;
  options.listen = loopback("127.0.0.1:0");
  options.seal = random_seal_key();
  auto server = SwitchServer::start(options);
  ASSERT_TRUE(server.ok());
  uint8_t frame[wire::kMaxControlBytes];
  wire::Open open;
  open.client_key = 1;
  open.workers = 2;
  open.shards = 1;
  open.payload = 1024;
  const size_t size = wire::build_open(open, 1, frame);
  uint64_t strangers = 0;
  for (const Carrier carrier : {Carrier::kPackets, Carrier::kTcp}) {
    const Endpoint at = with_carrier(server.value()->local(), carrier);
    RawWorker plain(at), other(at, random_seal_key()), member(at, options.seal);
    plain.send({frame, frame + size});
    other.send({frame, frame + size});
    ++strangers;
    const auto count = [&server] { return server.value()->counters(); };
    while (count().dropped_plain.get() < strangers || count().dropped_forged.get() < strangers) {
      std::this_thread::yield();  // The test's own time limit ends it.
    }
    EXPECT_EQ(member.ask(frame, size).status, wire::ReplyStatus::kOk);
    EXPECT_TRUE(plain.receive(milliseconds(20)).empty());
    EXPECT_TRUE(other.receive(milliseconds(20)).empty());
    EXPECT_EQ(count().control_requests.get(), strangers) << "no stranger's";
  }
}

TEST(Server, LinksNoStrangerDirectly) {
  ServerOptions options;
  options.listen = loopback("127.0.0.1:0");
  auto server = SwitchServer::start(options);
  ASSERT_TRUE(server.ok()) << server.status().to_string();
  auto link = make_tcp_transport({});
  ASSERT_TRUE(link.ok()) << link.status().to_string();
  EXPECT_FALSE(server.value()->link_directly({1, 2, 3, 0}, 0, std::move(link.value()))->is_direct());
}

TEST(Server, SaysWhetherTcpIsForIt) {  // [OPEN-5]
  ServerOptions options;
  options.listen = loopback("127.0.0.1:0");
  auto server = SwitchServer::start(options);
  ASSERT_TRUE(server.ok());
  RawWorker worker(server.value()->local());
  wire::Open asked;
  asked.client_key = 1;
  asked.workers = asked.shards = 1;
  asked.payload = 1024;
  uint8_t frame[wire::kMaxControlBytes];
  const wire::Reply reply = worker.ask(frame, wire::build_open(asked, 1, frame));
  EXPECT_EQ(reply.open.flags, wire::kOpenStream);
}

TEST(Server, AMemberComesTheWayThatTheSessionWasOpenedFor) {  // [JOIN-2, TCP-9]
  ServerOptions options;
  options.listen = loopback("127.0.0.1:0");
  auto server = SwitchServer::start(options);
  ASSERT_TRUE(server.ok());
  for (const uint16_t flags : {0, int{wire::kOpenStream}}) {
    const Carrier other = flags == 0 ? Carrier::kTcp : Carrier::kPackets;
    RawWorker worker(server.value()->local());
    wire::Open asked;
    asked.client_key = 1U + flags;
    asked.workers = asked.shards = 1;
    asked.payload = 1024;
    asked.flags = flags;
    uint8_t frame[wire::kMaxControlBytes];
    const wire::OpenReply session = worker.ask(frame, wire::build_open(asked, 1, frame)).open;
    RawWorker stranger(with_carrier(server.value()->local(), other));
    const wire::Membership member{session.job, session.epoch, session.session_key, 0};
    EXPECT_EQ(stranger.ask(frame, wire::build_join(member, 0, 2, frame)).status, wire::ReplyStatus::kBadRequest);
  }
}

TEST(Server, ListensWhereUdpAndTcpAreFree) {
  TcpOptions taken;
  taken.listen = loopback("127.0.0.1:0");
  auto other = make_tcp_transport(taken);
  ASSERT_TRUE(other.ok()) << other.status().to_string();
  ServerOptions options;
  options.listen = with_carrier(other.value()->local(), Carrier::kPackets);
  {
    const auto without = SwitchServer::start(options);
    ASSERT_TRUE(without.ok()) << without.status().to_string();
    EXPECT_EQ(port_of(without.value()->local()), port_of(options.listen)) << "over UDP alone";
  }
  options.listen = loopback("127.0.0.1:0");
  for (int i = 0; i < 50; ++i) {
    const auto both = SwitchServer::start(options);
    ASSERT_TRUE(both.ok()) << both.status().to_string();
    ASSERT_EQ(why_no_tcp({both.value()->local()}, monotonic_now() + seconds(60)), "");
  }
}

// A controller's sessions are of integers, in datagrams.
TEST(Server, UnderAControllerNobodyConnects) {
  struct Tap : softswitch::ControlTap {
    void request(const uint8_t*, size_t, const Endpoint&) override {}
  } tap;
  ServerOptions options;
  options.listen = loopback("127.0.0.1:0");
  options.control = &tap;
  auto server = SwitchServer::start(options);
  ASSERT_TRUE(server.ok());
  EXPECT_NE(why_no_tcp({server.value()->local()}, monotonic_now() + seconds(60)), "");
}

// A wildcard socket answers from the address that was asked.
TEST(Server, AnswersFromTheAddressThatWasAsked) {
  ServerOptions options;
  options.listen = loopback("0.0.0.0:0");
  auto server = SwitchServer::start(options);
  ASSERT_TRUE(server.ok()) << server.status().to_string();
  constexpr int kWorkers = 6;
  std::vector<std::unique_ptr<RawWorker>> workers;
  for (int w = 0; w < kWorkers; ++w) {
    const std::string host = "127.0.0." + std::to_string(1 + w);
    workers.push_back(
        std::make_unique<RawWorker>(with_port(loopback((host + ":1").c_str()), port_of(server.value()->local()))));
  }
  uint8_t frame[wire::kMaxControlBytes];
  wire::Open open;
  open.client_key = 1;
  open.workers = kWorkers;
  open.shards = 1;
  open.payload = 1024;
  const wire::OpenReply session = workers[0]->ask(frame, wire::build_open(open, 1, frame)).open;
  for (uint8_t w = 0; w < kWorkers; ++w) {
    const wire::Membership member{session.job, session.epoch, session.session_key, w};
    EXPECT_EQ(workers[w]->join(member).join.joined, w + 1);
  }
  for (int w = 0; w < kWorkers; ++w) workers[static_cast<size_t>(w)]->send(contribution(session, w, 0, 4, 7));
  for (auto& worker : workers) {
    const auto result = worker->receive();
    wire::DataPacket packet;
    ASSERT_EQ(wire::parse_data(result.data(), result.size(), wire::Kind::kResult, &packet), wire::ParseError::kNone);
    EXPECT_EQ(wire::detail::load<uint32_t>(packet.payload), 7U * kWorkers);
  }
}

TEST(Server, StartsAndStopsQuickly) {
  ServerOptions options;
  options.listen = loopback("127.0.0.1:0");
  const Time before = monotonic_now();
  for (int i = 0; i < 20; ++i) ASSERT_TRUE(SwitchServer::start(options).ok());
  EXPECT_LT(to_seconds(monotonic_now() - before), 10.0) << "no stop waits for a sweep";
}

TEST(Server, APortThatIsTakenIsAnErrorThatNamesIt) {
  ServerOptions options;
  options.listen = loopback("127.0.0.1:0");
  auto first = SwitchServer::start(options);
  ASSERT_TRUE(first.ok());
  options.listen = first.value()->local();
  auto second = SwitchServer::start(options);
  ASSERT_FALSE(second.ok());
  EXPECT_NE(second.status().message().find(to_string(options.listen)), std::string::npos) << second.status().message();
}

/// Answers requests with what they say, from a thread that is not the server's.
class Echo : public softswitch::ControlTap {
 public:
  void request(const uint8_t* frame, size_t size, const Endpoint& from) override {
    const std::lock_guard<std::mutex> lock(mutex_);
    frames_.push_back({frame, frame + size});
    from_ = from;
    cv_.notify_one();
  }
  std::vector<uint8_t> wait(Endpoint* from) {
    std::unique_lock<std::mutex> lock(mutex_);
    cv_.wait_for(lock, seconds(10), [this] { return !frames_.empty(); });
    *from = from_;
    return frames_.empty() ? std::vector<uint8_t>{} : frames_.front();
  }

 private:
  std::mutex mutex_;
  std::condition_variable cv_;
  std::vector<std::vector<uint8_t>> frames_;
  Endpoint from_;
};

TEST(Server, RequestsGoToTheControllerWhoseAnswersLeaveFromThePort) {
  Echo echo;
  ServerOptions options;
  options.listen = loopback("0.0.0.0:0");
  options.control = &echo;
  auto server = SwitchServer::start(options);
  ASSERT_TRUE(server.ok()) << server.status().to_string();
  // To another address than the one that the kernel would answer from; the worker's socket is connected to it.
  RawWorker worker(with_port(loopback("127.0.0.9:1"), port_of(server.value()->local())));
  const std::vector<uint8_t> question = {0x43, 1, 2, 3};
  worker.send(question);
  Endpoint from;
  ASSERT_EQ(echo.wait(&from), question);
  server.value()->send({0x44, 9}, from);
  EXPECT_EQ(worker.receive(), (std::vector<uint8_t>{0x44, 9}));
}

/// A switch under a controller, and its member's place.
struct Node {
  Node(Echo* echo, const std::optional<SealKey>& key) {
    ServerOptions options;
    options.listen = loopback("127.0.0.1:0");
    options.control = echo;
    options.seal = key;
    auto started = SwitchServer::start(options);
    EXPECT_TRUE(started.ok()) << started.status().to_string();
    server = std::move(started.value());
  }
  Endpoint at() const { return server->local(); }
  std::unique_ptr<SwitchServer> server;
};

/// A frame of each. They take turns: a sealed one sends its contribution once it has seen an answer to its greeting.
std::vector<std::vector<uint8_t>> results_of(const std::vector<std::unique_ptr<RawWorker>>& workers) {
  std::vector<std::vector<uint8_t>> results(workers.size());
  const auto lacks = [](const std::vector<uint8_t>& result) { return result.empty(); };
  for (const Time end = monotonic_now() + seconds(10); monotonic_now() < end;) {
    for (size_t i = 0; i < workers.size(); ++i) {
      if (results[i].empty()) results[i] = workers[i]->receive(milliseconds(1));
    }
    if (std::none_of(results.begin(), results.end(), lacks)) break;
  }
  return results;
}

void sum_in_a_tree_of_three(const std::optional<SealKey>& key) {
  Echo echo;
  Node root(&echo, key), left(&echo, key), right(&echo, key);
  softswitch::InstalledSession session;
  session.job = 7;
  session.epoch = 0x12345678;
  session.slots = 8;
  session.payload_bytes = 256;
  const auto install = [&session](Node& node, std::initializer_list<int> members,
                                  std::optional<softswitch::Uplink> up) {
    session.members = {};
    for (const int member : members) session.members.insert(member);
    session.uplink = up;
    EXPECT_TRUE(node.server->install(session).ok());
  };
  install(root, {0, 2}, std::nullopt);
  install(left, {0, 1}, softswitch::Uplink{0, root.at()});
  install(right, {2, 3}, softswitch::Uplink{2, root.at()});
  EXPECT_TRUE(root.server->set_member(7, 0x12345678, 0, -1, left.at()).ok());
  EXPECT_TRUE(root.server->set_member(7, 0x12345678, 2, -1, right.at()).ok());

  wire::OpenReply granted;
  granted.job = 7;
  granted.epoch = 0x12345678;
  std::vector<std::unique_ptr<RawWorker>> workers;
  for (int w = 0; w < 4; ++w) {
    Node& leaf = w < 2 ? left : right;
    workers.push_back(std::make_unique<RawWorker>(leaf.at(), key));
    EXPECT_TRUE(leaf.server->set_member(7, 0x12345678, w, 0, workers.back()->local()).ok());
  }
  for (int round = 0; round < 2; ++round) {  // the second time they repeat themselves, and hear the same again
    for (int w = 0; w < 4; ++w) workers[static_cast<size_t>(w)]->send(contribution(granted, w, 0, 32, 10));
    for (const auto& result : results_of(workers)) {
      wire::DataPacket packet;
      ASSERT_EQ(wire::parse_data(result.data(), result.size(), wire::Kind::kResult, &packet), wire::ParseError::kNone);
      EXPECT_EQ(wire::detail::load<uint32_t>(packet.payload + 4), 44U);
    }
  }
  root.server->remove_all();
  // A leaf hands on every repetition, and one answer serves both of its workers: some may be on their way still.
  workers[0]->receive(milliseconds(50));
  const auto dropped = [&root] { return root.server->counters().dropped_session.get(); };
  const uint64_t before = dropped();
  workers[0]->send(contribution(granted, 0, 0, 32, 10));
  const Time end = monotonic_now() + seconds(10);
  while (dropped() == before && monotonic_now() < end) workers[0]->receive(milliseconds(10));
  EXPECT_GT(dropped(), before) << "the leaf still knows the session, the root does not";
  for (const Node* const node : {&root, &left, &right}) EXPECT_EQ(node->server->counters().dropped_plain.get(), 0U);
}

TEST(Server, ATreeOfThreeGivesEveryWorkerTheSum) { sum_in_a_tree_of_three({}); }

TEST(Server, ATreeSealsWhatGoesBetweenItsSwitches) { sum_in_a_tree_of_three(random_seal_key()); }

TEST(Server, SilentSessionsEnd) {
  ServerOptions options;
  options.listen = loopback("127.0.0.1:0");
  options.softswitch.lease = milliseconds(100);
  auto server = SwitchServer::start(options);
  ASSERT_TRUE(server.ok());
  RawWorker worker(server.value()->local());
  uint8_t frame[wire::kMaxControlBytes];
  wire::Open open;
  open.client_key = 1;
  open.workers = 1;
  open.shards = 1;
  open.payload = 256;
  EXPECT_EQ(worker.ask(frame, wire::build_open(open, 1, frame)).status, wire::ReplyStatus::kOk);
  const Time end = monotonic_now() + seconds(10);
  while (server.value()->counters().sessions_expired.get() == 0 && monotonic_now() < end) {
    worker.receive(milliseconds(50));
  }
  EXPECT_EQ(server.value()->counters().sessions_expired.get(), 1U);
}

}  // namespace
}  // namespace switchml
