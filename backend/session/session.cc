#include "session/session.h"

#include <algorithm>
#include <utility>

#include "base/limits.h"
#include "session/group_session.h"
#include "session/paired_session.h"
#include "store/store_exchange.h"

namespace switchml {

namespace {

Status check_group(const GroupInfo& group) {
  if (group.size < 1 || group.size > kMaxWorkers || group.rank < 0 || group.rank >= group.size) {
    return {Code::kInvalidArgument, "rank " + std::to_string(group.rank) + " of a group of " +
                                        std::to_string(group.size) + ": a group has 1 to " +
                                        std::to_string(kMaxWorkers) + " ranks, counted from 0"};
  }
  return {};
}

}  // namespace

Result<std::unique_ptr<Session>> Session::open(const Config& config, const GroupInfo& group, Rendezvous& store,
                                               Time deadline, std::shared_ptr<ControllerClient> controller,
                                               std::function<Status()> ended) {
  if (Status status = check_group(group); !status.ok()) {
    give_up_opening(store, group, status);
    return status;
  }
  const auto fate = std::make_shared<SharedFate>();
  GroupSessionOptions options;
  options.controller = std::move(controller);
  options.ended = std::move(ended);
  options.on_failure = [fate](const Status& status) { fate->fail(status); };
  auto session = open_group_session(config, group, store, deadline, std::move(options));
  if (!session.ok() || group.size == 1 || session.value()->precision() == "exact" || !wants_pair(config))
    return session;
  return pair_with_hosts(std::move(session.value()), fate, config, group, store, deadline);
}

}  // namespace switchml
