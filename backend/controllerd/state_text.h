// The state of a running controller, for people.
#pragma once

#include <string>

#include "api/switchml_control.pb.h"
#include "base/status.h"

namespace switchml {

/// What a caller shows to a controller, and how it knows that controller. PEM texts, not files.
struct Caller {
  std::string token;        // empty: none
  std::string ca;           // who signs controllers' certificates; empty: no TLS
  std::string certificate;  // own; empty: none
  std::string key;          // of the certificate
};

/// Asks a controller, 10 s at most. kUnavailable: it does not answer, or refuses.
Result<v1::StateReply> ask_state(const std::string& address, const Caller& caller);

/// Switches, sessions, and counters that are not zero.
std::string state_text(const v1::StateReply& state);

}  // namespace switchml
