// The connection to one switch's agent: finds it, keeps it, carries out commands in order, hands in the packets that it
// passes on. Each link has threads of its own, so that a switch that does not answer delays nobody else.
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

/// What a link reports, from its threads.
class SwitchEvents {
 public:
  virtual ~SwitchEvents() = default;
  /// The agent answers; sessions of another instance are gone.
  virtual void switch_up(int at, const controller::Capabilities& capabilities) = 0;
  virtual void switch_down(int at, const std::string& problem) = 0;
  virtual void packet_in(int at, const std::string& payload, const controller::Place& from) = 0;
};

class SwitchLink {
 public:
  using Done = std::function<void(std::vector<controller::CommandResult>)>;

  /// Starts at once. `events` must outlive the link.
  SwitchLink(int at, const controller::SwitchSpec& spec, const std::shared_ptr<grpc::ChannelCredentials>& credentials,
             SwitchEvents& events);
  /// Stops, and waits for the threads. Commands that wait are not carried out, and their `done` is not called.
  ~SwitchLink();
  /// Cancels all calls, those to come too: an agent that hangs delays nobody's end. Thread-safe.
  void stop();

  /// Carries out commands of this switch in order, after those submitted before; those after one that failed are left
  /// out. `done` (may be empty) is called from the link's thread, never from within submit(). Thread-safe. Commands
  /// without `done` are dropped while very many wait.
  void submit(std::vector<controller::Command> commands, Done done);
  /// The switch's counters; an error if it does not answer within a second. Thread-safe.
  grpc::Status counters(v1::CountersReply* reply);

 private:
  class Call;
  struct Part {
    std::vector<controller::Command> commands;
    Done done;
  };

  // ---- the thread that carries out ----
  void execute();
  std::vector<controller::CommandResult> carry_out(const std::vector<controller::Command>& commands);
  controller::CommandResult carry_out(const controller::Command& command);
  void check_health();

  // ---- the thread that listens ----
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
  bool displaced_ = false;  // another controller has the agent
  bool connected_ = false;
  std::string problem_ = "it has not been reached yet";
  std::optional<uint64_t> instance_;
  std::deque<Part> queue_;
  std::set<grpc::ClientContext*> calls_;   // under way
  grpc::ClientContext* stream_ = nullptr;  // of PacketsIn, while it runs
  std::string logged_;                     // the problem that the log knows; the listener's
  std::thread executor_;
  std::thread listener_;
};

/// What an agent's answer means to the core.
controller::Capabilities capabilities_of(const v1::Capabilities& message);

}  // namespace switchml
