// What a rank works with once all have agreed: its part in sessions with the group's switches, or in memory that ranks
// share, and the engine that uses them.
#pragma once

#include <atomic>
#include <functional>
#include <memory>
#include <mutex>
#include <string>
#include <thread>
#include <vector>

#include "base/config.h"
#include "engine/engine.h"
#include "failover/share_failovers.h"
#include "live/live_door.h"
#include "messages/messages.h"
#include "messages/tcp_message_transport.h"
#include "session/abilities.h"
#include "session/agreement.h"
#include "session/membership.h"
#include "shm/arena.h"
#include "store/blob.h"

namespace switchml {

struct AttachmentOptions {
  std::shared_ptr<ControllerClient> controller;
  /// Why the opening is of no use any more, or ok. Null: never.
  std::function<Status()> ended;
  /// A switch that is asked and says nothing for so long is taken for dead.
  Duration switch_patience{};
  /// Another attachment of the group has the ranks watched already.
  bool watched = false;
  /// Told when the engine gives up, from one of its threads, or from the one that ends it.
  std::function<void(const Status&)> on_failure;
};

/// How messages call the switches of these sessions, with ", " between them.
std::string names_of(const std::vector<SessionParameters>& sessions);

class Attachment {
 public:
  /// As Session::open; the size and rank of the group are right. Borrows the membership and the store.
  static Result<std::unique_ptr<Attachment>> open(const Config& config, Membership& membership, Rendezvous& store,
                                                  Time deadline, AttachmentOptions options);
  /// Stops the engine, leaves the sessions, then ends the embedded switch. That waits until the other ranks have left
  /// it, at most kLingerTime, or a fourth of that if not all have started; if a rank is lost, which would never leave,
  /// it does not wait.
  ~Attachment();
  Attachment(const Attachment&) = delete;
  Attachment& operator=(const Attachment&) = delete;

  Engine& engine() const { return *engine_; }
  /// False: it adds integers, and takes nothing that cannot be done with them.
  bool adds_exactly() const { return in_memory() || sessions_.front().exact; }
  Abilities abilities() const;
  /// With the switches that the group has, or had last.
  std::vector<SessionParameters> sessions() const;
  bool without_switch() const;
  const SwitchServer* embedded() const { return embedded_.get(); }
  std::shared_ptr<shm::Arena> arena() const { return arena_; }
  /// Null: it has no watch over the ranks, and another attachment of the session carries them.
  std::shared_ptr<Messages> messages() const { return messages_; }

  /// Session::await_others.
  void await_others();
  /// Ranks that share memory with this one are told so.
  void give_up(const Status& why);

 private:
  void stop_failover();
  Attachment(Agreed* agreed, Membership& membership, Rendezvous& store, bool watches);
  void start(Agreed* agreed, EngineOptions options, const Config& config);
  void watch_ranks(WatchMeeting meeting, Duration patience);
  void link_directly(Transports* transports) const;
  std::unique_ptr<Engine> memory_engine(Transports* transports, const EngineOptions& options);
  std::unique_ptr<Engine> switch_engine(Agreed* agreed, EngineOptions options, const Config& config);
  void open_arena(const Agreed& agreed, const Config& config);
  void open_messages(const Config& config, Duration spin);
  Result<MessageDoor> door_of(int rank) const;
  Result<Fd> listen(const std::string& interface) const;
  void open_live_door(const std::string& interface);
  void show_live_doors() const;
  FailoverOptions failover_options(const Config& config, const Agreed& agreed);
  void to_failover(const std::function<void(ShareFailovers&)>& tell);
  void give_up_for_host(const Status& status);
  void fail(const Status& why);
  bool in_memory() const { return memory_ != nullptr && hosts_.ranks() == 0; }
  shm::BoardShape board_shape() const;
  int local_index() const;
  shm::Board board() const { return {board_shape(), memory_->data()}; }

  std::vector<SessionParameters> sessions_;  // As they were agreed; after a failover's end: as it left them.
  Membership& membership_;
  Rendezvous& store_;
  const bool watches_;    // The membership is this attachment's to watch over.
  bool is_open_ = false;  // All ranks have started.
  std::unique_ptr<SwitchServer> embedded_;
  const std::shared_ptr<shm::Segment> memory_;  // Of this host's ranks, or null.
  std::shared_ptr<shm::Arena> arena_;           // In it, or for a card, or null.
  std::shared_ptr<Messages> messages_;          // In it, or between hosts, or null.
  std::unique_ptr<LiveDoor> live_door_;         // Between hosts, or null.
  Blob door_;                                   // Where those of others come in, between hosts; the same of questions.
  std::vector<Blob> doors_;                     // The same of all ranks.
  const HostLayout hosts_;                      // The switch's workers, where those are hosts; else of no ranks.
  std::atomic<bool> heard_{false};              // Why the group ends came from another rank, and so all ranks hear it.
  std::mutex farewell_mutex_;
  std::thread farewell_;  // Of a host that gives up: once.
  std::unique_ptr<Engine> engine_;
  mutable std::mutex failover_mutex_;
  std::unique_ptr<ShareFailovers> failover_;
};

}  // namespace switchml
