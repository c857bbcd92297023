#include "messages/message_sender.h"

#include <algorithm>
#include <iterator>
#include <string>
#include <utility>

#include "base/assert.h"

namespace switchml {

namespace {

/// A message of more bytes waits at its sender until it is wanted.
constexpr size_t kMostShort = 16 * 1024;
/// So many of the largest short ones may lie at the receiver, unasked for.
constexpr uint64_t kUnaskedFor = 4;
constexpr int kWrittenAtOnce = 16;  // records

}  // namespace

MessageSender::MessageSender(MessageTransport& transport, int to)
    : transport_(transport), to_(to), most_short_(std::min(kMostShort, transport.most_behind())) {}

void MessageSender::send(Message message) {
  message.sends = true;
  fresh_.push_back(std::move(message));
}

void MessageSender::answer(uint64_t id, bool wanted) {
  answers_.push_back({wanted ? MessageRecord::kWanted : MessageRecord::kDropped, 0, id, 0, 0});
}

std::optional<Message> MessageSender::answered(uint64_t id, bool wanted) {
  const auto found = offered_.find(id);
  SWITCHML_ASSERT(found != offered_.end());
  Message message = std::move(found->second);
  offered_.erase(found);
  if (!wanted || message.bytes == 0) return message;
  leaving_.push_back(std::move(message));
  return std::nullopt;
}

bool MessageSender::is_short(const Message& message) const {
  if (message.bytes > most_short_) return false;
  return given_ - transport_.taken(to_) + charge(message.bytes) <= kUnaskedFor * charge(most_short_);
}

// Each says whether it has written something.
Result<bool> MessageSender::write_answer() {
  if (answers_.empty()) return false;
  Result<bool> written = transport_.put(to_, answers_.front(), nullptr, 0);
  if (written.ok() && written.value()) answers_.pop_front();
  return written;
}

Result<bool> MessageSender::write_offer(std::vector<Message>* done) {
  if (fresh_.empty()) return false;
  Message& message = fresh_.front();
  const bool whole = is_short(message);
  const MessageRecord record{whole ? MessageRecord::kWhole : MessageRecord::kOffer, message.tag, last_id_ + 1,
                             message.bytes, transport_.ticket(to_)};
  Result<bool> written = transport_.put(to_, record, message.from, whole ? message.bytes : 0);
  if (!written.ok() || !written.value()) return written;
  ++last_id_;
  if (whole) {
    given_ += charge(message.bytes);
    done->push_back(std::move(message));
  } else {
    offered_.emplace(last_id_, std::move(message));
  }
  fresh_.pop_front();
  return written;
}

Result<bool> MessageSender::write_piece(std::vector<Message>* done) {
  if (leaving_.empty()) return false;
  Message& message = leaving_.front();
  const size_t bytes = std::min(transport_.most_behind(), message.bytes - message.moved);
  const MessageRecord record{MessageRecord::kPiece, 0, 0, bytes, 0};
  Result<bool> written = transport_.put(to_, record, static_cast<const uint8_t*>(message.from) + message.moved, bytes);
  if (!written.ok() || !written.value()) return written;
  message.moved += bytes;
  if (message.moved < message.bytes) return written;
  done->push_back(std::move(message));
  leaving_.pop_front();
  return written;
}

Result<bool> MessageSender::write(std::vector<Message>* done) {
  for (int i = 0; i < kWrittenAtOnce; ++i) {
    Result<bool> written = !answers_.empty() ? write_answer() : !fresh_.empty() ? write_offer(done) : write_piece(done);
    if (!written.ok() || !written.value()) return written;
  }
  return true;
}

std::vector<Message> MessageSender::give_up() {
  std::vector<Message> all;
  for (std::deque<Message>* queue : {&fresh_, &leaving_}) {
    std::move(queue->begin(), queue->end(), std::back_inserter(all));
    queue->clear();
  }
  for (auto& [_, message] : offered_) all.push_back(std::move(message));
  offered_.clear();
  answers_.clear();
  return all;
}

std::string MessageSender::progress_of(const Message& message) const {
  const std::string rank = "rank " + std::to_string(to_);
  const auto same = [&message](const Message& other) { return &other == &message; };
  if (std::any_of(fresh_.begin(), fresh_.end(), same)) return rank + " has not read what came before it";
  if (std::any_of(leaving_.begin(), leaving_.end(), same)) {
    return rank + " has asked for it, and has read no more than " + std::to_string(message.moved) + " bytes";
  }
  return rank + " has not asked for it";
}

}  // namespace switchml
