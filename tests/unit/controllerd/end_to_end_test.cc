// The whole of it as processes: a controller, software switches with agents, and workers as plain sockets.
#include <grpcpp/grpcpp.h>
#include <gtest/gtest.h>

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
  Switch() : program(SWITCHML_SWITCHD_PATH, {"--listen", "127.0.0.1:0", "--agent", "127.0.0.1:0"}) {
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
    return ask(frame, wire::build_join(member_, 0, 1, frame));
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
    EXPECT_TRUE(eventually([&] {
      const auto state = ask_state(address, "", "");
      if (!state.ok()) return false;
      int connected = 0;
      for (const auto& view : state.value().switches()) connected += view.description().connected() ? 1 : 0;
      return connected == switches;
    })) << "not all switches are connected";
  }
  v1::OpenReply open() {
    v1::OpenRequest request;
    request.set_protocol_version(wire::kVersion);
    request.set_client_key(4711);
    request.set_group("end to end");
    request.set_workers(static_cast<uint32_t>(ranks.size()));
    request.set_shards(1);
    request.set_slots(8);
    request.set_payload_bytes(1024);
    for (const auto& rank : ranks) request.add_ranks()->add_addresses(rank->address());
    const auto stub = v1::Controller::NewStub(grpc::CreateChannel(address, grpc::InsecureChannelCredentials()));
    grpc::ClientContext context;
    context.set_deadline(std::chrono::system_clock::now() + seconds(15));
    v1::OpenReply reply;
    const grpc::Status status = stub->Open(&context, request, &reply);
    EXPECT_TRUE(status.ok()) << status.error_message();
    if (status.ok()) {
      for (const auto& rank : ranks) rank->opened(reply);
    }
    return reply;
  }
  v1::StateReply state() { return ask_state(address, "", "").value(); }

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
    const wire::Reply probe = cluster.ranks[0]->probe(3, use);
    EXPECT_EQ(probe.probe.joined_low, (1U << n) - 1);
    EXPECT_EQ(probe.probe.contributed_low, (1U << (n - 1)) - 1) << "all but the last, in use " << use;
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
  std::string topology = "switches:\n" + entry("spine", spine) + entry("leaf1", leaf1, ", parent: spine") +
                         entry("leaf2", leaf2, ", parent: spine") + "workers:\n";
  for (int r = 0; r < 4; ++r) {
    topology += "  - {name: w" + std::to_string(r) + ", addresses: [127.0.1." + std::to_string(r + 1) +
                "], switch: leaf" + std::to_string(r < 2 ? 1 : 2) + "}\n";
  }
  Cluster cluster(topology, 3, 4);
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
  Program again(SWITCHML_SWITCHD_PATH, {"--listen", listen, "--agent", agent});
  EXPECT_TRUE(eventually([&] { return cluster.state().sessions_size() == 0; })) << "it is back, and knows nothing";
  EXPECT_EQ(cluster.ranks[0]->join().status, wire::ReplyStatus::kUnknownSession);
}

}  // namespace
}  // namespace switchml
