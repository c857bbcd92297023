// The operations of a controller on a switch.
#include "softswitch/installed.h"

#include <string>

#include "base/limits.h"
#include "base/payload_size.h"
#include "softswitch/pipeline.h"

namespace switchml::softswitch {

namespace {

Status bad(const std::string& what, uint64_t value, const std::string& allowed) {
  return {Code::kInvalidArgument,
          what + " " + std::to_string(value) + " of an installed session: allowed are " + allowed};
}

Status check(const InstalledSession& session, size_t max_payload_bytes) {
  if (session.job == 0) return bad("job", session.job, "1 to " + std::to_string(kMaxJobs));
  if (session.epoch == 0) return bad("epoch", session.epoch, "all but 0");
  if (session.shards < 1 || session.shards > kMaxShards) {
    return bad("shards", static_cast<uint64_t>(session.shards), "1 to " + std::to_string(kMaxShards));
  }
  if (session.slots < 1 || session.slots > kMaxSlots || session.slots % session.shards != 0) {
    return bad("slots", static_cast<uint64_t>(session.slots),
               "multiples of the shards up to " + std::to_string(kMaxSlots));
  }
  const size_t payload = session.payload_bytes;
  if (payload > max_payload_bytes || !is_allowed_payload(payload)) {
    return bad("payload", payload, allowed_payloads(max_payload_bytes));
  }
  if (session.members.count() == 0) return bad("number of members", 0, "1 to " + std::to_string(kMaxWorkers));
  if (session.uplink && session.uplink->parent.size == 0)
    return bad("size of the parent's address", 0, "real addresses");
  return {};
}

bool same(const SessionEntry& have, const InstalledSession& want) {
  const Uplink* uplink = have.uplink();
  const bool same_uplink =
      (uplink != nullptr) == want.uplink.has_value() &&
      (uplink == nullptr || (uplink->worker == want.uplink->worker && uplink->parent == want.uplink->parent));
  return have.epoch() == want.epoch && have.shards() == want.shards && have.slots() == want.slots &&
         have.payload_bytes() == want.payload_bytes && have.expected() == want.members && same_uplink &&
         have.exact() == want.exact && have.granted().session_key == want.session_key;
}

}  // namespace

Status SoftSwitch::install(const InstalledSession& session, Time now) {
  SessionTable& table = impl_->table;
  if (Status status = check(session, impl_->max_payload_bytes); !status.ok()) return status;
  if (const SessionEntry* have = table.find(session.job)) {
    if (same(*have, session)) return {};
    return {Code::kMismatch, "job " + std::to_string(session.job) + " serves another session (epoch " +
                                 std::to_string(have->epoch()) + "): remove that one first"};
  }
  const size_t kept = session.exact ? static_cast<size_t>(session.members.highest() + 1) : 0;
  const size_t bytes = static_cast<size_t>(session.slots) * SlotStore::slot_bytes(session.payload_bytes, kept);
  const size_t free = impl_->slot_memory_bytes - table.slot_memory_in_use();
  auto store = bytes <= free ? SlotStore::create(session.slots, session.payload_bytes, kept) : nullptr;
  if (!store) {
    return {Code::kUnavailable, std::to_string(session.slots) + " slots of " + std::to_string(session.payload_bytes) +
                                    " bytes take " + std::to_string(bytes) + " bytes of memory; free are " +
                                    std::to_string(free)};
  }
  impl_->stores[session.job] = std::move(store);
  table.install(session, now);
  impl_->counters.sessions_opened.add(1);
  return {};
}

Status SoftSwitch::set_member(uint8_t job, uint32_t epoch, int worker, int shard, const Endpoint& endpoint) {
  if (impl_->table.set_member(job, epoch, worker, shard, endpoint)) return {};
  return {Code::kInvalidArgument, "job " + std::to_string(job) + " of epoch " + std::to_string(epoch) +
                                      " has no member " + std::to_string(worker) + " with shard " +
                                      std::to_string(shard)};
}

void SoftSwitch::remove(uint8_t job, uint32_t epoch) {
  if (impl_->table.find(job, epoch) == nullptr) return;
  impl_->counters.sessions_closed.add(1);
  impl_->end(job);
}

void SoftSwitch::remove_all() {
  for (int job = 1; job <= kMaxJobs; ++job) {
    if (const SessionEntry* entry = impl_->table.find(static_cast<uint8_t>(job))) remove(entry->job(), entry->epoch());
  }
}

Result<WorkerSet> SoftSwitch::contributed(uint8_t job, uint32_t epoch, uint16_t slot, uint32_t seq) const {
  const SessionEntry* session = impl_->table.find(job, epoch);
  if (session == nullptr) {
    return Status(Code::kInvalidArgument,
                  "no session with job " + std::to_string(job) + " and epoch " + std::to_string(epoch));
  }
  if (slot >= session->slots() || seq == 0) {
    return Status(Code::kInvalidArgument, "slot " + std::to_string(slot) + ", seq " + std::to_string(seq) +
                                              ": allowed are slots 0 to " + std::to_string(session->slots() - 1) +
                                              " and any seq but 0");
  }
  return impl_->contributors(*session, slot, seq);
}

}  // namespace switchml::softswitch
