// An in-process transport for tests: endpoints of one Hub exchange frames through bounded queues under a mutex.
#pragma once

#include <memory>

#include "transport/transport.h"

namespace switchml {

/// A little network. Endpoints made from it keep it alive. Thread-safe.
class InprocHub {
 public:
  struct Options {
    size_t max_frame_bytes = 65507;
    size_t queue_frames = 1024;  // per endpoint; a frame to a full queue is lost
  };
  static std::shared_ptr<InprocHub> create(Options options);
  virtual ~InprocHub() = default;
  /// A transport with a fresh endpoint.
  virtual std::unique_ptr<Transport> attach() = 0;
};

}  // namespace switchml
