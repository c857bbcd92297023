// SwitchPort as messages of the API carry it.
#pragma once

#include <string>

#include "api/switchml_control.pb.h"
#include "base/status.h"
#include "controller/topology.h"

namespace switchml {

/// kInvalidArgument if the address is not literal or has no port.
Result<controller::SwitchPort> switch_port_of(const v1::SwitchPlace& message);
v1::SwitchPlace message_of(const controller::SwitchPort& place);

}  // namespace switchml
