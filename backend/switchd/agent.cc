#include "switchd/agent.h"

#include <grpcpp/grpcpp.h>

#include <atomic>
#include <condition_variable>
#include <deque>
#include <map>
#include <mutex>
#include <vector>

#include "api/grpc_listener.h"
#include "api/switchml_control.grpc.pb.h"
#include "base/limits.h"
#include "base/random.h"
#include "base/secret.h"
#include "socket/address.h"
#include "softswitch/installed.h"
#include "wire/layout.h"

namespace switchml {

namespace {

constexpr size_t kMostWaiting = 1024;   // Requests; workers repeat dropped ones.
constexpr size_t kMostSenders = 65536;  // Endpoints remembered for answers.
constexpr Duration kLook = milliseconds(100);
constexpr Duration kShutdownLimit = seconds(1);

grpc::Status grpc_status(const Status& status) {
  switch (status.code()) {
    case Code::kOk: return grpc::Status::OK;
    case Code::kInvalidArgument: return {grpc::StatusCode::INVALID_ARGUMENT, status.message()};
    case Code::kMismatch: return {grpc::StatusCode::FAILED_PRECONDITION, status.message()};
    default: return {grpc::StatusCode::RESOURCE_EXHAUSTED, status.message()};
  }
}

grpc::Status bad(const std::string& what, uint64_t value, const std::string& allowed) {
  return {grpc::StatusCode::INVALID_ARGUMENT, what + " " + std::to_string(value) + ": allowed are " + allowed};
}

struct WorkerRequest {
  std::vector<uint8_t> frame;
  Endpoint from;
};

/// Requests on their way from the switch's threads to the controller's stream.
class Requests {
 public:
  void put(const uint8_t* frame, size_t size, const Endpoint& from) {
    const std::lock_guard<std::mutex> lock(mutex_);
    if (senders_.size() >= kMostSenders) senders_.clear();
    senders_[to_string(from)] = from;
    if (readers_ == 0 || queue_.size() >= kMostWaiting) return;
    queue_.push_back({{frame, frame + size}, from});
    changed_.notify_all();
  }
  /// Only the last caller gets requests: a controller that came back, not its former connection.
  uint64_t start_reading() {
    const std::lock_guard<std::mutex> lock(mutex_);
    queue_.clear();
    changed_.notify_all();
    return ++readers_;
  }
  /// False: there is a newer reader.
  bool take(uint64_t reader, std::deque<WorkerRequest>* out) {
    std::unique_lock<std::mutex> lock(mutex_);
    changed_.wait_for(lock, kLook, [&] { return reader != readers_ || !queue_.empty(); });
    if (reader != readers_) return false;
    out->swap(queue_);
    return true;
  }
  void end() {
    ended_ = true;
    start_reading();
  }
  bool ended() const { return ended_; }
  /// The sender of this address as the switch saw it, with the local address of its requests.
  Endpoint seen(const Endpoint& address) {
    const std::lock_guard<std::mutex> lock(mutex_);
    const auto found = senders_.find(to_string(address));
    return found != senders_.end() ? found->second : address;
  }

 private:
  std::mutex mutex_;
  std::condition_variable changed_;
  uint64_t readers_ = 0;
  std::atomic<bool> ended_{false};
  std::deque<WorkerRequest> queue_;
  std::map<std::string, Endpoint> senders_;
};

grpc::Status address_of(const v1::SwitchPlace& place, Endpoint* out) {
  const auto address = literal_address(place.address(), 0);
  if (address.ok() && port_of(address.value()) != 0) {
    *out = address.value();
    return grpc::Status::OK;
  }
  return {grpc::StatusCode::INVALID_ARGUMENT,
          "address \"" + place.address() + "\": allowed is a literal one with a port, as in 10.0.0.1:48879"};
}

class DataPlaneService final : public v1::DataPlane::Service {
 public:
  DataPlaneService(SwitchServer& server, Requests& requests, const std::string& token)
      : server_(server), requests_(requests), token_(token), instance_(random_bits()) {}

  grpc::Status Capabilities(grpc::ServerContext* context, const v1::CapabilitiesRequest*,
                            v1::Capabilities* reply) override {
    if (!allowed(*context)) return stranger();
    const softswitch::SwitchOptions& limits = server_.limits();
    reply->set_kind("software");
    reply->set_instance(instance_);
    reply->set_protocol_version(wire::kVersion);
    reply->add_payload_bytes(static_cast<uint32_t>(limits.max_payload_bytes));
    reply->set_any_payload(true);
    reply->set_whole_chunks(limits.whole_chunks);
    reply->set_members(kMaxWorkers);
    reply->set_jobs(static_cast<uint32_t>(limits.max_jobs));
    reply->add_operations(v1::SUM);
    reply->add_operations(v1::MAX);
    reply->set_trees(true);
    reply->set_exact(!limits.whole_chunks && !limits.integers);
    reply->set_memory_bytes(limits.slot_memory_bytes);
    reply->set_receive_buffer_bytes(limits.receive_buffer_bytes);
    return grpc::Status::OK;
  }

  grpc::Status Reset(grpc::ServerContext* context, const v1::ResetRequest*, v1::ResetReply*) override {
    if (!allowed(*context)) return stranger();
    server_.remove_all();
    instance_ = random_bits();  // Tells other controllers of the reset.
    return grpc::Status::OK;
  }

  grpc::Status Install(grpc::ServerContext* context, const v1::InstallRequest* request, v1::InstallReply*) override {
    if (!allowed(*context)) return stranger();
    if (request->job() > kMaxJobs) return bad("job", request->job(), "1 to 255");
    softswitch::InstalledSession session;
    session.job = static_cast<uint8_t>(request->job());
    session.epoch = request->epoch();
    if (request->shards() > kMaxShards) return bad("shards", request->shards(), "1 to " + std::to_string(kMaxShards));
    session.shards = static_cast<int>(request->shards());
    if (request->slots() > kMaxSlots) return bad("slots", request->slots(), "1 to " + std::to_string(kMaxSlots));
    session.slots = static_cast<int>(request->slots());
    session.payload_bytes = request->payload_bytes();
    for (const uint32_t member : request->members()) {
      if (member >= kMaxWorkers) return bad("member", member, "0 to " + std::to_string(kMaxWorkers - 1));
      session.members.insert(static_cast<int>(member));
    }
    if (request->has_uplink()) {
      softswitch::Uplink uplink;
      if (request->uplink().worker() >= kMaxWorkers)
        return bad("uplink worker", request->uplink().worker(), "0 to 127");
      uplink.worker = static_cast<uint8_t>(request->uplink().worker());
      if (grpc::Status status = address_of(request->uplink().parent(), &uplink.parent); !status.ok()) return status;
      session.uplink = uplink;
    }
    session.exact = request->exact();
    session.session_key = request->session_key();
    return grpc_status(server_.install(session));
  }

  grpc::Status SetMember(grpc::ServerContext* context, const v1::SetMemberRequest* request,
                         v1::SetMemberReply*) override {
    if (!allowed(*context)) return stranger();
    if (request->job() < 1 || request->job() > kMaxJobs) return bad("job", request->job(), "1 to 255");
    if (request->worker() >= kMaxWorkers) return bad("worker", request->worker(), "0 to 127");
    if (request->has_pair()) {
      return {grpc::StatusCode::INVALID_ARGUMENT, "pair: a software switch is not the end of unreliable pairs"};
    }
    Endpoint address;
    if (grpc::Status status = address_of(request->place(), &address); !status.ok()) return status;
    return grpc_status(server_.set_member(static_cast<uint8_t>(request->job()), request->epoch(),
                                          static_cast<int>(request->worker()), request->shard(),
                                          requests_.seen(address)));
  }

  grpc::Status Remove(grpc::ServerContext* context, const v1::RemoveRequest* request, v1::RemoveReply*) override {
    if (!allowed(*context)) return stranger();
    if (request->job() < 1 || request->job() > kMaxJobs) return bad("job", request->job(), "1 to 255");
    server_.remove(static_cast<uint8_t>(request->job()), request->epoch());
    return grpc::Status::OK;
  }

  grpc::Status Contributors(grpc::ServerContext* context, const v1::ContributorsRequest* request,
                            v1::ContributorsReply* reply) override {
    if (!allowed(*context)) return stranger();
    if (request->job() < 1 || request->job() > kMaxJobs) return bad("job", request->job(), "1 to 255");
    if (request->slot() >= kMaxSlots) return bad("slot", request->slot(), "0 to " + std::to_string(kMaxSlots - 1));
    const auto set = server_.contributed(static_cast<uint8_t>(request->job()), request->epoch(),
                                         static_cast<uint16_t>(request->slot()), request->seq());
    if (!set.ok()) return grpc_status(set.status());
    for (int member = 0; member < kMaxWorkers; ++member) {
      if (set.value().test(member)) reply->add_members(static_cast<uint32_t>(member));
    }
    reply->set_dropped_length(server_.counters().dropped_length.get());
    return grpc::Status::OK;
  }

  // A software switch has one set of counters for all jobs.
  grpc::Status Counters(grpc::ServerContext* context, const v1::CountersRequest*, v1::CountersReply* reply) override {
    if (!allowed(*context)) return stranger();
    auto& values = *reply->add_jobs()->mutable_values();
    server_.counters().for_each([&values](const CounterInfo& info, uint64_t value) { values[info.name] = value; });
    return grpc::Status::OK;
  }

  grpc::Status PacketsIn(grpc::ServerContext* context, const v1::PacketsInRequest*,
                         grpc::ServerWriter<v1::ControlPacket>* writer) override {
    if (!allowed(*context)) return stranger();
    const uint64_t reader = requests_.start_reading();
    std::deque<WorkerRequest> requests;
    while (!context->IsCancelled() && requests_.take(reader, &requests)) {
      for (const WorkerRequest& request : requests) {
        v1::ControlPacket packet;
        packet.set_payload(request.frame.data(), request.frame.size());
        packet.mutable_worker()->set_address(to_string(request.from));
        if (!writer->Write(packet)) return grpc::Status::OK;
      }
      requests.clear();
    }
    return requests_.ended() ? grpc::Status(grpc::StatusCode::UNAVAILABLE, "the switch ends")
                             : grpc::Status(grpc::StatusCode::ABORTED, "another controller has come");
  }

  grpc::Status PacketOut(grpc::ServerContext* context, const v1::ControlPacket* request, v1::PacketOutReply*) override {
    if (!allowed(*context)) return stranger();
    Endpoint to;
    if (grpc::Status status = address_of(request->worker(), &to); !status.ok()) return status;
    server_.send({request->payload().begin(), request->payload().end()}, requests_.seen(to));
    return grpc::Status::OK;
  }

 private:
  bool allowed(const grpc::ServerContext& context) const {
    if (token_.empty()) return true;
    const auto header = context.client_metadata().find("authorization");
    if (header == context.client_metadata().end()) return false;
    return same_secret("Bearer " + token_, std::string(header->second.data(), header->second.size()));
  }
  static grpc::Status stranger() {
    return {grpc::StatusCode::UNAUTHENTICATED, "this agent wants the token of its --agent-token-file"};
  }

  SwitchServer& server_;
  Requests& requests_;
  const std::string token_;
  std::atomic<uint64_t> instance_;
};

class GrpcAgent final : public Agent {
 public:
  explicit GrpcAgent(AgentOptions options) : options_(std::move(options)) {}
  ~GrpcAgent() override { stop(); }

  void request(const uint8_t* frame, size_t size, const Endpoint& from) override { requests_.put(frame, size, from); }

  Status serve(SwitchServer& server) override {
    service_ = std::make_unique<DataPlaneService>(server, requests_, options_.token);
    auto credentials = grpc::InsecureServerCredentials();
    if (!options_.certificate.empty()) {
      grpc::SslServerCredentialsOptions tls;
      tls.pem_key_cert_pairs.push_back({options_.key, options_.certificate});
      credentials = grpc::SslServerCredentials(tls);
    }
    auto listener = GrpcListener::open("--agent", options_.listen);
    if (!listener.ok()) return listener.status();
    listener_ = std::move(listener.value());
    grpc_ = listener_->serve("the switch's agent", credentials, service_.get());
    return grpc_ ? Status()
                 : Status(Code::kInvalidArgument, "--agent-cert and --agent-key: they do not fit each other");
  }

  std::string local() const override { return listener_->local(); }

  void stop() override {
    requests_.end();
    if (listener_) listener_->stop();
    if (grpc_) grpc_->Shutdown(std::chrono::system_clock::now() + kShutdownLimit);
    grpc_.reset();
  }

 private:
  const AgentOptions options_;
  Requests requests_;
  std::unique_ptr<DataPlaneService> service_;
  std::unique_ptr<GrpcListener> listener_;
  std::unique_ptr<grpc::Server> grpc_;
};

}  // namespace

std::unique_ptr<Agent> Agent::create(const AgentOptions& options) { return std::make_unique<GrpcAgent>(options); }

}  // namespace switchml
