#include "ring.h"

#include "way.h"

namespace switchml::scale {

namespace {

class Ring final : public QueuedWay {
 public:
  Ring(const WayOptions& options, uint32_t hosts) : QueuedWay(options, hosts) {
    for (Job& job : jobs()) {
      const uint32_t n = job.members.count(), hops = 2 * (n - 1);
      expect(&job, job.segments.all_packets() * hops);
      for (uint32_t m = 0; m < n && n > 1; ++m) {
        for (uint32_t p = 0; p < job.segments.packets(m); ++p) put(job, job.members.host(m), m, p, hops);
      }
    }
  }

 private:
  void arrived(const Packet& packet, Instant now) override {
    Job& job = job_of(packet.to);
    if (packet.hops > 1) put(job, packet.to, packet.segment, packet.number, packet.hops - 1);
    note_arrival(&job, now);
  }
  void put(const Job& job, uint32_t host, uint32_t segment, uint32_t number, uint32_t hops) {
    const uint32_t to = job.members.host(job.members.member(host) + 1);
    enqueue({host, to, job.segments.packet_bytes(segment, number), segment, number, hops});
  }
};

}  // namespace

Outcome run_ring(const WayOptions& options, Fabric* fabric, EventQueue* events) {
  return Ring(options, static_cast<uint32_t>(fabric->hosts())).run(fabric, events, options.window_bytes);
}

}  // namespace switchml::scale
