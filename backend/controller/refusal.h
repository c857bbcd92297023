// Refusals: the kind, and a message that names the thing, its value and the allowed values.
#pragma once

#include <string>

namespace switchml::controller {

enum class Why {
  kInvalid,       // Can never be granted.
  kExhausted,     // Not now: slots, jobs, quota.
  kUnavailable,   // A switch does not answer.
  kNotFound,      // No such session (any more).
  kPrecondition,  // Another version of the protocol, or not in this order.
};

struct Refusal {
  Why why = Why::kInvalid;
  std::string message;
  // kExhausted: the sessions to end. Both empty: any session.
  std::string owner{};    // A quota: this owner's sessions.
  std::string switch_{};  // Sessions at the switch of this name.
};

}  // namespace switchml::controller
