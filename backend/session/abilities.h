// What a session can do.
#pragma once

#include <string>

namespace switchml {

/// The same on all ranks, as long as the session lasts.
struct Abilities {
  /// How floats are summed. "exact": rounded once at each place that adds. "integer": by a switch of integers, but for
  /// float64. "mixed": more than kFewElements by such a switch, and exactly otherwise.
  std::string precision;
  /// "udp", "tcp", "rdma": every rank speaks to the switch. "shm": the ranks, all on one host, reduce in memory that
  /// they share, without any switch. "shm+udp" and so on: the ranks of each host share memory, and each host speaks to
  /// the switch as one worker.
  std::string transport;
  /// Whatever leaves a rank but through shared memory is encrypted and authenticated; what watches over the ranks is
  /// not.
  bool encrypts = false;
  const char* encryption() const { return encrypts ? "on" : "off"; }
  bool exchanges = false;  // The engine moves bytes in an Exchange too.
};

}  // namespace switchml
