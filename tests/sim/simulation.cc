#include "simulation.h"

#include <algorithm>

#include "slots/slot_store.h"

namespace switchml::sim {

namespace {

constexpr Duration kSweep = milliseconds(500);
constexpr double kSealedShare = 0.1;
constexpr size_t kMostUnderWay = 200000;   // frames; a network that grows without bound passes it soon
constexpr uint64_t kMostTurns = 50000000;  // a call of many chunks may wait for its deadline, 1000 s

// Of a shard. Few, so that they are used again soon; sometimes enough for two streams.
int draw_slots(Random& random) {
  if (random.chance(0.12)) return random.between(kLeastSlotsForBulk, kLeastSlotsForBulk + 20);
  return random.between(4, random.chance(0.7) ? 6 : 16);
}

// Enough for an exact session, where the switch has any.
size_t memory_for(const TenantOptions& tenant) {
  const auto kept = tenant.exact_granted ? static_cast<size_t>(tenant.workers) : 0;
  return static_cast<size_t>(tenant.slots) * SlotStore::slot_bytes(tenant.payload, kept);
}

}  // namespace

Simulation::Simulation(uint64_t seed, const Options& options)
    : options_(options),
      record_(options.print, options.tolerated),
      random_(seed),
      chance_(seed ^ 0x5eed),
      network_(&chance_, &record_, [this](std::vector<uint8_t>* bytes) { return damage(bytes); }) {
  record_.advance(Time(seconds(1)));
  // By numbers of its own: what a seed draws else does not depend on it.
  Random own(seed ^ 0x5ea1);
  if (own.chance(kSealedShare)) {
    record_.count(Fault::sealed_worlds);
    sealed_ = std::make_unique<SealedNetwork>(own.next(), &launch_, &record_);
  }
  draw_switches();
  draw_tenants();
}

Simulation::~Simulation() = default;

void Simulation::draw_switches() {
  tree_ = random_.chance(0.35);
  strangers_ = random_.chance(0.3);
  lease_ = milliseconds(random_.between(3000, 4000));
  switch_options_.lease = lease_;
  switch_options_.whole_chunks = random_.chance(0.3);
  const int count = tree_ ? kMostSwitches : 1;
  revive_at_.assign(static_cast<size_t>(count), kNever);
}

void Simulation::draw_tenants() {
  const int count = random_.chance(0.5) ? 1 : random_.between(2, kMostTenants);
  constexpr size_t kPayloads[] = {256, 256, 512, 1024, 1408, 4096};
  std::vector<TenantOptions> all;
  size_t largest = 0;
  for (int i = 0; i < count; ++i) {
    TenantOptions t;
    t.number = i;
    t.controlled = tree_;
    t.exact_granted = !switch_options_.whole_chunks;
    t.workers = random_.chance(0.7) ? random_.between(2, 4) : random_.between(5, kMostWorkers);
    t.shards = random_.chance(0.6) ? 1 : random_.between(2, 3);
    t.slots = t.shards * draw_slots(random_);
    t.payload = random_.pick(kPayloads);
    t.sessions = random_.between(1, 6);
    for (int w = 0; w < t.workers; ++w)
      t.attachment.push_back(tree_ ? random_.between(random_.chance(0.2) ? 0 : 1, 2) : 0);
    largest = std::max(largest, memory_for(t));
    all.push_back(t);
  }
  // Job numbers and slots for a few more than run at a time: numbers come back soon, and opens are refused at times.
  const int spare = random_.between(0, 3);
  Carrier* const carrier = this;
  switch_options_.max_jobs = count + spare;
  switch_options_.slot_memory_bytes = largest * static_cast<size_t>(count + spare);
  for (size_t i = 0; i < revive_at_.size(); ++i) {
    switch_options_.seed = random_.next();
    switches_.push_back(std::make_unique<SwitchNode>(static_cast<int>(i), switch_options_, carrier, &record_));
  }
  if (tree_) {
    softswitch::SessionLimits limits;
    limits.slot_memory_bytes = switch_options_.slot_memory_bytes;
    limits.max_payload_bytes = switch_options_.max_payload_bytes;
    limits.whole_chunks = switch_options_.whole_chunks;
    limits.exact = !limits.whole_chunks;
    limits.max_jobs = switch_options_.max_jobs;
    limits.lease = lease_;
    limits.seed = random_.next();
    std::vector<SwitchNode*> nodes;
    for (const auto& node : switches_) nodes.push_back(node.get());
    controller_ = std::make_unique<TreeController>(nodes, limits, &record_);
  }
  for (const TenantOptions& t : all) {
    if (controller_) controller_->attach(t.number, t.attachment);
    tenants_.push_back(std::make_unique<Tenant>(t, random_.next(), carrier, &record_, world()));
  }
}

World Simulation::world() {
  World world;
  world.plain = options_.plain;
  world.kill_switch = [this](int node) { kill_switch(node); };
  world.begin_session = [this](const std::vector<int>& sockets) {
    if (sealed_ == nullptr) return;
    for (const int node : sockets) sealed_->maybe_restart(node);
  };
  world.change_weather = [this] { network_.set_weather(draw_weather(random_)); };
  world.cut = [this](int node, Duration how_long) {
    network_.cut(node, record_.now() + how_long);
    const bool long_one = how_long >= lease_ / 3;
    if (is_switch(node) && long_one) {
      for (auto& tenant : tenants_) tenant->disturb();
    }
  };
  // Who else uses a link between switches must wait, no more: its own switch answers all the time.
  world.cut_link = [this](int from, int to, Duration how_long) {
    network_.cut_link(from, to, record_.now() + how_long);
  };
  return world;
}

// ---- the course of time ----

bool Simulation::run() {
  while (!record_.stopped() && !all_finished()) turn();
  if (!record_.stopped()) finish();
  tenants_.clear();  // what they and the switches have counted goes into the record
  for (const auto& node : switches_) node->kill();
  return !record_.stopped();
}

bool Simulation::all_finished() const {
  return std::all_of(tenants_.begin(), tenants_.end(), [](const auto& tenant) { return tenant->finished(); });
}

// Late frames arrive, leases run out: then nothing may be left.
void Simulation::finish() {
  const Time end = record_.now() + 2 * lease_ + seconds(8);
  while (!record_.stopped() && record_.now() < end) turn();
  if (record_.stopped()) return;
  for (const auto& node : switches_) node->check_empty();
  if (controller_) controller_->check_empty();
  if (network_.under_way() > 0) record_.broken(Rule::kMemory, "all jobs are over, but frames are still under way");
}

Time Simulation::next() const {
  Time next = std::min(network_.next(), next_sweep_);
  for (const auto& tenant : tenants_) next = std::min(next, tenant->next());
  for (const Time revive : revive_at_) next = std::min(next, revive);
  return next;
}

void Simulation::turn() {
  record_.advance(std::max(record_.now(), next()));
  deliver_due();
  for (auto& tenant : tenants_) tenant->step(record_.now());
  revive_switches();
  if (record_.now() >= next_sweep_) sweep();
  if (network_.under_way() > kMostUnderWay) record_.broken(Rule::kMemory, "more frames under way than slots explain");
  if (++turns_ > kMostTurns) record_.broken(Rule::kEndless, "the simulation does not come to an end");
}

void Simulation::deliver_due() {
  Delivery delivery;
  while (network_.pop(record_.now(), &delivery)) deliver(std::move(delivery));
}

void Simulation::deliver(Delivery d) {
  const bool is_dead = is_switch(d.to) && (static_cast<size_t>(d.to) >= switches_.size() ||
                                           !switches_[static_cast<size_t>(d.to)]->alive());
  if (sealed_ == nullptr || is_dead) return pass(std::move(d));
  sealed_->deliver(d.from, d.to, std::move(d.bytes), [&](std::vector<uint8_t> opened) {
    pass({d.from, d.to, false, std::move(opened)});
  });
}

void Simulation::pass(Delivery d) {
  if (is_switch(d.to)) {
    if (static_cast<size_t>(d.to) < switches_.size()) {
      switches_[static_cast<size_t>(d.to)]->deliver(d.from, d.bytes.data(), d.bytes.size(), d.damaged);
    }
    network_.recycle(std::move(d.bytes));
  } else if (is_worker(d.to) && static_cast<size_t>(tenant_of(d.to)) < tenants_.size()) {
    tenants_[static_cast<size_t>(tenant_of(d.to))]->deliver(d.from, d.to, std::move(d.bytes));
  } else {
    network_.recycle(std::move(d.bytes));
  }
}

void Simulation::sweep() {
  next_sweep_ = record_.now() + kSweep;
  for (const auto& node : switches_) {
    node->sweep();
    node->check_memory();
  }
  if (controller_) controller_->sweep();
}

void Simulation::kill_switch(int node) {
  const auto index = static_cast<size_t>(node);
  if (!switches_[index]->alive()) return;
  record_.count(Fault::switches_killed);
  record_.note("switch" + std::to_string(node) + " is killed");
  switches_[index]->kill();
  if (sealed_ != nullptr) sealed_->restart(node);
  revive_at_[index] = record_.now() + milliseconds(random_.chance(0.3) ? 0 : random_.between(1, 2500));
  for (auto& tenant : tenants_) tenant->disturb();
}

void Simulation::revive_switches() {
  for (size_t i = 0; i < revive_at_.size(); ++i) {
    if (record_.now() < revive_at_[i]) continue;
    revive_at_[i] = kNever;
    record_.note("switch" + std::to_string(i) + " is back");
    switches_[i]->start(random_.next());
    for (auto& tenant : tenants_) tenant->disturb();
    if (controller_) controller_->restarted(static_cast<int>(i));
  }
}

}  // namespace switchml::sim
