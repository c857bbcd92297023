// The command line of switchml-switchd.
#pragma once

#include <string>

#include "base/clock.h"
#include "base/log.h"
#include "base/status.h"
#include "switchd/agent.h"
#include "switchd/server.h"

namespace switchml {

struct CommandLine {
  bool help = false;                     // Print help_text() and exit.
  bool version = false;                  // Print the version and exit.
  std::string listen = "0.0.0.0:48879";  // The caller resolves it into server.listen; the port may be left out.
  std::string key_file;                  // Its key becomes server.seal; empty: nothing is sealed.
  ServerOptions server;
  AgentOptions agent;              // If `listen` is empty: no agent, the switch follows rules of its own.
  bool insecure_no_token = false;  // The agent obeys all callers.
  LogLevel log_level = LogLevel::kWarning;
  Duration stats_interval{0};  // 0: no periodic statistics.
};

/// Parses, and reads the files that the options name; argv as main() gets it. An error is kInvalidArgument and names
/// the option, its value and what is allowed. May be called repeatedly; not thread-safe.
Result<CommandLine> parse_command_line(int argc, char* const* argv);

std::string help_text();

}  // namespace switchml
