// Why something is refused, and the sentence that says so: it names the thing, its value and what is allowed.
#pragma once

#include <string>

namespace switchml::controller {

enum class Why {
  kInvalid,       // can never be granted
  kExhausted,     // not now: slots, jobs, quota
  kUnavailable,   // a switch does not answer
  kNotFound,      // no such session (any more)
  kPrecondition,  // another version of the protocol, or not in this order
};

struct Refusal {
  Why why = Why::kInvalid;
  std::string message;
  // kExhausted: who holds what is missing. Both empty: every session holds some of it.
  std::string owner{};    // its sessions: a quota
  std::string switch_{};  // sessions at this one, by its name
};

}  // namespace switchml::controller
