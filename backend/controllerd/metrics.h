// Counters and state for Prometheus, over HTTP at /metrics. docs/controller.md lists the names.
#pragma once

#include <memory>
#include <string>

#include "base/status.h"
#include "controllerd/dispatcher.h"
#include "transport/http_server.h"

namespace switchml {

/// Serves until destroyed. `dispatcher` must outlive it. kUnavailable: the address cannot be had.
Result<std::unique_ptr<HttpServer>> serve_metrics(const std::string& address, Dispatcher& dispatcher);

}  // namespace switchml
