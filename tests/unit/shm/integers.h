// What the tests of ranks that share memory reduce, and how long they wait for it.
#pragma once

#include <cstdint>
#include <future>
#include <memory>
#include <vector>

#include "base/clock.h"
#include "engine/in_place.h"

namespace switchml::shm::testing {

using Ints = std::vector<int32_t>;

/// The sum of `tensor` over the ranks, in place.
inline Collective sum_of(Ints& tensor) {
  return switchml::testing::in_place(ReduceOp::kSum, ElementType::kInt32, tensor);
}

/// How `collective` ends.
inline std::future<Status> end_of(Collective* collective) {
  auto promise = std::make_shared<std::promise<Status>>();
  collective->done = [promise](const Status& status) { promise->set_value(status); };
  return promise->get_future();
}

/// How long nothing but a failure lasts, and how long what comes at once may take on a machine that is busy with other
/// things.
constexpr Duration kLong = seconds(120);
constexpr Duration kSoon = seconds(60);

inline Status outcome_of(std::future<Status>& future) {
  if (future.wait_for(kLong) != std::future_status::ready) return {Code::kInternal, "it does not end"};
  return future.get();
}

}  // namespace switchml::shm::testing
