#include "job.h"

#include <algorithm>

#include "base/limits.h"

namespace switchml::scale {

namespace {
constexpr uint64_t kKey = 0x5eed;
constexpr int kJobNumbers = 100;  // Job numbers of a switch for one tree; the next tree has those after them.
}  // namespace

Job::Job(int number, const TreeOptions& options, const Inputs& inputs, Carrier* carrier, Switches* switches)
    : number_(number),
      options_(options),
      inputs_(inputs),
      carrier_(carrier),
      switches_(switches),
      random_(options.seed + static_cast<uint64_t>(number) * 7919) {}

uint64_t Job::random() {
  random_ = random_ * 6364136223846793005U + 1442695040888963407U;
  return random_ >> 33;
}

softswitch::InstalledSession Job::session() const {
  softswitch::InstalledSession session;
  session.job = static_cast<uint8_t>(1 + number_ + moves_ * kJobNumbers);
  session.epoch = static_cast<uint32_t>(1 + moves_);
  session.slots = options_.slots;
  session.payload_bytes = options_.payload_bytes;
  session.exact = true;
  session.session_key = kKey;
  return session;
}

Route Job::route() const {
  Route route;
  route.job = session().job;
  route.epoch = session().epoch;
  route.session_key = kKey;
  route.lease = seconds(100000);
  route.controlled = true;
  return route;
}

EngineOptions Job::engine(int member, int members) const {
  EngineOptions engine;
  SessionParameters& session = engine.session;
  static_cast<Route&>(session) = route();
  session.worker = member;
  session.workers = std::min(members, kMaxWorkers);  // An exact all-reduce does not use it.
  session.slots = options_.slots;
  session.payload_bytes = options_.payload_bytes;
  session.exact = session.tree = true;
  session.secret[0] = 1;
  engine.switch_patience = seconds(1000);  // The simulation reports lost switches.
  engine.keep_results = options_.dies_at != kNoInstant;
  return engine;
}

void Job::make_workers(const std::vector<int>& hosts, uint32_t first) {
  hosts_ = hosts;
  first_ = first;
  int counts[Inputs::kTensors] = {};
  for (size_t w = 0; w < hosts.size(); ++w) ++counts[w % Inputs::kTensors];
  results_ = std::make_unique<Results>(inputs_, counts);
  if (options_.spoil) results_->spoil();
  std::map<int, int> members;  // Rack -> number of members.
  for (size_t w = 0; w < hosts.size(); ++w) {
    const int rack = carrier_->fabric.rack_of(hosts[w]);
    WorkerOptions options;
    options.engine = engine(members[rack]++, static_cast<int>(hosts.size()));
    options.engine.session.switch_endpoint = endpoint_of(static_cast<uint32_t>(rack));
    options.node = carrier_->first_worker() + first + static_cast<uint32_t>(w);
    options.input = inputs_.of(static_cast<int>(w));
    options.results = results_.get();
    options.elements = inputs_.elements();
    workers_.push_back(std::make_unique<WorkerEnd>(options, carrier_));
  }
  accepted_.resize(hosts.size());
}

int Job::top() const {
  const Fabric& fabric = carrier_->fabric;
  if (fabric.racks() == 1) return 0;
  return fabric.pods() == 1 ? fabric.pod_switch(0, tree_.plane) : fabric.core_switch(tree_.plane, tree_.core);
}

void Job::install_at(int node, softswitch::InstalledSession session, const std::map<int, uint32_t>& members) {
  softswitch::SoftSwitch& core = (*switches_)[static_cast<size_t>(node)]->core();
  for (const auto& member : members) session.members.insert(member.first);
  Status status = core.install(session, carrier_->now());
  for (const auto& [number, endpoint] : members) {
    if (status.ok()) status = core.set_member(session.job, session.epoch, number, -1, endpoint_of(endpoint));
  }
  if (!status.ok()) throw StatusError(status);
}

// A member's number is its index at its switch, since no switch has more than kMaxWorkers members.
void Job::install(Tree tree) {
  tree_ = tree;
  const Fabric& fabric = carrier_->fabric;
  std::map<int, std::map<int, uint32_t>> below;  // Switch -> its members.
  for (size_t w = 0; w < hosts_.size(); ++w) {
    auto& rack = below[fabric.rack_of(hosts_[w])];
    rack.emplace(static_cast<int>(rack.size()), carrier_->first_worker() + first_ + static_cast<uint32_t>(w));
  }
  const auto racks = below;
  for (const auto& [rack, members] : racks) {
    softswitch::InstalledSession at_rack = session();
    const int pod = fabric.pod_switch(fabric.pod_of(rack), tree.plane);
    const int number = rack % fabric.racks_per_pod();
    if (rack != top())
      at_rack.uplink = softswitch::Uplink{static_cast<uint8_t>(number), endpoint_of(static_cast<uint32_t>(pod))};
    if (rack != top()) below[pod].emplace(number, static_cast<uint32_t>(rack));
    install_at(rack, at_rack, members);
  }
  for (int pod = 0; pod < fabric.pods() && fabric.racks() > 1; ++pod) {
    const int node = fabric.pod_switch(pod, tree.plane);
    softswitch::InstalledSession at_pod = session();
    if (node != top())
      at_pod.uplink = softswitch::Uplink{static_cast<uint8_t>(pod), endpoint_of(static_cast<uint32_t>(top()))};
    if (node != top()) below[top()].emplace(pod, static_cast<uint32_t>(node));
    install_at(node, at_pod, below[node]);
  }
  if (fabric.pods() > 1) install_at(top(), session(), below[top()]);
}

void Job::at_each(EventKind kind, Duration after) {
  for (size_t w = 0; w < workers_.size(); ++w) {
    const auto stagger = static_cast<int64_t>(random() % static_cast<uint64_t>(options_.stagger.count() + 1));
    const Instant at = carrier_->events.now() + (after.count() + stagger) * kNanosecond;
    carrier_->push(kind, at, static_cast<uint32_t>(number_), static_cast<uint32_t>(w));
  }
}

void Job::begin_move() { at_each(EventKind::kSuspend, options_.notice); }

void Job::suspend(size_t index) {
  accepted_[index] = workers_[index]->suspend();
  if (++suspended_ < workers_.size()) return;
  const Instant at = carrier_->events.now() + options_.hand_over.count() * kNanosecond;
  carrier_->push(EventKind::kHandOver, at, static_cast<uint32_t>(number_));
}

// Does the same as failover/failover.h, with the same plan.
void Job::hand_over() {
  const ResyncPlan plan(accepted_);
  if (!plan.possible()) throw StatusError(Status(Code::kInternal, "ranks are more than one use of a slot apart"));
  for (size_t holder = 0; holder < workers_.size(); ++holder) {
    for (const int slot : plan.gives(static_cast<int>(holder))) {
      const auto frame = workers_[holder]->last_result(slot);
      for (size_t taker = 0; taker < workers_.size(); ++taker) {
        if (!plan.lacks(static_cast<int>(taker), slot)) continue;
        workers_[taker]->supply(frame);
        ++handed_over_;
      }
    }
  }
  for (auto& end : *switches_) {
    if (end->alive()) end->core().remove(session().job, session().epoch);
  }
  ++moves_;
  install({(tree_.plane + 1) % carrier_->fabric.planes(), tree_.core});
  at_each(EventKind::kResume, Duration(0));
}

void Job::resume(size_t index) {
  Route next = route();
  next.switch_endpoint = endpoint_of(static_cast<uint32_t>(carrier_->fabric.rack_of(hosts_[index])));
  workers_[index]->resume(next);
}

bool Job::over() const {
  return std::all_of(workers_.begin(), workers_.end(), [](const auto& worker) { return worker->over(); });
}

Instant Job::ended_at() const {
  Instant last = 0;
  for (const auto& worker : workers_) last = std::max(last, worker->ended_at());
  return last;
}

std::string Job::wrong() const {
  for (size_t w = 0; w < workers_.size(); ++w) {
    const std::string wrong = workers_[w]->wrong();
    if (!wrong.empty()) return "job " + std::to_string(number_) + ", worker " + std::to_string(w) + ": " + wrong;
  }
  return {};
}

}  // namespace switchml::scale
