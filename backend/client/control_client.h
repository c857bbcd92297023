// Control requests to a switch, repeated until they are answered or a deadline passes. Every request is idempotent, so
// repeats are harmless.
#pragma once

#include <functional>
#include <string>
#include <utility>

#include "base/clock.h"
#include "base/status.h"
#include "transport/transport.h"
#include "wire/control.h"

namespace switchml {

class ControlClient {
 public:
  /// Borrows the transport. `name` is the switch's in messages ("10.0.0.1:48879"). Frames other than replies to this
  /// client's request are discarded, so use it before an engine runs on the transport.
  ControlClient(Transport& transport, const Endpoint& switch_endpoint, std::string name);

  /// Sets `ended`, which is called a few times a second: an error of it ends an exchange.
  void wait_while(std::function<Status()> ended) { ended_ = std::move(ended); }

  // An error names the switch and the remedy: kUnavailable (no answer, or a refusal that depends on the switch's
  // state), kMismatch (another protocol version), kInvalidArgument (never granted).
  Result<wire::OpenReply> open(const wire::Open& asked, Time deadline);
  /// Whether the last open was refused for lack of resources that other jobs may release.
  bool lacked_room() const { return lacked_room_; }
  /// `member.cookie` may be 0: the client obtains the cookie and repeats the join with it.
  Result<wire::JoinReply> join(const wire::Membership& member, int shard, Time deadline);
  /// Closes a session. Ok if it has ended already.
  Status close(const wire::Membership& member, Time deadline);

 private:
  Result<wire::Reply> ask_to_join(const wire::Membership& member, int shard, Time deadline);
  Result<wire::Reply> ask_to_meet(const wire::Membership& member, int shard, Time deadline);
  /// Writes a request with this number, and returns its size.
  using Build = std::function<size_t(uint32_t request_id, uint8_t* out)>;
  Result<wire::Reply> exchange(wire::Request type, const Build& build, Time deadline);
  Result<wire::Reply> ask(wire::Request type, const Build& build, Time deadline);
  bool receive_reply(wire::Request type, wire::Reply* reply);
  Status refusal(const wire::Reply& reply) const;
  Status no_answer() const;

  Transport& transport_;
  Endpoint switch_;
  std::string name_;
  uint32_t request_id_;
  std::function<Status()> ended_;
  std::string socket_error_;  // The last one.
  bool lacked_room_ = false;
};

}  // namespace switchml
