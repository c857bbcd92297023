// The state of a running controller, for people.
#pragma once

#include <string>

#include "api/switchml_control.pb.h"
#include "base/status.h"

namespace switchml {

/// Asks a controller, 10 s at most. kUnavailable: it does not answer, or refuses. `ca` (PEM text) empty: no TLS.
Result<v1::StateReply> ask_state(const std::string& address, const std::string& token, const std::string& ca);

/// Switches, sessions, and counters that are not zero.
std::string state_text(const v1::StateReply& state);

}  // namespace switchml
