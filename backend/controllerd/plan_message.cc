#include "controllerd/plan_message.h"

#include <algorithm>
#include <string>
#include <utility>

namespace switchml {

namespace {

using controller::kNone;
using controller::PlannedShare;

/// The index of the element with this name, or kNone.
template <typename List, typename NameOf>
int number_of(const List& list, const std::string& name, const NameOf& name_of) {
  const auto found = std::find_if(list.begin(), list.end(), [&](const auto& each) { return name_of(each) == name; });
  return found == list.end() ? kNone : static_cast<int>(found - list.begin());
}

Status not_there(const std::string& what, const std::string& name, const std::string& of) {
  return {Code::kInvalidArgument, what + " \"" + name + "\" is none of " + of};
}

class PlanReader {
 public:
  explicit PlanReader(const controller::Topology& topology) : topology_(topology) {}

  Result<controller::Plan> read(const v1::SetPlanRequest& message) {
    std::vector<std::pair<int, std::string>> workers;
    for (const std::string& name : message.workers()) {
      const int worker = number_of(topology_.workers, name, [](const auto& spec) { return spec.name; });
      if (worker == kNone) return not_there("worker", name, "the topology's workers");
      workers.emplace_back(worker, name);
    }
    std::sort(workers.begin(), workers.end());
    controller::Plan plan;
    for (const auto& [worker, name] : workers) plan.workers.push_back(worker);
    for (const v1::PlannedShare& share : message.shares()) {
      auto read = read_share(share, workers);
      if (!read.ok()) return read.status();
      plan.shares.push_back(std::move(read.value()));
    }
    return plan;
  }

 private:
  Result<PlannedShare> read_share(const v1::PlannedShare& message,
                                  const std::vector<std::pair<int, std::string>>& workers) const {
    PlannedShare share;
    share.weight = message.weight();
    const auto name_of = [](const v1::PlannedSwitch& planned) { return planned.name(); };
    for (const v1::PlannedSwitch& planned : message.switches()) {
      PlannedShare::Switch node;
      node.at = number_of(topology_.switches, planned.name(), [](const auto& spec) { return spec.name; });
      if (node.at == kNone) return not_there("switch", planned.name(), "the topology's switches");
      if (!planned.parent().empty()) node.parent = number_of(message.switches(), planned.parent(), name_of);
      if (!planned.parent().empty() && node.parent == kNone)
        return not_there("parent", planned.parent(), "the share's switches");
      node.up.port = planned.parent_port();
      node.up.port_at_parent = planned.port_at_parent();
      if (planned.mtu() != 0) node.up.mtu = planned.mtu();
      share.switches.push_back(node);
    }
    for (const auto& [worker, name] : workers) {
      const auto at = message.switch_of().find(name);
      const int node = at == message.switch_of().end() ? kNone : number_of(message.switches(), at->second, name_of);
      if (node == kNone) return not_there("the switch of worker", name, "the share's switches");
      share.at.push_back(node);
    }
    return share;
  }

  const controller::Topology& topology_;
};

}  // namespace

Result<controller::Plan> plan_of(const v1::SetPlanRequest& message, const controller::Topology& topology) {
  return PlanReader(topology).read(message);
}

}  // namespace switchml
