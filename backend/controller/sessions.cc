#include "controller/sessions.h"

#include <algorithm>
#include <utility>

#include "base/limits.h"
#include "controller/session_state.h"
#include "slots/slot_store.h"

namespace switchml::controller {

using wire::ReplyStatus;

namespace {

constexpr Duration kSleep = seconds(3);  // A longer time between two sweeps means that the process was stopped.

softswitch::SessionLimits table_limits(const Topology& topology, uint64_t seed) {
  softswitch::SessionLimits limits;
  limits.lease = topology.lease;
  limits.seed = seed;
  return limits;
}

Refusal out_of_range(const std::string& what, uint64_t value, uint64_t low, uint64_t high) {
  return {Why::kInvalid,
          what + " " + std::to_string(value) + ": allowed are " + std::to_string(low) + " to " + std::to_string(high)};
}

std::optional<Refusal> check_values(const OpenRequest& asked) {
  if (asked.protocol_version != wire::kVersion) {
    return Refusal{Why::kPrecondition, "protocol_version " + std::to_string(asked.protocol_version) +
                                           ": this controller speaks version " + std::to_string(wire::kVersion)};
  }
  if (asked.client_key == 0) return Refusal{Why::kInvalid, "client_key 0: allowed is any other number, at random"};
  if (asked.workers < 1 || asked.workers > kMaxWorkers) return out_of_range("workers", asked.workers, 1, kMaxWorkers);
  if (asked.shards < 1 || asked.shards > kMaxShards) return out_of_range("shards", asked.shards, 1, kMaxShards);
  if (asked.slots > kMaxSlots) return out_of_range("slots", asked.slots, 0, kMaxSlots);
  if (asked.payload_bytes < kMinPayloadBytes) {
    return out_of_range("payload_bytes", asked.payload_bytes, kMinPayloadBytes, kMaxPayloadBytes);
  }
  if (asked.ranks.size() != asked.workers) {
    return Refusal{Why::kInvalid, "ranks: addresses of " + std::to_string(asked.ranks.size()) +
                                      " ranks; allowed are those of all " + std::to_string(asked.workers) + " workers"};
  }
  return std::nullopt;
}

wire::Open wire_form(const OpenRequest& request) {
  wire::Open open;
  open.client_key = request.client_key;
  open.workers = static_cast<uint16_t>(request.workers);
  open.shards = static_cast<uint16_t>(request.shards);
  open.slots = static_cast<uint16_t>(request.slots);
  open.payload = request.payload_bytes;
  if (request.exact) open.flags |= wire::kOpenExact;
  return open;
}

// Flows share a queue in proportion to their windows: a share gets slots by its weight, out of the requested number for
// all shares.
uint32_t slots_of_share(const Plan& plan, const OpenRequest& request) {
  const uint64_t of_shard = request.exact ? kLeastExactForBulk : kLeastSlotsForBulk;
  uint64_t weights = 0;
  for (const PlannedShare& share : plan.shares) weights += share.weight;
  const uint64_t all = uint64_t{request.slots} * plan.shares.size();
  const uint64_t least = std::min<uint64_t>(request.slots, of_shard * request.shards);
  return static_cast<uint32_t>(
      std::clamp(all * plan.shares[request.share].weight / weights, least, uint64_t{kMaxSlots}));
}

Why why_of(const Status& status) { return status.code() == Code::kUnavailable ? Why::kUnavailable : Why::kInvalid; }

OpenAnswer refusal_of(uint64_t ticket, const Refusal& why) {
  OpenAnswer answer;
  answer.ticket = ticket;
  answer.refusal = why;
  return answer;
}

}  // namespace

Sessions::Sessions(Topology topology, uint64_t seed)
    : topology_(std::move(topology)), table_(table_limits(topology_, seed)) {
  for (const SwitchSpec& spec : topology_.switches) switches_.emplace_back(spec.name);
}

Sessions::~Sessions() = default;

// ---- switches ----

void Sessions::switch_up(int at, const Capabilities& capabilities, Effects* out) {
  SwitchState& state = switches_[static_cast<size_t>(at)];
  if (!state.connect(capabilities)) return;
  std::vector<uint8_t> lost;
  for (const auto& [job, session] : sessions_) {
    if (session->tree.at_switch(at) != nullptr) lost.push_back(job);
  }
  for (const uint8_t job : lost) {
    ++counters_.sessions_lost;
    end(job, {Why::kUnavailable, "switch \"" + state.name() + "\" was restarted"}, out);
  }
}

void Sessions::switch_down(int at, const std::string& problem) {
  switches_[static_cast<size_t>(at)].disconnect(problem);
}

void Sessions::done(uint64_t work, const std::vector<CommandResult>& results, Effects* out) {
  const auto found = pending_.find(work);
  if (found == pending_.end()) return;
  const std::unique_ptr<PendingWork> pending = std::move(found->second);
  pending_.erase(found);
  note_removals(*pending, results);
  switch (pending->cause) {
    case PendingWork::Cause::kOpen: return opened(*pending, results, out);
    case PendingWork::Cause::kJoin: return joined(*pending, results, out);
    case PendingWork::Cause::kProbe: return probed(*pending, results, out);
    case PendingWork::Cause::kRemove: return;
  }
}

void Sessions::begin(std::unique_ptr<PendingWork> pending, Effects* out) {
  out->works.push_back({++last_work_, pending->commands});
  pending_[last_work_] = std::move(pending);
}

// ---- open ----

std::vector<Endpoint> Sessions::addresses_of(const std::vector<Attachment>& ranks) const {
  std::vector<Endpoint> addresses;
  addresses.reserve(ranks.size());
  for (const Attachment& rank : ranks) addresses.push_back(topology_.switches[static_cast<size_t>(rank.at)].address);
  return addresses;
}

void Sessions::open(const OpenRequest& request, uint64_t ticket, Time now, Effects* out) {
  std::optional<Refusal> refusal = try_open(request, ticket, now, out);
  if (refusal) excuse_deafness(now);
  while (refusal) {
    const auto job = to_make_room(*refusal, now);
    if (!job) break;
    expire({*job}, out);
    refusal = try_open(request, ticket, now, out);
  }
  if (!refusal) return;
  ++counters_.opens_refused;
  out->answers.push_back(refusal_of(ticket, *refusal));
}

std::optional<Refusal> Sessions::try_open(const OpenRequest& request, uint64_t ticket, Time now, Effects* out) {
  if (auto refusal = check_values(request)) return refusal;
  if (table_.find_client(request.client_key) != nullptr) return find_opened(request, ticket, out);
  auto shape = shape_of(request);
  if (!shape.ok()) return Refusal{why_of(shape.status()), shape.status().message()};
  const Tree& tree = shape->tree;
  // The owner's quota comes first: no session makes room for an open that the quota forbids.
  const auto unfit = check_tree(request, tree);
  if (unfit && unfit->why != Why::kExhausted) return unfit;
  if (auto refusal = check_jobs(request)) return refusal;
  if (unfit) return unfit;

  wire::Open wish = wire_form(request);
  const Plan* plan = plan_for(shape->ranks);
  const bool moves = request.replaces.job != 0;  // It keeps its slots. [MOVE-2]
  if (plan != nullptr && !moves) wish.slots = static_cast<uint16_t>(slots_of_share(*plan, request));
  const auto opened = table_.open(wish, limits(request, tree), now);
  if (opened.status != ReplyStatus::kOk) return refused(request, tree, opened.status, opened.refused_by);
  auto session = std::make_unique<SessionRecord>();
  session->id = {opened.reply.job, opened.reply.epoch};
  session->group = request.group;
  session->owner = request.owner.name;
  session->tree = std::move(shape->tree);
  session->ranks = std::move(shape->ranks);
  session->share = request.share;
  session->waiting = {ticket};
  install(session.get(), out);
  sessions_[opened.reply.job] = std::move(session);
  return std::nullopt;
}

Result<Sessions::Shape> Sessions::shape_of(const OpenRequest& request) const {
  auto attached = attach(topology_, request.ranks);
  if (!attached.ok()) return attached.status();
  const Plan* plan = plan_for(attached.value());
  const size_t shares = plan == nullptr ? 1 : plan->shares.size();
  if (request.share >= shares) {  // The plan has changed since the ranks called locate().
    return Status(Code::kUnavailable, "share " + std::to_string(request.share) + " of a plan of " +
                                          std::to_string(shares) + ": the plan has changed meanwhile");
  }
  if (plan != nullptr) {
    std::vector<Attachment> places = attachments_in(*plan, request.share, attached.value());
    Tree tree = tree_of(plan->shares[request.share], places);
    return Shape{std::move(places), std::move(tree)};
  }
  auto tree = choose_tree(topology_, attached.value());
  if (!tree.ok()) return tree.status();
  return Shape{std::move(attached.value()), std::move(tree.value())};
}

const Plan* Sessions::plan_for(const std::vector<Attachment>& ranks) const {
  const auto found = plans_.find(workers_of(ranks));
  return found == plans_.end() ? nullptr : &found->second;
}

std::optional<Refusal> Sessions::set_plan(Plan plan) {
  if (auto refusal = check_plan(topology_, plan)) return refusal;
  const auto before = plans_.find(plan.workers);
  if (before != plans_.end()) keep_order(before->second, &plan);
  if (plan.shares.empty()) {
    plans_.erase(plan.workers);
  } else {
    plans_[plan.workers] = plan;
  }
  return std::nullopt;
}

Result<std::vector<ShareLocation>> Sessions::locate(const std::vector<std::vector<Endpoint>>& ranks) const {
  std::vector<ShareLocation> shares;
  OpenRequest asked;
  asked.ranks = ranks;
  const auto attached = attach(topology_, ranks);
  if (!attached.ok()) return attached.status();
  const Plan* plan = plan_for(attached.value());
  for (asked.share = 0; asked.share < (plan == nullptr ? 1 : plan->shares.size()); ++asked.share) {
    const auto shape = shape_of(asked);
    if (!shape.ok()) return shape.status();
    shares.push_back({1, addresses_of(shape->ranks)});
    if (plan == nullptr) continue;
    shares.back().weight = plan->shares[asked.share].weight;
    shares.back().tree_id = plan->shares[asked.share].tree_id();
  }
  return shares;
}

std::optional<Refusal> Sessions::find_opened(const OpenRequest& request, uint64_t ticket, Effects* out) {
  const softswitch::SessionEntry& entry = *table_.find_client(request.client_key);
  SessionRecord& session = *sessions_.at(entry.job());
  const bool same = static_cast<uint32_t>(entry.workers()) == request.workers &&
                    static_cast<uint32_t>(entry.shards()) == request.shards && session.owner == request.owner.name;
  if (!same) {
    return Refusal{Why::kInvalid, "client_key " + std::to_string(request.client_key) +
                                      ": it has opened another session; choose each at random"};
  }
  if (session.installed) {
    out->answers.push_back(answer(session, ticket));
  } else {
    session.waiting.push_back(ticket);
  }
  return std::nullopt;
}

// Removals that a switch has not confirmed come first: the new session may use their resources.
void Sessions::install(SessionRecord* session, Effects* out) {
  auto pending = std::make_unique<PendingWork>();
  pending->cause = PendingWork::Cause::kOpen;
  pending->id = session->id;
  for (const TreeNode& node : session->tree.nodes) {
    for (const auto& [job, epoch] : state(node.at).unconfirmed()) {
      pending->commands.emplace_back(node.at, Remove{{job, epoch}});
    }
    pending->commands.emplace_back(node.at, install_at(*session, node));
    for (const int child : node.children) {
      pending->commands.emplace_back(node.at, child_of(*session, session->tree.nodes[static_cast<size_t>(child)]));
    }
  }
  begin(std::move(pending), out);
}

Install Sessions::install_at(const SessionRecord& session, const TreeNode& node) {  // [TREE-1]
  const softswitch::SessionEntry& entry = *table_.find(session.id.job);
  Install install;
  install.id = session.id;
  install.shards = entry.shards();
  install.slots = entry.slots();
  install.payload_bytes = entry.payload_bytes();
  install.members = session.tree.members(node);
  install.exact = entry.exact();
  if (install.exact) install.session_key = entry.granted().session_key;
  install.pages = switches_[static_cast<size_t>(node.at)].take(
      session.id.job, session.id.epoch, install.slots,
      SlotStore::slot_bytes(install.payload_bytes, install.exact ? install.members.back() + 1 : 0),
      install.members.size() * static_cast<size_t>(install.shards));
  if (node.parent == kNone) return install;
  const TreeNode& parent = session.tree.nodes[static_cast<size_t>(node.parent)];
  ParentLink uplink;
  uplink.worker = static_cast<uint32_t>(node.number);
  uplink.parent = {spec(parent).address, mac_of(parent), node.up.port};
  install.uplink = uplink;
  return install;
}

std::string Sessions::mac_of(const TreeNode& node) const {
  const std::string& told = state(node.at).capabilities()->mac;
  return told.empty() ? spec(node).mac : told;
}

SetMember Sessions::child_of(const SessionRecord& session, const TreeNode& child) const {
  SetMember member;
  member.id = session.id;
  member.worker = static_cast<uint32_t>(child.number);
  member.shard = -1;  // [TREE-9]
  member.place = {spec(child).address, mac_of(child), child.up.port_at_parent};
  return member;
}

OpenAnswer Sessions::answer(const SessionRecord& session, uint64_t ticket) const {
  OpenAnswer answer;
  answer.ticket = ticket;
  answer.granted = table_.find(session.id.job)->granted();
  const bool exact = (answer.granted.flags & wire::kOpenExact) != 0;
  if (exact && session.tree.nodes.size() > 1) answer.granted.flags |= wire::kOpenTree;  // [ETREE-1]
  answer.switch_addresses = addresses_of(session.ranks);
  return answer;
}

void Sessions::opened(const PendingWork& pending, const std::vector<CommandResult>& results, Effects* out) {
  SessionRecord* session = find(pending.id);
  if (session == nullptr) return;  // Ended meanwhile, with an answer.
  for (size_t i = 0; i < results.size(); ++i) {
    if (results[i].ok) continue;
    ++counters_.sessions_lost;
    const std::string& name = state(pending.commands[i].at).name();
    return end(pending.id.job, {Why::kUnavailable, "switch \"" + name + "\": " + results[i].problem}, out);
  }
  ++counters_.sessions_opened;
  session->installed = true;
  for (const uint64_t ticket : session->waiting) out->answers.push_back(answer(*session, ticket));
  session->waiting.clear();
}

// ---- end ----

void Sessions::end(uint8_t job, const Refusal& why, Effects* out) {
  const auto found = sessions_.find(job);
  const std::unique_ptr<SessionRecord> session = std::move(found->second);
  sessions_.erase(found);
  table_.end(job);
  for (const uint64_t ticket : session->waiting) out->answers.push_back(refusal_of(ticket, why));
  auto pending = std::make_unique<PendingWork>();
  pending->id = session->id;
  for (const TreeNode& node : session->tree.nodes) {
    switches_[static_cast<size_t>(node.at)].release(job);
    pending->commands.emplace_back(node.at, Remove{session->id});
  }
  begin(std::move(pending), out);
}

void Sessions::note_removals(const PendingWork& pending, const std::vector<CommandResult>& results) {
  for (size_t i = 0; i < results.size() && i < pending.commands.size(); ++i) {
    const auto* remove = std::get_if<Remove>(&pending.commands[i].what);
    if (remove == nullptr || !results[i].ok) continue;
    switches_[static_cast<size_t>(pending.commands[i].at)].removed(remove->id.job, remove->id.epoch);
  }
}

bool Sessions::removing_at(int at) const {
  return std::any_of(pending_.begin(), pending_.end(), [at](const auto& entry) {
    const auto& commands = entry.second->commands;
    return std::any_of(commands.begin(), commands.end(), [at](const Command& command) {
      return command.at == at && std::holds_alternative<Remove>(command.what);
    });
  });
}

// Repeats removals at switches that are connected again.
void Sessions::repeat_removals(Effects* out) {
  for (int at = 0; at < static_cast<int>(switches_.size()); ++at) {
    if (!state(at).connected() || state(at).unconfirmed().empty() || removing_at(at)) continue;
    auto pending = std::make_unique<PendingWork>();
    for (const auto& [job, epoch] : state(at).unconfirmed()) {
      pending->commands.emplace_back(at, Remove{{job, epoch}});
    }
    begin(std::move(pending), out);
  }
}

// Silence does not count while a switch of the session is out of reach, or while this process was stopped.
void Sessions::excuse_deafness(Time now) {
  const bool slept = last_sweep_ && now - *last_sweep_ > kSleep;
  last_sweep_ = now;
  for (const auto& [job, session] : sessions_) {
    const auto& nodes = session->tree.nodes;
    const bool deaf =
        std::any_of(nodes.begin(), nodes.end(), [this](const TreeNode& node) { return !state(node.at).connected(); });
    if (slept || deaf) table_.extend_lease(job, now);
  }
}

void Sessions::sweep(Time now, Effects* out) {
  excuse_deafness(now);
  expire(table_.expired(now), out);
  repeat_removals(out);
}

void Sessions::expire(const std::vector<uint8_t>& jobs, Effects* out) {
  for (const uint8_t job : jobs) {
    ++counters_.sessions_expired;
    end(job, {Why::kUnavailable, "the session's lease ran out before its switches were ready"}, out);
  }
}

std::optional<Refusal> Sessions::renew(SessionId id, uint64_t session_key, Time now) {
  if (table_.renew(id.job, id.epoch, session_key, now)) return std::nullopt;
  return Refusal{Why::kNotFound, "no session with job " + std::to_string(id.job) + ", epoch " +
                                     std::to_string(id.epoch) + " and this key: it is over, or never was"};
}

std::optional<Refusal> Sessions::close(SessionId id, uint64_t session_key, Effects* out) {
  const SessionRecord* session = find(id);
  if (session == nullptr) return std::nullopt;
  if (table_.find(id.job)->granted().session_key != session_key) {
    return Refusal{Why::kInvalid, "session_key: it is not that of job " + std::to_string(id.job) + ", epoch " +
                                      std::to_string(id.epoch)};
  }
  ++counters_.sessions_closed;
  end(id.job, {Why::kUnavailable, "the session was closed before its switches were ready"}, out);
  return std::nullopt;
}

Sessions::SessionRecord* Sessions::find(SessionId id) const {
  const auto found = sessions_.find(id.job);
  return found != sessions_.end() && found->second->id.epoch == id.epoch ? found->second.get() : nullptr;
}

std::vector<SessionView> Sessions::sessions(Time now) const {
  std::vector<SessionView> views;
  for (const auto& [job, session] : sessions_) {
    const softswitch::SessionEntry& entry = *table_.find(job);
    SessionView view;
    view.id = session->id;
    view.group = session->group;
    view.owner = session->owner;
    view.workers = entry.workers();
    view.joined = session->joined_ranks(entry.shards());
    view.slots = entry.slots();
    view.payload_bytes = entry.payload_bytes();
    view.lease_left = std::max(Duration(0), entry.last_heard + topology_.lease - now);
    for (const TreeNode& node : session->tree.nodes) view.switches.push_back(node.at);
    view.silent_paths = session->silent_paths.now_silent(session->tree, now);
    views.push_back(std::move(view));
  }
  return views;
}

}  // namespace switchml::controller
