#include "session/attachment.h"

#include <algorithm>
#include <utility>

#include "base/log.h"
#include "base/random.h"
#include "base/thread.h"
#include "client/switch_address.h"
#include "engine/switch_engine.h"
#include "live/live_page.h"
#include "session/opening_time.h"
#include "session/shared_memory.h"
#include "shm/board.h"
#include "shm/engine.h"
#include "shm/mail_transport.h"
#include "socket/address.h"
#include "socket/sockaddr.h"
#include "store/store_exchange.h"
#include "transport/tcp_socket.h"

namespace switchml {

namespace {

constexpr Duration kToldCloseTime = milliseconds(50);
constexpr Duration kCloseTime = milliseconds(500);
constexpr Duration kFailedLingerTime = milliseconds(500);  // Some ranks may never leave.
constexpr Duration kBoardLeaveTime = seconds(1);
constexpr Duration kMeetTime = seconds(1);  // An opening waits so long for a rank that cannot reach rank 0.
constexpr Duration kMeetPause = microseconds(500);
// Over TCP and RDMA only a connection that breaks loses a frame.
constexpr Duration kConnectionRto = seconds(1);  // [TCP-7, RDMA-4]

std::vector<SessionParameters> all_but_first(const std::vector<SessionParameters>& sessions) {
  return {sessions.begin() + 1, sessions.end()};
}

// It says farewell to its watch first.
bool has_rank_0_left(const shm::Board& board) {
  const Time end = monotonic_now() + kBoardLeaveTime;
  while (!board.has_left(0) && monotonic_now() < end) std::this_thread::sleep_for(milliseconds(5));
  return board.has_left(0);
}

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

std::function<void(const Collective&, const EngineWait&)> live_wait_of(const GroupInfo& group) {
  if (group.live == nullptr) return nullptr;
  return [live = group.live](const Collective& call, const EngineWait& wait) {
    live->waits({call.sequence, wait.chunk, wait.slot, wait.missing});
  };
}

EngineOptions engine_options(const Config& config, const GroupInfo& group, const Agreed& agreed,
                             const AttachmentOptions& attachment) {
  EngineOptions options;
  options.session = agreed.sessions.front();
  options.others = all_but_first(agreed.sessions);
  options.rto_min = config.rto_min;
  options.rto_max = config.rto_max;
  options.congestion_control = config.congestion_control;
  if (!may_lose_frames(options.session.switch_endpoint.carrier)) {
    options.rto_min = std::max<Duration>(config.rto_min, kConnectionRto);
    options.rto_max = std::max<Duration>(config.rto_max, kConnectionRto);
  }
  options.switch_patience = attachment.switch_patience;
  options.spin = agreed.local.spin();
  if (agreed.embedded) options.side_work = agreed.embedded->side_work(options.session.switch_endpoint.carrier);
  if (!agreed.transports.empty()) {
    options.own_threads = sessions_move(config);
    const size_t share_threads = options.own_threads ? 1 : agreed.sessions.size();
    place_threads(config, agreed.local, static_cast<int>(agreed.transports.size() / share_threads), &options);
  }
  options.on_failure = [name = group.name, tell = attachment.on_failure](const Status& status) {
    if (tell) tell(status);
    if (status.code() == Code::kAborted) return;  // This rank's own wish, or the normal end.
    SWITCHML_LOG(kInfo) << name << ": " << status.to_string();
  };
  options.slow.after = config.slow_warning;
  options.slow.tell = warning_of(group);
  options.slow.show = live_wait_of(group);
  return options;
}

void log_joined(const GroupInfo& group, const Agreed& agreed) {
  const SessionParameters& p = agreed.sessions.front();
  SWITCHML_LOG(kInfo) << group.name << ": rank " << group.rank << " of " << group.size << " joined job " << int{p.job}
                      << " at " << (agreed.transports.empty() && agreed.hosts.ranks() == 0 ? "" : "switch ")
                      << names_of(agreed.sessions) << ": " << p.slots << " slots of " << p.payload_bytes << " bytes, "
                      << p.shards << " shards";
}

/// From then on the membership notices deaths by itself.
Status await_watch(StoreExchange& exchange, const Membership& membership) {
  const Time end = monotonic_now() + kMeetTime;
  while (membership.awaits_ranks() && monotonic_now() < end) {
    if (Status status = exchange.ended(); !status.ok()) return status;
    std::this_thread::sleep_for(kMeetPause);
  }
  return {};
}

/// No rank has a session before all have: what one could not start is an error of all. Returns what each has to say.
Result<std::vector<Blob>> await_all(StoreExchange& exchange, const Membership& membership, const Blob& mine,
                                    Time deadline) {
  if (Status status = exchange.say("started", mine); !status.ok()) return status;
  if (membership.group().rank != 0) {
    const auto open = exchange.hear("open", 0, "say that all ranks have started", deadline);
    if (!open.ok()) return open.status();
    std::vector<Blob> all(static_cast<size_t>(membership.group().size));
    for (size_t rank = 0; rank < all.size(); ++rank) all[rank] = open->inner(std::to_string(rank));
    return all;
  }
  auto all = exchange.hear_all("started", OpeningTime(Duration(0), deadline).gather_end());
  Status started = all.ok() ? await_watch(exchange, membership) : all.status();
  Blob open = started.ok() ? Blob() : Blob::failure(started);
  for (size_t rank = 0; started.ok() && rank < all->size(); ++rank) open.put(std::to_string(rank), all->at(rank));
  const Status said = exchange.tell_all("open", open);
  if (!started.ok()) return started;
  return said.ok() ? std::move(all) : said;
}

/// Starts an engine on each rank, by `start`, which returns it. Returns what each rank has to say then, as `mine`.
Result<std::vector<Blob>> start_together(Membership& membership, Rendezvous& store, Time deadline, OpeningWatch* watch,
                                         const std::function<Status()>& ended,
                                         const std::function<const Engine&()>& start, const Blob& mine) {
  StoreExchange exchange(store, membership.group());
  if (watch != nullptr) exchange.use(watch->bell());
  const auto step = [&]() -> Result<std::vector<Blob>> {
    const Engine& engine = start();
    exchange.wait_while([&engine, &ended, &membership, watch] {
      Status status = engine.status();
      if (status.ok() && ended) status = ended();
      if (!status.ok() || watch == nullptr) return status;
      status = watch->lost();
      if (!status.ok()) membership.lose(status);
      return status;
    });
    return await_all(exchange, membership, mine, deadline);
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

std::string names_of(const std::vector<SessionParameters>& sessions) {
  std::string names;
  for (const SessionParameters& session : sessions) names += (names.empty() ? "" : ", ") + session.switch_name;
  return names;
}

Result<std::unique_ptr<Attachment>> Attachment::open(const Config& config, Membership& membership, Rendezvous& store,
                                                     Time deadline, AttachmentOptions options) {
  const GroupInfo& group = membership.group();
  auto agreed = agree(config, group, store, deadline, std::move(options.controller), options.ended, options.watched);
  if (!agreed.ok()) return agreed.status();
  const EngineOptions engine = engine_options(config, group, agreed.value(), options);
  log_joined(group, agreed.value());
  std::unique_ptr<Attachment> attachment(new Attachment(&agreed.value(), membership, store, !options.watched));
  const auto start = [&]() -> const Engine& {
    attachment->start(&agreed.value(), engine, config);
    return *attachment->engine_;
  };
  auto started =
      start_together(membership, store, deadline, agreed->watch.get(), options.ended, start, attachment->door_);
  if (!started.ok()) return started.status();
  attachment->is_open_ = true;
  attachment->doors_ = std::move(started.value());
  if (attachment->live_door_) attachment->show_live_doors();
  return attachment;
}

Attachment::Attachment(Agreed* agreed, Membership& membership, Rendezvous& store, bool watches)
    : sessions_(agreed->sessions),
      membership_(membership),
      store_(store),
      watches_(watches),
      embedded_(std::move(agreed->embedded)),
      memory_(agreed->memory),
      hosts_(agreed->hosts) {
  if (!in_memory()) return;
  arena_ = shm::Arena::open(memory_, board_shape(), local_index());
  const shm::Mail mail(membership.group().size, memory_->data() + mail_begin(board_shape()));
  auto transport = std::make_unique<shm::MailTransport>(mail, local_index(), memory_);
  messages_ = std::make_shared<Messages>(std::move(transport), agreed->local.spin());
}

Attachment::~Attachment() {
  stop_failover();
  if (messages_ != nullptr && !in_memory())
    messages_->close();  // A rank that hears that this one has left finds its messages.
  if (watches_) membership_.leave();
  if (engine_ == nullptr && memory_ != nullptr) board().leave(local_index());
  engine_.reset();
  if (farewell_.joinable()) farewell_.join();
  if (in_memory()) return;
  if (memory_ == nullptr || board().is_deserted()) {  // The host's last rank leaves for all of them.
    // The others' switches may have ended already, as this one's does, and do not answer.
    const bool told = membership_.has_loss() && is_embedded(sessions_.front().switch_name);
    leave(sessions_, monotonic_now() + (told ? kToldCloseTime : kCloseTime));
  }
  if (embedded_ && !membership_.has_loss()) await_leavers(*embedded_, is_open_ ? kLingerTime : kFailedLingerTime);
}

// What has been started until NoThread is thrown ends with this object.
void Attachment::start(Agreed* agreed, EngineOptions options, const Config& config) {
  const bool opens_messages = watches_ && !in_memory() && membership_.group().size > 1;
  if (opens_messages) {
    open_messages(config, options.spin);
    open_live_door(config.interface);
    options.on_failure = [messages = messages_, tell = options.on_failure](const Status& status) {
      tell(status);
      messages->fail(status);
    };
  }
  if (embedded_ != nullptr && config.faults.empty() && !config.fallback) link_directly(&agreed->transports);
  engine_ = memory_ != nullptr ? memory_engine(&agreed->transports, options) : switch_engine(agreed, options, config);
  if (watches_) watch_ranks(std::move(agreed->watch_meeting), config.failure_timeout);
  if (!opens_messages) return;
  messages_->when_failed([this](const Status& status) {
    const std::string who = "rank " + std::to_string(membership_.group().rank);
    membership_.give_up(who + " gave up: " + status.message());
    engine_->fail(status);
  });
}

/// On a port of the address at which other hosts reach this one.
Result<Fd> Attachment::listen(const std::string& interface) const {
  const Endpoint& own = sessions_.front().own_address;
  const auto address = own.size != 0 ? Result<Endpoint>(own) : announced_address(interface);
  return address.ok() ? listen_tcp(with_port(address.value(), 0)) : Result<Fd>(address.status());
}

void Attachment::open_messages(const Config& config, Duration spin) {
  auto listener = listen(config.interface);
  if (!listener.ok()) {
    throw StatusError({listener.status().code(), "no port for messages between ranks: " + listener.status().message()});
  }
  TcpMessageOptions options;
  options.rank = membership_.group().rank;
  options.ranks = membership_.group().size;
  options.key = random_bits();
  options.find_door = [this](int rank) { return door_of(rank); };
  if (sessions_.front().seals_ranks) {
    auto owner = std::make_unique<const seal::StreamDoorOwner>(random_seal_key(), random_bytes);
    door_.set("messages_seal", to_text(owner->door()));
    options.sealed = std::move(owner);
  }
  door_.set("messages", to_string(local_endpoint(listener->get())));
  door_.set("messages_key", options.key);
  options.listener = std::move(listener.value());
  messages_ = std::make_shared<Messages>(std::make_unique<TcpMessageTransport>(std::move(options)), spin);
}

// A group can do without.
void Attachment::open_live_door(const std::string& interface) {
  const std::string folder = membership_.group().live ? membership_.group().live->folder() : "";
  if (folder.empty()) return;
  auto listener = listen(interface);
  if (!listener.ok()) return;
  const SealKey key = random_seal_key();
  const std::string address = to_string(local_endpoint(listener->get()));
  try {
    live_door_ = std::make_unique<LiveDoor>(std::move(listener.value()), key, folder);
  } catch (const StatusError& error) {
    SWITCHML_LOG(kInfo) << "other hosts do not see this one's live view: " << error.what();
    return;
  }
  door_.set("live_view", address);
  door_.set("live_view_key", to_hex(key));
}

/// A line for each rank: its number, address and key.
void Attachment::show_live_doors() const {
  std::string text;
  for (size_t rank = 0; rank < doors_.size(); ++rank) {
    const std::string address = doors_[rank].text("live_view");
    if (address.empty()) continue;
    text += std::to_string(rank) + " " + address + " " + doors_[rank].text("live_view_key") + "\n";
  }
  if (!text.empty()) membership_.group().live->show_doors(text);
}

Result<MessageDoor> Attachment::door_of(int rank) const {
  const Blob& said = doors_.at(static_cast<size_t>(rank));
  const auto address = literal_address(said.text("messages"), 0);
  const auto sealed = seal::parse_stream_door(said.text("messages_seal"));
  MessageDoor door;
  const bool seals = sessions_.front().seals_ranks;
  if (!address.ok() || !said.number("messages_key", UINT64_MAX, &door.key) || (seals && !sealed.ok())) {
    return Status(Code::kUnavailable, "it takes no connections");
  }
  door.address = address.value();
  if (seals) door.sealed = sealed.value();
  return door;
}

Abilities Attachment::abilities() const {
  const std::string link = name_of(sessions_.front().switch_endpoint.carrier);
  Abilities abilities;
  abilities.precision = adds_exactly() ? "exact" : "integer";
  const auto is_sealed = [](const SessionParameters& session) { return session.seal.has_value(); };
  abilities.encrypts =
      in_memory() ? sessions_.front().seals_ranks : std::all_of(sessions_.begin(), sessions_.end(), is_sealed);
  abilities.exchanges = in_memory();
  abilities.transport = memory_ == nullptr ? link : in_memory() ? "shm" : "shm+" + link;
  return abilities;
}

std::vector<SessionParameters> Attachment::sessions() const {
  const std::lock_guard<std::mutex> lock(failover_mutex_);
  return failover_ ? failover_->sessions() : sessions_;
}

bool Attachment::without_switch() const {
  const std::lock_guard<std::mutex> lock(failover_mutex_);
  return failover_ && failover_->moved();
}

void Attachment::await_others() {
  ShareFailovers* failover = nullptr;  // It lives as long as this object.
  to_failover([&](ShareFailovers& held) { failover = &held; });
  if (failover == nullptr) return;
  failover->await_others();
  failover->stop();
}

void Attachment::stop_failover() {
  std::unique_ptr<ShareFailovers> ending;
  {
    const std::lock_guard<std::mutex> lock(failover_mutex_);
    ending = std::move(failover_);
  }
  if (ending == nullptr) return;
  ending->stop();
  sessions_ = ending->sessions();
}

// Where no watch tells the ranks of this host, they hear it there.
void Attachment::give_up(const Status& why) {
  if (memory_ != nullptr) board().fail(why);
}

shm::BoardShape Attachment::board_shape() const {
  const GroupInfo& group = membership_.group();
  return in_memory() ? shm::shape_for(group.size) : hosts_.shape_for(group.rank);
}

int Attachment::local_index() const {
  const int rank = membership_.group().rank;
  return in_memory() ? rank : hosts_.place_of(rank);
}

// ---- engines ----

// This rank's own switch knows one of the sessions.
void Attachment::link_directly(Transports* transports) const {
  const size_t shards = transports->size() / sessions_.size();
  for (size_t i = 0; i < transports->size(); ++i) {
    const int shard = static_cast<int>(i % shards) + (memory_ != nullptr ? local_index() : 0);
    std::unique_ptr<Transport>& link = (*transports)[i];
    link = embedded_->link_directly(sessions_[i / shards].membership(), shard, std::move(link));
  }
}

std::unique_ptr<Engine> Attachment::memory_engine(Transports* transports, const EngineOptions& options) {
  shm::MemoryEngineOptions memory;
  memory.segment = memory_;
  memory.shape = board_shape();
  memory.rank = local_index();
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
  uplink.host_map = hosts_.map_for(membership_.group().rank);
  return shm::start_memory_engine(memory, std::move(uplink));
}

// A rank's leave is seen by those of its host alone. The other hosts are told, and where no watch is left to
// tell them, they see that this one has left the switch.
void Attachment::give_up_for_host(const Status& status) {
  membership_.tell(status.message());
  const std::lock_guard<std::mutex> lock(farewell_mutex_);
  const auto say_farewell = [all = sessions_] { leave(all, monotonic_now() + kCloseTime); };
  try {
    farewell_ = make_thread("a farewell", say_farewell);
  } catch (const NoThread&) {
    say_farewell();  // The engine has failed: it has time.
  }
}

// Memory that the card reads and writes, for a rank that shares none with others.
void Attachment::open_arena(const Agreed& agreed, const Config& config) {
  const size_t bytes = arena_bytes(config, agreed.local.count);
  const bool by_card = sessions_.front().switch_endpoint.carrier == Carrier::kRdma && !sessions_.front().seal;
  if (bytes == 0 || !by_card) return;
  auto segment = shm::Segment::create(shm::in_pages(bytes));
  if (!segment.ok()) return;
  arena_ = shm::Arena::open(std::make_shared<shm::Segment>(std::move(segment.value())));
  for (const auto& transport : agreed.transports) transport->queue_pairs()->register_memory(arena_);
}

std::unique_ptr<Engine> Attachment::switch_engine(Agreed* agreed, EngineOptions options, const Config& config) {
  // Where hosts have the switches there is none to lose but with its host.
  const bool at_hosts = sessions_.size() > 1 && !sessions_.front().controlled;
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
  const std::lock_guard<std::mutex> lock(failover_mutex_);
  failover_ = std::make_unique<ShareFailovers>(*engine, store_, failover_options(config, *agreed), sessions_);
  return engine;
}

FailoverOptions Attachment::failover_options(const Config& config, const Agreed& agreed) {
  FailoverOptions options;
  options.config = config;
  options.group = membership_.group();
  options.session = sessions_.front();
  options.controller = agreed.controller;
  options.leaders = agreed.leaders;
  options.own = embedded_.get();
  options.tell = [this](const std::string& text) { membership_.tell(text); };
  return options;
}

// If there is one, and this attachment is not about to end.
void Attachment::to_failover(const std::function<void(ShareFailovers&)>& tell) {
  const std::lock_guard<std::mutex> lock(failover_mutex_);
  if (failover_) tell(*failover_);
}

// ---- other ranks ----

void Attachment::watch_ranks(WatchMeeting meeting, Duration patience) {
  Membership::Handlers handlers;
  handlers.on_loss = [this](const Status& status) { fail(status); };
  handlers.on_news = [this](int rank, const std::string& text) {
    if (hosts_.ranks() > 0) fail(Status(Code::kUnavailable, text));
    to_failover([&](ShareFailovers& failover) { failover.heard(rank, text); });
  };
  handlers.on_leave = [this](int rank) {
    if (messages_ != nullptr) messages_->note_left(rank);
    to_failover([&](ShareFailovers& failover) { failover.heard_leave(rank); });
  };
  if (memory_ != nullptr && (in_memory() || hosts_.host_of(membership_.group().rank) == 0)) {
    handlers.rank_0_left = [this] { return has_rank_0_left(board()); };
  }
  membership_.watch(std::move(meeting), patience, std::move(handlers));
}

void Attachment::fail(const Status& why) {
  heard_ = true;
  engine_->fail(why);
}

}  // namespace switchml
