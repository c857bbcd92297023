// Where the metrics of this process's ranks are to be had: at a port, or in a file for node_exporter. Free of torch.
#pragma once

#include <functional>
#include <string>

#include "base/metrics_text.h"

namespace switchml {

/// One of each process, while a group is open that asks for it. Its threads need no Python. Thread-safe.
class MetricsService {
 public:
  /// What is to be told now; `labels` are for all samples, beside their own.
  using Text = std::function<std::string(const MetricLabels& labels)>;

  /// Begins it where there is none. `where`: SWITCHML_METRICS (base/config.h); empty: nothing happens. An error is
  /// logged, and the next call tries again: a job goes on without metrics.
  static void begin(const std::string& where, Text text);
  /// The port is closed, or the file removed. A forked child has no service, and may begin its own.
  static void end();
  /// "10.0.0.1:9400", with the real port, or the name of the file; empty: there is no service.
  static std::string place();
};

}  // namespace switchml
