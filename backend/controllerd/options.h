// The command line of switchml-controller.
#pragma once

#include <string>

#include "base/log.h"
#include "base/status.h"
#include "controllerd/server.h"
#include "controllerd/state_text.h"

namespace switchml {

struct ControllerCommand {
  bool help = false;     // print controller_help() and leave
  bool version = false;  // print the version and leave
  bool check = false;    // the files are good: say so and leave
  std::string state;     // HOST:PORT of a running controller whose state to print; empty: be one
  Caller caller;         // who asks for it
  std::string topology;  // what was read, for messages
  ControllerOptions options;
  LogLevel log_level = LogLevel::kWarning;
};

/// Parses, and reads the files that the options name; argv as main() gets it. An error is kInvalidArgument and names
/// the option or the file's line, the value and what is allowed. Not thread-safe.
Result<ControllerCommand> parse_controller_command(int argc, char* const* argv);

std::string controller_help();

}  // namespace switchml
