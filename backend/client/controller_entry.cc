#include "client/controller_entry.h"

#include "base/limits.h"
#include "socket/address.h"

namespace switchml {

namespace {

std::string share_key(size_t share) { return "share/" + std::to_string(share); }
std::string address_of(int rank) { return "address" + std::to_string(rank); }

}  // namespace

Result<Blob> ControllerEntry::places(Time deadline) const {
  auto shares = client->locate(ranks, deadline);
  if (!shares.ok()) return shares.status();
  Blob blob;
  for (const LocatedShare& share : shares.value()) {
    if (share.switches.size() != ranks.size()) {
      return Status(Code::kMismatch, "controller " + address + " names " + std::to_string(share.switches.size()) +
                                         " switches for " + std::to_string(ranks.size()) +
                                         " ranks: install the same switchml on controller and ranks");
    }
    Blob one;
    one.set("weight", share.weight);
    one.set("tree_id", share.tree_id);
    for (size_t rank = 0; rank < ranks.size(); ++rank)
      one.set(address_of(static_cast<int>(rank)), share.switches[rank]);
    blob.put(share_key(static_cast<size_t>(&share - shares->data())), one);
  }
  blob.set("shares", shares->size());
  blob.set("by", " (of controller " + address + ")");
  return blob;
}

Result<size_t> shares_of(const Blob& places) {
  uint64_t shares = 0;
  if (places.number("shares", kMaxJobs, &shares) && shares > 0) return static_cast<size_t>(shares);
  return Status(Code::kMismatch, "rank 0 announced no switch: install the same switchml on all ranks");
}

Status read_place(const Blob& places, size_t share, SessionParameters* session) {
  const Blob one = places.inner(share_key(share));
  const std::string address = one.text(address_of(session->worker));
  auto endpoint = resolve_address(address, "the switch that rank 0 announced");
  if (!endpoint.ok()) return endpoint.status();
  uint64_t weight = 0;
  if (!one.number("weight", kMaxWeight, &weight) || weight == 0) {
    return {Code::kMismatch,
            "weight " + one.text("weight") + " of a share: install the same switchml on controller and ranks"};
  }
  if (!one.number("tree_id", UINT64_MAX, &session->tree_id)) {
    return {Code::kMismatch, "rank 0 announced a share without a tree: install the same switchml on all ranks"};
  }
  session->switch_endpoint = with_carrier(endpoint.value(), session->switch_endpoint.carrier);
  session->switch_name = address + places.text("by");
  session->weight = static_cast<uint32_t>(weight);
  return {};
}

}  // namespace switchml
