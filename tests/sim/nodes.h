// The nodes of the simulated network: a number per socket. Endpoints are these numbers in bytes.
#pragma once

#include "transport/transport.h"

namespace switchml::sim {

inline constexpr int kMostTenants = 3;
inline constexpr int kMostWorkers = 8;
inline constexpr int kMostShards = 4;
inline constexpr int kMostSwitches = 3;
inline constexpr int kFirstWorkerNode = 16;
inline constexpr int kNodes = kFirstWorkerNode + kMostTenants * kMostWorkers * kMostShards;
/// A sender that belongs to no job.
inline constexpr int kStranger = kNodes;

/// The socket of a worker's shard. A restarted worker has the same one, as if it had its old port again.
inline int node_of(int tenant, int worker, int shard) {
  return kFirstWorkerNode + (tenant * kMostWorkers + worker) * kMostShards + shard;
}
inline bool is_switch(int node) { return node < kMostSwitches; }
inline bool is_worker(int node) { return node >= kFirstWorkerNode && node < kNodes; }
inline int tenant_of(int node) { return (node - kFirstWorkerNode) / (kMostWorkers * kMostShards); }
inline int worker_of(int node) { return (node - kFirstWorkerNode) / kMostShards % kMostWorkers; }
inline int shard_of(int node) { return (node - kFirstWorkerNode) % kMostShards; }
/// All sockets of a worker are on one host; a cut takes the host off the network.
inline int host_of(int node) {
  return is_worker(node) ? (node - kFirstWorkerNode) / kMostShards + kFirstWorkerNode : node;
}

inline Endpoint endpoint_of(int node) {
  Endpoint endpoint;
  endpoint.size = 4;
  endpoint.bytes[0] = static_cast<uint8_t>(node);
  endpoint.bytes[1] = static_cast<uint8_t>(node >> 8);
  return endpoint;
}
inline int node_at(const Endpoint& endpoint) { return endpoint.bytes[0] | endpoint.bytes[1] << 8; }

}  // namespace switchml::sim
