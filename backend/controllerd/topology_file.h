// The topology file; docs/controller.md describes it.
#pragma once

#include <string>

#include "base/status.h"
#include "controller/topology.h"

namespace switchml {

/// Reads and checks a topology. kInvalidArgument: "FILE:LINE: what is wrong", with the value and what is allowed.
Result<controller::Topology> read_topology(const std::string& path);

/// The topology of `--switch AGENT=ADDRESS`: one switch, any workers. kInvalidArgument names the option.
Result<controller::Topology> lone_switch(const std::string& text);

}  // namespace switchml
