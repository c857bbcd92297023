#include "client/switch_entry.h"

#include <algorithm>
#include <iterator>
#include <map>
#include <string>
#include <thread>

#include "base/limits.h"
#include "base/log.h"
#include "base/payload_size.h"
#include "client/control_client.h"
#include "client/switch_address.h"
#include "socket/address.h"
#include "socket/sockaddr.h"
#include "transport/faulty.h"
#include "transport/rdma/rdma.h"
#include "transport/sealed_link.h"
#include "transport/shared_link.h"
#include "transport/tcp.h"
#include "transport/udp.h"

namespace switchml {

namespace {

Faults faults_of(const Config& config, int rank, int shard) {
  const auto values = parse_faults(config.faults).value_or(std::map<std::string, double>{});
  const auto value = [&values](const char* name, double otherwise) {
    const auto it = values.find(name);
    return it == values.end() ? otherwise : it->second;
  };
  Faults faults;
  // Every socket has a seed of its own.
  faults.seed = static_cast<uint64_t>(value("seed", 1)) * 1000003U + static_cast<uint64_t>(rank) * 31U +
                static_cast<uint64_t>(shard);
  faults.send_loss = value("send_loss", 0);
  faults.receive_loss = value("receive_loss", 0);
  faults.duplicate = value("duplicate", 0);
  faults.delay = value("delay", 0);
  faults.corrupt = value("corrupt", 0);
  return faults;
}

// A fourth of the default failure timeout: after an outage there is time for a new connection.
constexpr Duration kTcpStall = milliseconds(2500);

UdpOptions udp_towards(const std::vector<Endpoint>& switches) {
  UdpOptions options;
  if (switches.size() == 1) {
    options.peer = with_carrier(switches.front(), Carrier::kPackets);
  } else {
    options.bind = any_endpoint(family_of(switches.front()));
  }
  return options;
}

Result<std::unique_ptr<Transport>> connect_card(const Config& config, const std::vector<Endpoint>& switches) {
  RdmaOptions options;
  options.wish = card_wish(config);
  options.asks = udp_towards(switches);
  options.route_to = switches.front();
  return switches.front().carrier == Carrier::kPlaces ? make_places_transport(options) : make_rdma_transport(options);
}

Result<std::unique_ptr<Transport>> connect(const std::vector<Endpoint>& switches) {
  if (switches.front().carrier == Carrier::kTcp) {
    TcpOptions options;
    options.max_connections = switches.size();
    options.queue_bytes = kStreamQueueBytes;
    options.all_queues_bytes = 0;  // This worker's slots bound it.
    options.stall = kTcpStall;
    return make_tcp_transport(options);
  }
  return make_udp_transport(udp_towards(switches));
}

/// Faults lie below the seal: what it opens has come whole. `key_may_differ`: a user has given it to both ends.
Result<std::unique_ptr<Transport>> sealed(Result<std::unique_ptr<Transport>> link, const std::optional<SealKey>& seal,
                                          bool key_may_differ = false) {
  if (!link.ok() || !seal) return link;
  SealOptions options;
  options.key_may_differ = key_may_differ;
  try {
    return seal_link(std::move(link.value()), *seal, SealEnd::kMember, std::move(options));
  } catch (const StatusError& error) {
    return error.status();
  }
}

}  // namespace

Result<std::unique_ptr<Transport>> connect_to_switch(const Endpoint& to, const std::optional<SealKey>& seal) {
  return sealed(connect({to}), seal);
}

// [RDMA-2]
Endpoint for_requests(const Endpoint& to) { return uses_card(to.carrier) ? with_carrier(to, Carrier::kPackets) : to; }

std::string why_no_rdma(const Config& config, const std::vector<Endpoint>& switches) {
  const auto card = connect_card(config, switches);
  if (card.ok()) return "";
  const Status& why = card.status();
  if (why.code() != Code::kUnsupported) {
    SWITCHML_LOG(kWarning) << "there is a card for RDMA, but it cannot be used: " << why.message();
  }
  return why.message();
}

Result<std::unique_ptr<Transport>> connect_shard(const Config& config, int rank, int shard,
                                                 const std::vector<Endpoint>& switches,
                                                 const std::optional<SealKey>& seal) {
  auto link = uses_card(switches.front().carrier) ? connect_card(config, switches) : connect(switches);
  if (link.ok() && !config.faults.empty())
    link = make_faulty_transport(std::move(link.value()), faults_of(config, rank, shard));
  return sealed(std::move(link), seal, names_switches(config));
}

bool sessions_move(const Config& config) { return config.fallback && !config.controller.empty(); }

Result<Transports> connect_shards(const Config& config, int rank, const std::vector<Endpoint>& switches,
                                  const std::optional<SealKey>& seal) {
  std::vector<Transports> by_shard;
  if (switches.size() > 1 && sessions_move(config)) {
    Transports all;
    for (const Endpoint& to : switches) {
      auto of_one = connect_shards(config, rank, {to}, seal);
      if (!of_one.ok()) return of_one.status();
      std::move(of_one->begin(), of_one->end(), std::back_inserter(all));
    }
    return all;
  }
  for (int shard = 0; shard < config.shards; ++shard) {
    auto link = connect_shard(config, rank, shard, switches, seal);
    if (!link.ok()) return link.status();
    by_shard.emplace_back();
    if (switches.size() > 1) {
      by_shard.back() = share_link(std::move(link.value()), switches);
    } else {
      by_shard.back().push_back(std::move(link.value()));
    }
  }
  Transports transports;
  for (size_t i = 0; i < switches.size(); ++i) {
    for (Transports& shard : by_shard) transports.push_back(std::move(shard[i]));
  }
  return transports;
}

uint16_t open_flag_of(Carrier carrier) {
  if (carrier == Carrier::kTcp) return wire::kOpenStream;         // [TCP-9]
  if (carrier == Carrier::kPlaces) return wire::kOpenUnreliable;  // [RDMA-9]
  return carrier == Carrier::kRdma ? wire::kOpenRdma : 0;         // [OPEN-7]
}

wire::Open open_like(const SessionParameters& session, uint64_t client_key) {
  wire::Open asked;
  asked.client_key = client_key;
  asked.workers = static_cast<uint16_t>(session.workers);
  asked.shards = static_cast<uint16_t>(session.shards);
  asked.slots = static_cast<uint16_t>(session.slots);
  asked.payload = static_cast<uint32_t>(session.payload_bytes);
  if (session.exact) asked.flags |= wire::kOpenExact;
  asked.flags |= open_flag_of(session.switch_endpoint.carrier);
  return asked;
}

void write_grant(const wire::OpenReply& granted, Blob* blob) {
  blob->set("job", granted.job);
  blob->set("epoch", granted.epoch);
  blob->set("key", granted.session_key);
  blob->set("slots", granted.slots);
  blob->set("payload", granted.payload);
  blob->set("flags", granted.flags);
  blob->set("lease_ms", granted.lease_ms);
}

// A third of the silence after which a switch may end a session to make room.
constexpr Duration kMostSilence = seconds(5);  // [LEASE-5]

Status read_grant(const Blob& blob, SessionParameters* session) {
  SessionParameters& p = *session;
  uint64_t job = 0, epoch = 0, slots = 0, payload = 0, flags = 0, lease_ms = 0;
  const bool read = blob.number("job", kMaxJobs, &job) && blob.number("epoch", UINT32_MAX, &epoch) &&
                    blob.number("key", UINT64_MAX, &p.session_key) && blob.number("slots", kMaxSlots, &slots) &&
                    blob.number("payload", kMaxPayloadBytes, &payload) && blob.number("flags", 255, &flags) &&
                    blob.number("lease_ms", UINT32_MAX, &lease_ms);
  const auto shards = static_cast<uint64_t>(p.shards);
  const bool sane = read && job != 0 && epoch != 0 && slots >= shards * kMinSlots && slots % shards == 0 &&
                    is_allowed_payload(payload) && lease_ms != 0;
  if (!sane) {
    return {Code::kMismatch, "switch " + p.switch_name + " granted a session that this version cannot use (slots " +
                                 blob.text("slots") + ", payload " + blob.text("payload") +
                                 "): install the same switchml on switch and ranks"};
  }
  p.job = static_cast<uint8_t>(job);
  p.epoch = static_cast<uint32_t>(epoch);
  p.slots = static_cast<int>(slots);
  p.payload_bytes = payload;
  p.exact = (flags & wire::kOpenExact) != 0;
  p.tree = (flags & wire::kOpenTree) != 0;
  p.whole_chunks = (flags & wire::kOpenWholeChunks) != 0;
  p.lease = milliseconds(lease_ms);
  p.most_silence = kMostSilence;
  return {};
}

Status join_shard(Transport& transport, const SessionParameters& session, int shard, Time deadline,
                  std::function<Status()> ended) {
  const size_t frame_bytes = session.header_bytes() + session.payload_bytes;
  const auto slots = static_cast<size_t>(session.slots_per_shard());
  if (QueuePairs* pairs = transport.queue_pairs()) {
    const SlotRange range{slots * static_cast<size_t>(shard), slots};
    if (Status status = pairs->post_receive_windows(range, frame_bytes); !status.ok()) return status;
  }
  ControlClient client(transport, session.switch_endpoint, session.switch_name);
  client.wait_while(std::move(ended));
  Status status = client.join(session.membership(), shard, deadline).status();
  // A queue pair has keys of its own. They are agreed on now, by a request that changes nothing: what is sent without
  // them is lost, and over a card long in being missed.
  if (status.ok() && session.seal && transport.queue_pairs() != nullptr) status = client.close({}, deadline);
  return status;
}

namespace {

uint64_t open_sessions(const SwitchCounters& counters) {
  return counters.sessions_opened.get() - counters.sessions_closed.get() - counters.sessions_expired.get();
}

void leave(const SessionParameters& session, Time deadline) {
  // A close need not come from the member's address.
  const Endpoint to = for_requests(session.switch_endpoint);
  auto transport = connect_to_switch(to, session.seal);
  if (!transport.ok()) return;
  ControlClient client(*transport.value(), to, session.switch_name);
  if (const Status status = client.close(session.membership(), deadline); !status.ok()) {
    SWITCHML_LOG(kInfo) << "leaving job " << int{session.job} << ": " << status.message();
  }
}

}  // namespace

void leave(const std::vector<SessionParameters>& sessions, Time deadline) {
  for (size_t i = 0; i < sessions.size(); ++i) {
    // A dead switch takes no more than its part of the time.
    const Time now = monotonic_now();
    leave(sessions[i], now + (deadline - now) / static_cast<Duration::rep>(sessions.size() - i));
  }
}

void await_leavers(const SwitchServer& server, Duration patience) {
  const Time end = monotonic_now() + patience;
  while (open_sessions(server.counters()) != 0 && monotonic_now() < end) {
    std::this_thread::sleep_for(milliseconds(1));
  }
}

}  // namespace switchml
