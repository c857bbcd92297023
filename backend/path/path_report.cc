#include "path/path_report.h"

#include <algorithm>

#include "base/limits.h"
#include "base/log.h"
#include "base/payload_size.h"
#include "path/path_speed.h"
#include "wire/packet.h"

namespace switchml {

namespace {

constexpr double kMostRate = 1e9;  // Mbit/s

}  // namespace

Blob path_report(size_t frame_bytes, bool leaves_host, const std::string& why_no_memory, const std::string& tcp_alone) {
  Blob blob;
  blob.set("frame_bytes", frame_bytes);
  blob.set("why", why_no_memory);
  blob.set("leaves_host", static_cast<uint64_t>(leaves_host));
  blob.set("tcp_alone", tcp_alone);
  return blob;
}

Result<PathSummary> summarize_paths(const std::vector<Blob>& reports) {
  PathSummary summary;
  uint64_t least = kMaxPayloadBytes + wire::kExactHeaderBytes;
  for (const Blob& report : reports) {
    summary.leaves_host = summary.leaves_host || report.text("leaves_host") == "1";
    if (summary.tcp_alone.empty() && !report.text("tcp_alone").empty())
      summary.tcp_alone = "from rank " + std::to_string(&report - reports.data()) + " to " + report.text("tcp_alone");
    uint64_t bytes = 0;
    if (!report.number("frame_bytes", UINT32_MAX, &bytes)) return Status(Code::kMismatch, "a rank's path has no size");
    least = std::min(least, bytes);
  }
  summary.frame_bytes = least;
  return summary;
}

Blob payload_report(size_t payload) {
  Blob blob;
  blob.set("payload", payload);
  return blob;
}

Result<size_t> read_payload(const Blob& report) {
  uint64_t payload = 0;
  if (!report.number("payload", kMaxPayloadBytes, &payload) || !is_allowed_payload(payload)) {
    return Status(Code::kMismatch, "rank 0 says that no payload passes: install the same switchml on all ranks");
  }
  return static_cast<size_t>(payload);
}

Result<size_t> least_payload(const std::vector<Blob>& reports, size_t payload, const std::string& group) {
  uint64_t least = payload;
  for (size_t rank = 0; rank < reports.size(); ++rank) {
    uint64_t passes = 0;
    if (!reports[rank].number("payload", kMaxPayloadBytes, &passes)) {
      return Status(Code::kMismatch, "rank " + std::to_string(rank) + " does not say which payload passes");
    }
    if (passes < payload) {
      SWITCHML_LOG(kInfo) << group << ": between rank " << rank << " and the switch " << passes
                          << " bytes of payload pass in one packet, not " << payload;
    }
    least = std::min(least, passes);
  }
  return static_cast<size_t>(least);
}

Blob speed_report(const PathSpeed& speed, size_t queue_bytes, const std::string& why_no_tcp,
                  const std::string& why_no_rdma) {
  Blob blob;
  blob.set("chunks", speed.chunks);
  blob.set("rate", static_cast<uint64_t>(std::min(speed.rate, kMostRate)));
  blob.set("queue", queue_bytes);
  blob.set("why_no_tcp", why_no_tcp);
  blob.set("why_no_rdma", why_no_rdma);
  return blob;
}

PathNeeds needs_of_paths(const std::vector<Blob>& reports) {
  PathNeeds needs;
  std::vector<uint64_t> rates;
  for (size_t rank = 0; rank < reports.size(); ++rank) {
    const Blob& report = reports[rank];
    uint64_t number = 0;
    if (report.number("chunks", kMostChunksOnPath, &number)) needs.chunks = std::max(needs.chunks, number);
    if (report.number("queue", UINT64_MAX, &number) && number > 0) {
      needs.queue_bytes = std::min(needs.queue_bytes, number);
    }
    if (report.number("rate", UINT64_MAX, &number) && number > 0) rates.push_back(number);
    const std::string name = "rank " + std::to_string(rank);
    const std::string why = report.text("why_no_tcp"), why_no_rdma = report.text("why_no_rdma");
    if (needs.why_no_tcp.empty() && !why.empty()) needs.why_no_tcp = "from " + name + " to " + why;
    if (needs.why_no_rdma.empty() && !why_no_rdma.empty()) needs.why_no_rdma = name + ": " + why_no_rdma;
  }
  std::sort(rates.begin(), rates.end());
  if (!rates.empty()) needs.rate = rates[(rates.size() - 1) / 2];  // [RATE-8]
  return needs;
}

}  // namespace switchml
