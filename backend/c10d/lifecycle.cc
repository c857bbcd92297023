// What becomes of a group: others of its ranks, more time for its calls, calls taken together, and its end.
#include <algorithm>
#include <set>
#include <utility>

#include "c10d/process_group.h"

namespace switchml {
namespace {

constexpr int kShrinkAbort = 1;  // torch.distributed.SHRINK_ABORT

/// The ranks of a group of `size` without those; throws where that is not possible.
std::vector<int> remaining(const std::vector<int64_t>& excluded, int rank, int size) {
  const std::string who = "switchml shrink on rank " + std::to_string(rank) + " of " + std::to_string(size);
  const std::string allowed = "; allowed: some of 0 to " + std::to_string(size - 1) + ", each once, without this rank";
  std::set<int64_t> gone;
  for (const int64_t other : excluded) {
    if (other < 0 || other >= size || other == rank || !gone.insert(other).second) {
      compat::throw_value_error(who + ": rank " + std::to_string(other) + " cannot be excluded" + allowed);
    }
  }
  if (gone.empty()) compat::throw_value_error(who + ": no rank is excluded" + allowed);
  std::vector<int> rest;
  for (int other = 0; other < size; ++other) {
    if (gone.count(other) == 0) rest.push_back(other);
  }
  return rest;
}

/// By rank, where that is free.
std::vector<std::string> ordered(
    const std::variant<std::unordered_set<std::string>, std::vector<std::string>>& handles) {
  if (const auto* list = std::get_if<std::vector<std::string>>(&handles)) return *list;
  const auto& set = std::get<std::unordered_set<std::string>>(handles);
  std::vector<std::string> sorted(set.begin(), set.end());
  std::sort(sorted.begin(), sorted.end());
  return sorted;
}

/// "1_3".
std::string joined(const std::vector<int>& ranks) {
  std::string text;
  for (const int rank : ranks) {
    if (!text.empty()) text += '_';
    text += std::to_string(rank);
  }
  return text;
}

}  // namespace

std::vector<uint64_t> ProcessGroupSwitchML::global_ranks() const {
  std::vector<uint64_t> ranks = settings_.global_ranks;
  for (auto rank = ranks.size(); rank < static_cast<size_t>(size_); ++rank) ranks.push_back(rank);
  return ranks;
}

/// PyTorch asks for a group once for each of its types of devices, with the same store, and all of them get one.
c10::intrusive_ptr<compat::Base> ProcessGroupSwitchML::create_once(Settings settings) {
  const c10::intrusive_ptr<compat::Base> last = last_made_.lock();
  const bool is_asked_again = last && static_cast<ProcessGroupSwitchML&>(*last).store_ == settings.store &&
                              last->getRank() == settings.rank && last->getSize() == settings.size;
  if (is_asked_again) return last;
  c10::intrusive_ptr<compat::Base> made = create(std::move(settings));
  last_made_ = made;
  return made;
}

c10::intrusive_ptr<compat::Base> ProcessGroupSwitchML::split(const c10::intrusive_ptr<c10d::Store>& store,
                                                             const std::vector<int>& ranks,
                                                             const c10::intrusive_ptr<compat::BaseOptions>& opts) {
  const auto mine = std::find(ranks.begin(), ranks.end(), rank_);
  if (mine == ranks.end()) return {};
  Settings settings = settings_;
  settings.store = store;
  settings.awaits_ranks = false;
  settings.rank = static_cast<int>(mine - ranks.begin());
  settings.global_ranks.clear();
  const std::vector<uint64_t> all = global_ranks();
  for (const int rank : ranks) settings.global_ranks.push_back(all.at(static_cast<size_t>(rank)));
  settings.size = static_cast<int>(ranks.size());
  settings.timeout = opts ? opts->timeout : timeout_.load();
  settings.name = settings_.name + ":split_" + joined(ranks);
  return create_once(std::move(settings));
}

// Nothing of this group is needed but its store: its session may have failed, and excluded ranks may be dead.
c10::intrusive_ptr<compat::Base> ProcessGroupSwitchML::shrink(const std::vector<int64_t>& excluded, int flags,
                                                              const c10::intrusive_ptr<compat::BaseOptions>& opts) {
  const std::vector<int> ranks = remaining(excluded, rank_, size_);
  if (flags != 0 && flags != kShrinkAbort) {
    compat::throw_value_error("switchml shrink: flags " + std::to_string(flags) +
                              "; allowed: 0 (SHRINK_DEFAULT), 1 (SHRINK_ABORT)");
  }
  if (core_->inherited()) throw_status(core_->closed(), "switchml shrink of group " + settings_.name);
  if (flags == kShrinkAbort) abort();
  const auto store = c10::make_intrusive<c10d::PrefixStore>("shrink/" + joined(ranks), settings_.store);
  return split(store, ranks, opts);
}

c10::intrusive_ptr<compat::Base> ProcessGroupSwitchML::merge(const c10::intrusive_ptr<c10d::Store>& store,
                                                             const c10::intrusive_ptr<compat::BaseOptions>& opts,
                                                             const int& rank, const int& size) {
  const std::string name = opts ? compat::group_name(*opts) : "";
  Settings settings = settings_;
  settings.store = store;
  settings.awaits_ranks = false;
  settings.rank = rank;
  settings.size = size;
  settings.global_ranks.clear();  // The ranks of the others in their worlds are not known.
  settings.world = nullptr;
  settings.timeout = opts ? opts->timeout : timeout_.load();
  settings.name = name.empty() ? settings_.name + ":merge" : name;
  return create_once(std::move(settings));
}

ProcessGroupSwitchML::WorkPtr ProcessGroupSwitchML::reconfigure(const compat::ReconfigureOptions& opts) {
  const std::string who = "switchml reconfigure of group " + settings_.name;
  if (!compat::kReconfigures) compat::throw_backend_error(who + ": it needs PyTorch 2.14 or a newer one");
  if (core_->inherited()) throw_status(core_->closed(), who);
  const std::vector<std::string> handles = ordered(opts.handles);
  const auto mine = std::find(handles.begin(), handles.end(), handle_);
  if (mine == handles.end() || std::set<std::string>(handles.begin(), handles.end()).size() != handles.size()) {
    compat::throw_value_error(
        who + ": the " + std::to_string(handles.size()) +
        " handles lack this rank's, or have one twice; allowed: those that get_reconfigure_handle() "
        "gives, one of each rank");
  }
  if (!reconfigured_by_.insert(opts.uuid).second) {
    compat::throw_argument_error(who + ": the uuid " + std::to_string(opts.uuid) +
                                 " was already used; allowed: one that is new to the group");
  }
  shutdown();
  const auto before = core_;
  settings_.store = c10::make_intrusive<c10d::PrefixStore>("reconfigure/" + std::to_string(opts.uuid), store_);
  settings_.rank = static_cast<int>(mine - handles.begin());
  settings_.size = static_cast<int>(handles.size());
  settings_.global_ranks.clear();  // The ranks of the others in their worlds are not known.
  settings_.world = nullptr;
  settings_.awaits_ranks = false;
  compat::set_place(rank_, settings_.rank);
  compat::set_place(size_, settings_.size);
  shutdown_begun_ = shut_down_ = false;
  last_ = {};
  outstanding_.clear();
  try {
    without_interpreter_lock([&] { join_ranks(opts.timeout.value_or(timeout_.load())); });
  } catch (const std::exception& error) {
    core_->close(Status(Code::kUnavailable, std::string("its last reconfigure() failed: ") + error.what()));
    throw;
  }
  core_->abort_hooks().take_over(before->abort_hooks());
  core_->completion_hooks().take_over(before->completion_hooks());
  if (before->timed()) core_->time_calls();
  auto work = c10::make_intrusive<SwitchWork>(rank_, c10d::OpType::UNKNOWN, CallRecord(who));
  work->succeed();
  return work;
}

void ProcessGroupSwitchML::registerAbortHook(int64_t id, AbortHooks::Hook hook) {
  core_->abort_hooks().add(id, std::move(hook));
}
void ProcessGroupSwitchML::unregisterAbortHook(int64_t id) { core_->abort_hooks().remove(id); }

void ProcessGroupSwitchML::registerCompletionHook(int64_t id, compat::CompletionHook hook) {
  core_->completion_hooks().add(id, [hook = std::move(hook)](uint64_t key, std::optional<float> duration_ms) {
    compat::CompletionHookArgs args;
    args.completionKey = key;
    args.duration_ms = duration_ms;
    hook(args);
  });
}
void ProcessGroupSwitchML::unregisterCompletionHook(int64_t id) { core_->completion_hooks().remove(id); }

void ProcessGroupSwitchML::addEphemeralTimeout(const std::chrono::milliseconds& extra) {
  core_->extensions().add(extra);
}

// Before 2.1 there is an endCoalescing() of another sort, and each call is waited for by itself.
void ProcessGroupSwitchML::startCoalescing() {
  if (compat::kCoalesces) coalescing_.begin();
}
ProcessGroupSwitchML::WorkPtr ProcessGroupSwitchML::endCoalescing() { return coalescing_.end(rank_); }

}  // namespace switchml
