// Joins the core, the links to the switches and the clock: events go into the core one at a time, and the core's
// commands go to the links' queues. No lock is held while a switch is called.
#pragma once

#include <condition_variable>
#include <functional>
#include <future>
#include <map>
#include <memory>
#include <mutex>
#include <optional>
#include <string>
#include <thread>
#include <vector>

#include "controller/sessions.h"
#include "controllerd/switch_link.h"

namespace switchml {

/// A switch as state and metrics show it.
struct SwitchView {
  std::string name;
  Endpoint address;
  std::string parent;  // Its name, or empty.
  bool connected = false;
  std::string problem;
  std::optional<controller::Capabilities> capabilities;
  size_t free_slots = 0;
};

class Dispatcher : private SwitchEvents {
 public:
  Dispatcher(const controller::Topology& topology, uint64_t seed,
             const std::shared_ptr<grpc::ChannelCredentials>& credentials);
  ~Dispatcher() override;
  /// Connects to all switches, in the background, which resets them. Once.
  void connect();
  /// Refuses opens, waiting and later ones; cancels the calls to switches, and makes no more.
  void stop();

  // All of these are thread-safe.
  /// Waits for the switches, 10 s at most.
  controller::OpenAnswer open(const controller::OpenRequest& request);
  Result<std::vector<controller::ShareLocation>> locate(const std::vector<std::vector<Endpoint>>& ranks);
  std::optional<controller::Refusal> set_plan(controller::Plan plan);
  std::optional<controller::Refusal> renew(controller::SessionId id, uint64_t session_key);
  std::optional<controller::Refusal> close(controller::SessionId id, uint64_t session_key);
  std::vector<controller::SessionView> sessions();
  std::vector<SwitchView> switches();
  controller::ControllerCounters counters();
  /// Asks switch `at`; takes a second at most.
  grpc::Status switch_counters(int at, v1::CountersReply* reply);
  Duration lease() const { return lease_; }
  /// Never changes.
  const controller::Topology& topology() const { return core_.topology(); }

 private:
  void switch_up(int at, const controller::Capabilities& capabilities) override;
  void switch_down(int at, const std::string& problem) override;
  void packet_in(int at, const std::string& payload, const controller::SwitchPort& from) override;

  /// Runs `event` on the core, then its effects.
  void handle(const std::function<void(controller::Effects*)>& event);
  void begin(const controller::Work& work);
  void sweep();

  const Duration lease_;
  const std::shared_ptr<grpc::ChannelCredentials> credentials_;
  std::mutex mutex_;  // Guards the members below.
  controller::Sessions core_;
  std::map<uint64_t, std::shared_ptr<std::promise<controller::OpenAnswer>>> waiting_;  // Key: ticket.
  uint64_t last_ticket_ = 0;
  bool stop_ = false;
  std::condition_variable stopped_;
  std::vector<std::unique_ptr<SwitchLink>> links_;  // Complete before any work can be begun.
  std::thread sweeper_;
};

}  // namespace switchml
