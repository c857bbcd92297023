// A plan as the API has it (api/switchml_control.proto).
#pragma once

#include "api/switchml_control.pb.h"
#include "base/status.h"
#include "controller/plan.h"

namespace switchml {

/// kInvalidArgument names a switch or worker that the topology does not have.
Result<controller::Plan> plan_of(const v1::SetPlanRequest& message, const controller::Topology& topology);

}  // namespace switchml
