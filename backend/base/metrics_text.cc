#include "base/metrics_text.h"

#include <locale>
#include <sstream>

namespace switchml {
namespace {

/// With backslashes before what would end a line, and before `quote` (0: none).
std::string escaped(const std::string& text, char quote) {
  std::string result;
  for (const char c : text) {
    if (c == '\\' || (quote != 0 && c == quote)) result += '\\';
    result += c == '\n' ? std::string("\\n") : std::string(1, c);
  }
  return result;
}

std::string braced(const MetricLabels& labels) {
  std::string text;
  for (const auto& [name, value] : labels)
    text += (text.empty() ? "" : ",") + name + "=\"" + escaped(value, '"') + "\"";
  return text.empty() ? text : "{" + text + "}";
}

}  // namespace

void MetricsText::add(const std::string& name, const char* type, const std::string& help, const MetricLabels& labels,
                      const std::string& value) {
  std::string& lines = metrics_[name];
  if (lines.empty()) lines = "# HELP " + name + " " + escaped(help, 0) + "\n# TYPE " + name + " " + type + "\n";
  lines += name + braced(labels) + " " + value + "\n";
}

void MetricsText::gauge(const std::string& name, const std::string& help, const MetricLabels& labels, double value) {
  std::ostringstream number;  // Whatever the locale of the process.
  number.imbue(std::locale::classic());
  number.precision(17);
  number << value;
  add(name, "gauge", help, labels, number.str());
}

void MetricsText::counter(const std::string& name, const std::string& help, const MetricLabels& labels,
                          uint64_t value) {
  add(name + "_total", "counter", help, labels, std::to_string(value));
}

std::string MetricsText::text() const {
  std::string all;
  for (const auto& [_, lines] : metrics_) all += lines;
  return all;
}

}  // namespace switchml
