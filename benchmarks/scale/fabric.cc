#include "fabric.h"

#include <algorithm>
#include <cmath>

namespace switchml::scale {

namespace {

int parallel(double below_gbps, double gbps, double oversubscription) {
  return std::max(1, static_cast<int>(std::ceil(below_gbps / gbps / oversubscription)));
}

uint64_t mix(uint64_t x) {
  x = (x ^ (x >> 30)) * 0xbf58476d1ce4e5b9U;
  x = (x ^ (x >> 27)) * 0x94d049bb133111ebU;
  return x ^ (x >> 31);
}

}  // namespace

Fabric::Fabric(const FabricOptions& options)
    : options_(options),
      racks_per_pod_(options.racks_per_pod == 0 ? options.racks : options.racks_per_pod),
      pods_((options.racks + racks_per_pod_ - 1) / racks_per_pod_),
      planes_(parallel(options.host_gbps * options.hosts_per_rack, options.trunk_gbps, options.oversubscription)),
      first_rack_link_(static_cast<uint32_t>(2 * hosts())),
      host_ps_(8000 / options.host_gbps),
      trunk_ps_(8000 / options.trunk_gbps),
      hop_(static_cast<Instant>(options.hop_us * kMicrosecond)),
      queue_bytes_(options.queue_kib * 1024),
      random_(mix(options.seed + 1)) {
  if (pods_ > 1) cores_ = parallel(racks_per_pod_, 1, options.oversubscription);
  first_pod_link_ = first_rack_link_ + two(options.racks * planes_);
  free_at_.resize(first_pod_link_ + two(pods_ * planes_ * cores_));
}

Path Fabric::path(int from, int to, uint64_t choice) const {
  Path path;
  const auto add = [&path](uint32_t link) { path.links[path.count++] = link; };
  const int rack = rack_of(from), other = rack_of(to);
  const uint64_t chosen = mix(choice);
  const int plane = static_cast<int>(chosen % static_cast<uint64_t>(planes_));
  add(host_up(from));
  if (rack != other) {
    add(rack_up(rack, plane));
    if (pod_of(rack) != pod_of(other)) {
      const int core = static_cast<int>((chosen >> 32) % static_cast<uint64_t>(cores_));
      add(pod_up(pod_of(rack), plane, core));
      add(pod_down(pod_of(other), plane, core));
    }
    add(rack_down(other, plane));
  }
  add(host_down(to));
  return path;
}

uint32_t Fabric::between(int from, int to) const {
  const int first_pod_switch = racks(), first_core = racks() + pods_ * planes_;
  const int of_pod = (from >= first_pod_switch && from < first_core ? from : to) - first_pod_switch;
  const int pod = of_pod / planes_, plane = of_pod % planes_;
  if (from < first_pod_switch) return rack_up(from, plane);
  if (to < first_pod_switch) return rack_down(to, plane);
  if (from < first_core) return pod_up(pod, plane, (to - first_core) % cores_);
  return pod_down(pod, plane, (from - first_core) % cores_);
}

bool Fabric::chance() {
  random_ += 0x9e3779b97f4a7c15U;
  return static_cast<double>(mix(random_) >> 11) * 0x1p-53 < options_.loss;
}

Instant Fabric::send(uint32_t link, size_t bytes, Instant now) {
  ++sent_;
  const double ps = link < first_rack_link_ ? host_ps_ : trunk_ps_;
  Instant& free_at = free_at_[link];
  const Instant begins = std::max(now, free_at);
  const bool is_host = link < static_cast<uint32_t>(hosts());  // A host's queue is its memory.
  if (!is_host && static_cast<double>(begins - now) > queue_bytes_ * ps) {
    ++dropped_;
    return kNoInstant;
  }
  free_at = begins + static_cast<Instant>(static_cast<double>(bytes + kWireOverhead) * ps);
  if (options_.loss > 0 && chance()) {
    ++lost_;
    return kNoInstant;
  }
  return free_at + hop_;
}

}  // namespace switchml::scale
