// The log. This header includes no glog: its macros collide with those of torch's headers.
#pragma once

#include <optional>
#include <sstream>
#include <string>

namespace switchml {

enum class LogLevel { kDebug = 0, kInfo = 1, kWarning = 2, kError = 3, kOff = 4 };

/// "debug", "info", "warning", "error", "off": as people write them.
const char* to_string(LogLevel level);
std::optional<LogLevel> parse_log_level(const std::string& text);

/// Sets the least severe level that is written (default: warning). Thread-safe.
void set_log_level(LogLevel level);
bool log_enabled(LogLevel level);
/// Writes one line to stderr through glog. Thread-safe.
void log_line(LogLevel level, const char* file, int line, const std::string& text);

namespace detail {
class LogStream {
 public:
  LogStream(LogLevel level, const char* file, int line) : level_(level), file_(file), line_(line) {}
  ~LogStream() { log_line(level_, file_, line_, text_.str()); }
  LogStream(const LogStream&) = delete;
  LogStream& operator=(const LogStream&) = delete;
  std::ostream& stream() { return text_; }

 private:
  LogLevel level_;
  const char* file_;
  int line_;
  std::ostringstream text_;
};
struct LogEnd {
  void operator&(std::ostream&) const {}
};
}  // namespace detail
}  // namespace switchml

/// SWITCHML_LOG(kInfo) << "joined job " << job;
// The operator binds looser than << and tighter than ?:, so that the macro is one expression.
#define SWITCHML_LOG(level)                             \
  !::switchml::log_enabled(::switchml::LogLevel::level) \
      ? static_cast<void>(0)                            \
      : ::switchml::detail::LogEnd() &                  \
            ::switchml::detail::LogStream(::switchml::LogLevel::level, __FILE__, __LINE__).stream()
