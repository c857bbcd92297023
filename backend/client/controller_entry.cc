#include "client/controller_entry.h"

#include "socket/address.h"

namespace switchml {

Result<Blob> ControllerEntry::places(Time deadline) const {
  auto switches = client->locate(ranks, deadline);
  if (!switches.ok()) return switches.status();
  if (switches->size() != ranks.size()) {
    return Status(Code::kMismatch, "controller " + address + " names " + std::to_string(switches->size()) +
                                       " switches for " + std::to_string(ranks.size()) +
                                       " ranks: install the same switchml on controller and ranks");
  }
  Blob blob;
  for (size_t rank = 0; rank < switches->size(); ++rank) {
    blob.set("address" + std::to_string(rank), switches.value()[rank]);
  }
  blob.set("by", " (of controller " + address + ")");
  return blob;
}

Status read_place(const Blob& places, SessionParameters* session) {
  const std::string address = places.text("address" + std::to_string(session->worker));
  auto endpoint = resolve_address(address, "the switch that rank 0 announced");
  if (!endpoint.ok()) return endpoint.status();
  session->switch_endpoint = with_carrier(endpoint.value(), session->switch_endpoint.carrier);
  session->switch_name = address + places.text("by");
  return {};
}

}  // namespace switchml
