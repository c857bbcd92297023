// Ways of reducing, each with all its ranks (and its switch) on one thread that takes them in rotation: the code that
// ships, without the chance of threads, so that two runs are the same instruction for instruction.
#pragma once

#include <cstddef>
#include <cstdint>
#include <memory>
#include <string>
#include <vector>

#include "base/status.h"
#include "engine/engine.h"

namespace switchml::profile {

struct PathOptions {
  std::string name;  // "inproc", "udp", "rdma" or "memory".
  int ranks = 2;     // 1 ... kMaxWorkers.
  // Unused by "memory".
  size_t payload_bytes = 1024;
  int slots = 128;
  bool exact = false;                     // Always true for "rdma".
  std::string verbs = "libibverbs.so.1";  // The library for "rdma", as dlopen() takes it.
};

/// Index: rank.
using Tensors = std::vector<std::vector<float>>;

/// Totals of all ranks since the path was made.
struct Work {
  uint64_t chunks = 0;           // Results accepted, those of the call lane included.
  uint64_t packets = 0;          // Packets sent by ranks.
  uint64_t retransmissions = 0;  // Included in `packets`.
};

/// Not thread-safe.
class Path {
 public:
  virtual ~Path() = default;
  /// Starts an all-reduce (SUM), in place, of a tensor per rank; borrowed until it is complete.
  void submit(Tensors& tensors);
  /// Turns of all ranks, and of the switch. They never wait for long.
  virtual void ranks_turn() = 0;
  virtual void switch_turn() = 0;
  /// Ranks without an outcome of the all-reduce.
  int ranks_left() const { return left_; }
  /// The first error that a rank had.
  const Status& status() const { return status_; }

  /// Sets the tensors to reduce, which outlive the path.
  virtual void use(Tensors& /*tensors*/) {}
  virtual Work work() const = 0;
  /// The grant: bytes of payload of a packet, or of a chunk in memory, and the number of them at a time.
  virtual size_t chunk_bytes() const = 0;
  virtual int slots() const = 0;

 protected:
  virtual void submit_to(int rank, Collective collective) = 0;

 private:
  int left_ = 0;
  Status status_;
};

/// kInvalidArgument: the name does not exist. Other errors are refusals by the host or the switch.
Result<std::unique_ptr<Path>> make_path(const PathOptions& options);
Result<std::unique_ptr<Path>> make_switch_path(const PathOptions& options);
Result<std::unique_ptr<Path>> make_memory_path(const PathOptions& options);

}  // namespace switchml::profile
