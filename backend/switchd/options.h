// The command line of switchml-switchd.
#pragma once

#include <string>

#include "base/clock.h"
#include "base/log.h"
#include "base/status.h"
#include "switchd/server.h"

namespace switchml {

/// Where a controller reaches this switch. The caller reads the files.
struct AgentLine {
  std::string listen;  // ADDRESS:PORT; empty: no agent, the switch follows rules of its own
  std::string token_file;
  bool insecure_no_token = false;  // whoever reaches it may rule the switch
  std::string certificate_file;
  std::string key_file;
};

struct CommandLine {
  bool help = false;               // print help_text() and leave
  bool version = false;            // print the version and leave
  std::string listen = "0.0.0.0";  // resolved into server.listen by the caller; without a port: the default one
  ServerOptions server;
  AgentLine agent;
  LogLevel log_level = LogLevel::kWarning;
  Duration stats_interval{0};  // 0: no periodic statistics
};

/// Parses; argv as main() gets it. An error is kInvalidArgument and names the option, its value and what is allowed.
/// Resets getopt's state first, so it may be called repeatedly; not thread-safe.
Result<CommandLine> parse_command_line(int argc, char* const* argv);

std::string help_text();

}  // namespace switchml
