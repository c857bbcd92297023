// A switch with recorded answers, and the packets that workers send to it.
#pragma once

#include <gtest/gtest.h>

#include <map>
#include <string>
#include <vector>

#include "softswitch/switch.h"
#include "wire/control.h"

namespace switchml::softswitch {

inline Endpoint endpoint(int number, int socket = 0) {
  Endpoint e;
  e.size = 3;
  e.bytes[0] = static_cast<uint8_t>(number);
  e.bytes[1] = static_cast<uint8_t>(number >> 8);
  e.bytes[2] = static_cast<uint8_t>(socket);
  return e;
}

struct Sent {
  std::vector<uint8_t> frame;
  std::vector<Endpoint> to;
  bool multicast = false;
  wire::Target target = {};           // 0 bytes: none.
  std::vector<uint8_t> written = {};  // Bytes written to the target.
  Ecn ecn = Ecn::kNone;
};

class RecordingSink : public PacketSink {
 public:
  void set_ecn(Ecn ecn) override { ecn_ = ecn; }
  void unicast(const uint8_t* frame, size_t size, const Endpoint& to) override {
    sent.push_back({{frame, frame + size}, {to}, false});
    sent.back().ecn = ecn_;
  }
  void multicast(const uint8_t* frame, size_t size, const Endpoint* const* to, size_t count) override {
    Sent s{{frame, frame + size}, {}, true};
    s.ecn = ecn_;
    for (size_t i = 0; i < count; ++i) s.to.push_back(*to[i]);
    sent.push_back(std::move(s));
  }
  void write(const uint8_t* elements, const wire::Target& target, const uint8_t* frame, size_t size,
             const Endpoint& to) override {
    sent.push_back({{frame, frame + size}, {to}, false, target, {elements, elements + target.bytes}});
  }
  std::vector<Sent> sent;

 private:
  Ecn ecn_ = Ecn::kNone;
};

struct Contribution {
  uint8_t worker = 0;
  uint16_t slot = 0;
  uint32_t seq = 1;
  std::vector<int32_t> words;
  wire::Operation operation = wire::Operation::kSum;
  uint16_t exponent = 0;
  uint32_t witness = 0;
  uint8_t flags = 0;  // besides the operation
};

inline std::vector<uint8_t> contribution_frame(const Contribution& c, uint8_t job, uint32_t epoch) {
  wire::Header h;
  h.version = wire::kVersion;
  h.kind = static_cast<uint8_t>(wire::Kind::kContribution);
  h.flags = static_cast<uint8_t>(static_cast<uint8_t>(c.operation) | c.flags);
  h.job = job;
  h.worker = c.worker;
  h.epoch = epoch;
  h.slot = c.slot;
  h.exponent = c.exponent;
  h.seq = c.seq;
  h.witness = c.witness;
  std::vector<uint8_t> frame(wire::kHeaderBytes + c.words.size() * 4);
  wire::write_header(h, frame.data());
  for (size_t i = 0; i < c.words.size(); ++i) {
    wire::detail::store<uint32_t>(frame.data() + wire::kHeaderBytes + 4 * i, static_cast<uint32_t>(c.words[i]));
  }
  return frame;
}

struct ResultPacket {
  wire::Header header;
  std::vector<int32_t> words;
};

inline ResultPacket result_of(const std::vector<uint8_t>& frame) {
  wire::DataPacket packet;
  EXPECT_EQ(wire::parse_data(frame.data(), frame.size(), wire::Kind::kResult, &packet), wire::ParseError::kNone);
  ResultPacket out;
  out.header = packet.header;
  for (size_t i = 0; i < packet.words; ++i) {
    out.words.push_back(static_cast<int32_t>(wire::detail::load<uint32_t>(packet.payload + 4 * i)));
  }
  return out;
}

using Counts = std::map<std::string, uint64_t>;

inline Counts nonzero(const SwitchCounters& counters) {
  Counts out;
  counters.for_each([&out](const CounterInfo& info, uint64_t value) {
    if (value != 0) out[info.name] = value;
  });
  return out;
}

/// The counters that a packet changed.
inline Counts changed(const Counts& before, const SwitchCounters& counters) {
  Counts out;
  for (const auto& [name, value] : nonzero(counters)) {
    const auto it = before.find(name);
    const uint64_t old = it == before.end() ? 0 : it->second;
    if (value != old) out[name] = value - old;
  }
  return out;
}

/// A switch and a hand on its clock.
struct Bench {
  explicit Bench(SwitchOptions options = {}) : sw(options) {}

  /// What the switch sends in answer to one frame.
  std::vector<Sent> put(const std::vector<uint8_t>& frame, const Endpoint& from, Ecn ecn = Ecn::kNone) {
    RecordingSink sink;
    sw.process(frame.data(), frame.size(), from, now, sink, ecn);
    return std::move(sink.sent);
  }

  wire::Reply ask(const uint8_t* frame, size_t size, const Endpoint& from) {
    const auto sent = put({frame, frame + size}, from);
    wire::Reply reply;
    EXPECT_EQ(sent.size(), 1U);
    if (sent.size() != 1) return reply;
    EXPECT_EQ(sent[0].to, std::vector<Endpoint>{from});
    EXPECT_EQ(wire::parse_reply(sent[0].frame.data(), sent[0].frame.size(), &reply), wire::ParseError::kNone);
    EXPECT_EQ(reply.request_id, request_id);
    return reply;
  }
  wire::Reply open(const wire::Open& asked, const Endpoint& from = endpoint(900)) {
    uint8_t frame[wire::kMaxControlBytes];
    return ask(frame, wire::build_open(asked, ++request_id, frame), from);
  }
  wire::Reply join_once(const wire::Membership& member, int shard, const Endpoint& from) {
    uint8_t frame[wire::kMaxControlBytes];
    return ask(frame, wire::build_join(member, shard, ++request_id, frame), from);
  }
  /// Shows the cookie that it is asked for.
  wire::Reply join(wire::Membership member, int shard, const Endpoint& from) {
    const wire::Reply reply = join_once(member, shard, from);
    if (reply.status != wire::ReplyStatus::kProveAddress) return reply;
    member.cookie = reply.join.cookie;
    return join_once(member, shard, from);
  }
  wire::Reply close(const wire::Membership& member, const Endpoint& from = endpoint(900)) {
    uint8_t frame[wire::kMaxControlBytes];
    return ask(frame, wire::build_close(member, ++request_id, frame), from);
  }
  wire::Reply probe(const wire::Membership& member, uint16_t slot, uint32_t seq, const Endpoint& from) {
    uint8_t frame[wire::kMaxControlBytes];
    return ask(frame, wire::build_probe(member, slot, seq, ++request_id, frame), from);
  }

  SoftSwitch sw;
  Time now{};
  uint32_t request_id = 0;
};

inline wire::Open ask_for(int workers, int shards = 1, int slots = 8, size_t payload = 1024, uint64_t client_key = 1) {
  wire::Open open;
  open.client_key = client_key;
  open.workers = static_cast<uint16_t>(workers);
  open.shards = static_cast<uint16_t>(shards);
  open.slots = static_cast<uint16_t>(slots);
  open.payload = static_cast<uint32_t>(payload);
  return open;
}

/// A session on a bench with all its workers joined. Worker w, shard s sits at endpoint(base + w, s).
struct Job {
  Job(Bench& on, int worker_count, int shards = 1, int slots = 8, size_t payload = 1024, uint64_t client_key = 1,
      int base = 0)
      : Job(on, ask_for(worker_count, shards, slots, payload, client_key), base) {}
  Job(Bench& on, const wire::Open& asked, int base = 0)
      : bench(on),
        workers(asked.workers),
        base_(base),
        carrier_((asked.flags & wire::kOpenRdma) != 0 ? Carrier::kRdma : Carrier::kPackets) {
    const wire::Reply opened = bench.open(asked);
    EXPECT_EQ(opened.status, wire::ReplyStatus::kOk);
    granted = opened.open;
    for (int w = 0; w < workers; ++w) {
      for (int s = 0; s < asked.shards; ++s) {
        EXPECT_EQ(bench.join(member(w), s, at(w, s)).status, wire::ReplyStatus::kOk);
      }
    }
  }
  wire::Membership member(int worker) const {
    return {granted.job, granted.epoch, granted.session_key, static_cast<uint8_t>(worker)};
  }
  Endpoint at(int worker, int shard = 0) const {
    Endpoint its = endpoint(base_ + worker, shard);
    its.carrier = carrier_;
    return its;
  }
  std::vector<Sent> put(const Contribution& c, int shard = 0) {
    return bench.put(contribution_frame(c, granted.job, granted.epoch), at(c.worker, shard));
  }

  Bench& bench;
  int workers;
  int base_;
  Carrier carrier_;
  wire::OpenReply granted;
};

}  // namespace switchml::softswitch
