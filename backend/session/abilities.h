// What a session can do.
#pragma once

#include <string>

#include "base/reduce_op.h"

namespace switchml {

/// The same on all ranks, as long as the session lasts.
struct Abilities {
  /// How floats are summed. "exact": rounded once at each place that adds. "integer": by a switch of integers. "mixed":
  /// more than kFewElements by such a switch, and exactly otherwise.
  std::string precision;
  /// "udp", "tcp", "rdma": every rank speaks to the switch. "shm": the ranks, all on one host, reduce in memory that
  /// they share, without any switch. "shm+udp" and so on: the ranks of each host share memory, and each host speaks to
  /// the switch as one worker.
  std::string transport;
  /// The engine takes every operation and type that can be added exactly; else those of integers.
  bool adds_exactly = false;
  bool moves = false;      // The engine moves bytes (Movement).
  bool exchanges = false;  // And does so in an Exchange.

  bool can(ReduceOp op, ElementType type) const { return (adds_exactly ? exact_can : integer_can)(op, type); }
};

}  // namespace switchml
