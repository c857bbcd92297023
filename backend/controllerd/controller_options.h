// The command line of switchml-controller.
#pragma once

#include <string>

#include "base/log.h"
#include "base/status.h"
#include "controllerd/controller_server.h"
#include "controllerd/state_text.h"

namespace switchml {

struct ControllerCommand {
  bool help = false;     // Print controller_help() and exit.
  bool version = false;  // Print the version and exit.
  bool check = false;    // Print that the files are good, and exit.
  std::string state;     // HOST:PORT of a running controller, to print its state; empty: be a controller.
  Caller caller;         // Credentials for `state`.
  std::string topology;  // The topology's file or option, for messages.
  ControllerOptions options;
  LogLevel log_level = LogLevel::kWarning;
};

/// Parses, and reads the files that the options name; argv as main() gets it. An error is kInvalidArgument and names
/// the option or the file's line, the value and what is allowed. Not thread-safe.
Result<ControllerCommand> parse_controller_command(int argc, char* const* argv);

std::string controller_help();

}  // namespace switchml
