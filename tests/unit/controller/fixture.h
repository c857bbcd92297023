// A controller's core with switches of paper: they do what commands say, and notice what no switch would survive.
#pragma once

#include <gtest/gtest.h>

#include <algorithm>
#include <map>
#include <set>
#include <string>
#include <tuple>
#include <utility>
#include <vector>

#include "controller/sessions.h"
#include "socket/address.h"
#include "wire/control.h"

namespace switchml::controller {

/// A literal address; without a port, port 0.
inline Endpoint at(const std::string& text) {
  const bool with = text.find(':') != std::string::npos;
  auto endpoint = resolve_address(with ? text : text + ":0", "test");
  EXPECT_TRUE(endpoint.ok()) << text;
  return endpoint.value();
}

inline Capabilities software() {
  Capabilities can;
  can.kind = "software";
  can.instance = 1;
  can.protocol_version = wire::kVersion;
  can.payloads = {kMaxPayloadBytes};
  can.any_payload = true;
  can.members = 128;
  can.jobs = 255;
  can.sum = can.max = can.trees = can.exact = true;
  can.memory_bytes = 64 << 20;
  return can;
}

inline Capabilities chip(size_t pages = 4) {
  Capabilities can = software();
  can.kind = "bmv2";
  can.payloads = {256};
  can.any_payload = false;
  can.whole_chunks = true;
  can.exact = false;
  can.members = 64;
  can.jobs = 8;
  can.memory_bytes = 0;
  can.pages = pages;
  can.page_slots = 128;
  can.mac = "02:00:00:00:00:01";
  return can;
}

inline SwitchSpec switch_spec(const std::string& name, const std::string& address, int parent = kNone,
                              uint32_t parent_port = 0, uint32_t port_at_parent = 0) {
  SwitchSpec spec;
  spec.name = name;
  spec.address = at(address);
  spec.parent = parent;
  spec.up.port = parent_port;
  spec.up.port_at_parent = port_at_parent;
  return spec;
}

inline WorkerSpec worker_spec(const std::string& name, const std::string& address, int attached, uint32_t port = 0) {
  WorkerSpec spec;
  spec.name = name;
  spec.addresses = {at(address)};
  spec.attached = attached;
  spec.port = port;
  return spec;
}

inline Topology lone_switch() {
  Topology topology;
  topology.switches = {switch_spec("s", "10.0.0.1:48879")};
  return topology;
}

/// spine (0) over leaf1 (1) and leaf2 (2); two workers at each leaf: w0 to w3, at 10.0.1.0 to .3, ports 1 and 2.
inline Topology two_leaves() {
  Topology topology;
  topology.switches = {switch_spec("spine", "10.0.0.1:48879"), switch_spec("leaf1", "10.0.0.2:48879", 0, 9, 1),
                       switch_spec("leaf2", "10.0.0.3:48879", 0, 9, 2)};
  for (int w = 0; w < 4; ++w) {
    topology.workers.push_back(worker_spec("w" + std::to_string(w), "10.0.1." + std::to_string(w), 1 + w / 2,
                                           static_cast<uint32_t>(1 + w % 2)));
  }
  return topology;
}

/// A switch that only stores its commands.
struct PaperSwitch {
  bool dead = false;
  std::map<uint8_t, Install> installed;                              // Key: job.
  std::map<std::tuple<uint8_t, uint32_t, int>, SwitchPort> members;  // Key: job, worker, shard.
  std::map<std::tuple<uint8_t, uint32_t, int>, QueuePair> pairs;     // The members' ends.
  std::map<uint8_t, std::vector<uint32_t>> contributed;              // Its answer to Contributors.
  uint64_t dropped_length = 0;                                       // Its answer to Contributors.
  std::vector<std::string> log;

  CommandResult operator()(const Install& c) {
    log.push_back("install " + std::to_string(c.id.job));
    const auto have = installed.find(c.id.job);
    if (have != installed.end() && have->second.id.epoch != c.id.epoch) return {false, "the job is in use", {}};
    for (const auto& [job, other] : installed) {
      for (const uint32_t page : other.pages) {
        EXPECT_EQ(std::count(c.pages.begin(), c.pages.end(), page), 0) << "page " << page << " has two owners";
      }
    }
    installed[c.id.job] = c;
    return {true, "", {}};
  }
  CommandResult operator()(const SetMember& c) {
    log.push_back("member " + std::to_string(c.worker));
    if (installed.count(c.id.job) == 0) return {false, "no such session", {}};
    members[{c.id.job, c.worker, c.shard}] = c.place;
    CommandResult result{true, "", {}};
    if (c.pair) {
      pairs[{c.id.job, c.worker, c.shard}] = *c.pair;
      result.pair = QueuePair{c.pair->number + 0x1000, 77, 0, 0};
    }
    return result;
  }
  CommandResult operator()(const Remove& c) {
    log.push_back("remove " + std::to_string(c.id.job));
    const auto have = installed.find(c.id.job);
    if (have != installed.end() && have->second.id.epoch == c.id.epoch) installed.erase(have);
    return {true, "", {}};
  }
  CommandResult operator()(const Contributors& c) { return {true, "", contributed[c.id.job], dropped_length}; }
  CommandResult operator()(const PacketOut& c) {
    sent.push_back(c);
    return {true, "", {}};
  }
  std::vector<PacketOut> sent;
};

class Rack {
 public:
  explicit Rack(const Topology& topology, const Capabilities& can = software())
      : core(topology, 42), switches(topology.switches.size()) {
    for (size_t i = 0; i < switches.size(); ++i) up(static_cast<int>(i), can);
  }

  void up(int index, const Capabilities& can) {
    Effects effects;
    core.switch_up(index, can, &effects);
    run(effects);
  }

  /// Carries everything out, and what follows from that.
  void run(const Effects& effects) {
    for (const OpenAnswer& answer : effects.answers) answers[answer.ticket] = answer;
    for (const Work& work : effects.works) {
      if (hold) {
        held.push_back(work);
      } else {
        carry_out(work);
      }
    }
  }
  void release() {
    hold = false;
    const std::vector<Work> works = std::move(held);
    held.clear();
    for (const Work& work : works) carry_out(work);
  }

  OpenAnswer open(const OpenRequest& request) {
    Effects effects;
    const uint64_t ticket = ++last_ticket;
    core.open(request, ticket, now, &effects);
    run(effects);
    EXPECT_EQ(answers.count(ticket), hold ? answers.count(ticket) : 1U) << "open was not answered";
    return answers[ticket];
  }

  /// Hands a control request to a switch. Its `sent` has the answers then.
  void hand(int index, const std::vector<uint8_t>& frame, const SwitchPort& from) {
    switches[static_cast<size_t>(index)].sent.clear();
    Effects effects;
    core.packet_in(index, frame.data(), frame.size(), from, now, &effects);
    run(effects);
  }
  /// Returns the reply, or none.
  std::optional<wire::Reply> ask(int index, const std::vector<uint8_t>& frame, const SwitchPort& from) {
    hand(index, frame, from);
    const auto& sent = switches[static_cast<size_t>(index)].sent;
    if (sent.empty()) return std::nullopt;
    EXPECT_EQ(sent.size(), 1U);
    EXPECT_TRUE(sent[0].to == from);
    wire::Reply reply;
    EXPECT_EQ(wire::parse_reply(sent[0].payload.data(), sent[0].payload.size(), &reply), wire::ParseError::kNone);
    return reply;
  }
  static std::vector<uint8_t> join_frame(const wire::OpenReply& granted, int worker, int shard = 0,
                                         uint64_t cookie = 0) {
    uint8_t frame[wire::kMaxControlBytes];
    wire::Membership asking = member(granted, worker);
    asking.cookie = cookie;
    return {frame, frame + wire::build_join(asking, shard, 5, frame)};
  }
  /// Joins, and repeats the join with the cookie of the reply.
  std::optional<wire::Reply> join(int index, const wire::OpenReply& granted, int worker, const SwitchPort& from,
                                  int shard = 0) {
    const bool holding = std::exchange(hold, false);  // The cookie takes no switch.
    const auto reply = ask(index, join_frame(granted, worker, shard), from);
    hold = holding;
    if (!reply || reply->status != wire::ReplyStatus::kProveAddress) return reply;
    return ask(index, join_frame(granted, worker, shard, reply->join.cookie), from);
  }
  std::optional<wire::Reply> close(int index, const wire::OpenReply& granted, int worker, const SwitchPort& from) {
    uint8_t frame[wire::kMaxControlBytes];
    return ask(index, {frame, frame + wire::build_close(member(granted, worker), 6, frame)}, from);
  }
  std::optional<wire::Reply> probe(int index, const wire::OpenReply& granted, int worker, const SwitchPort& from,
                                   uint16_t slot = 0, uint32_t seq = 1) {
    uint8_t frame[wire::kMaxControlBytes];
    return ask(index, {frame, frame + wire::build_probe(member(granted, worker), slot, seq, 7, frame)}, from);
  }
  void sweep() {
    Effects effects;
    core.sweep(now, &effects);
    run(effects);
  }
  /// Sweeps once a second, as its process does.
  void wait(int seconds_) {
    for (int i = 0; i < seconds_; ++i) {
      now += seconds(1);
      sweep();
    }
  }
  /// Whether the session is there, heard from now on.
  bool hears(const wire::OpenReply& granted) {
    return !core.renew({granted.job, granted.epoch}, granted.session_key, now).has_value();
  }
  static wire::Membership member(const wire::OpenReply& granted, int worker) {
    return {granted.job, granted.epoch, granted.session_key, static_cast<uint8_t>(worker)};
  }

  Sessions core;
  std::vector<PaperSwitch> switches;
  std::map<uint64_t, OpenAnswer> answers;
  uint64_t last_ticket = 0;
  Time now{};
  bool hold = false;  // works wait for release()
  std::vector<Work> held;

 private:
  void carry_out(const Work& work) {
    std::vector<CommandResult> results;
    std::set<int> failed;
    for (const Command& command : work.commands) {
      PaperSwitch& target = switches[static_cast<size_t>(command.at)];
      CommandResult result{false, "does not answer", {}};
      if (!target.dead && failed.count(command.at) == 0)
        result = std::visit([&](const auto& what) { return target(what); }, command.what);
      if (!result.ok) failed.insert(command.at);
      results.push_back(result);
    }
    if (work.id == 0) return;
    Effects more;
    core.done(work.id, results, &more);
    run(more);
  }
};

inline std::string refused(const OpenAnswer& answer, Why why) {
  EXPECT_TRUE(answer.refusal.has_value());
  if (!answer.refusal) return "";
  EXPECT_EQ(answer.refusal->why, why) << answer.refusal->message;
  return answer.refusal->message;
}

inline OpenRequest request(const std::vector<std::string>& ranks, uint64_t client_key = 1) {
  OpenRequest asked;
  asked.client_key = client_key;
  asked.group = "test";
  asked.workers = static_cast<uint32_t>(ranks.size());
  asked.shards = 1;
  asked.slots = 16;
  asked.payload_bytes = 1024;
  for (const std::string& address : ranks) asked.ranks.push_back({at(address)});
  return asked;
}

}  // namespace switchml::controller
