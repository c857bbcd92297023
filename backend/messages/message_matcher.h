// Which message goes to which receive of a rank. Those of one source and tag are received in the order in which they
// were sent, and receives are served in the order in which they were made; tags have nothing to do with each other.
#pragma once

#include <cstdint>
#include <deque>
#include <optional>
#include <unordered_map>
#include <utility>
#include <vector>

#include "messages/message.h"
#include "messages/message_transport.h"

namespace switchml {

/// A message of another rank that no receive has taken yet.
struct MessageArrival {
  int source = 0;
  MessageRecord record;
  uint64_t look = 0;               // when it came: the number of the look at all rings
  std::vector<uint8_t> data = {};  // a whole message's bytes
};

class MessageMatcher {
 public:
  using Match = std::pair<Message, MessageArrival>;

  void want(Message message);
  /// The receive that a message which comes now goes to, taken out: of those from this source alone. Nullopt: it has to
  /// arrive, as there is none, or its turn has not come.
  std::optional<Message> take_for(int source, int tag);
  void arrive(MessageArrival arrival);
  /// What fits together now, taken out. A receive from any rank takes the message with the lowest ticket, of those that
  /// came before `look`: only then has everything come that was sent before them.
  std::vector<Match> fit(uint64_t look);

  /// Nothing more comes from `source`: the receives that wait for it alone, taken out. What it only offered is
  /// forgotten.
  std::vector<Message> give_up(int source);
  /// As give_up(), for every source.
  std::vector<Message> give_up_all();

  /// f(message) of all receives, until it says true; that one, or null.
  template <typename F>
  const Message* find(const F& f) const {
    for (const auto& [_, queue] : tags_) {
      for (const Message& message : queue.wanted) {
        if (f(message)) return &message;
      }
    }
    return nullptr;
  }

 private:
  struct Queue {
    std::deque<Message> wanted;
    std::deque<MessageArrival> arrived;  // sorted by ticket
  };
  static std::optional<MessageArrival> take_arrival(Queue& queue, const Message& wanted, uint64_t look);

  std::unordered_map<int, Queue> tags_;  // none of them empty
  std::vector<int> touched_;             // tags in which something may fit
};

}  // namespace switchml
