#include "controllerd/dispatcher.h"

#include <pthread.h>

#include <atomic>
#include <utility>

#include "base/log.h"

namespace switchml {

namespace {

constexpr Duration kSweepInterval = seconds(1);
constexpr Duration kOpenLimit = seconds(10);

controller::OpenAnswer shutting_down() {
  controller::OpenAnswer answer;
  answer.refusal = controller::Refusal{controller::Why::kUnavailable, "the controller is shutting down"};
  return answer;
}

/// The results of a work that several links share. Each part writes its own elements; the last one reports.
struct WorkResults {
  WorkResults(size_t commands, size_t parts) : results(commands), open_parts(parts) {}
  std::vector<controller::CommandResult> results;
  std::atomic<size_t> open_parts;
};

}  // namespace

Dispatcher::Dispatcher(const controller::Topology& topology, uint64_t seed,
                       const std::shared_ptr<grpc::ChannelCredentials>& credentials)
    : lease_(topology.lease), credentials_(credentials), core_(topology, seed) {}

void Dispatcher::connect() {
  // A link reports as soon as it exists; the lock holds its events back until all links exist.
  const std::lock_guard<std::mutex> lock(mutex_);
  const controller::Topology& topology = core_.topology();
  for (size_t i = 0; i < topology.switches.size(); ++i) {
    links_.push_back(std::make_unique<SwitchLink>(static_cast<int>(i), topology.switches[i], credentials_,
                                                  static_cast<SwitchEvents&>(*this)));
  }
  sweeper_ = std::thread([this] { sweep(); });
}

void Dispatcher::stop() {
  const std::lock_guard<std::mutex> lock(mutex_);
  stop_ = true;
  stopped_.notify_all();
  for (const auto& [ticket, promise] : waiting_) promise->set_value(shutting_down());
  waiting_.clear();
  for (const auto& link : links_) link->stop();
}

Dispatcher::~Dispatcher() {
  stop();
  if (sweeper_.joinable()) sweeper_.join();
  std::vector<std::unique_ptr<SwitchLink>> links;
  {
    const std::lock_guard<std::mutex> lock(mutex_);
    links.swap(links_);
  }
  links.clear();  // Joins threads that may be about to report.
}

void Dispatcher::handle(const std::function<void(controller::Effects*)>& event) {
  const std::lock_guard<std::mutex> lock(mutex_);
  if (stop_) return;
  controller::Effects effects;
  event(&effects);
  for (const controller::Work& work : effects.works) begin(work);
  for (const controller::OpenAnswer& answer : effects.answers) {
    const auto found = waiting_.find(answer.ticket);
    if (found == waiting_.end()) continue;  // Its caller has given up.
    found->second->set_value(answer);
    waiting_.erase(found);
  }
}

// Called with the lock held, so that works reach the links in the core's order; only queues them.
void Dispatcher::begin(const controller::Work& work) {
  std::map<int, std::vector<size_t>> parts;
  for (size_t i = 0; i < work.commands.size(); ++i) parts[work.commands[i].at].push_back(i);
  const auto collector = std::make_shared<WorkResults>(work.commands.size(), parts.size());
  for (const auto& [at, indices] : parts) {
    std::vector<controller::Command> commands;
    for (const size_t index : indices) commands.push_back(work.commands[index]);
    SwitchLink::Done done;
    if (work.id != 0) {
      done = [this, id = work.id, collector, own = indices](std::vector<controller::CommandResult> results) {
        for (size_t i = 0; i < own.size(); ++i) collector->results[own[i]] = std::move(results[i]);
        if (collector->open_parts.fetch_sub(1) != 1) return;
        handle([&](controller::Effects* out) { core_.done(id, collector->results, out); });
      };
    }
    links_[static_cast<size_t>(at)]->submit(std::move(commands), std::move(done));
  }
}

void Dispatcher::sweep() {
  pthread_setname_np(pthread_self(), "switchml-sweep");
  while (true) {
    {
      std::unique_lock<std::mutex> lock(mutex_);
      if (stopped_.wait_for(lock, kSweepInterval, [this] { return stop_; })) return;
    }
    handle([this](controller::Effects* out) { core_.sweep(monotonic_now(), out); });
  }
}

// ---- calls ----

controller::OpenAnswer Dispatcher::open(const controller::OpenRequest& request) {
  const auto promise = std::make_shared<std::promise<controller::OpenAnswer>>();
  std::future<controller::OpenAnswer> future = promise->get_future();
  uint64_t ticket = 0;
  handle([&](controller::Effects* out) {
    ticket = ++last_ticket_;
    waiting_[ticket] = promise;
    core_.open(request, ticket, monotonic_now(), out);
  });
  if (ticket == 0) return shutting_down();
  if (future.wait_for(kOpenLimit) == std::future_status::ready) return future.get();
  controller::OpenAnswer late;
  late.refusal =
      controller::Refusal{controller::Why::kUnavailable, "the switches of the session did not answer within " +
                                                             std::to_string(kOpenLimit / seconds(1)) + " s"};
  handle([&](controller::Effects*) { waiting_.erase(ticket); });
  return late;
}

Result<std::vector<controller::ShareLocation>> Dispatcher::locate(const std::vector<std::vector<Endpoint>>& ranks) {
  const std::lock_guard<std::mutex> lock(mutex_);
  return core_.locate(ranks);
}

std::optional<controller::Refusal> Dispatcher::set_plan(controller::Plan plan) {
  const std::lock_guard<std::mutex> lock(mutex_);
  return core_.set_plan(std::move(plan));
}

std::optional<controller::Refusal> Dispatcher::renew(controller::SessionId id, uint64_t session_key) {
  std::optional<controller::Refusal> refusal;
  handle([&](controller::Effects*) { refusal = core_.renew(id, session_key, monotonic_now()); });
  return refusal;
}

std::optional<controller::Refusal> Dispatcher::close(controller::SessionId id, uint64_t session_key) {
  std::optional<controller::Refusal> refusal;
  handle([&](controller::Effects* out) { refusal = core_.close(id, session_key, out); });
  return refusal;
}

std::vector<controller::SessionView> Dispatcher::sessions() {
  const std::lock_guard<std::mutex> lock(mutex_);
  return core_.sessions(monotonic_now());
}

std::vector<SwitchView> Dispatcher::switches() {
  const std::lock_guard<std::mutex> lock(mutex_);
  std::vector<SwitchView> views;
  const auto& specs = core_.topology().switches;
  for (size_t i = 0; i < specs.size(); ++i) {
    const controller::SwitchState& state = core_.state(static_cast<int>(i));
    SwitchView view;
    view.name = specs[i].name;
    view.address = specs[i].address;
    if (specs[i].parent != controller::kNone) view.parent = specs[static_cast<size_t>(specs[i].parent)].name;
    view.connected = state.connected();
    view.problem = state.problem();
    view.capabilities = state.capabilities();
    view.free_slots = state.free_slots();
    views.push_back(std::move(view));
  }
  return views;
}

controller::ControllerCounters Dispatcher::counters() {
  const std::lock_guard<std::mutex> lock(mutex_);
  return core_.counters();
}

grpc::Status Dispatcher::switch_counters(int at, v1::CountersReply* reply) {
  return links_[static_cast<size_t>(at)]->counters(reply);
}

// ---- events of the links ----

void Dispatcher::switch_up(int at, const controller::Capabilities& capabilities) {
  handle([&](controller::Effects* out) { core_.switch_up(at, capabilities, out); });
}

void Dispatcher::switch_down(int at, const std::string& problem) {
  handle([&](controller::Effects*) { core_.switch_down(at, problem); });
}

void Dispatcher::packet_in(int at, const std::string& payload, const controller::SwitchPort& from) {
  handle([&](controller::Effects* out) {
    core_.packet_in(at, reinterpret_cast<const uint8_t*>(payload.data()), payload.size(), from, monotonic_now(), out);
  });
}

}  // namespace switchml
