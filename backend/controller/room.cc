// Room for a new session: the limits of its switches, uplinks and owner, and the session that ends to make room.
#include <algorithm>

#include "base/limits.h"
#include "controller/session_state.h"
#include "controller/sessions.h"

namespace switchml::controller {

using wire::ReplyStatus;

// The longest silent session that holds some of the missing resource. The others may be suspended, and go on later.
std::optional<uint8_t> Sessions::to_make_room(const Refusal& refusal, Time now) const {
  if (refusal.why != Why::kExhausted) return std::nullopt;
  const auto has_some = [&](const SessionRecord& session) {
    if (!refusal.owner.empty()) return session.owner == refusal.owner;
    const auto& nodes = session.tree.nodes;
    return refusal.switch_.empty() || std::any_of(nodes.begin(), nodes.end(), [&](const TreeNode& node) {
             return state(node.at).name() == refusal.switch_;
           });
  };
  for (const uint8_t job : table_.silent(now)) {  // [LEASE-4]
    if (has_some(*sessions_.at(job))) return job;
  }
  return std::nullopt;
}

std::optional<Refusal> Sessions::check_tree(const OpenRequest& request, const Tree& tree) const {
  for (const TreeNode& node : tree.nodes) {
    Needs needs;
    needs.sum = request.sum;
    needs.max = request.max;
    needs.tree = tree.nodes.size() > 1;
    needs.pairs = request.pairs && !node.ranks.empty();
    needs.members = tree.members(node).size();
    needs.shards = request.shards;
    needs.payload_bytes = request.payload_bytes;
    if (auto refusal = state(node.at).check(needs)) return refusal;
  }
  return std::nullopt;
}

bool Sessions::counts(const SessionRecord& session, const OpenRequest& request) const {
  if (session.owner != request.owner.name) return false;
  const bool replaced = session.id.job == request.replaces.job && session.id.epoch == request.replaces.epoch;
  return !replaced || table_.find(session.id.job)->granted().session_key != request.replaced_key;
}

std::optional<Refusal> Sessions::check_jobs(const OpenRequest& request) const {
  const Owner& owner = request.owner;
  if (owner.max_jobs == 0 || request.share != 0) return std::nullopt;
  const auto own = [&](const auto& entry) { return entry.second->share == 0 && counts(*entry.second, request); };
  const auto jobs = static_cast<size_t>(std::count_if(sessions_.begin(), sessions_.end(), own));
  if (jobs < owner.max_jobs) return std::nullopt;
  return Refusal{
      Why::kExhausted,
      "\"" + owner.name + "\" has " + std::to_string(jobs) + " jobs; max_jobs allows " + std::to_string(owner.max_jobs),
      owner.name};
}

size_t Sessions::largest_page(const Tree& tree) const {
  size_t page = 1;
  for (const TreeNode& node : tree.nodes) {
    const auto& can = state(node.at).capabilities();
    if (can) page = std::max<size_t>(page, can->page_slots);
  }
  return page;
}

size_t Sessions::slots_beside(const OpenRequest& request) const {
  size_t slots = 0;
  for (const auto& [job, session] : sessions_) {
    if (!counts(*session, request)) continue;
    const size_t page = largest_page(session->tree);  // Pages are given whole.
    slots += (static_cast<size_t>(table_.find(job)->slots()) + page - 1) / page * page;
  }
  return slots;
}

// In this order: the owner's quota, if there is one, as a switch with few slots; the tree's switches in the order of
// its nodes; their uplinks (the root has none), as switches with small payloads.
std::vector<softswitch::GrantLimits> Sessions::limits(const OpenRequest& request, const Tree& tree) const {
  std::vector<softswitch::GrantLimits> limits;
  softswitch::GrantLimits plenty;
  plenty.free_slot_memory_bytes = SIZE_MAX;
  plenty.max_payload_bytes = kMaxPayloadBytes;
  plenty.exact = true;
  if (request.owner.max_slots != 0) {
    const size_t page = largest_page(tree);
    const size_t left = request.owner.max_slots - std::min(request.owner.max_slots, slots_beside(request));
    limits.push_back(plenty);
    limits.back().max_slots = left / page * page;
  }
  for (const TreeNode& node : tree.nodes) limits.push_back(state(node.at).limits(tree.members(node).size()));
  for (size_t node = 1; node < tree.nodes.size(); ++node) {
    limits.push_back(plenty);
    limits.back().max_payload_bytes = uplink_payload(spec(tree.nodes[node]).address, tree.nodes[node].up);
  }
  return limits;
}

Refusal Sessions::refused(const OpenRequest& request, const Tree& tree, ReplyStatus status, size_t by) const {
  if (status == ReplyStatus::kNoJobs) {
    return {Why::kExhausted, "all " + std::to_string(kMaxJobs) + " job numbers of this controller are in use"};
  }
  const size_t quotas = request.owner.max_slots != 0 ? 1 : 0;
  if (status == ReplyStatus::kNoSlots && by < quotas) {
    return {Why::kExhausted,
            "\"" + request.owner.name + "\" has " + std::to_string(slots_beside(request)) +
                " slots; max_slots allows " + std::to_string(request.owner.max_slots),
            request.owner.name};
  }
  by -= std::min(by, quotas);
  if (status == ReplyStatus::kPayloadUnsupported && by >= tree.nodes.size()) {
    const TreeNode& node = tree.nodes[by - tree.nodes.size() + 1];
    const SwitchSpec& child = spec(node);
    return {Why::kInvalid, "payload_bytes " + std::to_string(request.payload_bytes) + ": the uplink of switch \"" +
                               child.name + "\" (mtu " + std::to_string(node.up.mtu) + ") takes up to " +
                               std::to_string(uplink_payload(child.address, node.up)) +
                               ", and the switches of this session have no such size in common"};
  }
  const SwitchState& at = state(tree.nodes[std::min(by, tree.nodes.size() - 1)].at);
  if (status == ReplyStatus::kNoSlots) {
    return {Why::kExhausted,
            "switch \"" + at.name() + "\" has " + std::to_string(at.free_slots()) +
                " slots left at its largest payload, too few for " + std::to_string(request.shards) +
                " shards: use fewer, or end another job",
            {},
            at.name()};
  }
  return {Why::kInvalid, "payload_bytes " + std::to_string(request.payload_bytes) +
                             ": the switches of this session have no size up to it in common; the first that takes "
                             "none of the others' is \"" +
                             at.name() + "\""};
}

}  // namespace switchml::controller
