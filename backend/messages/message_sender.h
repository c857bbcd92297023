// What a rank has to write for another one: offers of messages, answers to the other's, and bytes that are wanted.
#pragma once

#include <cstdint>
#include <deque>
#include <map>
#include <optional>
#include <vector>

#include "messages/message.h"
#include "messages/message_transport.h"

namespace switchml {

class MessageSender {
 public:
  /// The only one of that pair. `transport` outlives it.
  MessageSender(MessageTransport& transport, int to);

  void send(Message message);
  /// Replies to the peer's offer `id`: accept or refuse.
  void answer(uint64_t id, bool wanted);
  /// Answers that are not written yet.
  size_t answers() const { return answers_.size(); }
  bool has_offered(uint64_t id) const { return offered_.count(id) > 0; }
  /// The other one's to an offer. The message, if that is its end.
  std::optional<Message> answered(uint64_t id, bool wanted);

  /// Writes what there is room for, up to a bound; those that have ended so are added to `done`. True if there may be
  /// more to write now; if not, the other one signals when there is. An error: the machine has no memory for it.
  Result<bool> write(std::vector<Message>* done);

  /// All messages that have not ended, taken out; answers are forgotten.
  std::vector<Message> give_up();
  /// As of MessageMatcher.
  template <typename F>
  const Message* find(const F& f) const;
  /// How far a message of it has come, for people: "rank 1 has not asked for it".
  std::string progress_of(const Message& message) const;

  /// What a short message counts of its pair's allowance.
  static uint64_t charge(size_t bytes) { return bytes + 64; }

 private:
  bool is_short(const Message& message) const;
  Result<bool> write_answer();
  Result<bool> write_offer(std::vector<Message>* done);
  Result<bool> write_piece(std::vector<Message>* done);

  MessageTransport& transport_;
  const int to_;
  const size_t most_short_;  // bytes
  std::deque<MessageRecord> answers_;
  std::deque<Message> fresh_;            // not offered yet
  std::map<uint64_t, Message> offered_;  // keyed by id
  std::deque<Message> leaving_;          // wanted: the first one's bytes are written
  uint64_t last_id_ = 0;
  uint64_t given_ = 0;  // charges, ever
};

template <typename F>
const Message* MessageSender::find(const F& f) const {
  for (const std::deque<Message>* queue : {&fresh_, &leaving_}) {
    for (const Message& message : *queue) {
      if (f(message)) return &message;
    }
  }
  for (const auto& [_, message] : offered_) {
    if (f(message)) return &message;
  }
  return nullptr;
}

}  // namespace switchml
