// What the modelled ways have in common: jobs, and when each has all packets that are to come.
#pragma once

#include <cstdint>
#include <vector>

#include "outcome.h"
#include "packets.h"
#include "segments.h"

namespace switchml::scale {

class Way : public Traffic {
 public:
  bool over() const override { return running_ == 0; }
  /// Simulates all of it.
  Outcome run(Fabric* fabric, EventQueue* events, size_t window_bytes);

 protected:
  struct Job {
    Members members;
    Segments segments;
    uint64_t to_come = 0;  // packets
    Instant ended_at = 0;
  };
  /// Jobs whose tensors have a segment for each worker.
  Way(const WayOptions& options, uint32_t hosts);
  std::vector<Job>& jobs() { return jobs_; }
  Job& job_of(uint32_t host) { return jobs_[host % jobs_.size()]; }
  void expect(Job* job, uint64_t packets);
  void note_arrival(Job* job, Instant now);

 private:
  std::vector<Job> jobs_;
  size_t running_ = 0;
};

}  // namespace switchml::scale
