// The operations of torch.distributed as the engine has them.
#pragma once

#include <optional>

#include "base/reduce_op.h"
#include "c10d/compat.h"

namespace switchml {

/// What the engine makes of a c10d operation on a type; nullopt where that is refused.
std::optional<ReduceOp> engine_operation(const c10d::ReduceOp& op, at::ScalarType type);
/// "SUM", "AVG", ...
const char* operation_name(const c10d::ReduceOp& op);

}  // namespace switchml
