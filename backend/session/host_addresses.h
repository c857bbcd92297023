// The address at which the other hosts of a group reach each of its hosts: every rank says what it might be, and rank 0
// chooses for all, so that they are of one family and differ.
#pragma once

#include <string>
#include <vector>

#include "base/config.h"
#include "session/host_layout.h"
#include "socket/endpoint.h"
#include "store/blob.h"

namespace switchml {

/// Adds to a rank's hello where its host may be reached. `store_host`: name or address of the host of the group's
/// store; empty: not known.
void write_host_addresses(const Config& config, const std::string& store_host, Blob* hello);

/// One for each host, with port 0: of SWITCHML_INTERFACE where that is set; else the source address towards the
/// store's host; on that host the address that the others have of it; else the preferred one of those that no other
/// host has. kUnavailable: hosts have no family in common, or one address; names their ranks.
Result<std::vector<Endpoint>> choose_host_addresses(const HostLayout& layout, const std::vector<Blob>& hellos);

}  // namespace switchml
