#include "messages/messenger.h"

#include <algorithm>
#include <cstring>

#include "base/assert.h"
#include "kernels/kernels.h"

namespace switchml {

namespace {

/// Messages of so many bytes are written with non-temporal stores: their first would be gone before the last one comes.
constexpr size_t kLargeMessage = 1024 * 1024;

std::string name_of(int rank) { return "rank " + std::to_string(rank); }

Status differs(const Message& wanted, const MessageRecord& record, int source) {
  return {Code::kMismatch, describe(wanted) + " got a message of " + std::to_string(record.bytes) + " bytes from " +
                               name_of(source) + ", which is gone: both ends must name as many"};
}

Status cannot_complete(const Message& message, const std::string& why) {
  return {Code::kUnavailable, describe(message) + " cannot complete: " + why};
}

}  // namespace

Messenger::Messenger(MessageTransport& transport) : transport_(transport), rank_(transport.rank()) {
  for (int other = 0; other < transport.ranks(); ++other) peers_.push_back({MessageSender(transport, other)});
}

// ---- what is asked of it ----

/// False: it has ended.
bool Messenger::open(const Message& message) {
  SWITCHML_ASSERT(message.peer != rank_ && message.peer >= kAnySource && message.peer < transport_.ranks());
  ++open_;
  if (!status_.ok()) {
    end(message, status_, message.peer);
    return false;
  }
  earliest_deadline_ = std::min(earliest_deadline_, message.deadline);
  for (int other = 0; other < transport_.ranks(); ++other) {
    const bool concerned = message.peer == kAnySource || message.peer == other;
    if (concerned && peer(other).gone) leavers_.set(static_cast<size_t>(other));
  }
  return true;
}

void Messenger::send(Message message) {
  message.sends = true;
  if (!open(message)) return;
  const int to = message.peer;
  unwritten_.set(static_cast<size_t>(to));
  peer(to).out.send(std::move(message));
}

void Messenger::receive(Message message) {
  message.sends = false;
  if (!open(message)) return;
  if (message.peer != kAnySource) transport_.expect(message.peer);
  matcher_.want(std::move(message));
}

void Messenger::end(const Message& message, const Status& status, int source) {
  if (--open_ == 0) earliest_deadline_ = kNever;
  if (status.ok() && !message.sends) counters_.bytes_moved_in_memory.add(message.bytes);
  outcomes_.push_back({message.done, status, source});
}

bool Messenger::is_busy() const {
  const auto owes = [](const Peer& other) { return other.out.answers() > 0; };
  return open_ > 0 || transport_.is_busy() || std::any_of(peers_.begin(), peers_.end(), owes);
}

// ---- what it does ----

bool Messenger::step(Time now) {
  RankSet signalled = transport_.take_signals();
  if (!status_.ok()) return false;  // What is written goes on.
  signalled.reset(static_cast<size_t>(rank_));
  ++looks_;
  for (int source = 0; signalled.any() && status_.ok() && source < transport_.ranks(); ++source) {
    if (signalled[static_cast<size_t>(source)]) read(source);
  }
  unwritten_ |= signalled;
  for (auto& [wanted, arrival] : matcher_.fit(looks_)) {
    take(std::move(wanted), arrival.source, arrival.record, arrival.data.data());
  }
  for (int other = 0; leavers_.any() && other < transport_.ranks(); ++other) {
    if (leavers_[static_cast<size_t>(other)]) end_those_with(other);
  }
  const bool wrote = status_.ok() && write_all();
  if (status_.ok() && now >= earliest_deadline_) check_deadlines(now);
  return status_.ok() && (signalled.any() || wrote);
}

// A rank that has gone wrote all that is to be read before it said so.
void Messenger::read(int source) {
  const bool gone = transport_.state(source) != MessageTransport::State::kHere;
  if (const Status seen = transport_.look(source); !seen.ok()) {
    return fail({seen.code(), name_of(rank_) + ": " + seen.message()});
  }
  const uint8_t* behind = nullptr;
  while (const MessageRecord* record = transport_.next(source, &behind)) {
    if (!is_expected(source, *record)) {
      return fail({Code::kUnavailable, name_of(source) + " does not speak as a rank does: something else came, or " +
                                           "its messages were damaged on their way"});
    }
    read_one(source, *record, behind);
    transport_.pop(source);
  }
  if (gone) {
    peer(source).gone = true;
    leavers_.set(static_cast<size_t>(source));
  }
}

bool Messenger::is_expected(int source, const MessageRecord& record) const {
  const Peer& from = peers_[static_cast<size_t>(source)];
  switch (record.kind) {
    case MessageRecord::kOffer:
    case MessageRecord::kWhole: return true;
    case MessageRecord::kPiece:
      return !from.coming.empty() && record.bytes <= from.coming.front().bytes - from.coming.front().moved;
    case MessageRecord::kWanted:
    case MessageRecord::kDropped: return from.out.has_offered(record.id);
    default: return false;
  }
}

void Messenger::read_one(int source, const MessageRecord& record, const uint8_t* behind) {
  switch (record.kind) {
    case MessageRecord::kOffer:
    case MessageRecord::kWhole: return arrive(source, record, behind);
    case MessageRecord::kPiece: return take_piece(source, static_cast<size_t>(record.bytes), behind);
    default: break;
  }
  const auto ended = peer(source).out.answered(record.id, record.kind == MessageRecord::kWanted);
  if (ended) end(*ended, Status(), rank_);
}

void Messenger::arrive(int source, const MessageRecord& record, const uint8_t* behind) {
  std::optional<Message> wanted = matcher_.take_for(source, record.tag);
  if (wanted) return take(std::move(*wanted), source, record, behind);
  MessageArrival arrival{source, record, looks_};
  if (record.kind == MessageRecord::kWhole) arrival.data.assign(behind, behind + record.bytes);
  matcher_.arrive(std::move(arrival));
}

// The two have found each other.
void Messenger::take(Message wanted, int source, const MessageRecord& record, const uint8_t* behind) {
  Peer& from = peer(source);
  const bool fits = wanted.bytes == record.bytes;
  if (record.kind == MessageRecord::kWhole) {
    if (fits && wanted.bytes > 0) std::memcpy(wanted.to, behind, wanted.bytes);
    transport_.take(source, MessageSender::charge(static_cast<size_t>(record.bytes)));
  } else {
    from.out.answer(record.id, fits);
    unwritten_.set(static_cast<size_t>(source));
    if (fits && wanted.bytes > 0) return from.coming.push_back(std::move(wanted));
  }
  end(wanted, fits ? Status() : differs(wanted, record, source), source);
}

void Messenger::take_piece(int source, size_t bytes, const uint8_t* behind) {
  std::deque<Message>& coming = peer(source).coming;
  SWITCHML_ASSERT(!coming.empty() && bytes <= coming.front().bytes - coming.front().moved);
  Message& message = coming.front();
  auto* to = static_cast<uint8_t*>(message.to) + message.moved;
  if (message.bytes >= kLargeMessage) {
    kernels().copy_non_temporal(behind, to, bytes);
  } else {
    std::memcpy(to, behind, bytes);
  }
  message.moved += bytes;
  if (message.moved < message.bytes) return;
  end(message, Status(), source);
  coming.pop_front();
}

bool Messenger::write_all() {
  bool wrote = false;
  for (int to = 0; unwritten_.any() && to < transport_.ranks(); ++to) {
    if (!unwritten_[static_cast<size_t>(to)]) continue;
    std::vector<Message> done;
    const Result<bool> more = peer(to).out.write(&done);
    for (const Message& message : done) end(message, Status(), rank_);
    if (!more.ok()) {
      fail({more.status().code(), name_of(rank_) + ": " + more.status().message()});
      return false;
    }
    if (!more.value()) unwritten_.reset(static_cast<size_t>(to));
    wrote = wrote || more.value();
  }
  return wrote;
}

// ---- what does not come to its end ----

void Messenger::end_all(const std::vector<Message>& messages, const Status& status) {
  for (const Message& message : messages) end(message, status, message.peer);
}

bool Messenger::are_all_gone() const {
  for (int other = 0; other < transport_.ranks(); ++other) {
    if (other != rank_ && !peers_[static_cast<size_t>(other)].gone) return false;
  }
  return true;
}

void Messenger::end_those_with(int gone) {
  leavers_.reset(static_cast<size_t>(gone));
  const std::string reason = transport_.reason(gone);
  const MessageTransport::State how = transport_.state(gone);
  std::string why = name_of(gone) + " gave up: " + reason;
  if (how == MessageTransport::State::kLeft) why = name_of(gone) + " left the session";
  if (how == MessageTransport::State::kLost) why = name_of(gone) + " is not reached: " + reason;
  std::vector<Message> lost = peer(gone).out.give_up();
  for (Message& message : matcher_.give_up(gone)) lost.push_back(std::move(message));
  for (Message& message : std::exchange(peer(gone).coming, {})) lost.push_back(std::move(message));
  for (const Message& message : lost) end(message, cannot_complete(message, why), message.peer);
  if (!are_all_gone()) return;
  for (auto& [wanted, arrival] : matcher_.fit(++looks_)) {
    take(std::move(wanted), arrival.source, arrival.record, arrival.data.data());
  }
  for (const Message& message : matcher_.give_up_all()) {
    end(message, cannot_complete(message, "all other ranks are gone; " + why), message.peer);
  }
}

void Messenger::fail(const Status& status) {
  SWITCHML_ASSERT(!status.ok());
  if (!status_.ok()) return;
  status_ = status;
  const bool leaves = status.code() == Code::kAborted;
  transport_.go(leaves ? MessageTransport::State::kLeft : MessageTransport::State::kGaveUp, status.message());
  for (Peer& other : peers_) {
    end_all(other.out.give_up(), status);
    for (const Message& message : std::exchange(other.coming, {})) end(message, status, message.peer);
  }
  end_all(matcher_.give_up_all(), status);
}

template <typename F>
const Message* Messenger::find(const F& f) const {
  if (const Message* found = matcher_.find(f)) return found;
  for (const Peer& other : peers_) {
    if (const Message* found = other.out.find(f)) return found;
    const auto coming = std::find_if(other.coming.begin(), other.coming.end(), f);
    if (coming != other.coming.end()) return &*coming;
  }
  return nullptr;
}

void Messenger::check_deadlines(Time now) {
  Time earliest = kNever;
  const Message* late = find([&](const Message& message) {
    earliest = std::min(earliest, message.deadline);
    return now >= message.deadline;
  });
  earliest_deadline_ = earliest;
  if (late == nullptr) return;
  fail({Code::kTimeout, describe(*late) + " did not complete before its timeout passed: " + progress_of(*late)});
}

std::string Messenger::progress_of(const Message& message) const {
  const std::string question = "; is it dead, stopped, or does it not make that call?";
  if (message.sends) return peers_[static_cast<size_t>(message.peer)].out.progress_of(message) + question;
  if (message.peer == kAnySource) return "no rank has sent such a message";
  if (message.moved > 0) {
    return "of its bytes " + std::to_string(message.moved) + " have come; is " + name_of(message.peer) +
           " dead or stopped?";
  }
  return name_of(message.peer) + " has not sent it" + question;
}

}  // namespace switchml
