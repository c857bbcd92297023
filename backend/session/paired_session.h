// A switch that adds integers, and the ranks' hosts beside it, which add exactly what it cannot, and sums of few
// elements: two sessions of the same ranks as one.
#pragma once

#include <memory>

#include "engine/paired_engine.h"
#include "session/session.h"

namespace switchml {

/// Whether a group with these settings gets an exact session beside one of integers.
bool wants_pair(const Config& config);

/// Collective, by `deadline`: opens the exact session and makes a pair of both. `fate`: told when the engine of
/// `switched` fails. An error names SWITCHML_PRECISION=integer, which does without.
Result<std::unique_ptr<Session>> pair_with_hosts(std::unique_ptr<Session> switched, std::shared_ptr<SharedFate> fate,
                                                 const Config& config, const GroupInfo& group, Rendezvous& store,
                                                 Time deadline);

}  // namespace switchml
