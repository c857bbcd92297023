// The connection to one switch's agent: connects, reconnects, carries out commands in order, and reports packets. Each
// link has threads of its own, so that a switch that does not answer delays no other.
#pragma once

#include <grpcpp/grpcpp.h>

#include <condition_variable>
#include <deque>
#include <functional>
#include <memory>
#include <mutex>
#include <optional>
#include <set>
#include <string>
#include <thread>
#include <vector>

#include "api/switchml_control.grpc.pb.h"
#include "base/clock.h"
#include "controller/commands.h"
#include "controller/switch_state.h"

namespace switchml {

/// A link's reports, from its threads.
class SwitchEvents {
 public:
  virtual ~SwitchEvents() = default;
  /// The agent answers; sessions of a former instance are gone.
  virtual void switch_up(int at, const controller::Capabilities& capabilities) = 0;
  virtual void switch_down(int at, const std::string& problem) = 0;
  virtual void packet_in(int at, const std::string& payload, const controller::SwitchPort& from) = 0;
};

class SwitchLink {
 public:
  using Done = std::function<void(std::vector<controller::CommandResult>)>;

  /// Starts at once. `events` must outlive the link.
  SwitchLink(int at, const controller::SwitchSpec& spec, const std::shared_ptr<grpc::ChannelCredentials>& credentials,
             SwitchEvents& events);
  /// Stops, and waits for the threads. Queued commands are dropped, and their `done` is not called.
  ~SwitchLink();
  /// Cancels all calls, also later ones, so that an agent that hangs does not delay the destructor. Thread-safe.
  void stop();

  /// Carries out commands of this switch in order, after those submitted before; those after one that failed are left
  /// out. `done` (may be empty) is called from the link's thread, never from within submit(). Thread-safe. Commands
  /// without `done` are dropped while 1024 wait.
  void submit(std::vector<controller::Command> commands, Done done);
  /// The switch's counters; an error if it does not answer within a second. Thread-safe.
  grpc::Status counters(v1::CountersReply* reply);

 private:
  class AgentCall;
  struct QueuedCommands {
    std::vector<controller::Command> commands;
    Done done;
  };

  // ---- the executor's thread ----
  void execute();
  std::vector<controller::CommandResult> carry_out(const std::vector<controller::Command>& commands);
  controller::CommandResult carry_out(const controller::Command& command);
  void check_health();

  // ---- the listener's thread ----
  void listen();
  std::string connect();
  std::string read_packets();
  void hand_in(const v1::ControlPacket& packet);

  // ---- both ----
  grpc::Status capabilities(v1::Capabilities* reply);
  void report_up(const v1::Capabilities& capabilities);
  void report_down(const std::string& problem);
  void drop_connection(const std::string& problem);
  bool stopping();

  const int at_;
  const std::string name_;
  const std::string token_;
  SwitchEvents& events_;
  std::unique_ptr<v1::DataPlane::Stub> stub_;

  std::mutex mutex_;
  std::condition_variable changed_;
  bool stop_ = false;
  bool displaced_ = false;  // Another controller has the agent.
  bool connected_ = false;
  std::string problem_ = "it has not been reached yet";
  std::optional<uint64_t> instance_;
  std::deque<QueuedCommands> queue_;
  std::set<grpc::ClientContext*> calls_;   // Under way.
  grpc::ClientContext* stream_ = nullptr;  // PacketsIn, while it runs.
  std::string logged_;                     // The last logged problem. The listener's thread only.
  std::thread executor_;
  std::thread listener_;
};

/// An agent's answer, for the core.
controller::Capabilities capabilities_of(const v1::Capabilities& message);

}  // namespace switchml
