#include "session/agreement.h"

#include <algorithm>
#include <cstdlib>
#include <iterator>
#include <sstream>
#include <thread>
#include <utility>

#include "base/interruption.h"
#include "base/log.h"
#include "session/control_client.h"
#include "session/hello.h"
#include "session/host_memory.h"
#include "session/opening_time.h"
#include "session/path_check.h"
#include "session/path_report.h"
#include "session/path_speed.h"
#include "session/payload.h"
#include "session/peer_watch.h"
#include "session/random.h"
#include "session/shared_memory.h"
#include "session/switch_place.h"
#include "shm/board.h"
#include "transport/address.h"
#include "transport/sockaddr.h"
#include "transport/udp_path.h"

namespace switchml {

namespace {

constexpr Duration kRefusalPause = milliseconds(500);
constexpr Duration kLeaveTime = milliseconds(200);

class Agreement {
 public:
  Agreement(const Config& config, const GroupInfo& group, Rendezvous& store, Time deadline,
            std::shared_ptr<ControllerClient> controller)
      : config_(config),
        group_(group),
        roll_(store, group),
        time_(config.connect_timeout, deadline),
        memory_(group, roll_, config.connect_timeout, time_.gather_end()) {
    if (group.rank == 0 && !config.controller.empty())
      agreed_.controller = {std::move(controller), config.controller, {}};
    agreed_.parameters.worker = group.rank;
    agreed_.parameters.workers = group.size;
  }

  Result<Agreed> run() {
    try {
      return telling_others(roll_, [this] { return come_together(); });
    } catch (...) {
      if (joins_) leave(agreed_.parameters, monotonic_now() + kLeaveTime);
      throw;
    }
  }

 private:
  Result<Agreed> come_together() {
    Status status = say("hello", hello_of(config_, group_));
    if (status.ok()) status = learn_place();
    if (status.ok() && agreed_.memory == nullptr) {  // with it, no switch is needed
      status = say("path", path());
      if (status.ok()) status = enter_session(config_.payload_bytes, config_.slots);
      if (status.ok() && check_path_) status = settle_payload();
      if (status.ok() && check_path_ && config_.slots == 0) status = settle_slots();
    }
    if (!status.ok()) return status;
    return std::move(agreed_);
  }

  // What rank 0 was to bring.
  Result<Blob> hear(const std::string& topic, const std::string& what) {
    return time_.awaiting([&] { return roll_.hear(topic, 0, what, time_.deadline()); });
  }

  Result<std::vector<Blob>> hear_all(const std::string& topic) {
    return time_.awaiting([&] { return roll_.hear_all(topic, time_.gather_end()); });
  }

  // Leaves what this rank found out, or why it could not.
  Status say(const std::string& topic, const Result<Blob>& found) {
    const Status said = roll_.say(topic, found.ok() ? found.value() : Blob::failure(found.status()));
    return said;
  }

  // ---- switch, or memory ----
  Status learn_place() {
    if (group_.rank == 0) {
      if (Status status = say("switch", provide_place()); !status.ok()) return status;
    }
    const Time begin = monotonic_now();
    auto blob = hear("switch", "find a switch");
    const Time now = monotonic_now();
    if (!blob.ok() && now >= time_.deadline()) return roll_.who_is_missing("hello", now - begin, blob.status());
    if (!blob.ok()) return blob.status();
    if (!blob->text("memory").empty()) return share_memory(blob.value());
    if (Status status = read_switch(blob.value()); !status.ok()) return status;
    return blob->text("hosts").empty() ? Status() : share_on_hosts(blob->text("hosts"));
  }

  Status read_switch(const Blob& blob) {
    if (!config_.controller.empty()) return read_place(blob, &agreed_.parameters);
    agreed_.parameters.switch_name = blob.text("name");
    auto endpoint = resolve_address(blob.text("address"), "the switch that rank 0 announced");
    if (!endpoint.ok()) return endpoint.status();
    agreed_.parameters.switch_endpoint = endpoint.value();
    return {};
  }

  Result<Blob> provide_place() {
    auto hellos = hear_all("hello");
    if (!hellos.ok()) return hellos.status();
    if (Status status = compare_hellos(hellos.value()); !status.ok()) return status;
    bool faults = false;
    for (const Blob& hello : hellos.value()) {
      hosts_.push_back(hello.text("host"));
      faults = faults || !hello.text("faults").empty();
    }
    if (Status status = check_hosts(config_, hosts_); !status.ok()) return status;
    const HostLayout layout = HostLayout::of(hosts_);
    one_host_ = layout.hosts() == 1;
    if (!config_.controller.empty()) return ask_controller(hellos.value());
    if (config_.switch_address.empty() && wants_memory(config_, one_host_) && !faults) return offer_or_host();
    auto place = config_.switch_address.empty() ? host_switch() : named_switch(config_, one_host_);
    if (place.ok() && wants_hosts(config_, layout, faults)) place->set("hosts", layout.text());
    return place;
  }

  // ---- memory ----
  Result<Blob> offer_or_host() {
    Blob blob;
    if (Status status = memory_.offer(&blob); !status.ok()) return instead_of_memory(status.message());
    return blob;
  }

  Result<Blob> instead_of_memory(const std::string& why) {
    if (config_.transport == "shm") return Status(Code::kUnavailable, why);
    SWITCHML_LOG(kWarning) << group_.name << ": its ranks are on one host but cannot share memory (" << why
                           << "); they use a switch in rank 0, which is slower";
    return host_switch();
  }

  Status share_memory(const Blob& offered) {
    if (Status status = time_.awaiting([&] { return memory_.fetch(offered); }); !status.ok()) return status;
    if (group_.rank == 0) {
      if (Status status = say("place", conclude_memory()); !status.ok()) return status;
    }
    auto place = hear("place", "say whether all ranks share memory");
    if (!place.ok()) return place.status();
    auto memory = memory_.take();
    if (!place->text("address").empty()) return read_switch(place.value());
    if (memory == nullptr) {
      return {Code::kMismatch,
              "rank 0 says that all ranks share memory, but this one has none: install the same "
              "switchml on all ranks"};
    }
    agreed_.memory = std::move(memory);
    agreed_.parameters.switch_name = "memory of this host";
    agreed_.parameters.payload_bytes = shm::shape_for(group_.size).chunk_bytes;
    agreed_.parameters.slots = shm::shape_for(group_.size).slots;
    read_watch(place.value());
    return {};
  }

  Result<Blob> conclude_memory() {
    const auto missing = time_.awaiting([&] { return memory_.missing(time_.gather_end()); });
    if (!missing.ok()) return missing.status();
    if (!missing->empty()) return instead_of_memory(missing.value());
    Blob place;
    offer_watch(&place);
    return place;
  }

  // ---- memory of each host, beside a switch ----
  Status share_on_hosts(const std::string& text) {
    auto layout = HostLayout::parse(text, group_.size);
    if (!layout.ok()) return layout.status();
    agreed_.hosts = std::move(layout.value());
    return time_.awaiting([&] {
      memory_.share(agreed_.hosts);
      return Status();
    });
  }

  // On rank 0. False: ranks, not hosts, are the workers.
  bool hosts_have_memory(const std::vector<Blob>& paths) const {
    if (agreed_.hosts.ranks() == 0) return false;
    const std::string why = HostMemory::first_without(paths);
    if (why.empty()) return true;
    SWITCHML_LOG(kWarning) << group_.name << ": ranks of one host cannot share memory (" << why
                           << "); each sends to the switch by itself, which is slower";
    return false;
  }

  // All have fetched it, or none will use it.
  void take_host_memory(bool shared) {
    auto memory = memory_.take();
    if (!shared) {
      agreed_.hosts = {};
      return;
    }
    agreed_.memory = std::move(memory);
    const HostLayout& hosts = agreed_.hosts;
    SessionParameters& p = agreed_.parameters;
    p.worker = hosts.host_of(group_.rank);
    p.workers = hosts.hosts();
    p.ranks = hosts.ranks();
    p.worker_names = hosts.names();
    if (hosts.place_of(group_.rank) >= hosts.owners()) agreed_.transports.clear();
  }

  // ---- a switch ----

  Result<Blob> ask_controller(const std::vector<Blob>& hellos) {
    if (agreed_.controller.client == nullptr) {
      return Status(Code::kInvalidArgument,
                    "SWITCHML_CONTROLLER=\"" + config_.controller + "\": this program has no client for a controller");
    }
    for (const Blob& hello : hellos) {
      std::istringstream words(hello.text("addresses"));
      agreed_.controller.ranks.emplace_back(std::istream_iterator<std::string>(words),
                                            std::istream_iterator<std::string>());
    }
    return agreed_.controller.places(time_.stage_end(0.8));
  }

  Result<Blob> host_switch() { return embedded_switch(config_, one_host_, group_.name, &agreed_.embedded); }

  // ---- path ----
  Result<Blob> path() {
    const Endpoint& to = agreed_.parameters.switch_endpoint;
    auto transports = connect_shards(config_, group_.rank, to);
    if (!transports.ok()) return transports.status();
    agreed_.transports = std::move(transports.value());
    return path_report(agreed_.transports[0]->path_frame_bytes(to), !udp_path(to).on_host, memory_.why_none());
  }

  // ---- plan ----
  // `payload`: in bytes; 0: what the ranks' hosts know that their paths carry. `slots`: 0: as the switch likes.
  Status enter_session(size_t payload, int slots) {
    if (group_.rank == 0) {
      if (Status status = say(in_session("plan"), make_plan(payload, slots)); !status.ok()) return status;
    }
    auto plan = hear(in_session("plan"), "open a session with switch " + agreed_.parameters.switch_name);
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
    auto paths = hear_all("path");
    if (!paths.ok()) return paths.status();
    const auto summary = summarize_paths(paths.value());
    if (!summary.ok()) return summary.status();
    const bool hosts = sessions_ == 0 ? hosts_have_memory(paths.value()) : agreed_.hosts.ranks() > 0;
    const wire::Open asked = wish(hosts, payload != 0 ? payload : auto_payload(summary->frame_bytes), slots);
    auto granted = open_session(asked);
    if (!granted.ok()) return granted.status();
    if (sessions_ == 0 && slots == 0 && agreed_.embedded != nullptr) advise(asked, granted.value());
    Blob plan = plan_of(granted.value(), hosts);
    if (config_.payload_bytes == 0 && config_.controller.empty() && summary->leaves_host) plan.set("check", 1);
    if (sessions_ == 0) offer_watch(&plan);
    return plan;
  }

  wire::Open wish(bool hosts, size_t payload, int slots) const {
    wire::Open asked;
    asked.client_key = random_bits();
    asked.workers = static_cast<uint16_t>(hosts ? agreed_.hosts.hosts() : group_.size);
    asked.shards = static_cast<uint16_t>(hosts ? agreed_.hosts.owners() : config_.shards);
    asked.payload = static_cast<uint32_t>(payload);
    asked.slots = static_cast<uint16_t>(slots);
    // As many as two streams take on each rank that sends, where a switch would give fewer.
    const size_t least = size_t{asked.shards} * LaneSlots::kLeastSlotsForBulk;
    if (slots == 0 && hosts && least > kPresetSlots && payload <= kMostPayloadForStreams) {
      asked.slots = static_cast<uint16_t>(least);
    }
    return asked;
  }

  void advise(const wire::Open& asked, const wire::OpenReply& granted) const {
    const size_t queue = agreed_.embedded->limits().receive_buffer_bytes;
    const std::string advice = advice_on_slots(asked, granted, queue);
    if (!advice.empty()) SWITCHML_LOG(kWarning) << group_.name << ": " << advice;
  }

  // A group can do without.
  void offer_watch(Blob* plan) {
    agreed_.watch_key = random_bits();
    auto address = address_of_rank_0(config_, one_host_);
    auto listener = address.ok() ? PeerWatch::listen(with_port(address.value(), 0)) : Result<Fd>(address.status());
    if (!listener.ok()) {
      SWITCHML_LOG(kWarning) << group_.name << ": the death of a rank will be noticed by timeouts only: "
                             << listener.status().message();
      return;
    }
    agreed_.watch_listener = std::move(listener.value());
    plan->set("watch", to_string(local_endpoint(agreed_.watch_listener.get())));
    plan->set("watch_key", agreed_.watch_key);
  }

  // What lacks may be what a job that was killed a moment ago has not given back yet.
  Result<wire::OpenReply> open_session(const wire::Open& asked) {
    const Time end = time_.stage_end(0.9);
    for (bool told = false;; told = true) {
      bool may_change = false;
      auto granted = ask_for_session(asked, end, &may_change);
      if (granted.ok() || !may_change || monotonic_now() + kRefusalPause >= end) return granted;
      if (!told) {
        SWITCHML_LOG(kWarning) << group_.name << ": " << granted.status().message() << "; asking again for "
                               << to_seconds(end - monotonic_now()) << " s";
      }
      check_interruption();
      std::this_thread::sleep_for(kRefusalPause);
    }
  }

  Result<wire::OpenReply> ask_for_session(const wire::Open& asked, Time end, bool* may_change) {
    const ControllerEntry& controller = agreed_.controller;
    if (controller.client != nullptr) {
      auto granted = controller.client->open(asked, controller.ranks, group_.name, end);
      *may_change = granted.status().code() == Code::kUnavailable;
      return granted;
    }
    if (agreed_.embedded != nullptr) agreed_.embedded->invite(asked.client_key);
    ControlClient client(*agreed_.transports[0], agreed_.parameters.switch_endpoint, agreed_.parameters.switch_name);
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
    for (int rank = 0; rank < group_.size; ++rank) {
      plan.set("local/" + std::to_string(rank), to_text(local_ranks(hosts_, rank, agreed_.embedded != nullptr)));
    }
    return plan;
  }

  Status read_plan(const Blob& plan) {
    SessionParameters& p = agreed_.parameters;
    p.shards = config_.shards;
    if (sessions_ == 0 && agreed_.hosts.ranks() > 0) take_host_memory(!plan.text("hosts").empty());
    if (agreed_.hosts.ranks() > 0) p.shards = agreed_.hosts.owners();
    if (Status status = read_grant(plan, &p); !status.ok()) return status;
    if (!plan.number("secret0", UINT64_MAX, &p.secret[0]) || !plan.number("secret1", UINT64_MAX, &p.secret[1])) {
      return {Code::kMismatch, "rank 0 sent no secret: install the same switchml on all ranks"};
    }
    p.controlled = !config_.controller.empty();
    check_path_ = plan.text("check") == "1";
    agreed_.local = read_local_ranks(plan.text("local/" + std::to_string(group_.rank)));
    if (sessions_ == 0) read_watch(plan);
    return {};
  }

  void read_watch(const Blob& plan) {
    const auto watch = literal_address(plan.text("watch"), 0);
    if (!watch.ok() || group_.rank == 0) return;
    agreed_.watch_address = watch.value();
    plan.number("watch_key", UINT64_MAX, &agreed_.watch_key);
  }

  // ---- joined ----
  Status join_all() {
    joins_ = true;
    const Status mine = join_shards(agreed_.transports, agreed_.parameters, time_.stage_end(0.95), first_shard());
    Status status = say(in_session("joined"), mine.ok() ? Result<Blob>(Blob()) : Result<Blob>(mine));
    if (status.ok()) status = hear_all(in_session("joined")).status();
    if (!status.ok()) leave(agreed_.parameters, monotonic_now() + kLeaveTime);
    return status;
  }

  int first_shard() const { return agreed_.hosts.ranks() > 0 ? agreed_.hosts.place_of(group_.rank) : 0; }

  // ---- payload ----
  // A payload that does not pass is exchanged for one that does, which takes another session.
  Status settle_payload() {
    for (;;) {
      const auto passes = compare_paths();
      if (passes.ok() && passes.value() >= agreed_.parameters.payload_bytes) return {};
      leave(agreed_.parameters, monotonic_now() + kLeaveTime);
      if (!passes.ok()) return passes.status();
      ++sessions_;
      if (Status entered = enter_session(passes.value(), config_.slots); !entered.ok()) return entered;
    }
  }

  // What passes between the switch and every rank.
  Result<size_t> compare_paths() {
    const std::string topic = in_session("passes");
    if (Status status = say(topic, checked_path()); !status.ok()) return status;
    if (group_.rank == 0) {
      if (Status status = say(in_session("payload"), least_of(topic)); !status.ok()) return status;
    }
    const auto said = hear(in_session("payload"), "say which payload passes on all paths");
    return said.ok() ? read_payload(said.value()) : said.status();
  }

  Result<Blob> checked_path() {
    if (first_shard() > 0) return payload_report(agreed_.parameters.payload_bytes);  // another rank asks for the host
    const auto passes = check_path(*agreed_.transports[0], agreed_.parameters, time_.stage_end(0.98));
    if (!passes.ok()) return passes.status();
    return payload_report(passes.value());
  }

  Result<Blob> least_of(const std::string& topic) {
    const auto paths = hear_all(topic);
    if (!paths.ok()) return paths.status();
    const auto least = least_payload(paths.value(), agreed_.parameters.payload_bytes, group_.name);
    if (!least.ok()) return least.status();
    return payload_report(least.value());
  }

  // ---- slots ----
  // Slots that are too few for paths that are long or fast are exchanged for more of them, if the switch has these
  // beside those that the ranks hold until then.
  Status settle_slots() {
    const auto plan = compare_speeds();
    if (plan.ok() && plan->text("more") != "1") return {};
    leave(agreed_.parameters, monotonic_now() + kLeaveTime);
    if (!plan.ok()) return plan.status();
    ++sessions_;
    return enter_session(plan.value());
  }

  // The plan of a session with more slots, or nothing.
  Result<Blob> compare_speeds() {
    const std::string topic = in_session("speed");
    if (Status status = say(topic, timed_path()); !status.ok()) return status;
    if (group_.rank == 0) {
      if (Status status = say(in_session("slots"), more_slots(topic)); !status.ok()) return status;
    }
    return hear(in_session("slots"), "say how many slots the paths take");
  }

  Result<Blob> timed_path() {
    if (first_shard() > 0) return Blob();  // another rank says so for the host
    const auto chunks = chunks_on_path(*agreed_.transports[0], agreed_.parameters, time_.stage_end(0.98));
    if (!chunks.ok()) return chunks.status();
    return speed_report(chunks.value(), agreed_.transports[0]->limits().receive_buffer_bytes);
  }

  Result<Blob> more_slots(const std::string& topic) {
    auto paths = hear_all(topic);
    if (!paths.ok()) return paths.status();
    const PathNeeds needs = needs_of_paths(paths.value());
    const SessionParameters& p = agreed_.parameters;
    const int slots = slots_for(needs.chunks, needs.queue_bytes, p);
    const bool has_time = monotonic_now() < time_.stage_end(0.7);
    SWITCHML_LOG(kInfo) << group_.name << ": " << needs.chunks << " chunks fill the paths (0: not known), for which "
                        << p.slots << " slots "
                        << (slots == p.slots ? "do"
                            : has_time       ? "are few"
                                             : "have to do: it is late");
    return slots > p.slots && has_time ? plan_with(slots) : Blob();
  }

  Blob plan_with(int slots) {
    const bool hosts = agreed_.hosts.ranks() > 0;
    SessionParameters offered = agreed_.parameters;
    bool may_change = false;
    const auto granted = ask_for_session(wish(hosts, offered.payload_bytes, slots), time_.stage_end(0.8), &may_change);
    if (!granted.ok()) {
      SWITCHML_LOG(kInfo) << group_.name << ": no more slots: " << granted.status().message();
      return {};
    }
    Blob plan = plan_of(granted.value(), hosts);
    const bool readable = read_grant(plan, &offered).ok();
    const SessionParameters& p = agreed_.parameters;
    if (!readable || offered.slots <= p.slots || offered.payload_bytes != p.payload_bytes) {
      if (readable) leave(offered, monotonic_now() + kLeaveTime);
      SWITCHML_LOG(kInfo) << group_.name << ": the switch has no more slots";
      return {};
    }
    plan.set("more", 1);
    return plan;
  }

  const Config& config_;
  const GroupInfo& group_;
  RollCall roll_;
  bool one_host_ = false;           // on rank 0
  std::vector<std::string> hosts_;  // by rank, on rank 0
  bool joins_ = false;              // a session
  bool check_path_ = false;         // what passes is to be found out
  int sessions_ = 0;                // that were left for one of a smaller payload, or of more slots
  OpeningTime time_;
  HostMemory memory_;
  Agreed agreed_;
};

}  // namespace

Result<Agreed> agree(const Config& config, const GroupInfo& group, Rendezvous& store, Time deadline,
                     std::shared_ptr<ControllerClient> controller) {
  return Agreement(config, group, store, deadline, std::move(controller)).run();
}

}  // namespace switchml
