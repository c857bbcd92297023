// A tensor in as many segments as there are members, each in packets; and the hosts of jobs: host h has job h % jobs.
#pragma once

#include <algorithm>
#include <cstddef>
#include <cstdint>

namespace switchml::scale {

struct WayOptions {
  size_t bytes = 1 << 20;  // Size of each worker's tensor.
  size_t payload_bytes = 8192;
  size_t window_bytes = 1 << 20;  // Window of each host.
  int jobs = 1;
};

struct Segments {
  size_t bytes;  // Size of the tensor.
  uint32_t count;
  size_t payload_bytes;

  size_t begin(uint32_t segment) const { return bytes * segment / count; }
  size_t bytes_of(uint32_t segment) const { return begin(segment + 1) - begin(segment); }
  /// At least one: an empty segment has an empty packet.
  uint32_t packets(uint32_t segment) const {
    return std::max<uint32_t>(1, static_cast<uint32_t>((bytes_of(segment) + payload_bytes - 1) / payload_bytes));
  }
  uint32_t packet_bytes(uint32_t segment, uint32_t number) const {
    return static_cast<uint32_t>(std::min(payload_bytes, bytes_of(segment) - number * payload_bytes));
  }
  uint64_t all_packets() const {
    uint64_t all = 0;
    for (uint32_t segment = 0; segment < count; ++segment) all += packets(segment);
    return all;
  }
};

/// The members of a job.
struct Members {
  uint32_t job;
  uint32_t jobs;
  uint32_t hosts;  // Hosts of all jobs.

  uint32_t count() const { return (hosts - job + jobs - 1) / jobs; }
  uint32_t host(uint32_t member) const { return job + member % count() * jobs; }
  uint32_t member(uint32_t host_number) const { return host_number / jobs; }
};

}  // namespace switchml::scale
