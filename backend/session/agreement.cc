#include "session/agreement.h"

#include <algorithm>
#include <thread>
#include <utility>

#include "base/interruption.h"
#include "base/log.h"
#include "base/random.h"
#include "client/control_client.h"
#include "client/switch_address.h"
#include "client/udp_reach.h"
#include "path/path_check.h"
#include "path/path_report.h"
#include "path/path_speed.h"
#include "path/payload.h"
#include "session/hello.h"
#include "session/opening.h"
#include "session/place_agreement.h"
#include "socket/address.h"
#include "transport/tcp_reach.h"
#include "transport/udp_path.h"

namespace switchml {

namespace {

constexpr Duration kRefusalPause = milliseconds(500);
constexpr Duration kLeaveTime = milliseconds(200);
constexpr Duration kTellTime = milliseconds(100);
constexpr size_t kLeastPacketsPayload = 1024;  // Packets of UDP carry it with the usual MTU of Ethernet.
constexpr Duration kPartTime = seconds(2);
// A kernel repeats what asks for a connection after a second.
constexpr Duration kTcpPatience = milliseconds(1500);
// Pairs give up after half a second; other ranks may be as late.
constexpr Duration kCardPatience = seconds(3);
// Mbit/s, of a rank with a processor to itself, from which on datagrams are limited by the processor and not by the
// link (docs/performance.md).
constexpr double kFastLink = 1500;  // [RATE-7]

class Agreement {
 public:
  Agreement(const Config& config, const GroupInfo& group, Rendezvous& store, Time deadline,
            std::shared_ptr<ControllerClient> controller, const std::function<Status()>& ended, bool watched)
      : opening_(config, group, store, deadline, std::move(controller)) {
    opening_.watched = watched;
    if (!watched) opening_.agreed.watch = std::make_unique<OpeningWatch>(config, group, store);
    opening_.exchange.wait_while([this, ended] {
      const Status status = ended ? ended() : Status();
      return status.ok() && opening_.agreed.watch ? opening_.agreed.watch->lost() : status;
    });
  }

  Result<Agreed> run() {
    try {
      auto agreed = telling_others(opening_.exchange, [this] { return come_together(); });
      if (!agreed.ok()) part(agreed.status().code() != Code::kTimeout ? kPartTime : Duration(0));
      return agreed;
    } catch (...) {
      part(Duration(0));
      if (joins_) leave_all();
      throw;
    }
  }

 private:
  void part(Duration patience) {
    if (opening_.agreed.watch) opening_.agreed.watch->meet_no_more();
    opening_.exchange.part(patience);
  }

  Result<Agreed> come_together() {
    auto hello = hello_of(opening_.config, opening_.group);
    if (hello.ok() && opening_.agreed.watch) {
      opening_.time.awaiting([&] {
        opening_.agreed.watch->begin(&hello.value());
        return true;
      });
    }
    Status status = opening_.say("hello", hello);
    if (status.ok()) status = agree_on_place(opening_);
    if (status.ok() && opening_.agreed.memory == nullptr) {  // with it, no switch is needed
      status = opening_.say("path", path());
      if (status.ok()) status = enter_session(opening_.config.payload_bytes, opening_.config.slots);
      if (status.ok() && check_path_) status = settle_payload();
      if (status.ok() && check_path_ && (may_want_slots() || may_take_tcp_ || may_take_rdma_)) status = settle_speed();
    }
    if (!status.ok()) return status;
    return std::move(opening_.agreed);
  }

  // ---- memory of each host, beside a switch ----
  // On rank 0. False: ranks, not hosts, are the workers.
  bool hosts_have_memory(const std::vector<Blob>& paths) const {
    if (opening_.agreed.hosts.ranks() == 0) return false;
    const std::string why = HostMemory::first_without(paths);
    if (why.empty()) return true;
    SWITCHML_LOG(kWarning) << opening_.group.name << ": ranks of one host cannot share memory (" << why
                           << "); each sends to the switch by itself, which is slower";
    return false;
  }

  // All have fetched it, or none will use it.
  void take_host_memory(bool shared) {
    auto memory = opening_.memory.take();
    if (!shared) {
      opening_.agreed.hosts = {};
      return;
    }
    opening_.agreed.memory = std::move(memory);
    const HostLayout& hosts = opening_.agreed.hosts;
    SessionParameters& p = opening_.agreed.parameters;
    p.worker = hosts.host_of(opening_.group.rank);
    p.workers = hosts.hosts();
    p.ranks = hosts.ranks();
    p.worker_names = hosts.names();
    if (hosts.place_of(opening_.group.rank) >= hosts.owners()) opening_.agreed.transports.clear();
  }

  // ---- sessions ----
  bool is_alone() const { return opening_.switches.size() == 1; }
  const SessionParameters& session(size_t i) const {
    return i == 0 ? opening_.agreed.parameters : opening_.agreed.others[i - 1];
  }
  /// Of a session and a shard that this rank drives.
  Transport& link(size_t of_session, size_t shard) const {
    return *opening_.agreed.transports[of_session * own_shards() + shard];
  }
  size_t own_shards() const { return opening_.agreed.transports.size() / opening_.switches.size(); }
  void leave_all() const { leave(opening_.agreed.sessions(), monotonic_now() + kLeaveTime); }
  std::string switch_names() const {
    return is_alone() ? "switch " + opening_.switches.front().name
                      : std::to_string(opening_.switches.size()) + " aggregators";
  }

  // ---- path ----
  Result<Blob> path() {
    if (opening_.config.transport == "tcp") return path_of_tcp();
    const bool by_card = opening_.config.transport == "rdma", at_chip = !opening_.config.controller.empty();
    if (by_card && !at_chip) return path_of_connections(Carrier::kRdma);
    if (Status status = connect_over(by_card ? Carrier::kPlaces : Carrier::kPackets); !status.ok()) return status;
    size_t least = SIZE_MAX;
    bool leaves_host = false;
    std::string tcp_alone;
    for (const SwitchAddress& place : opening_.switches) {
      least = std::min(least, opening_.agreed.transports[0]->path_frame_bytes(place.endpoint));
      if (udp_path(place.endpoint).on_host) continue;
      leaves_host = true;
      if (tcp_alone.empty() && is_by_tcp_alone(place)) tcp_alone = place.name;
    }
    return path_report(least, leaves_host, opening_.memory.why_none(), tcp_alone);
  }

  // Losses are asked for where faults are.
  bool is_by_tcp_alone(const SwitchAddress& place) {
    if (!may_take_tcp(opening_.config) || !opening_.config.faults.empty()) return false;
    const auto number = static_cast<size_t>(&place - opening_.switches.data());
    return takes_tcp_alone(link(number, 0), place, opening_.time.stage_end(0.4),
                           [this] { return opening_.exchange.ended(); });
  }

  // Switches may start after their ranks.
  Result<Blob> path_of_tcp() {
    const Time end = opening_.time.stage_end(0.5);
    std::string why = why_no_tcp(endpoints(), end);
    while (!why.empty() && monotonic_now() + kRefusalPause < end) {
      std::this_thread::sleep_for(kRefusalPause);
      if (Status status = opening_.exchange.ended(); !status.ok()) return status;
      why = why_no_tcp(endpoints(), end);
    }
    if (!why.empty()) {
      return Status(Code::kUnavailable, "rank " + std::to_string(opening_.group.rank) + " cannot connect to switch " +
                                            why +
                                            (is_embedded(opening_.switches.front().name)
                                                 ? ": does TCP pass between the hosts? "
                                                 : ": is switchml-switchd running there, and does TCP pass? ") +
                                            "SWITCHML_TRANSPORT=auto or udp need no TCP");
    }
    return path_of_connections(Carrier::kTcp);
  }

  // There is nothing to find out about payloads.
  Result<Blob> path_of_connections(Carrier carrier) {
    if (Status status = connect_over(carrier); !status.ok()) return status;
    return path_report(kMaxPayloadBytes + wire::kExactHeaderBytes, false, opening_.memory.why_none());
  }

  std::vector<Endpoint> endpoints() const {
    std::vector<Endpoint> switches;
    for (const SwitchAddress& place : opening_.switches) switches.push_back(place.endpoint);
    return switches;
  }

  Status connect_over(Carrier carrier) {
    for (SwitchAddress& place : opening_.switches) place.endpoint = with_carrier(place.endpoint, carrier);
    if (sessions_ > 0 && opening_.agreed.transports.empty()) return {};  // others of its host send
    auto transports = connect_shards(opening_.config, opening_.group.rank, endpoints());
    if (!transports.ok()) return transports.status();
    opening_.agreed.transports = std::move(transports.value());
    return {};
  }
  Carrier carrier() const { return opening_.switches.front().endpoint.carrier; }

  // ---- plan ----
  // `payload`: in bytes; 0: what the ranks' hosts know that their paths carry. `slots`: 0: as the switch likes.
  Status enter_session(size_t payload, int slots) {
    if (opening_.group.rank == 0) {
      if (Status status = opening_.say(in_session("plan"), make_plan(payload, slots)); !status.ok()) return status;
    }
    auto plan = opening_.hear(in_session("plan"), "open a session with " + switch_names());
    return plan.ok() ? enter_session(plan.value()) : plan.status();
  }

  Status enter_session(const Blob& plan) {
    const Status status = read_plan(plan);
    return status.ok() ? join_all() : status;
  }

  // There are others, and what is said on them, only where the first one's payload or slots do not fit the paths.
  std::string in_session(const char* topic) const {
    return sessions_ == 0 ? topic : std::string(topic) + "/" + std::to_string(sessions_);
  }

  Result<Blob> make_plan(size_t payload, int slots) {
    auto paths = opening_.hear_all("path");
    if (!paths.ok()) return paths.status();
    const auto summary = summarize_paths(paths.value());
    if (!summary.ok()) return summary.status();
    const bool hosts = sessions_ == 0 ? hosts_have_memory(paths.value()) : opening_.agreed.hosts.ranks() > 0;
    if (!summary->tcp_alone.empty()) return plan_by_tcp_alone(summary->tcp_alone, payload, slots, hosts);
    const size_t wanted = payload != 0 ? payload : auto_payload(summary->frame_bytes);
    if (carrier() == Carrier::kPlaces && payload == 0 && wanted < kLeastPacketsPayload) warn_of_small_packets(wanted);
    auto opened = open_sessions(wish(hosts, wanted, slots, carrier()), hosts, true);
    if (!opened.ok()) return opened.status();
    Blob plan = std::move(opened.value());
    if (opening_.config.payload_bytes == 0 && opening_.config.controller.empty() && summary->leaves_host)  // [PATH-2]
      plan.set("check", 1);
    if (sessions_ > 0) return plan;
    // Later less passes than the hosts know of, and TCP might send segments that are lost without a word.
    if (may_take_tcp(opening_.config) && all_offer(plan, wire::kOpenStream)) plan.set("tcp", 1);  // [RATE-7]
    if (may_take_rdma(opening_.config) && all_offer(plan, wire::kOpenRdma)) plan.set("rdma", 1);  // [RATE-9]
    const std::string without = first_without(plan, wire::kOpenRdma);
    if (may_take_rdma(opening_.config) && summary->leaves_host && !without.empty()) {
      SWITCHML_LOG(kInfo) << opening_.group.name << ": no RDMA: switch " << without
                          << " does not offer it; its log says why (level info), or it was started with --rdma off";
    }
    offer_watch(opening_, &plan);
    return plan;
  }

  void warn_of_small_packets(size_t payload) const {
    SWITCHML_LOG(kWarning) << opening_.group.name << ": the cards' path MTU leaves packets " << payload
                           << " bytes of payload, where UDP carries 1024 and more: set the MTU of all hosts and "
                              "switches to 2144 or more, or SWITCHML_TRANSPORT to auto or udp";
  }

  // Of the first sessions, on rank 0: there are none to exchange.
  Result<Blob> plan_by_tcp_alone(const std::string& path, size_t payload, int slots, bool hosts) {
    SWITCHML_LOG(kWarning) << opening_.group.name << ": UDP does not pass " << path
                           << ", TCP does, and is used: open UDP between the hosts, or set SWITCHML_TRANSPORT=tcp, "
                              "which does not try it";
    if (Status status = connect_over(Carrier::kTcp); !status.ok()) return status;
    auto plan = open_sessions(wish(hosts, payload != 0 ? payload : kMaxPayloadBytes, slots, carrier()), hosts, true);
    if (!plan.ok()) return plan;
    plan->set("carrier", name_of(Carrier::kTcp));
    offer_watch(opening_, &plan.value());
    return plan;
  }

  // Sessions as granted. Losses are asked for where packets are.
  bool all_offer(const Blob& plan, uint64_t flag) const {
    return !opening_.faults && first_without(plan, flag).empty();
  }

  std::string first_without(const Blob& plan, uint64_t flag) const {
    for (size_t i = 0; i < opening_.switches.size(); ++i) {
      uint64_t flags = 0;
      const bool read = plan.inner("session/" + std::to_string(i)).number("flags", 255, &flags);
      if (!read || (flags & wire::kOpenExact) == 0 || (flags & flag) == 0) return opening_.switches[i].name;
    }
    return {};
  }

  // One with every switch, all of the payload that the first grants. `insists`: waits for what other jobs may give
  // back.
  Result<Blob> open_sessions(wire::Open asked, bool hosts, bool insists) {
    std::vector<wire::OpenReply> granted;
    ++opens_;
    for (const SwitchAddress& place : opening_.switches) {
      asked.client_key = client_key(place);
      bool may_change = false;
      auto reply = insists ? open_session(place, asked)
                           : ask_for_session(place, asked, opening_.time.stage_end(0.8), &may_change);
      if (!reply.ok()) return give_back(granted, reply.status());
      granted.push_back(reply.value());
      if (Status status = check_grant(place, granted); !status.ok()) return give_back(granted, status);
      asked.payload = reply->payload;
    }
    if (opens_ == 1 && opening_.config.slots == 0 && opening_.agreed.embedded != nullptr) advise(asked, granted[0]);
    return plan_of(granted, hosts);
  }

  uint64_t client_key(const SwitchAddress& place) const {
    return place.client_key == 0 ? random_bits() : place.client_key + opens_ % kInvitations;
  }

  Status check_grant(const SwitchAddress& place, const std::vector<wire::OpenReply>& granted) const {
    const bool integers = (granted.back().flags & wire::kOpenExact) == 0;
    if (integers && opening_.config.precision == Precision::kExact) {
      return {Code::kInvalidArgument, "SWITCHML_PRECISION=\"exact\" cannot be had: switch " + place.name +
                                          " adds integers; use auto, or a switch in software"};
    }
    if (opening_.config.precision == Precision::kExact && (granted.back().flags & wire::kOpenTree) != 0) {
      return {Code::kInvalidArgument,
              "SWITCHML_PRECISION=\"exact\" cannot be had: the ranks are at several switches of controller " +
                  opening_.config.controller + ", and each of these rounds; use auto, or ranks at one switch"};
    }
    if (is_alone()) return {};
    if (integers && opening_.config.controller.empty()) {
      return {Code::kInvalidArgument,
              "switch " + place.name + " adds integers, and cannot be one of several: name it alone"};
    }
    if (granted.back().payload == granted.front().payload) return {};  // [SHARE-1]
    return {Code::kInvalidArgument, "switch " + place.name + " grants " + std::to_string(granted.back().payload) +
                                        " bytes of payload, and switch " + opening_.switches.front().name + " " +
                                        std::to_string(granted.front().payload) +
                                        ": set SWITCHML_PAYLOAD to what all of them take"};
  }

  // What some have granted ends before its lease.
  Status give_back(const std::vector<wire::OpenReply>& granted, const Status& why) const {
    for (size_t i = 0; i < granted.size(); ++i) {
      SessionParameters session;
      session.switch_endpoint = opening_.switches[i].endpoint;
      session.switch_name = opening_.switches[i].name;
      session.job = granted[i].job;
      session.epoch = granted[i].epoch;
      session.session_key = granted[i].session_key;
      leave({session}, monotonic_now() + kLeaveTime);
    }
    return why;
  }

  wire::Open wish(bool hosts, size_t payload, int slots, Carrier carrier) const {
    wire::Open asked;
    asked.workers = static_cast<uint16_t>(hosts ? opening_.agreed.hosts.hosts() : opening_.group.size);
    asked.shards = static_cast<uint16_t>(hosts ? opening_.agreed.hosts.owners() : opening_.config.shards);
    asked.payload = static_cast<uint32_t>(payload);
    asked.slots = static_cast<uint16_t>(slots);
    if (opening_.config.precision != Precision::kInteger && carrier != Carrier::kPlaces)
      asked.flags |= wire::kOpenExact;  // [EXACT-1]
    asked.flags |= open_flag_of(carrier);
    if (slots == 0 && !may_lose_frames(carrier)) {
      asked.slots = static_cast<uint16_t>(asked.shards * kLeastExactForBulk);
    } else if (slots == 0 && payload <= kMostPayloadForStreams) {
      asked.slots = preset_slots(hosts, asked.shards);
    }
    return asked;
  }

  // Where it is not what a switch gives by itself (0). As many as two streams take on each rank that sends; of several
  // switches no more together than a single one gives, as long as that is so many: what waits in links is waited for.
  uint16_t preset_slots(bool hosts, size_t shards) const {
    constexpr auto kLeast = size_t{kLeastSlotsForBulk};
    if (is_alone()) return static_cast<uint16_t>(hosts && shards * kLeast > kPresetSlots ? shards * kLeast : 0);
    const size_t part = kPresetSlots / (opening_.switches.size() * shards);
    return static_cast<uint16_t>(shards * std::clamp(part, size_t{kLeastExactForBulk}, kLeast));
  }

  void advise(const wire::Open& asked, const wire::OpenReply& granted) const {
    const size_t queue = opening_.agreed.embedded->limits().receive_buffer_bytes;
    const std::string advice = advice_on_slots(asked, granted, queue);
    if (!advice.empty()) SWITCHML_LOG(kWarning) << opening_.group.name << ": " << advice;
  }

  // What is missing may be what a job that was killed a moment ago has not given back yet.
  Result<wire::OpenReply> open_session(const SwitchAddress& place, const wire::Open& asked) {
    const Time end = opening_.time.stage_end(0.9);
    for (bool told = false;; told = true) {
      bool may_change = false;
      auto granted = ask_for_session(place, asked, end, &may_change);
      if (granted.ok() || !may_change || monotonic_now() + kRefusalPause >= end) return granted;
      if (!told) {
        SWITCHML_LOG(kWarning) << opening_.group.name << ": " << granted.status().message() << "; asking again for "
                               << to_seconds(end - monotonic_now()) << " s";
      }
      check_interruption();
      if (Status status = opening_.exchange.ended(); !status.ok()) return status;
      std::this_thread::sleep_for(kRefusalPause);
    }
  }

  Result<wire::OpenReply> ask_for_session(const SwitchAddress& place, const wire::Open& asked, Time end,
                                          bool* may_change) {
    const auto number = static_cast<size_t>(&place - opening_.switches.data());
    const ControllerEntry& controller = opening_.agreed.controller;
    if (controller.client != nullptr) {
      auto granted = controller.client->open(asked, controller.ranks, number, opening_.group.name, {}, end);
      *may_change = granted.status().code() == Code::kUnavailable;
      return granted;
    }
    ControlClient client(link(number, 0), place.endpoint, place.name);
    client.wait_while([this] { return opening_.exchange.ended(); });
    auto granted = client.open(asked, end);
    *may_change = client.lacked_room();
    return granted;
  }

  Blob plan_of(const std::vector<wire::OpenReply>& granted, bool hosts) const {
    Blob plan;
    for (size_t i = 0; i < granted.size(); ++i) {
      Blob one;
      write_grant(granted[i], &one);
      plan.put("session/" + std::to_string(i), one);
    }
    plan.set("secret0", random_bits());  // [WIT-1]
    plan.set("secret1", random_bits());
    plan.set("hosts", hosts ? "workers" : "");
    tell_neighbours(opening_, busy_threads(hosts), &plan);
    return plan;
  }

  // By rank: those of the session, and of a switch that it hosts.
  std::vector<int> busy_threads(bool hosts) const {
    const int by_itself =
        opening_.config.shards * (sessions_move(opening_.config) ? static_cast<int>(opening_.switches.size()) : 1);
    std::vector<int> threads;
    for (int rank = 0; rank < opening_.group.size; ++rank) {
      const HostLayout& layout = opening_.agreed.hosts;
      threads.push_back(!hosts ? by_itself : layout.place_of(rank) < layout.owners() ? 2 : 1);
    }
    for (const int rank : opening_.switch_ranks) ++threads[static_cast<size_t>(rank)];
    return threads;
  }

  Status read_plan(const Blob& plan) {
    SessionParameters& p = opening_.agreed.parameters;
    p.shards = opening_.config.shards;
    for (const Carrier other : {Carrier::kPackets, Carrier::kTcp, Carrier::kRdma}) {
      if (plan.text("carrier") != name_of(other) || carrier() == other) continue;
      if (Status status = connect_over(other); !status.ok()) return status;
    }
    if (sessions_ == 0 && opening_.agreed.hosts.ranks() > 0) take_host_memory(!plan.text("hosts").empty());
    if (opening_.agreed.hosts.ranks() > 0) p.shards = opening_.agreed.hosts.owners();
    if (!plan.number("secret0", UINT64_MAX, &p.secret[0]) || !plan.number("secret1", UINT64_MAX, &p.secret[1])) {
      return {Code::kMismatch, "rank 0 sent no secret: install the same switchml on all ranks"};
    }
    p.controlled = !opening_.config.controller.empty();
    if (Status status = read_sessions(plan); !status.ok()) return status;
    check_path_ = plan.text("check") == "1";
    may_take_tcp_ = plan.text("tcp") == "1";
    may_take_rdma_ = plan.text("rdma") == "1";
    read_neighbours(opening_, plan);
    if (sessions_ == 0) read_watch(opening_, plan);
    return {};
  }

  // What they have in common is known.
  Status read_sessions(const Blob& plan) {
    std::vector<SessionParameters> sessions;
    for (const SwitchAddress& place : opening_.switches) {
      SessionParameters session = opening_.agreed.parameters;
      session.switch_endpoint = place.endpoint;
      session.switch_name = place.name;
      session.weight = place.weight;
      session.tree_id = place.tree_id;
      if (static_cast<size_t>(session.workers) == opening_.switches.size()) session.beside = place.host;
      const Blob grant = plan.inner("session/" + std::to_string(sessions.size()));
      if (Status status = read_grant(grant, &session); !status.ok()) return status;
      session.least_chunk_bytes = session.exact && !may_lose_frames(carrier()) ? kLeastTcpChunk : 0;
      sessions.push_back(std::move(session));
    }
    opening_.agreed.parameters = sessions.front();
    opening_.agreed.others.assign(sessions.begin() + 1, sessions.end());
    return {};
  }

  // ---- joined ----
  Status join_sessions(Time end) {
    for (size_t i = 0; i < opening_.switches.size(); ++i) {
      for (size_t shard = 0; shard < own_shards(); ++shard) {
        const int number = first_shard() + static_cast<int>(shard);
        const Status status =
            join_shard(link(i, shard), session(i), number, end, [this] { return opening_.exchange.ended(); });
        if (!status.ok()) return status;
      }
    }
    return {};
  }

  Status join_all() {
    joins_ = true;
    Status mine = join_sessions(opening_.time.stage_end(0.95));
    if (!mine.ok()) mine = opening_.exchange.cause_of(mine, opening_.time.gather_end() - kTellTime);
    Status status = opening_.say(in_session("joined"), mine.ok() ? Result<Blob>(Blob()) : Result<Blob>(mine));
    if (status.ok()) status = opening_.hear_all(in_session("joined")).status();
    if (!status.ok()) leave_all();
    return status;
  }

  int first_shard() const {
    return opening_.agreed.hosts.ranks() > 0 ? opening_.agreed.hosts.place_of(opening_.group.rank) : 0;
  }

  // ---- payload ----
  // A payload that does not pass is exchanged for one that does, which takes another session.
  Status settle_payload() {
    for (;;) {
      const auto passes = compare_paths();
      if (passes.ok() && passes.value() >= opening_.agreed.parameters.payload_bytes) return {};  // [PATH-10]
      leave_all();
      if (!passes.ok()) return passes.status();
      ++sessions_;
      // [PATH-10]
      if (Status entered = enter_session(passes.value(), opening_.config.slots); !entered.ok()) return entered;
    }
  }

  // What passes between the switch and every rank.
  Result<size_t> compare_paths() {
    const std::string topic = in_session("passes");
    if (Status status = opening_.say(topic, checked_path()); !status.ok()) return status;
    if (opening_.group.rank == 0) {
      if (Status status = opening_.say(in_session("payload"), least_of(topic)); !status.ok()) return status;
    }
    const auto said = opening_.hear(in_session("payload"), "say which payload passes on all paths");  // [PATH-9]
    return said.ok() ? read_payload(said.value()) : said.status();
  }

  Result<Blob> checked_path() {
    if (first_shard() > 0)
      return payload_report(opening_.agreed.parameters.payload_bytes);  // another rank asks for the host
    size_t least = opening_.agreed.parameters.payload_bytes;
    for (size_t i = 0; i < opening_.switches.size(); ++i) {
      const auto passes = check_path(link(i, 0), session(i), opening_.time.stage_end(0.98));
      if (!passes.ok()) return passes.status();
      least = std::min(least, passes.value());
    }
    return payload_report(least);
  }

  Result<Blob> least_of(const std::string& topic) {
    const auto paths = opening_.hear_all(topic);
    if (!paths.ok()) return paths.status();
    const auto least = least_payload(paths.value(), opening_.agreed.parameters.payload_bytes, opening_.group.name);
    if (!least.ok()) return least.status();
    return payload_report(least.value());
  }

  // ---- speed ----
  // Slots that are too few for paths that are long or fast are exchanged for more of them, and UDP for RDMA where there
  // are cards, or for TCP where links are so fast that the processor is the limit. All of that if the switches have
  // room beside what the ranks hold until then.
  Status settle_speed() {
    const auto plan = compare_speeds();
    if (plan.ok() && plan->text("more") != "1") return {};
    leave_all();
    if (!plan.ok()) return plan.status();
    ++sessions_;
    return plan->text("carrier") == "rdma" ? try_cards(plan.value()) : enter_session(plan.value());
  }

  // Several switches have windows enough together.
  bool may_want_slots() const { return opening_.config.slots == 0 && is_alone(); }  // [RATE-1]

  // The plan of another session, or nothing.
  Result<Blob> compare_speeds() {
    const std::string topic = in_session("speed");
    if (Status status = opening_.say(topic, measured_paths()); !status.ok()) return status;
    if (opening_.group.rank == 0) {
      if (Status status = opening_.say(in_session("slots"), better_session(topic)); !status.ok()) return status;
    }
    return opening_.hear(in_session("slots"), "say how many slots the paths take");
  }

  Result<Blob> measured_paths() {
    if (first_shard() > 0) return Blob();  // another rank says so for the host
    std::vector<TimedLink> links;
    for (size_t i = 0; i < opening_.switches.size(); ++i) {
      links.push_back({&link(i, 0), &session(i), udp_path(opening_.switches[i].endpoint).on_host});
    }
    auto speed = measure_paths(links, opening_.time.stage_end(0.98));
    if (!speed.ok()) return speed.status();
    // Ranks that share a processor are at its limit at a lower rate. [RATE-8]
    const MachineRanks& local = opening_.agreed.local;
    speed->rate *= std::max(1.0, static_cast<double>(local.count) / std::max(1, local.processors));
    // Also where its own links are slow: most of the others' may be fast.
    const std::string why = may_take_tcp_ ? why_no_tcp(endpoints(), monotonic_now() + kTcpPatience) : "";
    const std::string no_card = may_take_rdma_ ? why_no_rdma(opening_.config, endpoints()) : "";
    return speed_report(speed.value(), link(0, 0).limits().receive_buffer_bytes, why, no_card);
  }

  Result<Blob> better_session(const std::string& topic) {
    auto paths = opening_.hear_all(topic);
    if (!paths.ok()) return paths.status();
    const PathNeeds needs = needs_of_paths(paths.value());
    const bool has_time = monotonic_now() < opening_.time.stage_end(0.7);
    const bool fast = may_take_tcp_ && needs.rate >= kFastLink;
    SWITCHML_LOG(kInfo) << opening_.group.name << ": links carry about " << needs.rate
                        << " Mbit/s for each processor (0: not known), "
                        << (!fast                      ? "for which UDP is the better one"
                            : needs.why_no_tcp.empty() ? "for which TCP is the better one"
                                                       : "but no TCP " + needs.why_no_tcp)
                        << (has_time ? "" : "; it is late for another session");
    takes_tcp_ = fast && needs.why_no_tcp.empty();
    if (has_time && may_take_rdma_) {
      if (needs.why_no_rdma.empty()) return plan_over(Carrier::kRdma);
      SWITCHML_LOG(kInfo) << opening_.group.name << ": no RDMA: " << needs.why_no_rdma;
    }
    if (takes_tcp_ && has_time) return plan_over(Carrier::kTcp);
    return may_want_slots() && has_time ? plan_with_slots(needs) : Blob();
  }

  Blob plan_with_slots(const PathNeeds& needs) {
    const SessionParameters& p = opening_.agreed.parameters;
    const int slots = slots_for(needs.chunks, needs.queue_bytes, p);
    SWITCHML_LOG(kInfo) << opening_.group.name << ": " << needs.chunks
                        << " chunks fill the paths (0: not known), for which " << p.slots << " slots "
                        << (slots == p.slots ? "do" : "are few");
    if (slots <= p.slots) return {};
    Blob plan = another(p.payload_bytes, slots, Carrier::kPackets);
    SessionParameters offered = p;
    if (plan.text("more") != "1" || !read_grant(plan.inner("session/0"), &offered).ok()) return {};
    if (offered.slots > p.slots && offered.payload_bytes == p.payload_bytes) return plan;  // [RATE-6]
    leave({offered}, monotonic_now() + kLeaveTime);
    SWITCHML_LOG(kInfo) << opening_.group.name << ": the switch has no more slots";
    return {};
  }

  Blob plan_over(Carrier stream) { return another(kMaxPayloadBytes, opening_.config.slots, stream); }

  // The plan of other sessions with the same switches, beside those that there are; or nothing.
  Blob another(size_t payload, int slots, Carrier over) {
    const bool hosts = opening_.agreed.hosts.ranks() > 0;
    auto plan = open_sessions(wish(hosts, payload, slots, over), hosts, false);
    if (!plan.ok()) {
      SWITCHML_LOG(kInfo) << opening_.group.name << ": no other session: " << plan.status().message();
      return {};
    }
    plan->set("more", 1);
    if (over != carrier()) plan->set("carrier", name_of(over));
    return std::move(plan.value());
  }

  // ---- cards ----
  // A card that is there need not reach a switch. Where one does not, packets are used after all. [RATE-10]
  Status try_cards(const Blob& plan) {
    const SessionParameters before = opening_.agreed.parameters;
    Blob mine;
    mine.set("why", reach_by_card(plan).message());
    Status status = opening_.say(in_session("reached"), mine);
    if (status.ok() && opening_.group.rank == 0) status = opening_.say(in_session("instead"), plan_instead(before));
    const auto instead = status.ok() ? opening_.hear(in_session("instead"), "say whether cards reach " + switch_names())
                                     : Result<Blob>(status);
    if (instead.ok() && instead->text("more") != "1") return {};
    leave_all();
    if (!instead.ok()) return instead.status();
    ++sessions_;
    return enter_session(instead.value());
  }

  Status reach_by_card(const Blob& plan) {
    if (Status status = read_plan(plan); !status.ok()) return status;
    joins_ = true;
    const Time end = std::min(opening_.time.stage_end(0.9), monotonic_now() + kCardPatience);
    if (Status status = join_sessions(end); !status.ok()) return status;
    if (first_shard() > 0) return {};  // another rank asks for the host
    for (size_t i = 0; i < opening_.switches.size(); ++i) {
      if (Status status = check_path(link(i, 0), session(i), end).status(); !status.ok()) return status;
    }
    return {};
  }

  // On rank 0. Nothing: all cards reach all switches.
  Result<Blob> plan_instead(const SessionParameters& before) {
    const auto reports = opening_.hear_all(in_session("reached"));
    if (!reports.ok()) return reports.status();
    const std::string why = HostMemory::first_without(reports.value());
    if (why.empty()) return Blob();
    SWITCHML_LOG(kWarning) << opening_.group.name << ": cards are there, but RDMA does not work (" << why << "). "
                           << (takes_tcp_ ? "TCP" : "UDP") << " is used; SWITCHML_TRANSPORT=udp does not try cards";
    Blob plan = takes_tcp_ ? plan_over(Carrier::kTcp) : another(before.payload_bytes, before.slots, Carrier::kPackets);
    if (plan.text("more") == "1") return plan;
    return Status(Code::kUnavailable, "RDMA does not work (" + why + "), and " + switch_names() +
                                          " had no room for another session: SWITCHML_TRANSPORT=udp does not try it");
  }

  Opening opening_;
  bool joins_ = false;          // a session
  bool check_path_ = false;     // what passes is to be found out
  bool may_take_tcp_ = false;   // nothing forbids it, and all switches say that ranks gain by it
  bool may_take_rdma_ = false;  // the same of cards
  bool takes_tcp_ = false;      // on rank 0, where no cards are taken
  int sessions_ = 0;            // that were left for one of a smaller payload, of more slots, or over another carrier
  uint64_t opens_ = 0;          // of each switch, on rank 0
};

}  // namespace

Result<Agreed> agree(const Config& config, const GroupInfo& group, Rendezvous& store, Time deadline,
                     std::shared_ptr<ControllerClient> controller, const std::function<Status()>& ended, bool watched) {
  return Agreement(config, group, store, deadline, std::move(controller), ended, watched).run();
}

}  // namespace switchml
