// Counters and state for Prometheus, over HTTP at /metrics. docs/controller.md lists the names.
#pragma once

#include <memory>
#include <string>

#include "base/status.h"
#include "controllerd/dispatcher.h"

namespace switchml {

class Metrics {
 public:
  /// Serves until destroyed. `dispatcher` must outlive it. kUnavailable: the address cannot be had; kUnsupported: built
  /// without prometheus-cpp.
  static Result<std::unique_ptr<Metrics>> serve(const std::string& address, Dispatcher& dispatcher);
  virtual ~Metrics() = default;
  /// ADDRESS:PORT, with the real port.
  virtual std::string local() const = 0;
};

}  // namespace switchml
