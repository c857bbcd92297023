// What the ranks say of their paths to the switch while a group is opened (the topics "path", "passes" and "speed" of
// agreement.h), and what rank 0 concludes from it. No I/O.
#pragma once

#include <cstddef>
#include <cstdint>
#include <string>
#include <vector>

#include "base/status.h"
#include "path/path_speed.h"
#include "store/blob.h"

namespace switchml {

// ---- "path": what a rank's host knows ----

/// `frame_bytes`: the largest worthwhile frame. `why_no_memory`: empty if the rank shares memory with its host's, or is
/// not asked to.
/// `tcp_alone`: a switch that takes_tcp_alone() (client/udp_reach.h); empty: none does, or it was not asked.
Blob path_report(size_t frame_bytes, bool leaves_host, const std::string& why_no_memory,
                 const std::string& tcp_alone = "");
struct PathSummary {
  size_t frame_bytes = 0;    // the least; at most what the largest payload takes
  bool leaves_host = false;  // some path
  std::string tcp_alone;     // the first one that packets do not pass
};
/// Summarizes all ranks' reports. kMismatch: one says no size.
Result<PathSummary> summarize_paths(const std::vector<Blob>& reports);

// ---- "passes": which payload came back ----

Blob payload_report(size_t payload);
/// kMismatch: what a rank has said is no payload that can pass.
Result<size_t> read_payload(const Blob& report);
/// The least of all ranks', at most `payload`; those that carry less are logged with the group's name. kMismatch: a
/// rank does not say.
Result<size_t> least_payload(const std::vector<Blob>& reports, size_t payload, const std::string& group);

// ---- "speed": how many chunks a path holds, and how fast it is ----

/// `queue_bytes`: of the rank's socket. `why_no_tcp`: empty if TCP connects the rank with all switches, or is not
/// to be taken; `why_no_rdma`: the same of its card.
Blob speed_report(const PathSpeed& speed, size_t queue_bytes, const std::string& why_no_tcp,
                  const std::string& why_no_rdma);
struct PathNeeds {
  uint64_t chunks = 0;                // The most; 0: not known.
  uint64_t rate = 0;                  // Mbit/s, the median of those that are known; 0: none is.
  uint64_t queue_bytes = UINT64_MAX;  // The least that a rank names.
  std::string why_no_tcp;             // The first rank's that has a reason.
  std::string why_no_rdma;            // Likewise for cards.
};
/// Sums up all ranks' reports; those that say nothing do not count.
PathNeeds needs_of_paths(const std::vector<Blob>& reports);

}  // namespace switchml
