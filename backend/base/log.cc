#include "base/log.h"

#include <glog/logging.h>

#include <atomic>
#include <mutex>

namespace switchml {

namespace {

std::atomic<LogLevel> g_level{LogLevel::kWarning};

// The host program may have initialized glog already; initializing it twice aborts.
void initialize_once() {
  static std::once_flag once;
  std::call_once(once, [] {
    if (google::IsGoogleLoggingInitialized()) return;
    FLAGS_logtostderr = true;
    google::InitGoogleLogging("switchml");
  });
}

google::LogSeverity severity(LogLevel level) {
  if (level >= LogLevel::kError) return google::GLOG_ERROR;
  return level == LogLevel::kWarning ? google::GLOG_WARNING : google::GLOG_INFO;
}

}  // namespace

void set_log_level(LogLevel level) { g_level.store(level, std::memory_order_relaxed); }

bool log_enabled(LogLevel level) { return level >= g_level.load(std::memory_order_relaxed); }

void log_line(LogLevel level, const char* file, int line, const std::string& text) {
  initialize_once();
  google::LogMessage(file, line, severity(level)).stream() << "switchml: " << text;
}

namespace {
constexpr LogLevel kLevels[] = {LogLevel::kDebug, LogLevel::kInfo, LogLevel::kWarning, LogLevel::kError,
                                LogLevel::kOff};
constexpr const char* kLevelNames[] = {"debug", "info", "warning", "error", "off"};
}  // namespace

const char* to_string(LogLevel level) { return kLevelNames[static_cast<int>(level)]; }

std::optional<LogLevel> parse_log_level(const std::string& text) {
  for (const LogLevel level : kLevels) {
    if (text == to_string(level)) return level;
  }
  return std::nullopt;
}

}  // namespace switchml
