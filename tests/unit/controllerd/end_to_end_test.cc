// The whole of it as processes: a controller, software switches with agents, and workers as plain sockets.
#include <grpcpp/grpcpp.h>
#include <gtest/gtest.h>

#include <algorithm>

#include "api/switchml_control.grpc.pb.h"
#include "controllerd/state_text.h"
#include "program.h"
#include "temporary_file.h"
#include "transport/raw_socket.h"
#include "wait.h"
#include "wire/control.h"

namespace switchml {
namespace {

/// switchml-switchd with an agent, on loopback.
struct Switch {
  explicit Switch(const std::string& listen = "127.0.0.1:0")
      : program(SWITCHML_SWITCHD_PATH, {"--listen", listen, "--agent", "127.0.0.1:0", "--insecure-no-token"}) {
    address = after("listening on ", program.line());
    agent = after("agent on ", program.line());
  }
  Program program;
  std::string address;
  std::string agent;
};

std::string entry(const std::string& name, const Switch& of, const std::string& more = "") {
  return "  - {name: " + name + ", agent: \"" + of.agent + "\", address: \"" + of.address + "\"" + more + "}\n";
}

/// Ranks 0 and 1 at leaf1, 2 and 3 at leaf2.
std::string four_workers() {
  std::string text = "workers:\n";
  for (int r = 0; r < 4; ++r) {
    text += "  - {name: w" + std::to_string(r) + ", addresses: [127.0.1." + std::to_string(r + 1) + "], switch: leaf" +
            std::to_string(r < 2 ? 1 : 2) + "}\n";
  }
  return text;
}

/// A worker's side of one shard: its socket at an address of its own, and what it was granted.
class Rank {
 public:
  explicit Rank(int number) : number_(number), socket_("127.0.1." + std::to_string(number + 1) + ":0") {}

  std::string address() const { return "127.0.1." + std::to_string(number_ + 1); }
  void opened(const v1::OpenReply& reply) {
    member_ = {static_cast<uint8_t>(reply.session().job()), reply.session().epoch(), reply.session().session_key(),
               static_cast<uint8_t>(number_)};
    at_ = resolve_address(reply.switch_addresses(number_), "test").value();
  }
  /// The reply to a request, which is repeated until it comes.
  wire::Reply ask(const uint8_t* frame, size_t size) {
    wire::Reply reply;
    for (int tries = 0; tries < 10; ++tries) {
      socket_.send({frame, frame + size}, at_);
      const auto got = socket_.receive();
      if (!got.bytes.empty() &&
          wire::parse_reply(got.bytes.data(), got.bytes.size(), &reply) == wire::ParseError::kNone) {
        EXPECT_EQ(got.from, at_);
        return reply;
      }
    }
    ADD_FAILURE() << "rank " << number_ << " got no reply";
    return reply;
  }
  wire::Reply join() {
    uint8_t frame[wire::kMaxControlBytes];
    wire::Reply reply = ask(frame, wire::build_join(member_, 0, 1, frame));
    while (reply.status == wire::ReplyStatus::kProveAddress && reply.join.cookie != 0) {
      member_.cookie = reply.join.cookie;
      reply = ask(frame, wire::build_join(member_, 0, 1, frame));
    }
    return reply;
  }
  wire::Reply probe(uint16_t slot, uint32_t seq) {
    uint8_t frame[wire::kMaxControlBytes];
    return ask(frame, wire::build_probe(member_, slot, seq, 2, frame));
  }
  wire::Reply close() {
    uint8_t frame[wire::kMaxControlBytes];
    return ask(frame, wire::build_close(member_, 3, frame));
  }
  void contribute(uint16_t slot, uint32_t seq, const std::vector<uint32_t>& words) {
    wire::Header header;
    header.version = wire::kVersion;
    header.kind = static_cast<uint8_t>(wire::Kind::kContribution);
    header.job = member_.job;
    header.worker = member_.worker;
    header.epoch = member_.epoch;
    header.slot = slot;
    header.seq = seq;
    header.witness = static_cast<uint32_t>(100 + number_);
    std::vector<uint8_t> frame(wire::kHeaderBytes + words.size() * 4);
    wire::write_header(header, frame.data());
    for (size_t i = 0; i < words.size(); ++i) {
      wire::detail::store<uint32_t>(frame.data() + wire::kHeaderBytes + 4 * i, words[i]);
    }
    socket_.send(frame, at_);
  }
  /// The words of the result that arrives, behind its witness; empty if none does.
  std::vector<uint32_t> result() {
    const auto got = socket_.receive();
    wire::DataPacket packet;
    if (wire::parse_data(got.bytes.data(), got.bytes.size(), wire::Kind::kResult, &packet) != wire::ParseError::kNone) {
      return {};
    }
    std::vector<uint32_t> words = {packet.header.witness};
    for (size_t i = 0; i < packet.words; ++i) words.push_back(wire::detail::load<uint32_t>(packet.payload + 4 * i));
    return words;
  }

 private:
  const int number_;
  RawSocket socket_;
  wire::Membership member_;
  Endpoint at_;
};

/// A controller over the switches of a topology, and a job of `ranks` ranks.
class Cluster {
 public:
  Cluster(const std::string& topology, int switches, int rank_count)
      : file_(topology),
        program_(SWITCHML_CONTROLLER_PATH,
                 {"--topology", file_.path(), "--insecure-no-token", "--listen", "127.0.0.1:0", "--log-level=off"}) {
    address = after("listening on ", program_.line());
    for (int r = 0; r < rank_count; ++r) ranks.push_back(std::make_unique<Rank>(r));
    EXPECT_TRUE(eventually([&] { return connected() == switches; })) << "not all switches are connected";
  }
  int connected() const {
    const auto state = ask_state(address, {});
    if (!state.ok()) return 0;
    const auto& views = state.value().switches();
    return static_cast<int>(
        std::count_if(views.begin(), views.end(), [](const auto& view) { return view.description().connected(); }));
  }
  v1::OpenReply open() {
    v1::OpenReply reply;
    const grpc::Status status = try_open(4711, &reply);
    EXPECT_TRUE(status.ok()) << status.error_message();
    if (status.ok()) {
      for (const auto& rank : ranks) rank->opened(reply);
    }
    return reply;
  }
  grpc::Status try_open(uint64_t client_key, v1::OpenReply* reply) {
    v1::OpenRequest request;
    request.set_protocol_version(wire::kVersion);
    request.set_client_key(client_key);
    request.set_group("end to end");
    request.set_workers(static_cast<uint32_t>(ranks.size()));
    request.set_shards(1);
    request.set_slots(8);
    request.set_payload_bytes(1024);
    for (const auto& rank : ranks) request.add_ranks()->add_addresses(rank->address());
    const auto stub = v1::Controller::NewStub(grpc::CreateChannel(address, grpc::InsecureChannelCredentials()));
    grpc::ClientContext context;
    context.set_deadline(std::chrono::system_clock::now() + seconds(15));
    return stub->Open(&context, request, reply);
  }
  /// Whether a probe comes to say so: aggregates may be under way between switches.
  bool contributed(uint16_t slot, uint32_t seq, uint64_t expected) {
    return eventually([&] { return ranks[0]->probe(slot, seq).probe.contributed_low == expected; });
  }
  v1::StateReply state() { return ask_state(address, {}).value(); }

  std::string address;
  std::vector<std::unique_ptr<Rank>> ranks;

 private:
  TemporaryFile file_;
  Program program_;
};

void sums_come_back(Cluster& cluster) {
  const auto n = static_cast<uint32_t>(cluster.ranks.size());
  for (uint32_t r = 0; r < n; ++r) {
    const wire::Reply joined = cluster.ranks[r]->join();
    EXPECT_EQ(joined.status, wire::ReplyStatus::kOk);
    EXPECT_EQ(joined.join.joined, r + 1);
  }
  for (uint32_t use = 1; use <= 4; ++use) {
    for (uint32_t r = 0; r + 1 < n; ++r) cluster.ranks[r]->contribute(3, use, {r + 1, 10 * use, 0xffffffff});
    EXPECT_EQ(cluster.ranks[0]->probe(3, use).probe.joined_low, (1U << n) - 1);
    EXPECT_TRUE(cluster.contributed(3, use, (1U << (n - 1)) - 1)) << "all but the last, in use " << use;
    cluster.ranks[n - 1]->contribute(3, use, {n, 10 * use, 0xffffffff});
    const std::vector<uint32_t> expected = {100 * n + n * (n - 1) / 2, n * (n + 1) / 2, 10 * use * n, 0U - n};
    for (const auto& rank : cluster.ranks) EXPECT_EQ(rank->result(), expected) << "use " << use;
  }
  // Whoever lost its result repeats: the answer comes from the root, through its leaf.
  cluster.ranks[1]->contribute(3, 4, {2, 40, 0xffffffff});
  EXPECT_FALSE(cluster.ranks[1]->result().empty());
}

TEST(EndToEnd, OneSwitch) {
  Switch only;
  Cluster cluster("switches:\n" + entry("s", only), 1, 3);
  const v1::OpenReply reply = cluster.open();
  EXPECT_EQ(reply.switch_addresses(2), only.address);
  sums_come_back(cluster);
  for (const auto& rank : cluster.ranks) EXPECT_EQ(rank->close().status, wire::ReplyStatus::kOk);
  EXPECT_EQ(cluster.state().sessions_size(), 0);
  EXPECT_EQ(cluster.ranks[0]->join().status, wire::ReplyStatus::kUnknownSession);
}

TEST(EndToEnd, ATreeOfThreeSwitches) {
  Switch spine;
  Switch leaf1;
  Switch leaf2;
  Cluster cluster("switches:\n" + entry("spine", spine) + entry("leaf1", leaf1, ", parent: spine") +
                      entry("leaf2", leaf2, ", parent: spine") + four_workers(),
                  3, 4);
  const v1::OpenReply reply = cluster.open();
  EXPECT_EQ(reply.switch_addresses(0), leaf1.address);
  EXPECT_EQ(reply.switch_addresses(3), leaf2.address);
  sums_come_back(cluster);
  const v1::StateReply state = cluster.state();
  ASSERT_EQ(state.sessions_size(), 1);
  EXPECT_EQ(state.sessions(0).switches_size(), 3);
  EXPECT_EQ(state.sessions(0).joined_size(), 4);
  EXPECT_EQ(state.switches(0).counters(0).values().at("uses_completed"), 4U);
  EXPECT_GE(state.switches(1).counters(0).values().at("results_passed_down"), 4U);
  for (const auto& rank : cluster.ranks) EXPECT_EQ(rank->close().status, wire::ReplyStatus::kOk);
  EXPECT_EQ(cluster.state().sessions_size(), 0);
}

// The spine knows leaf2 by another address than the one that its aggregates come from.
TEST(EndToEnd, APathBetweenSwitchesThatIsBrokenIsNamed) {
  Switch spine;
  Switch leaf1;
  Switch leaf2("0.0.0.0:0");
  leaf2.address = "127.0.0.9" + leaf2.address.substr(leaf2.address.rfind(':'));
  Cluster cluster("switches:\n" + entry("spine", spine) + entry("leaf1", leaf1, ", parent: spine") +
                      entry("leaf2", leaf2, ", parent: spine") + four_workers(),
                  3, 4);
  cluster.open();
  for (const auto& rank : cluster.ranks) EXPECT_EQ(rank->join().status, wire::ReplyStatus::kOk);
  for (const auto& rank : cluster.ranks) rank->contribute(3, 1, {1, 2});
  // Contributions may be under way still, and a path is silent only if two probes, some time apart, find it so.
  v1::StateReply state;
  EXPECT_TRUE(eventually([&] {
    const bool missed = cluster.contributed(3, 1, 0b0011U);  // those at leaf2
    state = cluster.state();
    return missed && state.sessions(0).problems_size() == 1;
  }));
  ASSERT_EQ(state.sessions(0).problems_size(), 1);
  const std::string expected =
      "switch \"leaf2\" has aggregated slot 3 seq 1 of job 1, and its parent \"spine\" has "
      "nothing of it: check the path from " +
      leaf2.address + " to " + spine.address + " (UDP port, MTU, MAC)";
  EXPECT_EQ(state.sessions(0).problems(0), expected);
  EXPECT_NE(state_text(state).find("  problem: " + expected), std::string::npos);
}

TEST(EndToEnd, ASecondControllerTakesASwitchOver) {
  Switch only;
  const std::string topology = "switches:\n" + entry("s", only);
  Cluster first(topology, 1, 2);
  first.open();
  EXPECT_EQ(first.ranks[0]->join().status, wire::ReplyStatus::kOk);
  Cluster second(topology, 1, 2);
  EXPECT_EQ(first.ranks[0]->join().status, wire::ReplyStatus::kUnknownSession) << "the second one answers";
  EXPECT_TRUE(eventually([&] { return first.connected() == 0; }));
  const std::string told =
      "another controller has taken its agent over; this one leaves it alone until it is started again";
  EXPECT_EQ(first.state().switches(0).description().problem(), told);
  v1::OpenReply reply;
  const grpc::Status refused = first.try_open(4712, &reply);
  EXPECT_EQ(refused.error_code(), grpc::StatusCode::UNAVAILABLE);
  EXPECT_EQ(refused.error_message(), "switch \"s\" cannot be used: " + told);
  second.open();
  sums_come_back(second);
  usleep(1000 * 1000);  // the first one would have come back three times
  EXPECT_EQ(first.connected(), 0);
  EXPECT_EQ(second.connected(), 1);
  for (const auto& rank : second.ranks) EXPECT_EQ(rank->close().status, wire::ReplyStatus::kOk) << "undisturbed";
}

TEST(EndToEnd, ASwitchThatDiesEndsItsSession) {
  Switch spine;
  auto leaf = std::make_unique<Switch>();
  const std::string workers =
      "workers:\n  - {name: w0, addresses: [127.0.1.1], switch: spine}\n"
      "  - {name: w1, addresses: [127.0.1.2], switch: leaf}\n";
  Cluster cluster("switches:\n" + entry("spine", spine) + entry("leaf", *leaf, ", parent: spine") + workers, 2, 2);
  cluster.open();
  EXPECT_EQ(cluster.ranks[0]->join().status, wire::ReplyStatus::kOk);
  const std::string listen = leaf->address;
  const std::string agent = leaf->agent;
  leaf.reset();
  EXPECT_TRUE(eventually([&] { return !cluster.state().switches(1).description().connected(); }));
  EXPECT_EQ(cluster.ranks[0]->join().status, wire::ReplyStatus::kOk) << "the other switch goes on";
  Program again(SWITCHML_SWITCHD_PATH, {"--listen", listen, "--agent", agent, "--insecure-no-token"});
  EXPECT_TRUE(eventually([&] { return cluster.state().sessions_size() == 0; })) << "it is back, and knows nothing";
  EXPECT_EQ(cluster.ranks[0]->join().status, wire::ReplyStatus::kUnknownSession);
}

}  // namespace
}  // namespace switchml
