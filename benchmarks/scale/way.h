// Common parts of the modelled ways: jobs, and the end of each.
#pragma once

#include <cstdint>
#include <deque>
#include <vector>

#include "outcome.h"
#include "packets.h"
#include "segments.h"

namespace switchml::scale {

class Way : public Traffic {
 public:
  bool over() const override { return running_ == 0; }
  /// Simulates the whole way.
  Outcome run(Fabric* fabric, EventQueue* events, size_t window_bytes);

 protected:
  struct Job {
    Members members;
    Segments segments;
    uint64_t to_come = 0;  // Packets.
    Instant ended_at = 0;
  };
  /// Makes jobs that have tensors with a segment for each worker.
  Way(const WayOptions& options, uint32_t hosts);
  std::vector<Job>& jobs() { return jobs_; }
  Job& job_of(uint32_t host) { return jobs_[host % jobs_.size()]; }
  void expect(Job* job, uint64_t packets);
  void note_arrival(Job* job, Instant now);

 private:
  std::vector<Job> jobs_;
  size_t running_ = 0;
};

/// A way with a queue of packets for each host.
class QueuedWay : public Way {
 protected:
  QueuedWay(const WayOptions& options, uint32_t hosts) : Way(options, hosts), waiting_(hosts) {}
  void enqueue(const Packet& packet) { waiting_[packet.from].push_back(packet); }

 private:
  bool next(int host, Packet* packet) override {
    auto& waiting = waiting_[static_cast<size_t>(host)];
    if (waiting.empty()) return false;
    *packet = waiting.front();
    waiting.pop_front();
    return true;
  }

  std::vector<std::deque<Packet>> waiting_;  // Index: host.
};

}  // namespace switchml::scale
