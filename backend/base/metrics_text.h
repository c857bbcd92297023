// The text in which programs tell Prometheus their metrics: its format 0.0.4.
#pragma once

#include <cstdint>
#include <map>
#include <string>
#include <utility>
#include <vector>

namespace switchml {

/// The content type of an HTTP page with such a text.
inline constexpr const char* kMetricsContentType = "text/plain; version=0.0.4; charset=utf-8";

/// Names and values of labels. Values may be any UTF-8.
using MetricLabels = std::vector<std::pair<std::string, std::string>>;

/// Samples, by their metrics' names. The first sample of a metric gives its help text. Not thread-safe.
class MetricsText {
 public:
  void gauge(const std::string& name, const std::string& help, const MetricLabels& labels, double value);
  /// Appends "_total" to the name.
  void counter(const std::string& name, const std::string& help, const MetricLabels& labels, uint64_t value);
  /// Each metric with its help and type, in the order of names.
  std::string text() const;

 private:
  void add(const std::string& name, const char* type, const std::string& help, const MetricLabels& labels,
           const std::string& value);

  std::map<std::string, std::string> metrics_;  // By name: head and samples.
};

}  // namespace switchml
