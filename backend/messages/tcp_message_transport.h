// Messages between ranks of several hosts: their transport is a TCP connection for each ordered pair of ranks, which
// the sender makes when it has something to say. The kernel closes it when the process of either ends. Where a rank's
// door is sealed, so is all that goes over the connections to it, both ways.
#pragma once

#include <array>
#include <atomic>
#include <functional>
#include <list>
#include <memory>
#include <mutex>
#include <optional>
#include <string>
#include <vector>

#include "messages/message_transport.h"
#include "seal/stream_seal.h"
#include "socket/endpoint.h"
#include "socket/fd.h"
#include "transport/byte_stream.h"

namespace switchml {

/// Where a rank takes connections, and what they begin with: strangers do not know it.
struct MessageDoor {
  Endpoint address;
  uint64_t key = 0;
  std::optional<seal::StreamDoor> sealed;  // nullopt: what comes in is not.
};

struct TcpMessageOptions {
  int rank = 0;
  int ranks = 1;
  Fd listener;                                          // It listens at this rank's door.
  uint64_t key = 0;                                     // That of this rank's door.
  std::unique_ptr<const seal::StreamDoorOwner> sealed;  // The same door, where it is; else null.
  /// The door of another rank.
  std::function<Result<MessageDoor>(int rank)> find_door;
  /// How long a connection has been broken before its rank counts as lost. The watch over the ranks says meanwhile why,
  /// if the rank has died.
  Duration grace = seconds(3);
};

/// The only one of a rank. Forked children do not inherit it.
class TcpMessageTransport final : public MessageTransport {
 public:
  /// Throws StatusError: the system gives no descriptors.
  explicit TcpMessageTransport(TcpMessageOptions options);
  ~TcpMessageTransport() override;
  TcpMessageTransport(const TcpMessageTransport&) = delete;
  TcpMessageTransport& operator=(const TcpMessageTransport&) = delete;

  int rank() const override { return options_.rank; }
  int ranks() const override { return options_.ranks; }

  RankSet take_signals() override;
  Status look(int source) override;
  const MessageRecord* next(int source, const uint8_t** behind) override;
  void pop(int source) override;
  void take(int source, uint64_t charge) override;
  uint64_t taken(int to) const override { return peer(to).taken_there; }
  void expect(int source) override;
  size_t most_behind() const override { return kMostBehind; }
  Result<bool> put(int to, const MessageRecord& record, const void* data, size_t behind) override;
  uint64_t ticket(int /*to*/) const override { return 0; }
  bool is_busy() const override { return unsent_.any() || leaving_.any() || short_.any(); }
  Time next_wakeup() const override;

  void go(State how, const std::string& reason) override;
  void linger() override;
  State state(int rank) const override { return peer(rank).state; }
  std::string reason(int rank) const override { return peer(rank).reason; }
  void note_left(int rank) override;

  bool has_work() const override;
  void notify() override;
  uint32_t doorbell(Sleeper /*sleeper*/) const override { return 0; }  // It stays rung until a sleeper has heard it.
  void fall_asleep(Sleeper sleeper) override { sleeper_ = sleeper; }
  void hand_to_thread() override;
  void awake() override { sleeper_ = Sleeper::kNobody; }
  void wait_for_bell(Sleeper sleeper, uint32_t heard, Duration timeout) override;
  void wake() override;
  void ring_for(Sleeper sleeper) override;

 private:
  static constexpr size_t kMostBehind = 128 * 1024;

  /// To another rank.
  struct Outgoing {
    ByteStream stream;
    bool connected = false;
    bool over = false;     // There is none any more.
    bool refused = false;  // put() had no room.
    std::vector<uint8_t> unsent;
    size_t sent = 0;       // Of these.
    std::string farewell;  // What comes back: nothing else does.
  };
  /// From another rank.
  struct Incoming {
    ByteStream stream;
    bool over = false;
    std::unique_ptr<uint8_t[]> room;
    size_t begin = 0, end = 0;
    size_t size = 0;    // Of the record that next() has told of, and what is behind it.
    size_t budget = 0;  // Bytes that may still be read at this look().
  };
  struct Peer {
    Outgoing out;
    Incoming in;
    uint64_t taken_there = 0;
    uint64_t taken_here = 0, told = 0;  // The peer knows of the latter.
    State state = State::kHere;
    State farewell = State::kHere;  // It has gone so, as was heard; what it wrote before may be on its way.
    Time broken_at = kNever;        // Without a farewell.
    Time leaving_since = kNever;
    std::string reason;
  };
  /// An accepted connection that has not said its number.
  struct Stranger {
    ByteStream stream;
    Time since;
    std::string said;
  };

  Peer& peer(int rank) { return peers_[static_cast<size_t>(rank)]; }
  const Peer& peer(int rank) const { return peers_[static_cast<size_t>(rank)]; }
  void signal_here(int rank) { signalled_.set(static_cast<size_t>(rank)); }

  void watch(int fd, uint32_t events, uint64_t what, bool known = false);
  void forget(ByteStream* stream);

  void accept_some();
  bool greet(Stranger& stranger);
  void drop_strangers(Time now);

  bool open(int to);
  void append(int to, const MessageRecord& record, const void* data, size_t behind);
  void flush(int to);
  void heard(int to, uint32_t events);
  bool read_more(int source);
  bool is_whole(int source);

  void rest(Time now);
  void end_rest();
  void hear_farewell(int rank, const MessageRecord& last, const char* reason);
  void cannot_send(int to, int error);
  void lose(int to, const std::string& why);
  void broke(int rank, const std::string& why);
  void depart(int rank, State how);
  void settle_departures(Time now);

  const TcpMessageOptions options_;
  const Fd epoll_;
  const std::array<Fd, 2> bells_;  // One for each sleeper.
  std::vector<Peer> peers_;
  std::list<Stranger> strangers_;
  Time rests_until_ = kNever;  // There was no descriptor; kNever: there are some.
  bool has_accepted_all_ = true;
  RankSet short_;  // Ranks that wait for a descriptor.
  RankSet signalled_;
  RankSet unsent_;
  RankSet leaving_;  // they may have gone
  State gone_ = State::kHere;
  uint64_t tickets_ = 0;
  MessageRecord record_;  // The one that next() has told of.
  std::atomic<Time> due_{kNever};
  std::atomic<Sleeper> sleeper_{Sleeper::kNobody};
  std::atomic<bool> thread_sees_{false};  // it sleeps, and the connections wake it
  std::atomic<bool> notified_{false};
  std::mutex mutex_;  // guards what note_left() tells
  RankSet left_;
};

}  // namespace switchml
