// An agent in this process, of a switch that only remembers what it is told.
#pragma once

#include <grpcpp/grpcpp.h>

#include <atomic>
#include <deque>
#include <map>
#include <memory>
#include <mutex>
#include <string>
#include <vector>

#include "api/switchml_control.grpc.pb.h"
#include "base/limits.h"
#include "wait.h"
#include "wire/layout.h"

namespace switchml {

class FakeAgent final : public v1::DataPlane::Service {
 public:
  explicit FakeAgent(std::shared_ptr<grpc::ServerCredentials> credentials = grpc::InsecureServerCredentials())
      : credentials_(std::move(credentials)) {
    can.set_kind("fake");
    can.set_instance(1);
    can.set_protocol_version(wire::kVersion);
    can.add_payload_bytes(1024);
    can.set_any_payload(true);
    can.set_members(128);
    can.set_jobs(255);
    can.add_operations(v1::SUM);
    can.add_operations(v1::MAX);
    can.set_trees(true);
    can.set_memory_bytes(64 << 20);
    start();
  }
  ~FakeAgent() override { stop(); }

  void start() {
    stopping_ = false;
    grpc::ServerBuilder builder;
    builder.AddListeningPort("127.0.0.1:" + std::to_string(port_), credentials_, &port_);
    builder.RegisterService(this);
    server_ = builder.BuildAndStart();
  }
  void stop() {
    stopping_ = true;
    if (server_) server_->Shutdown(std::chrono::system_clock::now() + milliseconds(200));
    server_.reset();
  }
  std::string address() const { return "127.0.0.1:" + std::to_string(port_); }

  /// Names of the calls so far, without capability queries.
  std::vector<std::string> calls() {
    const std::lock_guard<std::mutex> lock(mutex_);
    return calls_;
  }
  int count(const std::string& name) {
    const std::lock_guard<std::mutex> lock(mutex_);
    return static_cast<int>(std::count(calls_.begin(), calls_.end(), name));
  }
  std::vector<v1::InstallRequest> installs() {
    const std::lock_guard<std::mutex> lock(mutex_);
    return installs_;
  }
  std::vector<v1::SetMemberRequest> members() {
    const std::lock_guard<std::mutex> lock(mutex_);
    return members_;
  }
  std::vector<v1::ControlPacket> sent() {
    const std::lock_guard<std::mutex> lock(mutex_);
    return sent_;
  }
  void hand_in(const v1::ControlPacket& packet) {
    const std::lock_guard<std::mutex> lock(mutex_);
    incoming_.push_back(packet);
  }
  void restart_switch() {
    const std::lock_guard<std::mutex> lock(mutex_);
    can.set_instance(can.instance() + 1);
  }

  v1::Capabilities can;
  std::string token;                  // The right token; empty: none.
  std::atomic<bool> listened{false};  // A controller reads packets.
  std::atomic<int> slow_ms{0};        // Duration of every command.
  std::atomic<bool> hangs{false};     // No call but PacketsIn is answered.
  std::atomic<int> hanging{0};        // Calls that wait for that.
  std::atomic<bool> mute{false};      // PacketsIn ends, over and over.
  std::atomic<bool> refuses{false};   // Refuses installs.
  std::map<std::string, uint64_t> counters = {{"packets_received", 5}, {"Bad-Name", 1}};

  grpc::Status Capabilities(grpc::ServerContext* context, const v1::CapabilitiesRequest*,
                            v1::Capabilities* reply) override {
    hang();
    if (!allowed(*context)) return {grpc::StatusCode::UNAUTHENTICATED, "wrong token"};
    const std::lock_guard<std::mutex> lock(mutex_);
    *reply = can;
    return grpc::Status::OK;
  }
  grpc::Status Reset(grpc::ServerContext*, const v1::ResetRequest*, v1::ResetReply*) override { return note("reset"); }
  grpc::Status Install(grpc::ServerContext*, const v1::InstallRequest* request, v1::InstallReply*) override {
    note("install");
    if (refuses) return {grpc::StatusCode::RESOURCE_EXHAUSTED, "the tables are full"};
    const std::lock_guard<std::mutex> lock(mutex_);
    installs_.push_back(*request);
    return grpc::Status::OK;
  }
  grpc::Status SetMember(grpc::ServerContext*, const v1::SetMemberRequest* request,
                         v1::SetMemberReply* reply) override {
    note("member");
    const std::lock_guard<std::mutex> lock(mutex_);
    members_.push_back(*request);
    if (request->has_pair()) reply->mutable_pair()->set_number(request->pair().number() + 1);
    return grpc::Status::OK;
  }
  grpc::Status Remove(grpc::ServerContext*, const v1::RemoveRequest*, v1::RemoveReply*) override {
    return note("remove");
  }
  grpc::Status Contributors(grpc::ServerContext*, const v1::ContributorsRequest* request,
                            v1::ContributorsReply* reply) override {
    if (request->seq() == 1) reply->add_members(0);
    reply->set_dropped_length(7);
    return note("contributors");
  }
  grpc::Status Counters(grpc::ServerContext*, const v1::CountersRequest*, v1::CountersReply* reply) override {
    hang();
    v1::JobCounters& job = *reply->add_jobs();
    job.set_job(3);
    job.mutable_values()->insert(counters.begin(), counters.end());
    return grpc::Status::OK;
  }
  grpc::Status PacketsIn(grpc::ServerContext* context, const v1::PacketsInRequest*,
                         grpc::ServerWriter<v1::ControlPacket>* writer) override {
    listened = true;
    while (!context->IsCancelled() && !stopping_ && !mute) {
      std::deque<v1::ControlPacket> packets;
      {
        const std::lock_guard<std::mutex> lock(mutex_);
        packets.swap(incoming_);
      }
      for (const auto& packet : packets) writer->Write(packet);
      usleep(2000);
    }
    listened = false;
    return grpc::Status::OK;
  }
  grpc::Status PacketOut(grpc::ServerContext*, const v1::ControlPacket* request, v1::PacketOutReply*) override {
    note("packet");
    const std::lock_guard<std::mutex> lock(mutex_);
    sent_.push_back(*request);
    return grpc::Status::OK;
  }

 private:
  bool allowed(const grpc::ServerContext& context) const {
    if (token.empty()) return true;
    const auto header = context.client_metadata().find("authorization");
    return header != context.client_metadata().end() && header->second == "Bearer " + token;
  }
  void hang() {
    ++hanging;
    while (hangs && !stopping_) usleep(2000);
    --hanging;
  }
  grpc::Status note(const std::string& call) {
    hang();
    if (slow_ms > 0) usleep(static_cast<useconds_t>(slow_ms * 1000));
    const std::lock_guard<std::mutex> lock(mutex_);
    calls_.push_back(call);
    return grpc::Status::OK;
  }

  std::shared_ptr<grpc::ServerCredentials> credentials_;
  std::mutex mutex_;
  int port_ = 0;
  std::atomic<bool> stopping_{false};
  std::vector<std::string> calls_;
  std::vector<v1::InstallRequest> installs_;
  std::vector<v1::SetMemberRequest> members_;
  std::vector<v1::ControlPacket> sent_;
  std::deque<v1::ControlPacket> incoming_;
  std::unique_ptr<grpc::Server> server_;
};

}  // namespace switchml
