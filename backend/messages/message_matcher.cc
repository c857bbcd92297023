#include "messages/message_matcher.h"

#include <algorithm>
#include <iterator>

namespace switchml {

namespace {
bool accepts(const Message& wanted, int source) { return wanted.peer == kAnySource || wanted.peer == source; }
}  // namespace

void MessageMatcher::want(Message message) {
  touched_.push_back(message.tag);
  tags_[message.tag].wanted.push_back(std::move(message));
}

std::optional<Message> MessageMatcher::take_for(int source, int tag) {
  const auto found = tags_.find(tag);
  if (found == tags_.end()) return std::nullopt;
  Queue& queue = found->second;
  const auto earlier = [source](const MessageArrival& arrival) { return arrival.source == source; };
  const auto first = std::find_if(queue.wanted.begin(), queue.wanted.end(),
                                  [source](const Message& wanted) { return accepts(wanted, source); });
  if (first == queue.wanted.end() || first->peer == kAnySource) return std::nullopt;
  if (std::any_of(queue.arrived.begin(), queue.arrived.end(), earlier)) return std::nullopt;
  Message message = std::move(*first);
  queue.wanted.erase(first);
  if (queue.wanted.empty() && queue.arrived.empty()) tags_.erase(found);
  return message;
}

void MessageMatcher::arrive(MessageArrival arrival) {
  touched_.push_back(arrival.record.tag);
  std::deque<MessageArrival>& arrived = tags_[arrival.record.tag].arrived;
  const auto later = [&](const MessageArrival& other) { return other.record.ticket > arrival.record.ticket; };
  auto place = arrived.end();
  while (place != arrived.begin() && later(*std::prev(place))) --place;
  arrived.insert(place, std::move(arrival));
}

std::optional<MessageArrival> MessageMatcher::take_arrival(Queue& queue, const Message& wanted, uint64_t look) {
  const auto found = std::find_if(queue.arrived.begin(), queue.arrived.end(),
                                  [&](const MessageArrival& arrival) { return accepts(wanted, arrival.source); });
  if (found == queue.arrived.end() || (wanted.peer == kAnySource && found->look >= look)) return std::nullopt;
  MessageArrival arrival = std::move(*found);
  queue.arrived.erase(found);
  return arrival;
}

// A receive from any rank that must wait keeps the later ones from what it may take.
std::vector<MessageMatcher::Match> MessageMatcher::fit(uint64_t look) {
  std::vector<Match> matches;
  std::vector<int> again;
  std::sort(touched_.begin(), touched_.end());
  touched_.erase(std::unique(touched_.begin(), touched_.end()), touched_.end());
  for (const int tag : touched_) {
    Queue& queue = tags_[tag];
    for (auto wanted = queue.wanted.begin(); wanted != queue.wanted.end() && !queue.arrived.empty();) {
      std::optional<MessageArrival> arrival = take_arrival(queue, *wanted, look);
      if (arrival) {
        matches.emplace_back(std::move(*wanted), std::move(*arrival));
        wanted = queue.wanted.erase(wanted);
      } else if (wanted->peer == kAnySource) {
        again.push_back(tag);
        break;
      } else {
        ++wanted;
      }
    }
    if (queue.wanted.empty() && queue.arrived.empty()) tags_.erase(tag);
  }
  touched_ = std::move(again);
  return matches;
}

std::vector<Message> MessageMatcher::give_up(int source) {
  std::vector<Message> given_up;
  for (auto tag = tags_.begin(); tag != tags_.end();) {
    auto& [wanted, arrived] = tag->second;
    for (auto message = wanted.begin(); message != wanted.end();) {
      if (message->peer != source) {
        ++message;
        continue;
      }
      given_up.push_back(std::move(*message));
      message = wanted.erase(message);
    }
    const auto offered = [source](const MessageArrival& arrival) {
      return arrival.source == source && arrival.record.kind == MessageRecord::kOffer;
    };
    arrived.erase(std::remove_if(arrived.begin(), arrived.end(), offered), arrived.end());
    tag = wanted.empty() && arrived.empty() ? tags_.erase(tag) : std::next(tag);
  }
  return given_up;
}

std::vector<Message> MessageMatcher::give_up_all() {
  std::vector<Message> given_up;
  for (auto& [_, queue] : tags_) {
    std::move(queue.wanted.begin(), queue.wanted.end(), std::back_inserter(given_up));
  }
  tags_.clear();
  return given_up;
}

}  // namespace switchml
