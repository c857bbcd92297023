// The metrics of process groups, from the same figures as switchml.stats(). docs/operations.md lists them.
#pragma once

#include <map>
#include <set>
#include <string>

#include "base/metrics_text.h"
#include "c10d/flight_log.h"
#include "c10d/process_group.h"

namespace switchml {

/// Those of one moment. Not thread-safe.
class GroupMetrics {
 public:
  /// `labels`: of all samples.
  explicit GroupMetrics(MetricLabels labels);
  /// A group that is open.
  void add(GroupCore& core, const Statistics& statistics);
  std::string text() const { return out_.text(); }

 private:
  /// Two groups of one name are told apart.
  MetricLabels labels_of(const GroupCore& core);
  void add_counters(const MetricLabels& labels, const Statistics& statistics);
  void add_memory(const GroupCore& core, const MetricLabels& labels, const Statistics& statistics);
  void add_calls(GroupCore& core, const MetricLabels& labels);

  const MetricLabels labels_;
  const std::map<uint64_t, FlightProgress> progress_ = FlightLog::of_process().progress();
  std::set<std::string> names_;
  MetricsText out_;
};

}  // namespace switchml
