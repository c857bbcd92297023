// The network of all ways: a fat-tree of links. A link sends one frame after the other at its rate; whole frames go on
// (store and forward); full queues, and chance, lose frames. A queue is the time at which its link is free, so that a
// frame costs one event a link.
#pragma once

#include <cstddef>
#include <cstdint>
#include <vector>

#include "event_queue.h"

namespace switchml::scale {

struct FabricOptions {
  int racks = 4;
  int hosts_per_rack = 16;
  int racks_per_pod = 0;  // 0: all racks are in one pod, under two levels of switches; else there are three.
  double host_gbps = 100;
  double trunk_gbps = 400;  // Rate of links between switches.
  double oversubscription = 1;
  double hop_us = 0.5;      // Latency of a link: cable, and the pipeline at its end.
  double queue_kib = 1024;  // Capacity of a link's queue.
  double loss = 0;          // Probability that a link loses a frame.
  uint64_t seed = 1;
};

/// Ethernet, IPv4 and UDP around a frame: preamble, headers, FCS, gap.
inline constexpr size_t kWireOverhead = 38 + 28;

/// The links from a host to another.
struct Path {
  uint32_t links[6];
  uint32_t count = 0;
};

class Fabric {
 public:
  explicit Fabric(const FabricOptions& options);

  int hosts() const { return options_.racks * options_.hosts_per_rack; }
  int racks() const { return options_.racks; }
  int pods() const { return pods_; }
  int planes() const { return planes_; }  // Pod switches of a pod.
  int cores() const { return cores_; }    // Core switches of a plane; 0: two levels.
  int rack_of(int host) const { return host / options_.hosts_per_rack; }
  int pod_of(int rack) const { return rack / racks_per_pod_; }
  int racks_per_pod() const { return racks_per_pod_; }

  // ---- switches, by number: racks', then pods', then cores ----
  int switches() const { return options_.racks + pods_ * planes_ + planes_ * cores_; }
  int pod_switch(int pod, int plane) const { return options_.racks + pod * planes_ + plane; }
  int core_switch(int plane, int core) const { return options_.racks + pods_ * planes_ + plane * cores_ + core; }

  // ---- links, by number ----
  uint32_t host_up(int host) const { return static_cast<uint32_t>(host); }
  uint32_t host_down(int host) const { return static_cast<uint32_t>(hosts() + host); }
  uint32_t rack_up(int rack, int plane) const { return first_rack_link_ + two(rack * planes_ + plane); }
  uint32_t rack_down(int rack, int plane) const { return rack_up(rack, plane) + 1; }
  uint32_t pod_up(int pod, int plane, int core) const {
    return first_pod_link_ + two((pod * planes_ + plane) * cores_ + core);
  }
  uint32_t pod_down(int pod, int plane, int core) const { return pod_up(pod, plane, core) + 1; }
  /// The link from a switch to a neighbour.
  uint32_t between(int from, int to) const;
  /// One of the shortest paths, by `choice`, which may be any number.
  Path path(int from, int to, uint64_t choice) const;

  /// Sends a frame of `bytes`, without kWireOverhead. Returns the time of its arrival; kNoInstant: it is lost.
  Instant send(uint32_t link, size_t bytes, Instant now);
  /// The time of `bytes` and kWireOverhead on a host's link.
  Instant host_time(size_t bytes) const {
    return static_cast<Instant>(static_cast<double>(bytes + kWireOverhead) * host_ps_);
  }
  Instant hop() const { return hop_; }

  uint64_t sent() const { return sent_; }
  uint64_t lost_by_chance() const { return lost_; }
  uint64_t dropped() const { return dropped_; }  // Dropped by full queues.

 private:
  static uint32_t two(int number) { return 2 * static_cast<uint32_t>(number); }
  bool chance();

  const FabricOptions options_;
  int racks_per_pod_;
  int pods_;
  int planes_;
  int cores_ = 0;
  uint32_t first_rack_link_;
  uint32_t first_pod_link_;
  double host_ps_;  // Picoseconds a byte.
  double trunk_ps_;
  Instant hop_;
  double queue_bytes_;
  std::vector<Instant> free_at_;  // Index: link.
  uint64_t random_;
  uint64_t sent_ = 0, lost_ = 0, dropped_ = 0;
};

}  // namespace switchml::scale
