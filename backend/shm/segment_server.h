// How a segment comes to the other ranks of a host: its owner waits at an abstract Unix socket, whose name cannot be
// guessed, and gives the descriptor to processes of the same user that know the key. Only processes of the same network
// namespace reach such a socket; nothing of it is in a file system.
#pragma once

#include <cstdint>
#include <memory>
#include <string>
#include <thread>

#include "base/clock.h"
#include "base/status.h"
#include "shm/segment.h"
#include "socket/fd.h"

namespace switchml::shm {

class SegmentServer {
 public:
  /// Begins to hand `segment` out, from a thread of its own; keeps a descriptor of it meanwhile.
  static Result<std::unique_ptr<SegmentServer>> start(const Segment& segment, const std::string& name, uint64_t key);
  /// Ends it; ranks that have the segment keep it.
  ~SegmentServer();
  SegmentServer(const SegmentServer&) = delete;
  SegmentServer& operator=(const SegmentServer&) = delete;

 private:
  SegmentServer(Fd listener, Fd stop, Fd segment, uint64_t key);
  void run() const;
  void serve(int connection) const;

  Fd listener_;
  Fd stop_;
  Fd segment_;
  const uint64_t key_;
  std::thread thread_;
};

/// Asks for it; returns by `deadline`. kUnavailable: no server has this name, or it refuses.
Result<Segment> fetch_segment(const std::string& name, uint64_t key, size_t bytes, Time deadline);

}  // namespace switchml::shm
