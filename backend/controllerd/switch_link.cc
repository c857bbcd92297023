#include "controllerd/switch_link.h"

#include <pthread.h>

#include <utility>

#include "base/log.h"
#include "controllerd/port_message.h"

namespace switchml {

namespace {

constexpr Duration kCallLimit = seconds(3);
constexpr Duration kInstallLimit = seconds(8);  // Hundreds of entries, in slow tables.
constexpr Duration kCountersLimit = seconds(1);
constexpr Duration kHealthInterval = seconds(2);
constexpr Duration kRetryPause = milliseconds(300);
constexpr size_t kMostWaiting = 1024;

std::string text_of(const grpc::Status& status) {
  switch (status.error_code()) {
    case grpc::StatusCode::DEADLINE_EXCEEDED: return "its agent does not answer in time";
    case grpc::StatusCode::UNAVAILABLE: return "its agent cannot be reached (" + status.error_message() + ")";
    case grpc::StatusCode::UNAUTHENTICATED: return "its agent refuses the token (" + status.error_message() + ")";
    default: return status.error_message().empty() ? "its agent refuses" : status.error_message();
  }
}

bool unreachable(const grpc::Status& status) {
  return status.error_code() == grpc::StatusCode::UNAVAILABLE ||
         status.error_code() == grpc::StatusCode::DEADLINE_EXCEEDED;
}

std::shared_ptr<grpc::Channel> channel_to(const std::string& agent,
                                          const std::shared_ptr<grpc::ChannelCredentials>& credentials) {
  grpc::ChannelArguments arguments;
  arguments.SetInt(GRPC_ARG_INITIAL_RECONNECT_BACKOFF_MS, 200);
  arguments.SetInt(GRPC_ARG_MIN_RECONNECT_BACKOFF_MS, 200);
  arguments.SetInt(GRPC_ARG_MAX_RECONNECT_BACKOFF_MS, 1000);
  arguments.SetInt(GRPC_ARG_USE_LOCAL_SUBCHANNEL_POOL, 1);
  arguments.SetInt(GRPC_ARG_ENABLE_HTTP_PROXY, 0);
  return grpc::CreateCustomChannel(agent, credentials, arguments);
}

// ---- commands as calls ----

template <typename Message>
Message about(const controller::SessionId& id) {
  Message message;
  message.set_job(id.job);
  message.set_epoch(id.epoch);
  return message;
}

v1::QueuePair message_of_pair(const controller::QueuePair& pair) {
  v1::QueuePair message;
  message.set_number(pair.number);
  message.set_first_psn(pair.first_psn);
  message.set_rkey(pair.rkey);
  message.set_address(pair.address);
  return message;
}

controller::QueuePair pair_of(const v1::QueuePair& message) {
  return {message.number(), message.first_psn(), message.rkey(), message.address()};
}

struct CommandCaller {
  v1::DataPlane::Stub& stub;
  grpc::ClientContext& context;
  controller::CommandResult& result;

  grpc::Status operator()(const controller::Install& c) const {
    auto request = about<v1::InstallRequest>(c.id);
    request.set_shards(static_cast<uint32_t>(c.shards));
    request.set_slots(static_cast<uint32_t>(c.slots));
    request.set_payload_bytes(static_cast<uint32_t>(c.payload_bytes));
    request.mutable_members()->Add(c.members.begin(), c.members.end());
    request.mutable_pages()->Add(c.pages.begin(), c.pages.end());
    if (c.uplink) {
      request.mutable_uplink()->set_worker(c.uplink->worker);
      *request.mutable_uplink()->mutable_parent() = message_of(c.uplink->parent);
    }
    request.set_exact(c.exact);
    request.set_session_key(c.session_key);
    v1::InstallReply reply;
    return stub.Install(&context, request, &reply);
  }
  grpc::Status operator()(const controller::SetMember& c) const {
    auto request = about<v1::SetMemberRequest>(c.id);
    request.set_worker(c.worker);
    request.set_shard(c.shard);
    *request.mutable_place() = message_of(c.place);
    if (c.pair) *request.mutable_pair() = message_of_pair(*c.pair);
    v1::SetMemberReply reply;
    const grpc::Status status = stub.SetMember(&context, request, &reply);
    if (reply.has_pair()) result.pair = pair_of(reply.pair());
    return status;
  }
  grpc::Status operator()(const controller::Remove& c) const {
    auto request = about<v1::RemoveRequest>(c.id);
    v1::RemoveReply reply;
    return stub.Remove(&context, request, &reply);
  }
  grpc::Status operator()(const controller::Contributors& c) const {
    auto request = about<v1::ContributorsRequest>(c.id);
    request.set_slot(c.slot);
    request.set_seq(c.seq);
    v1::ContributorsReply reply;
    const grpc::Status status = stub.Contributors(&context, request, &reply);
    result.members.assign(reply.members().begin(), reply.members().end());
    result.dropped_length = reply.dropped_length();
    return status;
  }
  grpc::Status operator()(const controller::PacketOut& c) const {
    v1::ControlPacket packet;
    packet.set_payload(c.payload.data(), c.payload.size());
    *packet.mutable_worker() = message_of(c.to);
    v1::PacketOutReply reply;
    return stub.PacketOut(&context, packet, &reply);
  }
};

}  // namespace

controller::Capabilities capabilities_of(const v1::Capabilities& message) {
  controller::Capabilities can;
  can.kind = message.kind();
  can.instance = message.instance();
  can.protocol_version = message.protocol_version();
  can.payloads.assign(message.payload_bytes().begin(), message.payload_bytes().end());
  can.any_payload = message.any_payload();
  can.whole_chunks = message.whole_chunks();
  can.members = message.members();
  can.jobs = message.jobs();
  for (const int operation : message.operations()) {
    can.sum |= operation == v1::SUM;
    can.max |= operation == v1::MAX;
  }
  can.trees = message.trees();
  can.pages = message.pages();
  can.page_slots = message.page_slots();
  can.memory_bytes = message.memory_bytes();
  can.receive_buffer_bytes = message.receive_buffer_bytes();
  can.mac = message.mac();
  can.places = message.places();
  can.pairs = message.pairs();
  can.exact = message.exact();
  return can;
}

SwitchLink::SwitchLink(int at, const controller::SwitchSpec& spec,
                       const std::shared_ptr<grpc::ChannelCredentials>& credentials, SwitchEvents& events)
    : at_(at),
      name_(spec.name),
      token_(spec.agent_token),
      events_(events),
      stub_(v1::DataPlane::NewStub(channel_to(spec.agent, credentials))) {
  executor_ = std::thread([this] { execute(); });
  listener_ = std::thread([this] { listen(); });
}

SwitchLink::~SwitchLink() {
  stop();
  executor_.join();
  listener_.join();
}

void SwitchLink::stop() {
  const std::lock_guard<std::mutex> lock(mutex_);
  stop_ = true;
  for (grpc::ClientContext* call : calls_) call->TryCancel();
  changed_.notify_all();
}

/// A call's context, which stop() can cancel from the start.
class SwitchLink::AgentCall {
 public:
  AgentCall(SwitchLink& link, Duration limit) : link_(link) {
    if (limit.count() != 0) context_.set_deadline(std::chrono::system_clock::now() + limit);
    if (!link.token_.empty()) context_.AddMetadata("authorization", "Bearer " + link.token_);
    const std::lock_guard<std::mutex> lock(link.mutex_);
    link.calls_.insert(&context_);
    if (link.stop_) context_.TryCancel();
  }
  ~AgentCall() {
    const std::lock_guard<std::mutex> lock(link_.mutex_);
    link_.calls_.erase(&context_);
  }
  AgentCall(const AgentCall&) = delete;
  AgentCall& operator=(const AgentCall&) = delete;
  grpc::ClientContext* context() { return &context_; }

 private:
  SwitchLink& link_;
  grpc::ClientContext context_;
};

bool SwitchLink::stopping() {
  const std::lock_guard<std::mutex> lock(mutex_);
  return stop_;
}

// ---- carrying out ----

void SwitchLink::submit(std::vector<controller::Command> commands, Done done) {
  const std::lock_guard<std::mutex> lock(mutex_);
  if (!done && queue_.size() >= kMostWaiting) return;
  queue_.push_back({std::move(commands), std::move(done)});
  changed_.notify_all();
}

void SwitchLink::execute() {
  pthread_setname_np(pthread_self(), "switchml-link");
  Time next_check = monotonic_now() + kHealthInterval;
  std::unique_lock<std::mutex> lock(mutex_);
  while (!stop_) {
    const Duration idle = next_check - monotonic_now();
    if (idle.count() <= 0) {
      lock.unlock();
      check_health();
      next_check = monotonic_now() + kHealthInterval;
      lock.lock();
      continue;
    }
    changed_.wait_for(lock, idle, [this] { return stop_ || !queue_.empty(); });
    if (stop_ || queue_.empty()) continue;
    const QueuedCommands part = std::move(queue_.front());
    queue_.pop_front();
    lock.unlock();
    auto results = carry_out(part.commands);
    if (part.done) part.done(std::move(results));
    lock.lock();
  }
}

std::vector<controller::CommandResult> SwitchLink::carry_out(const std::vector<controller::Command>& commands) {
  std::vector<controller::CommandResult> results;
  for (const controller::Command& command : commands) {
    if (!results.empty() && !results.back().ok) {
      results.push_back({false, results.back().problem, {}});
    } else {
      results.push_back(carry_out(command));
    }
  }
  return results;
}

controller::CommandResult SwitchLink::carry_out(const controller::Command& command) {
  {
    const std::lock_guard<std::mutex> lock(mutex_);
    if (!connected_) return {false, problem_, {}};
  }
  controller::CommandResult result;
  AgentCall call(*this, std::holds_alternative<controller::Install>(command.what) ? kInstallLimit : kCallLimit);
  const CommandCaller caller{*stub_, *call.context(), result};
  const grpc::Status status = std::visit([&caller](const auto& what) { return caller(what); }, command.what);
  result.ok = status.ok();
  if (!result.ok) result.problem = text_of(status);
  if (unreachable(status)) drop_connection(result.problem);
  return result;
}

grpc::Status SwitchLink::capabilities(v1::Capabilities* reply) {
  AgentCall call(*this, kCallLimit);
  return stub_->Capabilities(call.context(), v1::CapabilitiesRequest(), reply);
}

grpc::Status SwitchLink::counters(v1::CountersReply* reply) {
  {
    const std::lock_guard<std::mutex> lock(mutex_);
    if (!connected_) return {grpc::StatusCode::UNAVAILABLE, problem_};
  }
  AgentCall call(*this, kCountersLimit);
  return stub_->Counters(call.context(), v1::CountersRequest(), reply);
}

// Finds a restarted or unreachable switch, which the stream of packets may not notice.
void SwitchLink::check_health() {
  {
    const std::lock_guard<std::mutex> lock(mutex_);
    if (!connected_) return;
  }
  v1::Capabilities now;
  const grpc::Status status = capabilities(&now);
  if (unreachable(status)) return drop_connection(text_of(status));
  bool same = true;
  {
    const std::lock_guard<std::mutex> lock(mutex_);
    same = !status.ok() || instance_ == now.instance();
  }
  if (!same) drop_connection("it was restarted");
}

// Makes commands fail until the listener, which notices, has reported and reconnected.
void SwitchLink::drop_connection(const std::string& problem) {
  const std::lock_guard<std::mutex> lock(mutex_);
  connected_ = false;
  problem_ = problem;
  if (stream_ != nullptr) stream_->TryCancel();
}

// ---- listening ----

void SwitchLink::listen() {
  pthread_setname_np(pthread_self(), "switchml-listen");
  while (!stopping()) {
    std::string problem = connect();
    if (problem.empty()) problem = read_packets();
    if (stopping()) return;
    report_down(problem);
    std::unique_lock<std::mutex> lock(mutex_);
    if (displaced_) {  // A reconnection would displace the other controller in turn, with all its sessions.
      changed_.wait(lock, [this] { return stop_; });
      return;
    }
    changed_.wait_for(lock, kRetryPause, [this] { return stop_; });
  }
}

// Removes the sessions of former controllers; those of this one stay.
std::string SwitchLink::connect() {
  v1::Capabilities now;
  grpc::Status status = capabilities(&now);
  if (!status.ok()) return text_of(status);
  bool known = false;
  {
    const std::lock_guard<std::mutex> lock(mutex_);
    known = instance_ == now.instance();
  }
  if (!known) {
    AgentCall call(*this, kCallLimit);
    v1::ResetReply reply;
    status = stub_->Reset(call.context(), v1::ResetRequest(), &reply);
    if (status.ok()) status = capabilities(&now);
    if (!status.ok()) return text_of(status);
  }
  report_up(now);
  return "";
}

void SwitchLink::report_up(const v1::Capabilities& capabilities) {
  SWITCHML_LOG(kInfo) << "switch \"" << name_ << "\" is connected (" << capabilities.kind() << ")";
  logged_.clear();
  {
    const std::lock_guard<std::mutex> lock(mutex_);
    connected_ = true;
    problem_.clear();
    instance_ = capabilities.instance();
  }
  events_.switch_up(at_, capabilities_of(capabilities));
}

void SwitchLink::report_down(const std::string& problem) {
  {
    const std::lock_guard<std::mutex> lock(mutex_);
    connected_ = false;
    problem_ = problem;
  }
  if (logged_ != problem) SWITCHML_LOG(kWarning) << "switch \"" << name_ << "\": " << problem;
  logged_ = problem;
  events_.switch_down(at_, problem);
}

// Returns the reason of its end.
std::string SwitchLink::read_packets() {
  AgentCall call(*this, Duration(0));
  {
    const std::lock_guard<std::mutex> lock(mutex_);
    if (stop_ || !connected_) return problem_;
    stream_ = call.context();
  }
  const auto reader = stub_->PacketsIn(call.context(), v1::PacketsInRequest());
  v1::ControlPacket packet;
  while (reader->Read(&packet)) hand_in(packet);
  const grpc::Status status = reader->Finish();
  const std::lock_guard<std::mutex> lock(mutex_);
  stream_ = nullptr;
  if (status.error_code() == grpc::StatusCode::CANCELLED && !problem_.empty()) return problem_;
  if (status.error_code() == grpc::StatusCode::ABORTED) {
    displaced_ = true;
    return "another controller has taken its agent over; this one leaves it alone until it is started again";
  }
  return status.ok() ? "its agent ended the stream of packets" : text_of(status);
}

void SwitchLink::hand_in(const v1::ControlPacket& packet) {
  const auto from = switch_port_of(packet.worker());
  if (from.ok()) return events_.packet_in(at_, packet.payload(), from.value());
  SWITCHML_LOG(kDebug) << "switch \"" << name_ << "\": a packet from nowhere: " << from.status().message();
}

}  // namespace switchml
