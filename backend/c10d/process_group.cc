#include "c10d/process_group.h"

#include <pthread.h>
#include <unistd.h>

#include <algorithm>
#include <atomic>
#include <cstdio>
#include <map>
#include <optional>
#include <random>
#include <utility>

#include "base/log.h"
#include "c10d/flight_log.h"
#include "c10d/group_metrics.h"
#include "c10d/metrics_service.h"
#include "c10d/shared_tensors.h"
#include "c10d/store_rendezvous.h"
#include "kernels/kernels.h"
#include "live/live_page.h"
#include "socket/address.h"
#include "store/store_exchange.h"

namespace switchml {
namespace {

/// How long shutdown() waits for calls that are still under way.
constexpr milliseconds kShutdownGrace{2000};

/// The groups that live, for shutdown_all(); and the cores of those that have opened, or do.
struct Registry {
  using Groups = std::map<const ProcessGroupSwitchML*, c10::weak_intrusive_ptr<ProcessGroupSwitchML>>;
  std::mutex mutex;
  Groups groups;
  std::vector<std::weak_ptr<GroupCore>> cores;
  std::mutex metrics;  // Held while the metrics service begins or ends; taken before `mutex`.
};
Registry* current_registry = new Registry;  // outlives static destructors
Registry& registry() { return *current_registry; }

/// The last references go after the lock.
std::vector<c10::intrusive_ptr<ProcessGroupSwitchML>> living() {
  std::vector<c10::intrusive_ptr<ProcessGroupSwitchML>> groups;
  const std::lock_guard<std::mutex> lock(registry().mutex);
  for (const auto& [_, weak] : registry().groups) {
    if (auto group = weak.lock()) groups.push_back(std::move(group));
  }
  return groups;
}

// A child has none of the groups' threads. It begins anew, and what lives is kept for ever by what it leaves behind: no
// destructor waits for such a thread.
void watch_forks() {
  static std::once_flag registered;
  std::call_once(registered, [] {
    pthread_atfork([] { registry().mutex.lock(); }, [] { registry().mutex.unlock(); },
                   [] { current_registry = new Registry; });
  });
}

void add_core(const std::shared_ptr<GroupCore>& core) {
  const std::lock_guard<std::mutex> lock(registry().mutex);
  auto& cores = registry().cores;
  const auto ended = [](const std::weak_ptr<GroupCore>& weak) { return weak.expired(); };
  cores.erase(std::remove_if(cores.begin(), cores.end(), ended), cores.end());
  cores.push_back(core);
}

/// The last references go after the lock.
std::vector<std::shared_ptr<GroupCore>> living_cores() {
  std::vector<std::shared_ptr<GroupCore>> cores;
  const std::lock_guard<std::mutex> lock(registry().mutex);
  for (const auto& weak : registry().cores) {
    if (auto core = weak.lock()) cores.push_back(std::move(core));
  }
  return cores;
}

/// The service is there while a group is open: a process may end without a word.
void open_with_metrics(const std::string& where, GroupCore& core, std::shared_ptr<Session> session) {
  const std::lock_guard<std::mutex> lock(registry().metrics);
  core.set_session(std::move(session));
  MetricsService::begin(where, &ProcessGroupSwitchML::metrics);
}
void end_metrics_after_the_last() {
  std::vector<std::shared_ptr<GroupCore>> cores;  // The last references go after the lock.
  const std::lock_guard<std::mutex> lock(registry().metrics);
  cores = living_cores();
  const auto is_open = [](const auto& core) { return core->session() != nullptr; };
  if (std::none_of(cores.begin(), cores.end(), is_open)) MetricsService::end();
}

/// Which rank of a group that opens is gone, as some other group of this process knows.
Status gone_from_others(const GroupCore& opening) {
  for (const auto& other : living_cores()) {
    if (Status gone = opening.gone_from(*other); !gone.ok()) return gone;
  }
  return {};
}

ProcessGroupSwitchML::Settings checked(ProcessGroupSwitchML::Settings settings) {
  if (settings.size < 1 || settings.rank < 0 || settings.rank >= settings.size) {
    compat::throw_value_error("switchml: rank " + std::to_string(settings.rank) + " of " +
                              std::to_string(settings.size) + "; allowed: 0 <= rank < size");
  }
  return settings;
}

std::shared_ptr<LiveGroup> live_group(const ProcessGroupSwitchML::Settings& settings) {
  LivePage::Options options;
  options.folder = settings.config.live_view;
  for (size_t call = 0; call < kCalls; ++call) options.calls.emplace_back(to_string(static_cast<Call>(call)));
  const auto rank = static_cast<size_t>(settings.rank);
  const bool is_known = rank < settings.global_ranks.size();
  return LivePage::add_group(options, {settings.name, settings.rank, settings.size,
                                       is_known ? settings.global_ranks[rank] : static_cast<uint64_t>(rank)});
}

/// Differs from all others; those of a group sort by rank.
std::string new_handle(int rank) {
  std::random_device random;
  char text[40];
  std::snprintf(text, sizeof text, "switchml-%08d-%08x%08x", rank, random(), random());
  return text;
}

/// Where the others of the group reach this rank's host; empty: nowhere.
std::string address_of(const Session& session) {
  const Endpoint own = session.parameters().own_address;
  return own.size == 0 ? "" : to_literal(own);
}

Statistics read_statistics(const Session& session, Engine& engine) {
  Statistics result;
  for (int shard = 0; shard < engine.shards(); ++shard) {
    engine.counters(shard).for_each(
        [&](const CounterInfo& info, uint64_t value) { result.worker[info.name] += value; });
  }
  if (const SwitchServer* server = session.embedded()) {
    server->counters().for_each([&](const CounterInfo& info, uint64_t value) { result.embedded[info.name] = value; });
    result.embedded["memory_bytes"] = server->memory_bytes();
  }
  result.worker["without_switch"] = session.without_switch() ? 1 : 0;
  const SessionParameters parameters = session.parameters();
  result.switch_address = session.switch_names();
  result.address = address_of(session);
  result.transport = session.abilities().transport;
  result.precision = session.abilities().precision;
  result.encryption = session.abilities().encryption();
  result.payload_bytes = parameters.payload_bytes;
  result.slots = parameters.slots;
  result.job_shards = parameters.shards;
  result.memory_bytes = engine.memory_bytes();
  if (const std::shared_ptr<shm::Arena> arena = session.arena()) {
    result.arena_bytes = arena->used();
    result.arena_limit_bytes = arena->capacity();
  }
  return result;
}

// Once in a process: a child has variables, and a log, of its own.
void warn_of_unknown_variables() {
  static std::atomic<pid_t> warned{0};
  if (warned.exchange(::getpid()) == ::getpid()) return;
  for (const std::string& name : unknown_variables(process_variables())) {
    SWITCHML_LOG(kWarning) << "there is no setting " << name << ": ignored (docs/settings.md lists the settings)";
  }
}

}  // namespace

c10::intrusive_ptr<ProcessGroupSwitchML> ProcessGroupSwitchML::create(Settings settings) {
  watch_forks();
  auto group = c10::make_intrusive<ProcessGroupSwitchML>(checked(std::move(settings)));
  const std::lock_guard<std::mutex> lock(registry().mutex);
  registry().groups.emplace(group.get(), group);
  return group;
}

ProcessGroupSwitchML::ProcessGroupSwitchML(Settings settings)
    : compat::Base(settings.rank, settings.size),
      settings_(std::move(settings)),
      store_(settings_.store),
      handle_(new_handle(settings_.rank)),
      timeout_(settings_.timeout) {
  init();
  set_log_level(settings_.config.log_level);
  warn_of_unknown_variables();
  join_ranks(timeout_.load());
}

void ProcessGroupSwitchML::join_ranks(milliseconds timeout) {
  core_ = std::make_shared<GroupCore>(
      GroupInfo{settings_.rank, settings_.size, settings_.name, host_of(settings_.store), live_group(settings_)},
      settings_.global_ranks, settings_.world, static_cast<size_t>(settings_.config.pinned_mib) << 20,
      settings_.config.blocking_wait);
  monitored_barrier_.reset();
  if (settings_.awaits_ranks) {
    core_->close(Status(Code::kUnavailable, "the group has no ranks before its first reconfigure()"));
    return;
  }
  open_session(timeout);
}

void ProcessGroupSwitchML::open_session(milliseconds timeout) {
  const std::string context = "switchml: rank " + std::to_string(rank_) + " of " + std::to_string(size_) + " (group " +
                              settings_.name + ") could not start";
  Result<std::unique_ptr<StoreRendezvous>> store = StoreRendezvous::open(settings_.store, rank_);
  if (!store.ok()) throw_status(store.status(), context);
  if (size_ == 1) core_->group().live->opened("", "");
  if (size_ == 1) return;
  if (const Status started = core_->pool().start(); !started.ok()) {
    give_up_opening(*store.value(), core_->group(), started);
    throw_status(started, context);
  }
  add_core(core_);
  Result<std::unique_ptr<Session>> session =
      Session::open(settings_.config, core_->group(), *store.value(), deadline(timeout), settings_.controller,
                    [core = core_.get()] { return gone_from_others(*core); });
  if (!session.ok()) throw_status(session.status(), context);
  // The session reads the store until it ends.
  const std::shared_ptr<Rendezvous> kept = std::move(store.value());
  monitored_barrier_ = std::make_unique<MonitoredBarrier>(kept, rank_, size_);
  open_with_metrics(settings_.config.metrics, *core_,
                    {session.value().release(), [kept](Session* ended) { delete ended; }});
  core_->session()->when_rank_is_lost([this](const Status& lost) {
    core_->call_failed(lost);
    core_->pool().post([core = core_.get()] { core->after_failure(); });  // hooks may take their time
  });
  SWITCHML_LOG(kInfo) << "group " << settings_.name << ", rank " << rank_ << " of " << size_ << ": "
                      << describe(settings_.config);
}

ProcessGroupSwitchML::~ProcessGroupSwitchML() { release_resources(); }

void ProcessGroupSwitchML::release_resources() {
  if (core_->inherited()) return;
  name_flight();
  shutdown();
  std::optional<Registry::Groups::node_type> entry;  // goes after the lock
  const std::lock_guard<std::mutex> lock(registry().mutex);
  entry.emplace(registry().groups.extract(this));
}

void ProcessGroupSwitchML::outlive_interpreter() {
  MetricsService::end();  // A text may hold the last reference to what needs the interpreter to end.
  SwitchWork::outlive_interpreter();
  for (const auto& group : living()) group->part_with_interpreter();
}

void ProcessGroupSwitchML::shutdown_all() {
  for (const auto& group : living()) group->shutdown();
}

std::string ProcessGroupSwitchML::metrics(const MetricLabels& labels) {
  GroupMetrics out(labels);
  for (const auto& core : living_cores()) {
    const std::shared_ptr<Session> session = core->session();
    if (session) out.add(*core, read_statistics(*session, session->engine()));
  }
  return out.text();
}

void ProcessGroupSwitchML::name_flights() {
  for (const auto& group : living()) group->name_flight();
}

// c10d names a group after it is made.
void ProcessGroupSwitchML::name_flight() const {
  const std::string name = compat::uid(*this);
  if (name.empty()) return;
  FlightLog::of_process().rename_group(core_->flight_group(), name, compat::description(*this));
}

Time ProcessGroupSwitchML::deadline(milliseconds timeout) const {
  constexpr milliseconds kForever = std::chrono::hours(24 * 365);
  if (timeout.count() <= 0) timeout = timeout_.load();
  if (timeout.count() <= 0 || timeout >= kForever) return kNever;
  return monotonic_now() + timeout + core_->extensions().total();
}

void ProcessGroupSwitchML::setSequenceNumberForGroup() { core_->set_sequence(0); }

void ProcessGroupSwitchML::setTimeout(milliseconds timeout) { timeout_.store(timeout); }

c10::intrusive_ptr<compat::BaseOptions> ProcessGroupSwitchML::getBackendOptions() {
  auto options = c10::make_intrusive<Options>(timeout_.load());
  const std::string name = compat::uid(*this);
  compat::describe_group(*options, name.empty() ? settings_.name : name, compat::description(*this), global_ranks());
  return options;
}

c10::intrusive_ptr<compat::BaseOptions> ProcessGroupSwitchML::Options::clone() const {
  return c10::make_intrusive<Options>(*this);
}

compat::ErrorType ProcessGroupSwitchML::getError() {
  switch (core_->failure().code()) {
    case Code::kOk: return compat::ErrorType::SUCCESS;
    case Code::kTimeout: return compat::ErrorType::TIMEOUT;
    case Code::kUnavailable: return compat::ErrorType::REMOTE_ERROR;
    default: return compat::ErrorType::COMM_ERROR;
  }
}

void ProcessGroupSwitchML::monitoredBarrier(const c10d::BarrierOptions& opts, bool wait_all_ranks) {
  const std::string context = core_->context(Call::kMonitoredBarrier);
  const Status closed = core_->closed();
  if (!closed.ok()) throw_status(closed, context);
  CallRecord record(core_, Call::kMonitoredBarrier, monitored_barrier_ ? Way::kStore : Way::kLocal);
  if (!monitored_barrier_) return;
  // Unlike elsewhere zero is a timeout: ranks that have not come yet fail.
  const milliseconds timeout = opts.timeout.count() < 0 ? timeout_.load() : opts.timeout;
  record.log({}, {}, timeout);
  record.started();
  Status outcome;
  without_interpreter_lock([&] {
    try {
      outcome = monitored_barrier_->pass(timeout, wait_all_ranks);
    } catch (...) {  // an interruption
      core_->give_up("a signal ended its wait for monitored_barrier");
      throw;
    }
  });
  record.ended(outcome.ok());
  // A RuntimeError in every version, as with Gloo; a timeout of 1.13 is none.
  if (outcome.code() == Code::kTimeout) compat::throw_backend_error(context + ": " + outcome.to_string());
  if (!outcome.ok()) throw_status(outcome, context);
}

void ProcessGroupSwitchML::abort() {
  if (core_->inherited()) return;
  without_interpreter_lock([this] {
    core_->abort_hooks().run();
    if (monitored_barrier_) monitored_barrier_->interrupt("the process group was aborted");
    if (const auto session = core_->session()) session->abort("the process group was aborted");
  });
}

void ProcessGroupSwitchML::shutdown() {
  if (core_->inherited()) return;
  without_interpreter_lock([this] {
    {
      std::unique_lock<std::mutex> lock(shutdown_mutex_);
      if (std::exchange(shutdown_begun_, true)) {
        // A callback must not wait for a thread that waits for its own.
        if (!CompletionPool::on_its_thread()) shutdown_ended_.wait(lock, [this] { return shut_down_; });
        return;
      }
    }
    end_everything();
    const std::lock_guard<std::mutex> lock(shutdown_mutex_);
    shut_down_ = true;
    shutdown_ended_.notify_all();
  });
}

// What is under way may end in a callback of Python, or hold the last reference to one of its tensors.
void ProcessGroupSwitchML::part_with_interpreter() {
  if (core_->inherited()) return;
  AbortHooks dropped;
  dropped.take_over(core_->abort_hooks());
  const bool rests = core_->wait_until_landed(kShutdownGrace) && core_->failure().ok();
  if (!rests || settings_.needs_interpreter) return shutdown();
  core_->rest();
}

void ProcessGroupSwitchML::end_everything() {
  if (monitored_barrier_) monitored_barrier_->interrupt("the process group was shut down");
  core_->wait_until_landed(kShutdownGrace);
  if (const std::shared_ptr<Session> session = core_->session()) {
    const Statistics last = read_statistics(*session, session->engine());
    const std::lock_guard<std::mutex> statistics_lock(statistics_mutex_);
    last_ = last;
  }
  std::shared_ptr<Session> session = core_->close(Status(Code::kAborted, "the process group was shut down"));
  if (session) session->await_others();
  if (session) session->abort("the process group was shut down");
  if (session) session->when_rank_is_lost(nullptr);
  core_->wait_until_landed(kShutdownGrace);  // Aborted calls end on the pool's threads, not on the engine's.
  core_->stager().join();
  core_->pool().join();
  session.reset();
  end_metrics_after_the_last();
}

std::shared_ptr<shm::Arena> ProcessGroupSwitchML::arena() const {
  const std::shared_ptr<Session> session = core_->inherited() ? nullptr : core_->session();
  return session ? session->arena() : nullptr;
}
bool ProcessGroupSwitchML::supportsTensorAlloc(c10::DeviceIndex /*device*/) { return arena() != nullptr; }
at::Tensor ProcessGroupSwitchML::allocateTensor(long size, at::TensorOptions options) {
  return bucket_empty(arena(), size, options);
}
at::Tensor ProcessGroupSwitchML::allocate(int64_t size, const at::TensorOptions& options) {
  return shared_empty(arena(), size, options);
}
std::shared_ptr<c10::Allocator> ProcessGroupSwitchML::getMemAllocator() {
  const std::shared_ptr<shm::Arena> memory = arena();
  if (memory == nullptr) {
    compat::throw_backend_error("switchml on rank " + std::to_string(rank_) + " of " + std::to_string(size_) +
                                " (group " + core_->group().name + ") has no allocator: its ranks share no memory");
  }
  return shared_allocator(memory);
}

Statistics ProcessGroupSwitchML::statistics() const {
  Statistics result;
  if (const std::shared_ptr<Session> session = core_->session()) {
    result = read_statistics(*session, session->engine());
  } else {
    const std::lock_guard<std::mutex> lock(statistics_mutex_);
    result = last_;
  }
  result.shards = settings_.config.shards;
  // The same keys in a group of one.
  result.worker.emplace("without_switch", 0);
  WorkerCounters{}.for_each([&](const CounterInfo& info, uint64_t value) { result.worker.emplace(info.name, value); });
  result.kernels = switchml::kernels().name;
  result.pinned_bytes = core_->pinned()->used();
  result.pinned_limit_bytes = core_->pinned()->limit();
  result.metrics = MetricsService::place();
  return result;
}

ProcessGroupSwitchML::WorkPtr ProcessGroupSwitchML::remember(WorkPtr work) {
  if (!work->isCompleted()) outstanding_.add(work);
  coalescing_.add(work);
  return work;
}

EngineCall ProcessGroupSwitchML::engine_call(Call call, c10d::OpType type, const c10d::ReduceOp& op,
                                             Terms terms) const {
  if (core_->inherited()) throw_status(core_->closed(), core_->context(call));  // no thread would complete it
  EngineCall result(core_, call, type, op, deadline(terms.timeout));
  if (terms.waits) result.waited_for();
  return result;
}

}  // namespace switchml
