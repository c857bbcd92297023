// Ranks and a software switch, over queues of this process, UDP on the loopback interface, or cards.
#include "engine/shard.h"
#include "format/task.h"
#include "path.h"
#include "socket/address.h"
#include "softswitch/switch.h"
#include "switchd/batching_sink.h"
#include "transport/inproc.h"
#include "transport/rdma/rdma.h"
#include "transport/udp.h"
#include "wire/control.h"

namespace switchml::profile {

namespace {

constexpr size_t kSwitchBufferBytes = 32 << 20;  // The server's default (switchd/server.h).

/// Makes the ends of one network.
class Network {
 public:
  explicit Network(const PathOptions& options) : name_(options.name), verbs_(options.verbs) {
    if (name_ == "inproc")
      hub_ = InprocHub::create({65507, static_cast<size_t>(options.ranks * options.slots) + kBurst});
  }
  /// `peer`: null for the switch's end.
  Result<std::unique_ptr<Transport>> attach(const Endpoint* peer) {
    if (name_ == "inproc") return hub_->attach();
    if (name_ == "rdma") return attach_card();
    UdpOptions options;
    if (peer != nullptr) {
      options.peer = *peer;
    } else {
      options.receive_buffer_bytes = kSwitchBufferBytes;
      options.receive_frames = kBurst;
      auto address = literal_address("127.0.0.1", 0);
      if (!address.ok()) return address.status();
      options.bind = address.value();
    }
    return make_udp_transport(options);
  }

 private:
  Result<std::unique_ptr<Transport>> attach_card() {
    RdmaOptions options;
    options.library = verbs_;
    options.local = literal_address("127.0.0.1", ++last_port_).value();
    return make_rdma_transport(options);
  }

  const std::string name_, verbs_;
  uint16_t last_port_ = 0;
  std::shared_ptr<InprocHub> hub_;
};

/// Connects the queue pairs of both ends.
Status introduce(Transport& a, Transport& b) {
  for (const auto& [from, to] : {std::pair(&a, &b), std::pair(&b, &a)}) {
    if (from->queue_pairs() == nullptr) continue;
    const auto its = from->queue_pairs()->queue_pair_for(to->local());
    if (!its.ok()) return its.status();
    if (Status status = to->queue_pairs()->connect(from->local(), its.value()); !status.ok()) return status;
  }
  return {};
}

/// The ranks' engines.
class AllTensors : public TensorMemory {
 public:
  explicit AllTensors(Tensors& tensors) : tensors_(tensors) {}
  Extent extent_of(const void* data, size_t bytes) const override {
    const auto at = reinterpret_cast<uintptr_t>(data);
    for (std::vector<float>& tensor : tensors_) {
      const auto begin = reinterpret_cast<uintptr_t>(tensor.data());
      const size_t size = tensor.size() * sizeof(float);
      if (at >= begin && at + bytes <= begin + size) return {reinterpret_cast<uint8_t*>(tensor.data()), size};
    }
    return {};
  }

 private:
  Tensors& tensors_;
};

class SwitchPath final : public Path {
 public:
  SwitchPath(std::unique_ptr<Transport> transport, const softswitch::SwitchOptions& options)
      : transport_(std::move(transport)),
        sink_(*transport_, options.has_card ? 0 : BatchingSink::kHeldBytes),
        switch_(options) {}

  /// Opens a session, joins every rank, starts their engines.
  Status start(const PathOptions& options, std::vector<std::unique_ptr<Transport>> ranks);

  void ranks_turn() override {
    now_ += microseconds(1);  // So slowly that no timer expires, however long a turn takes.
    for (auto& shard : shards_) shard->step(now_);
  }
  // A round of the server's thread (switchd/server.cc).
  void switch_turn() override {
    RxFrame frames[kBurst];
    while (const size_t count = transport_->receive(frames, kBurst)) {
      for (size_t i = 0; i < count; ++i) {
        switch_.process(frames[i].data, frames[i].size, frames[i].from, now_, sink_);
      }
      sink_.flush();  // Frames point into the slots and into lent memory.
      transport_->release();
    }
  }

  Work work() const override {
    Work work;
    for (const auto& shard : shards_) {
      const WorkerCounters& counters = shard->counters();
      work.chunks += counters.chunks_completed.get();
      work.packets += counters.packets_sent.get();
      work.retransmissions += counters.retransmissions.get();
    }
    return work;
  }
  void use(Tensors& tensors) override {
    const auto memory = std::make_shared<AllTensors>(tensors);
    for (Transport* link : links_) {
      if (link->queue_pairs() != nullptr) link->queue_pairs()->register_memory(memory);
    }
  }
  size_t chunk_bytes() const override { return session_.payload_bytes; }
  int slots() const override { return session_.slots; }

 private:
  static constexpr int kAttempts = 100;

  void submit_to(int rank, Collective collective) override {
    const ElementRange all{0, collective.count};
    shards_[static_cast<size_t>(rank)]->submit(std::make_shared<SharedCollective>(std::move(collective), 1), all);
  }
  Result<wire::Reply> ask(Transport& rank, const uint8_t* frame, size_t size);

  std::unique_ptr<Transport> transport_;
  BatchingSink sink_;
  softswitch::SoftSwitch switch_;
  SessionParameters session_;
  Time now_{seconds(1)};
  std::vector<std::unique_ptr<Shard>> shards_;
  std::vector<Transport*> links_;  // The engines' transports.
};

Result<wire::Reply> SwitchPath::ask(Transport& rank, const uint8_t* frame, size_t size) {
  const Endpoint to = transport_->local();
  const TxFrame request{frame, static_cast<uint32_t>(size), &to};
  rank.send(&request, 1);
  for (int attempt = 0; attempt < kAttempts; ++attempt) {
    switch_turn();
    rank.wait(milliseconds(10));
    RxFrame answer;
    wire::Reply reply;
    const bool got =
        rank.receive(&answer, 1) == 1 && wire::parse_reply(answer.data, answer.size, &reply) == wire::ParseError::kNone;
    rank.release();
    if (!got) continue;
    if (wire::has_body(reply.status)) return reply;
    return Status(Code::kUnavailable, std::string("the switch refuses: ") + wire::to_string(reply.status));
  }
  return Status(Code::kTimeout, "the switch has not answered within a second");
}

Status SwitchPath::start(const PathOptions& options, std::vector<std::unique_ptr<Transport>> ranks) {
  uint8_t frame[wire::kMaxControlBytes];
  wire::Open open;
  open.client_key = 1;
  open.workers = static_cast<uint16_t>(options.ranks);
  open.shards = 1;
  open.slots = static_cast<uint16_t>(options.slots);
  open.payload = static_cast<uint32_t>(options.payload_bytes);
  const bool by_card = transport_->local().carrier == Carrier::kRdma;
  open.flags = static_cast<uint8_t>((options.exact ? wire::kOpenExact : 0) | (by_card ? wire::kOpenRdma : 0));
  const auto opened = ask(*ranks.front(), frame, wire::build_open(open, 1, frame));
  if (!opened.ok()) return opened.status();
  const wire::OpenReply& granted = opened.value().open;
  session_.job = granted.job;
  session_.epoch = granted.epoch;
  session_.session_key = granted.session_key;
  session_.lease = seconds(10000);
  session_.workers = options.ranks;
  session_.slots = granted.slots;
  session_.payload_bytes = granted.payload;
  session_.exact = (granted.flags & wire::kOpenExact) != 0;
  session_.secret[0] = 0x1234;
  session_.secret[1] = 0x5678;
  session_.switch_endpoint = transport_->local();
  session_.switch_name = options.name;
  EngineOptions engine;
  for (int rank = 0; rank < options.ranks; ++rank) {
    session_.worker = rank;
    auto& transport = ranks[static_cast<size_t>(rank)];
    wire::Membership member = session_.membership();
    for (uint32_t id : {2U, 3U}) {  // The second join has the cookie.
      const auto joined = ask(*transport, frame, wire::build_join(member, 0, id, frame));
      if (!joined.ok()) return joined.status();
      member.cookie = joined->join.cookie;
    }
    engine.session = session_;
    links_.push_back(transport.get());
    shards_.push_back(std::make_unique<Shard>(0, engine, std::move(transport), now_, [](const Status&) {}));
  }
  return {};
}

}  // namespace

Result<std::unique_ptr<Path>> make_switch_path(const PathOptions& options) {
  Network network(options);
  auto transport = network.attach(nullptr);
  if (!transport.ok()) return transport.status();
  const Endpoint address = transport.value()->local();
  std::vector<std::unique_ptr<Transport>> ranks;
  for (int rank = 0; rank < options.ranks; ++rank) {
    auto one = network.attach(&address);
    if (!one.ok()) return one.status();
    if (Status status = introduce(*one.value(), *transport.value()); !status.ok()) return status;
    ranks.push_back(std::move(one.value()));
  }
  softswitch::SwitchOptions switch_options;
  switch_options.seed = 1;  // Epochs and keys are the same in every run.
  switch_options.has_card = options.name == "rdma";
  switch_options.receive_buffer_bytes = transport.value()->limits().receive_buffer_bytes;
  auto path = std::make_unique<SwitchPath>(std::move(transport.value()), switch_options);
  const Status started = path->start(options, std::move(ranks));
  if (!started.ok()) return started;
  return std::unique_ptr<Path>(std::move(path));
}

}  // namespace switchml::profile
