#include "session/agreement.h"

#include <algorithm>
#include <thread>
#include <utility>

#include "base/interruption.h"
#include "base/log.h"
#include "session/control_client.h"
#include "session/hello.h"
#include "session/opening.h"
#include "session/path_check.h"
#include "session/path_report.h"
#include "session/path_speed.h"
#include "session/payload.h"
#include "session/place_agreement.h"
#include "session/random.h"
#include "session/switch_place.h"
#include "transport/udp_path.h"

namespace switchml {

namespace {

constexpr Duration kRefusalPause = milliseconds(500);
constexpr Duration kLeaveTime = milliseconds(200);

class Agreement {
 public:
  Agreement(const Config& config, const GroupInfo& group, Rendezvous& store, Time deadline,
            std::shared_ptr<ControllerClient> controller)
      : opening_(config, group, store, deadline, std::move(controller)) {}

  Result<Agreed> run() {
    try {
      return telling_others(opening_.roll, [this] { return come_together(); });
    } catch (...) {
      if (joins_) leave(opening_.agreed.parameters, monotonic_now() + kLeaveTime);
      throw;
    }
  }

 private:
  Result<Agreed> come_together() {
    Status status = opening_.say("hello", hello_of(opening_.config, opening_.group));
    if (status.ok()) status = agree_on_place(opening_);
    if (status.ok() && opening_.agreed.memory == nullptr) {  // with it, no switch is needed
      status = opening_.say("path", path());
      if (status.ok()) status = enter_session(opening_.config.payload_bytes, opening_.config.slots);
      if (status.ok() && check_path_) status = settle_payload();
      if (status.ok() && check_path_ && opening_.config.slots == 0) status = settle_slots();
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

  // ---- path ----
  Result<Blob> path() {
    const Endpoint& to = opening_.agreed.parameters.switch_endpoint;
    auto transports = connect_shards(opening_.config, opening_.group.rank, to);
    if (!transports.ok()) return transports.status();
    opening_.agreed.transports = std::move(transports.value());
    return path_report(opening_.agreed.transports[0]->path_frame_bytes(to), !udp_path(to).on_host,
                       opening_.memory.why_none());
  }

  // ---- plan ----
  // `payload`: in bytes; 0: what the ranks' hosts know that their paths carry. `slots`: 0: as the switch likes.
  Status enter_session(size_t payload, int slots) {
    if (opening_.group.rank == 0) {
      if (Status status = opening_.say(in_session("plan"), make_plan(payload, slots)); !status.ok()) return status;
    }
    auto plan =
        opening_.hear(in_session("plan"), "open a session with switch " + opening_.agreed.parameters.switch_name);
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
    const wire::Open asked = wish(hosts, payload != 0 ? payload : auto_payload(summary->frame_bytes), slots);
    auto granted = open_session(asked);
    if (!granted.ok()) return granted.status();
    if (sessions_ == 0 && slots == 0 && opening_.agreed.embedded != nullptr) advise(asked, granted.value());
    Blob plan = plan_of(granted.value(), hosts);
    if (opening_.config.payload_bytes == 0 && opening_.config.controller.empty() && summary->leaves_host)
      plan.set("check", 1);
    if (sessions_ == 0) offer_watch(opening_, &plan);
    return plan;
  }

  wire::Open wish(bool hosts, size_t payload, int slots) const {
    wire::Open asked;
    asked.client_key = random_bits();
    asked.workers = static_cast<uint16_t>(hosts ? opening_.agreed.hosts.hosts() : opening_.group.size);
    asked.shards = static_cast<uint16_t>(hosts ? opening_.agreed.hosts.owners() : opening_.config.shards);
    asked.payload = static_cast<uint32_t>(payload);
    asked.slots = static_cast<uint16_t>(slots);
    // A group that may lose its switch speaks in what the ranks can add over Gloo.
    if (!opening_.config.integers && !opening_.config.fallback) asked.flags = wire::kOpenNative;
    // As many as two streams take on each rank that sends, where a switch would give fewer.
    const size_t least = size_t{asked.shards} * LaneSlots::kLeastSlotsForBulk;
    if (slots == 0 && hosts && least > kPresetSlots && payload <= kMostPayloadForStreams) {
      asked.slots = static_cast<uint16_t>(least);
    }
    return asked;
  }

  void advise(const wire::Open& asked, const wire::OpenReply& granted) const {
    const size_t queue = opening_.agreed.embedded->limits().receive_buffer_bytes;
    const std::string advice = advice_on_slots(asked, granted, queue);
    if (!advice.empty()) SWITCHML_LOG(kWarning) << opening_.group.name << ": " << advice;
  }

  // What lacks may be what a job that was killed a moment ago has not given back yet.
  Result<wire::OpenReply> open_session(const wire::Open& asked) {
    const Time end = opening_.time.stage_end(0.9);
    for (bool told = false;; told = true) {
      bool may_change = false;
      auto granted = ask_for_session(asked, end, &may_change);
      if (granted.ok() || !may_change || monotonic_now() + kRefusalPause >= end) return granted;
      if (!told) {
        SWITCHML_LOG(kWarning) << opening_.group.name << ": " << granted.status().message() << "; asking again for "
                               << to_seconds(end - monotonic_now()) << " s";
      }
      check_interruption();
      std::this_thread::sleep_for(kRefusalPause);
    }
  }

  Result<wire::OpenReply> ask_for_session(const wire::Open& asked, Time end, bool* may_change) {
    const ControllerEntry& controller = opening_.agreed.controller;
    if (controller.client != nullptr) {
      auto granted = controller.client->open(asked, controller.ranks, opening_.group.name, end);
      *may_change = granted.status().code() == Code::kUnavailable;
      return granted;
    }
    if (opening_.agreed.embedded != nullptr) opening_.agreed.embedded->invite(asked.client_key);
    ControlClient client(*opening_.agreed.transports[0], opening_.agreed.parameters.switch_endpoint,
                         opening_.agreed.parameters.switch_name);
    auto granted = client.open(asked, end);
    *may_change = client.lacked_room();
    return granted;
  }

  Blob plan_of(const wire::OpenReply& granted, bool hosts) const {
    Blob plan;
    write_grant(granted, &plan);
    plan.set("secret0", random_bits());
    plan.set("secret1", random_bits());
    plan.set("hosts", hosts ? "workers" : "");
    for (int rank = 0; rank < opening_.group.size; ++rank) {
      plan.set("local/" + std::to_string(rank),
               to_text(local_ranks(opening_.hosts, rank, opening_.agreed.embedded != nullptr)));
    }
    return plan;
  }

  Status read_plan(const Blob& plan) {
    SessionParameters& p = opening_.agreed.parameters;
    p.shards = opening_.config.shards;
    if (sessions_ == 0 && opening_.agreed.hosts.ranks() > 0) take_host_memory(!plan.text("hosts").empty());
    if (opening_.agreed.hosts.ranks() > 0) p.shards = opening_.agreed.hosts.owners();
    if (Status status = read_grant(plan, &p); !status.ok()) return status;
    if (!plan.number("secret0", UINT64_MAX, &p.secret[0]) || !plan.number("secret1", UINT64_MAX, &p.secret[1])) {
      return {Code::kMismatch, "rank 0 sent no secret: install the same switchml on all ranks"};
    }
    p.controlled = !opening_.config.controller.empty();
    check_path_ = plan.text("check") == "1";
    opening_.agreed.local = read_local_ranks(plan.text("local/" + std::to_string(opening_.group.rank)));
    if (sessions_ == 0) read_watch(opening_, plan);
    return {};
  }

  // ---- joined ----
  Status join_all() {
    joins_ = true;
    const Status mine = join_shards(opening_.agreed.transports, opening_.agreed.parameters,
                                    opening_.time.stage_end(0.95), first_shard());
    Status status = opening_.say(in_session("joined"), mine.ok() ? Result<Blob>(Blob()) : Result<Blob>(mine));
    if (status.ok()) status = opening_.hear_all(in_session("joined")).status();
    if (!status.ok()) leave(opening_.agreed.parameters, monotonic_now() + kLeaveTime);
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
      if (passes.ok() && passes.value() >= opening_.agreed.parameters.payload_bytes) return {};
      leave(opening_.agreed.parameters, monotonic_now() + kLeaveTime);
      if (!passes.ok()) return passes.status();
      ++sessions_;
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
    const auto said = opening_.hear(in_session("payload"), "say which payload passes on all paths");
    return said.ok() ? read_payload(said.value()) : said.status();
  }

  Result<Blob> checked_path() {
    if (first_shard() > 0)
      return payload_report(opening_.agreed.parameters.payload_bytes);  // another rank asks for the host
    const auto passes =
        check_path(*opening_.agreed.transports[0], opening_.agreed.parameters, opening_.time.stage_end(0.98));
    if (!passes.ok()) return passes.status();
    return payload_report(passes.value());
  }

  Result<Blob> least_of(const std::string& topic) {
    const auto paths = opening_.hear_all(topic);
    if (!paths.ok()) return paths.status();
    const auto least = least_payload(paths.value(), opening_.agreed.parameters.payload_bytes, opening_.group.name);
    if (!least.ok()) return least.status();
    return payload_report(least.value());
  }

  // ---- slots ----
  // Slots that are too few for paths that are long or fast are exchanged for more of them, if the switch has these
  // beside those that the ranks hold until then.
  Status settle_slots() {
    const auto plan = compare_speeds();
    if (plan.ok() && plan->text("more") != "1") return {};
    leave(opening_.agreed.parameters, monotonic_now() + kLeaveTime);
    if (!plan.ok()) return plan.status();
    ++sessions_;
    return enter_session(plan.value());
  }

  // The plan of a session with more slots, or nothing.
  Result<Blob> compare_speeds() {
    const std::string topic = in_session("speed");
    if (Status status = opening_.say(topic, timed_path()); !status.ok()) return status;
    if (opening_.group.rank == 0) {
      if (Status status = opening_.say(in_session("slots"), more_slots(topic)); !status.ok()) return status;
    }
    return opening_.hear(in_session("slots"), "say how many slots the paths take");
  }

  Result<Blob> timed_path() {
    if (first_shard() > 0) return Blob();  // another rank says so for the host
    const auto chunks =
        chunks_on_path(*opening_.agreed.transports[0], opening_.agreed.parameters, opening_.time.stage_end(0.98));
    if (!chunks.ok()) return chunks.status();
    return speed_report(chunks.value(), opening_.agreed.transports[0]->limits().receive_buffer_bytes);
  }

  Result<Blob> more_slots(const std::string& topic) {
    auto paths = opening_.hear_all(topic);
    if (!paths.ok()) return paths.status();
    const PathNeeds needs = needs_of_paths(paths.value());
    const SessionParameters& p = opening_.agreed.parameters;
    const int slots = slots_for(needs.chunks, needs.queue_bytes, p);
    const bool has_time = monotonic_now() < opening_.time.stage_end(0.7);
    SWITCHML_LOG(kInfo) << opening_.group.name << ": " << needs.chunks
                        << " chunks fill the paths (0: not known), for which " << p.slots << " slots "
                        << (slots == p.slots ? "do"
                            : has_time       ? "are few"
                                             : "have to do: it is late");
    return slots > p.slots && has_time ? plan_with(slots) : Blob();
  }

  Blob plan_with(int slots) {
    const bool hosts = opening_.agreed.hosts.ranks() > 0;
    SessionParameters offered = opening_.agreed.parameters;
    bool may_change = false;
    const auto granted =
        ask_for_session(wish(hosts, offered.payload_bytes, slots), opening_.time.stage_end(0.8), &may_change);
    if (!granted.ok()) {
      SWITCHML_LOG(kInfo) << opening_.group.name << ": no more slots: " << granted.status().message();
      return {};
    }
    Blob plan = plan_of(granted.value(), hosts);
    const bool readable = read_grant(plan, &offered).ok();
    const SessionParameters& p = opening_.agreed.parameters;
    if (!readable || offered.slots <= p.slots || offered.payload_bytes != p.payload_bytes) {
      if (readable) leave(offered, monotonic_now() + kLeaveTime);
      SWITCHML_LOG(kInfo) << opening_.group.name << ": the switch has no more slots";
      return {};
    }
    plan.set("more", 1);
    return plan;
  }

  Opening opening_;
  bool joins_ = false;       // a session
  bool check_path_ = false;  // what passes is to be found out
  int sessions_ = 0;         // that were left for one of a smaller payload, or of more slots
};

}  // namespace

Result<Agreed> agree(const Config& config, const GroupInfo& group, Rendezvous& store, Time deadline,
                     std::shared_ptr<ControllerClient> controller) {
  return Agreement(config, group, store, deadline, std::move(controller)).run();
}

}  // namespace switchml
