// The format of a session.
#pragma once

#include <memory>

#include "exact/exact_format.h"
#include "integer/integer_format.h"

namespace switchml {

/// `keep_results`: as ExactFormat has it. Borrows session and counters.
inline std::unique_ptr<Format> make_format(const SessionParameters& session, bool keep_results,
                                           WorkerCounters& counters) {
  if (session.exact) return std::make_unique<ExactFormat>(session, keep_results, counters);
  return std::make_unique<IntegerFormat>(session, counters);
}

}  // namespace switchml
