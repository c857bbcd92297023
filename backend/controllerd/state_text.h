// The state of a running controller, for people.
#pragma once

#include <string>

#include "api/switchml_control.pb.h"
#include "base/status.h"

namespace switchml {

/// A caller's credentials, and the authority for the controller's certificate. PEM texts, not files.
struct Caller {
  std::string token;        // Empty: none.
  std::string ca;           // The authority of controllers' certificates; empty: no TLS.
  std::string certificate;  // The caller's; empty: none.
  std::string key;          // The certificate's.
};

/// Asks a controller, for 10 s at most. kUnavailable: it does not answer, or refuses.
Result<v1::StateReply> ask_state(const std::string& address, const Caller& caller);

/// Switches, sessions, and counters that are not zero.
std::string state_text(const v1::StateReply& state);

}  // namespace switchml
