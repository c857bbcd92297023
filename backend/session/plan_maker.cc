#include "session/plan_maker.h"

#include <thread>
#include <utility>

#include "base/interruption.h"
#include "base/limits.h"
#include "base/log.h"
#include "base/random.h"
#include "client/control_client.h"
#include "path/path_report.h"
#include "path/payload.h"
#include "session/joined.h"
#include "session/plan.h"

namespace switchml {

namespace {

constexpr Duration kRefusalPause = milliseconds(500);
constexpr size_t kLeastPacketsPayload = 1024;  // Packets of UDP carry it with the usual MTU of Ethernet.

}  // namespace

Result<Blob> PlanMaker::first(Links* links) {
  auto paths = opening_.hear_all("path");
  if (!paths.ok()) return paths.status();
  const auto summary = summarize_paths(paths.value());
  if (!summary.ok()) return summary.status();
  if (Status status = choose_workers(paths.value()); !status.ok()) return status;
  if (!summary->tcp_alone.empty()) return by_tcp_alone(summary->tcp_alone, links);
  const bool chooses = config().payload_bytes == 0;
  const size_t payload = chooses ? auto_payload(summary->frame_bytes) : config().payload_bytes;
  if (links->carrier() == Carrier::kPlaces && chooses && payload < kLeastPacketsPayload) warn_of_small_packets(payload);
  const auto granted = open_sessions(*links, wish(*links, payload, config().slots, links->carrier()), true);
  if (!granted.ok()) return granted.status();
  Blob plan = plan_of(granted.value());
  if (chooses && config().controller.empty() && summary->leaves_host) plan.set("check", 1);  // [PATH-2]
  offer_carriers(granted.value(), summary->leaves_host, &plan);
  place_.watch_meeting.write(&plan);
  return plan;
}

Result<Blob> PlanMaker::with_payload(const Links& links, size_t payload) {
  const auto granted = open_sessions(links, wish(links, payload, config().slots, links.carrier()), true);
  if (!granted.ok()) return granted.status();
  Blob plan = plan_of(granted.value());
  plan.set("check", 1);
  return plan;
}

Blob PlanMaker::another(const Links& links, size_t payload, int slots, Carrier over) {
  const auto granted = open_sessions(links, wish(links, payload, slots, over), false);
  if (!granted.ok()) {
    SWITCHML_LOG(kInfo) << group() << ": no other session: " << granted.status().message();
    return {};
  }
  Blob plan = plan_of(granted.value());
  plan.set("more", 1);
  if (over != links.carrier()) plan.set("carrier", name_of(over));
  return plan;
}

// Hosts, where their ranks share memory; else ranks.
Status PlanMaker::choose_workers(const std::vector<Blob>& paths) {
  if (place_.hosts.ranks() == 0) return {};
  const std::string why = HostMemory::first_without(paths);
  of_hosts_ = why.empty();
  if (of_hosts_) return {};
  const std::string cause = "ranks of one host cannot share memory (" + why + ")";
  if (opening_.group.size > kMaxWorkers) {
    return {Code::kUnavailable, cause + ", and " + std::to_string(opening_.group.size) +
                                    " that send to the switch by themselves are too many: allowed are up to " +
                                    std::to_string(kMaxWorkers) + "; let them share memory, or make smaller groups"};
  }
  SWITCHML_LOG(kWarning) << group() << ": " << cause << "; each sends to the switch by itself, which is slower";
  return {};
}

void PlanMaker::warn_of_small_packets(size_t payload) const {
  SWITCHML_LOG(kWarning) << group() << ": the cards' path MTU leaves packets " << payload
                         << " bytes of payload, where UDP carries 1024 and more: set the MTU of all hosts and "
                            "switches to 2144 or more, or SWITCHML_TRANSPORT to auto or udp";
}

// Which other carriers the ranks may take once the paths are known. Losses are injected where packets are. After a
// payload that did not pass there is no such offer: TCP might send segments that are lost without a word.
void PlanMaker::offer_carriers(const Grants& granted, bool leaves_host, Blob* plan) const {
  const auto& switches = place_.switches;
  const bool may_tcp = may_take_tcp(config()) && !place_.roster.faults;
  if (may_tcp && first_without(wire::kOpenStream, switches, granted).empty()) plan->set("tcp", 1);  // [RATE-7]
  if (!may_take_rdma(config())) return;
  const std::string without = first_without(wire::kOpenRdma, switches, granted);
  if (without.empty() && !place_.roster.faults) plan->set("rdma", 1);  // [RATE-9]
  if (without.empty() || !leaves_host) return;
  SWITCHML_LOG(kInfo) << group() << ": no RDMA: switch " << without
                      << " does not offer it; its log says why (level info), or it was started with --rdma off";
}

// There is no other session to exchange these for.
Result<Blob> PlanMaker::by_tcp_alone(const std::string& path, Links* links) {
  SWITCHML_LOG(kWarning) << group() << ": UDP does not pass " << path
                         << ", TCP does, and is used: open UDP between the hosts, or set SWITCHML_TRANSPORT=tcp, "
                            "which does not try it";
  if (Status status = links->connect(config(), opening_.group.rank, Carrier::kTcp); !status.ok()) return status;
  const size_t payload = config().payload_bytes != 0 ? config().payload_bytes : kMaxPayloadBytes;
  const auto granted = open_sessions(*links, wish(*links, payload, config().slots, Carrier::kTcp), true);
  if (!granted.ok()) return granted.status();
  Blob plan = plan_of(granted.value());
  plan.set("carrier", name_of(Carrier::kTcp));
  place_.watch_meeting.write(&plan);
  return plan;
}

SessionWish PlanMaker::wish(const Links& links, size_t payload, int slots, Carrier over) const {
  SessionWish wish;
  wish.workers = static_cast<size_t>(of_hosts_ ? place_.hosts.hosts() : opening_.group.size);
  wish.shards = static_cast<size_t>(of_hosts_ ? place_.hosts.owners() : config().shards);
  wish.of_hosts = of_hosts_;
  wish.payload = payload;
  wish.slots = slots;
  wish.carrier = over;
  wish.switches = links.switches.size();
  return wish;
}

// One with every switch, all of the payload that the first grants. `insists`: waits for what other jobs may give back.
Result<PlanMaker::Grants> PlanMaker::open_sessions(const Links& links, const SessionWish& wish, bool insists) {
  wire::Open asked = request_for(wish, config().precision);
  Grants granted;
  ++opens_;
  for (size_t number = 0; number < links.switches.size(); ++number) {
    const uint64_t invitation = links.switches[number].client_key;
    asked.client_key = invitation == 0 ? random_bits() : invitation + opens_ % kInvitations;
    bool may_change = false;
    auto reply = insists ? open_session(links, number, asked)
                         : ask(links, number, asked, opening_.time.stage_end(0.8), &may_change);
    if (!reply.ok()) return give_back(links, granted, reply.status());
    granted.push_back(reply.value());
    if (Status status = check_last_grant(config(), links.switches, granted); !status.ok())
      return give_back(links, granted, status);
    asked.payload = reply->payload;
  }
  if (opens_ == 1 && config().slots == 0 && place_.embedded != nullptr) advise(asked, granted[0]);
  return granted;
}

// What some have granted ends before its lease.
Status PlanMaker::give_back(const Links& links, const Grants& granted, const Status& why) const {
  for (size_t i = 0; i < granted.size(); ++i) {
    SessionParameters session;
    session.switch_endpoint = links.switches[i].endpoint;
    session.switch_name = links.switches[i].name;
    session.seal = links.switches[i].seal;
    session.job = granted[i].job;
    session.epoch = granted[i].epoch;
    session.session_key = granted[i].session_key;
    leave({session}, monotonic_now() + kLeaveTime);
  }
  return why;
}

void PlanMaker::advise(const wire::Open& asked, const wire::OpenReply& granted) const {
  const size_t queue = place_.embedded->limits().receive_buffer_bytes;
  const std::string advice = advice_on_slots(asked, granted, queue);
  if (!advice.empty()) SWITCHML_LOG(kWarning) << group() << ": " << advice;
}

// What is missing may be what a job that was killed a moment ago has not given back yet.
Result<wire::OpenReply> PlanMaker::open_session(const Links& links, size_t number, const wire::Open& asked) {
  const Time end = opening_.time.stage_end(0.9);
  for (bool told = false;; told = true) {
    bool may_change = false;
    auto granted = ask(links, number, asked, end, &may_change);
    if (granted.ok() || !may_change || monotonic_now() + kRefusalPause >= end) return granted;
    if (!told) {
      SWITCHML_LOG(kWarning) << group() << ": " << granted.status().message() << "; asking again for "
                             << to_seconds(end - monotonic_now()) << " s";
    }
    check_interruption();
    if (Status status = opening_.exchange.ended(); !status.ok()) return status;
    std::this_thread::sleep_for(kRefusalPause);
  }
}

Result<wire::OpenReply> PlanMaker::ask(const Links& links, size_t number, const wire::Open& asked, Time end,
                                       bool* may_change) {
  const ControllerEntry& controller = place_.controller;
  if (controller.client != nullptr) {
    auto granted = controller.client->open(asked, controller.ranks, number, group(), {}, end);
    *may_change = granted.status().code() == Code::kUnavailable;
    return granted;
  }
  const SwitchAddress& at = links.switches[number];
  ControlClient client(links.link(number, 0), at.endpoint, at.name);
  client.wait_while([this] { return opening_.exchange.ended(); });
  auto granted = client.open(asked, end);
  *may_change = client.lacked_room();
  return granted;
}

Blob PlanMaker::plan_of(const Grants& granted) const {
  Blob plan;
  for (size_t i = 0; i < granted.size(); ++i) {
    Blob one;
    write_grant(granted[i], &one);
    plan.put(session_key(i), one);
  }
  plan.set("secret0", random_bits());  // [WIT-1]
  plan.set("secret1", random_bits());
  plan.set("hosts", of_hosts_ ? "workers" : "");
  place_.roster.write_neighbours(busy_threads(granted.size()), &plan);
  return plan;
}

// By rank: those of the session, and of a switch that it hosts.
std::vector<int> PlanMaker::busy_threads(size_t switches) const {
  const int by_itself = config().shards * (sessions_move(config()) ? static_cast<int>(switches) : 1);
  std::vector<int> threads;
  for (int rank = 0; rank < opening_.group.size; ++rank) {
    const HostLayout& layout = place_.hosts;
    threads.push_back(!of_hosts_ ? by_itself : layout.place_of(rank) < layout.owners() ? 2 : 1);
  }
  for (const int rank : place_.switch_ranks) ++threads[static_cast<size_t>(rank)];
  return threads;
}

}  // namespace switchml
