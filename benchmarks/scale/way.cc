#include "way.h"

namespace switchml::scale {

Way::Way(const WayOptions& options, uint32_t hosts) {
  const auto count = static_cast<uint32_t>(options.jobs);
  for (uint32_t j = 0; j < count; ++j) {
    const Members members{j, count, hosts};
    jobs_.push_back({members, {options.bytes, members.count(), options.payload_bytes}});
  }
}

void Way::expect(Job* job, uint64_t packets) {
  job->to_come = packets;
  if (packets > 0) ++running_;
}

void Way::note_arrival(Job* job, Instant now) {
  if (--job->to_come > 0) return;
  job->ended_at = now;
  --running_;
}

Outcome Way::run(Fabric* fabric, EventQueue* events, size_t window_bytes) {
  Packets packets(fabric, events, window_bytes);
  packets.run(this);
  Outcome outcome;
  for (const Job& job : jobs_) outcome.took.push_back(job.ended_at);
  if (!over()) outcome.wrong = "packets have not come";
  outcome.retransmissions = packets.repairs();
  return outcome;
}

}  // namespace switchml::scale
