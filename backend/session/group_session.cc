#include "session/group_session.h"

#include <algorithm>
#include <atomic>
#include <map>
#include <mutex>
#include <thread>

#include "base/log.h"
#include "base/thread.h"
#include "client/switch_address.h"
#include "engine/switch_engine.h"
#include "failover/share_failovers.h"
#include "session/agreement.h"
#include "session/call_comparison.h"
#include "session/opening_time.h"
#include "session/shared_memory.h"
#include "shm/board.h"
#include "shm/engine.h"
#include "socket/address.h"
#include "store/store_exchange.h"
#include "watch/peer_watch.h"

namespace switchml {

namespace {

constexpr Duration kTellTime = milliseconds(50);
constexpr Duration kCloseTime = milliseconds(500);
constexpr Duration kCompareTime = milliseconds(980);
constexpr Duration kCompareWait = milliseconds(700);
constexpr Duration kGlance = milliseconds(10);
constexpr Duration kLeaveTime = seconds(1);
constexpr Duration kMeetTime = seconds(1);  // An opening waits so long for a rank that cannot reach rank 0.
constexpr Duration kMeetPause = microseconds(500);
// Of an opening that fails: a rank that is lost never leaves the embedded switch, and is to be named within a second.
constexpr Duration kFailedLingerTime = milliseconds(500);
// Over TCP and RDMA only a connection that breaks loses a frame.
constexpr Duration kConnectionRto = seconds(1);  // [TCP-7, RDMA-4]
constexpr size_t kMostNews = 255;

std::string names_of(const std::vector<SessionParameters>& sessions) {
  std::string names;
  for (const SessionParameters& session : sessions) names += (names.empty() ? "" : ", ") + session.switch_name;
  return names;
}

class GroupSession : public Session {
 public:
  GroupSession(Agreed* agreed, const GroupInfo& group, Rendezvous& store)
      : parameters_(agreed->parameters),
        others_(agreed->others),
        group_(group),
        store_(store),
        embedded_(std::move(agreed->embedded)),
        memory_(agreed->memory),
        hosts_(agreed->hosts) {
    if (!in_memory()) return;
    arena_ = shm::Arena::open(memory_, board_shape(), place());
    messages_ = std::make_shared<shm::Messages>(memory_, board_shape(), place(), agreed->local.spin());
  }

  /// Throws NoThread; what has been started until then ends with this object.
  void start(Agreed* agreed, const EngineOptions& options, const Config& config) {
    engine_ = memory_ != nullptr ? memory_engine(&agreed->transports, options) : switch_engine(agreed, options, config);
    watch_ranks(agreed, options.switch_patience);
  }

  ~GroupSession() override {
    std::unique_ptr<ShareFailovers> failover;
    {
      const std::lock_guard<std::mutex> lock(loss_mutex_);
      failover = std::move(failover_);
    }
    std::vector<SessionParameters> last = with_others(parameters_, others_);
    if (failover) {
      failover->stop();
      last = failover->sessions();
      failover.reset();
    }
    std::unique_ptr<PeerWatch> watch;
    {
      const std::lock_guard<std::mutex> lock(watch_mutex_);
      watch = std::move(watch_);
    }
    watch.reset();
    if (engine_ == nullptr && memory_ != nullptr) board().leave(place());
    engine_.reset();
    if (farewell_.joinable()) farewell_.join();
    if (in_memory()) return;
    if (memory_ != nullptr && !board().is_deserted()) {  // the host's last rank leaves
      linger();
      return;
    }
    // The others' switches may have ended already, as this one's does, and do not answer.
    const bool told = has_loss() && is_embedded(last.front().switch_name);
    leave(last, monotonic_now() + (told ? kTellTime : kCloseTime));
    linger();
  }

  /// Whether rank 0 would not see the death of some rank yet.
  bool awaits_ranks() const {
    const std::lock_guard<std::mutex> lock(watch_mutex_);
    return group_.rank == 0 && watch_ && watch_->connected() < group_.size - 1;
  }
  void has_opened() { linger_time_ = kLingerTime; }

  void await_others() override {
    ShareFailovers* failover = nullptr;  // as long as this object lives
    {
      const std::lock_guard<std::mutex> lock(loss_mutex_);
      failover = failover_.get();
    }
    if (failover == nullptr) return;
    failover->await_others();
    failover->stop();
  }

  Engine& engine() override { return *engine_; }
  SessionParameters parameters() const override { return sessions().front(); }
  std::string switch_names() const override { return names_of(sessions()); }
  const SwitchServer* embedded() const override { return embedded_.get(); }
  std::string precision() const override { return sums_exactly() ? "exact" : "integer"; }
  bool can(ReduceOp op, ElementType type) const override {
    return (sums_exactly() ? exact_can : integer_can)(op, type);
  }
  bool can_move() const override { return sums_exactly(); }
  bool can_exchange() const override { return in_memory(); }
  std::shared_ptr<shm::Arena> arena() const override { return arena_; }
  std::shared_ptr<shm::Messages> messages() const override { return messages_; }
  std::string transport() const override {
    const std::string link = name_of(parameters_.switch_endpoint.carrier);
    return memory_ == nullptr ? link : in_memory() ? "shm" : "shm+" + link;
  }
  bool without_switch() const override {
    const std::lock_guard<std::mutex> lock(loss_mutex_);
    return failover_ && failover_->moved();
  }

  void give_up(const std::string& why) override {
    const std::string text = "rank " + std::to_string(group_.rank) + " (" + this_process() + ") gave up: " + why;
    {
      const std::lock_guard<std::mutex> lock(watch_mutex_);
      if (watch_) watch_->give_up(text.substr(0, kMostNews));
    }
    if (memory_ != nullptr) board().fail(Status(Code::kUnavailable, text));  // who has no watch hears it there
    on_loss(Status(Code::kUnavailable, text));
  }

  void when_rank_is_lost(std::function<void(const Status&)> callback) override {
    const std::lock_guard<std::mutex> lock(loss_mutex_);
    on_loss_ = std::move(callback);
    if (on_loss_ && !loss_.ok()) on_loss_(loss_);
  }

  std::map<int, std::string> gone_ranks() const override {
    const std::lock_guard<std::mutex> lock(loss_mutex_);
    return gone_;
  }

  std::string compare_calls(const std::string& mine) override {
    const std::string topic = "call/" + std::to_string(comparisons_.fetch_add(1));
    const Time begin = monotonic_now();
    std::vector<std::optional<std::string>> calls(static_cast<size_t>(group_.size));
    calls[static_cast<size_t>(group_.rank)] = mine;
    if (!store_.set(rank_key(topic, group_.rank), mine).ok()) return compare_sentence(calls);
    for (int rank = 0; rank < group_.size; ++rank) {
      if (rank == group_.rank) continue;
      // One silent rank uses the waiting time up; the others get a glance each as long as the second lasts.
      const Time now = monotonic_now();
      if (now >= begin + kCompareTime) break;
      auto call = store_.get(rank_key(topic, rank), std::max(begin + kCompareWait, now + kGlance));
      if (call.ok()) calls[static_cast<size_t>(rank)] = call.value();
    }
    return compare_sentence(calls);
  }

 private:
  std::vector<SessionParameters> sessions() const {
    const std::lock_guard<std::mutex> lock(loss_mutex_);
    return failover_ ? failover_->sessions() : with_others(parameters_, others_);
  }
  bool sums_exactly() const { return in_memory() || parameters_.exact; }
  bool in_memory() const { return memory_ != nullptr && hosts_.ranks() == 0; }
  shm::BoardShape board_shape() const {
    return in_memory() ? shm::shape_for(group_.size) : hosts_.shape_for(group_.rank);
  }
  int place() const { return in_memory() ? group_.rank : hosts_.place_of(group_.rank); }
  shm::Board board() const { return {board_shape(), memory_->data()}; }

  std::unique_ptr<Engine> memory_engine(Transports* transports, const EngineOptions& options) {
    shm::MemoryEngineOptions memory;
    memory.segment = memory_;
    memory.shape = board_shape();
    memory.rank = place();
    memory.arena = arena_;
    memory.messages = messages_;
    memory.spin = options.spin;
    memory.slow = options.slow;
    memory.on_failure = options.on_failure;
    if (in_memory()) return shm::start_memory_engine(memory);
    memory.on_failure = [this, log = options.on_failure](const Status& status) {
      log(status);
      if (status.code() == Code::kUnavailable && !heard_.load()) give_up_for_host(status);
    };
    shm::HostUplinkOptions uplink;
    uplink.engine = options;
    uplink.transports = std::move(*transports);
    uplink.host_map = hosts_.map_for(group_.rank);
    return shm::start_memory_engine(memory, std::move(uplink));
  }

  // That a rank has left is seen by those of its host alone. The other hosts are told, and where no watch is left to
  // tell them, they see that this one has left the switch.
  void give_up_for_host(const Status& status) {
    tell_others(status.message());
    const std::lock_guard<std::mutex> lock(watch_mutex_);
    const auto say_farewell = [all = with_others(parameters_, others_)] { leave(all, monotonic_now() + kCloseTime); };
    try {
      farewell_ = make_thread("a farewell", say_farewell);
    } catch (const NoThread&) {
      say_farewell();  // the engine has failed: it has time
    }
  }

  void tell_others(const std::string& text) {
    const std::lock_guard<std::mutex> lock(watch_mutex_);
    if (watch_) watch_->tell(text.substr(0, kMostNews));
  }

  /// Memory that the card reads and writes, for a rank that shares none with others.
  void open_arena(const Agreed& agreed, const Config& config) {
    const size_t bytes = arena_bytes(config, agreed.local.count);
    if (bytes == 0 || parameters_.switch_endpoint.carrier != Carrier::kRdma) return;
    auto segment = shm::Segment::create(shm::in_pages(bytes));
    if (!segment.ok()) return;
    arena_ = shm::Arena::open(std::make_shared<shm::Segment>(std::move(segment.value())));
    for (const auto& transport : agreed.transports) transport->queue_pairs()->register_memory(arena_);
  }

  std::unique_ptr<Engine> switch_engine(Agreed* agreed, EngineOptions options, const Config& config) {
    // Where hosts have the switches there is none to lose but with its host.
    const bool at_hosts = !others_.empty() && !parameters_.controlled;
    const bool fallback = config.fallback && !at_hosts && !agreed->leaders.empty();
    if (!fallback) {
      open_arena(*agreed, config);
      return SwitchEngine::start(options, std::move(agreed->transports));
    }
    options.keep_results = true;
    options.on_switch_lost = [this](size_t share, const Status& status) {
      to_failover([&](ShareFailovers& failover) { failover.begin(share, status.message()); });
    };
    auto engine = SwitchEngine::start(options, std::move(agreed->transports));
    const std::lock_guard<std::mutex> lock(loss_mutex_);
    failover_ = std::make_unique<ShareFailovers>(*engine, store_, failover_options(config, *agreed),
                                                 with_others(parameters_, others_));
    return engine;
  }

  FailoverOptions failover_options(const Config& config, const Agreed& agreed) {
    FailoverOptions options;
    options.config = config;
    options.group = group_;
    options.session = parameters_;
    options.controller = agreed.controller;
    options.leaders = agreed.leaders;
    options.own = embedded_.get();
    options.tell = [this](const std::string& text) { tell_others(text); };
    return options;
  }

  /// If there is one, and this session is not about to end.
  void to_failover(const std::function<void(ShareFailovers&)>& tell) {
    const std::lock_guard<std::mutex> lock(loss_mutex_);
    if (failover_) tell(*failover_);
  }

  void watch_ranks(Agreed* agreed, Duration patience) {
    PeerWatchOptions options;
    options.rank = group_.rank;
    options.size = group_.size;
    options.who = this_process();
    options.key = agreed->watch_key;
    options.patience = patience;
    options.on_loss = [this](int rank, const std::string& text, bool gone) {
      if (gone) note_gone(rank, text);
      on_loss(Status(Code::kUnavailable, text));
    };
    options.on_news = [this](int rank, const std::string& text) {
      if (hosts_.ranks() > 0) {
        heard_ = true;
        engine_->fail(Status(Code::kUnavailable, text));
      }
      to_failover([&](ShareFailovers& failover) { failover.heard(rank, text); });
    };
    options.on_leave = [this](int rank) { to_failover([&](ShareFailovers& failover) { failover.heard_leave(rank); }); };
    if (memory_ != nullptr && (in_memory() || hosts_.host_of(group_.rank) == 0)) {
      options.rank_0_left = [this] { return has_left(board()); };
    }
    const std::lock_guard<std::mutex> lock(watch_mutex_);
    if (agreed->watch_listener.valid()) {
      watch_ = std::make_unique<PeerWatch>(options, std::move(agreed->watch_listener));
    } else if (agreed->watch_address.size != 0) {
      watch_ = std::make_unique<PeerWatch>(options, agreed->watch_address);
    }
  }

  /// It says farewell to its watch first.
  static bool has_left(const shm::Board& board) {
    const Time end = monotonic_now() + kLeaveTime;
    while (!board.has_left(0) && monotonic_now() < end) std::this_thread::sleep_for(milliseconds(5));
    return board.has_left(0);
  }

  void note_gone(int rank, const std::string& text) {
    const std::lock_guard<std::mutex> lock(loss_mutex_);
    gone_.emplace(rank, text);
  }

  void on_loss(const Status& status) {
    heard_ = true;
    engine_->fail(status);
    const std::lock_guard<std::mutex> lock(loss_mutex_);
    if (!loss_.ok()) return;
    loss_ = status;
    if (on_loss_) on_loss_(status);
  }

  // With a rank that is lost no result is waited for, and that rank would never leave.
  void linger() const {
    if (embedded_ && !has_loss()) await_leavers(*embedded_, linger_time_);
  }
  bool has_loss() const {
    const std::lock_guard<std::mutex> lock(loss_mutex_);
    return !loss_.ok();
  }

  SessionParameters parameters_;
  const std::vector<SessionParameters> others_;  // with further aggregators
  GroupInfo group_;
  Rendezvous& store_;
  std::atomic<int> comparisons_{0};
  std::unique_ptr<SwitchServer> embedded_;
  const std::shared_ptr<shm::Segment> memory_;  // of this host's ranks, or null
  std::shared_ptr<shm::Arena> arena_;           // in it, or for a card, or null
  std::shared_ptr<shm::Messages> messages_;     // likewise
  const HostLayout hosts_;                      // where hosts are the switch's workers; else of no ranks
  Duration linger_time_ = kFailedLingerTime;
  mutable std::mutex watch_mutex_;    // guards the pointer: the engine runs before there is a watch
  std::unique_ptr<PeerWatch> watch_;  // stops first
  std::atomic<bool> heard_{false};    // why the group ends came from another rank: all hear it
  std::thread farewell_;              // of a host that gives up, once; guarded like the watch
  std::unique_ptr<Engine> engine_;
  mutable std::mutex loss_mutex_;
  std::function<void(const Status&)> on_loss_;
  Status loss_;
  std::map<int, std::string> gone_;  // by rank, how
  std::unique_ptr<ShareFailovers> failover_;
};

/// Once of each call, though several parts of an engine may say so.
std::function<void(const Collective&, const std::string&)> warning_of(const GroupInfo& group) {
  const auto last = std::make_shared<std::atomic<uint64_t>>(0);
  return [group, last](const Collective& call, const std::string& missing) {
    uint64_t before = last->load();
    while (call.sequence > before && !last->compare_exchange_weak(before, call.sequence)) {
    }
    if (call.sequence != 0 && call.sequence <= before) return;
    SWITCHML_LOG(kWarning) << group.name << ": rank " << group.rank << " waits in call " << call.sequence << ", "
                           << describe(call) << ": " << missing;
  };
}

/// From then on the session notices deaths by itself.
Status await_watch(StoreExchange& exchange, const GroupSession& session) {
  const Time end = monotonic_now() + kMeetTime;
  while (session.awaits_ranks() && monotonic_now() < end) {
    if (Status status = exchange.ended(); !status.ok()) return status;
    std::this_thread::sleep_for(kMeetPause);
  }
  return {};
}

/// No rank has a session before all have: what one could not start is an error of all.
Status await_all(StoreExchange& exchange, const GroupSession& session, const GroupInfo& group, Time deadline) {
  if (Status status = exchange.say("started", Blob()); !status.ok()) return status;
  if (group.rank != 0) return exchange.hear("open", 0, "say that all ranks have started", deadline).status();
  Status started = exchange.hear_all("started", OpeningTime(Duration(0), deadline).gather_end()).status();
  if (started.ok()) started = await_watch(exchange, session);
  const Status said = exchange.say("open", started.ok() ? Blob() : Blob::failure(started));
  return started.ok() ? said : started;
}

Result<std::unique_ptr<Session>> start_together(std::unique_ptr<GroupSession> session, const GroupInfo& group,
                                                Rendezvous& store, Time deadline, OpeningWatch* watch,
                                                const std::function<Status()>& ended,
                                                const std::function<void(GroupSession&)>& start) {
  StoreExchange exchange(store, group);
  const auto step = [&]() -> Result<std::unique_ptr<Session>> {
    start(*session);
    exchange.wait_while([&engine = session->engine(), &ended, watch] {
      Status status = engine.status();
      if (status.ok() && ended) status = ended();
      return status.ok() && watch != nullptr ? watch->lost() : status;
    });
    if (Status status = await_all(exchange, *session, group, deadline); !status.ok()) return status;
    session->has_opened();
    return std::unique_ptr<Session>(std::move(session));
  };
  try {
    auto started = telling_others(exchange, step);
    if (!started.ok()) exchange.part(Duration(0));
    return started;
  } catch (...) {
    exchange.part(Duration(0));
    throw;
  }
}

}  // namespace

Result<std::unique_ptr<Session>> open_group_session(const Config& config, const GroupInfo& group, Rendezvous& store,
                                                    Time deadline, GroupSessionOptions of_session) {
  auto agreed =
      agree(config, group, store, deadline, std::move(of_session.controller), of_session.ended, of_session.watched);
  if (!agreed.ok()) return agreed.status();
  EngineOptions options;
  options.session = agreed->parameters;
  options.others = agreed->others;
  options.rto_min = config.rto_min;
  options.rto_max = config.rto_max;
  options.congestion_control = config.congestion_control;
  if (!may_lose_frames(agreed->parameters.switch_endpoint.carrier)) {
    options.rto_min = std::max<Duration>(config.rto_min, kConnectionRto);
    options.rto_max = std::max<Duration>(config.rto_max, kConnectionRto);
  }
  options.switch_patience = config.failure_timeout;
  options.spin = agreed->local.spin();
  if (!agreed->transports.empty()) {
    options.own_threads = sessions_move(config);
    const size_t share_threads = options.own_threads ? 1 : 1 + agreed->others.size();
    place_threads(config, agreed->local, static_cast<int>(agreed->transports.size() / share_threads), &options);
  }
  const std::string name = group.name;
  options.on_failure = [name, tell = std::move(of_session.on_failure)](const Status& status) {
    if (tell) tell(status);
    if (status.code() == Code::kAborted) return;  // this rank's own wish, or the normal end
    SWITCHML_LOG(kInfo) << name << ": " << status.to_string();
  };
  options.slow = {config.slow_warning, warning_of(group)};
  const SessionParameters& p = agreed->parameters;
  SWITCHML_LOG(kInfo) << name << ": rank " << group.rank << " of " << group.size << " joined job " << int{p.job}
                      << " at " << (agreed->transports.empty() && agreed->hosts.ranks() == 0 ? "" : "switch ")
                      << names_of(with_others(p, agreed->others)) << ": " << p.slots << " slots of " << p.payload_bytes
                      << " bytes, " << p.shards << " shards";
  return start_together(std::make_unique<GroupSession>(&agreed.value(), group, store), group, store, deadline,
                        agreed->watch.get(), of_session.ended,
                        [&](GroupSession& session) { session.start(&agreed.value(), options, config); });
}

}  // namespace switchml
