#include "store/store_exchange.h"

#include <algorithm>
#include <cstdio>
#include <deque>
#include <numeric>
#include <thread>

#include "base/interruption.h"

namespace switchml {

namespace {

const char* const kGaveUp = "switchml/gave_up";
constexpr Duration kNewsTime = seconds(1);
constexpr Duration kNewsPause = milliseconds(5);
constexpr Duration kBehindRing = milliseconds(1);
constexpr Duration kPartSlice = milliseconds(20);
constexpr Duration kLostTime = milliseconds(500);  // A death is to be named within a second.

std::string in_seconds(Duration d) {
  char text[32];
  std::snprintf(text, sizeof text, d < seconds(100) ? "%.3g s" : "%.0f s", to_seconds(d));
  return text;
}

}  // namespace

Status StoreExchange::say(const std::string& topic, const Blob& blob) {
  known_ = known_ || !blob.carried().ok();
  Status status = store_.set(rank_key(topic, group_.rank), blob.encode());
  if (status.ok()) return status;
  return cause_of({Code::kUnavailable, "the store of " + group_.name + " cannot be written: " + status.message()});
}

Status StoreExchange::tell_all(const std::string& topic, const Blob& blob) {
  Status status = say(topic, blob);
  if (status.ok() && bell_.ring) bell_.ring();
  return status;
}

Result<std::vector<Blob>> StoreExchange::hear_all(const std::string& topic, Time deadline) {
  const Time begin = monotonic_now();
  std::vector<Blob> blobs;
  // As many as are there together are read at once, and the first that is not is awaited.
  for (int rank = 0, together = group_.size; rank < group_.size;) {
    const int count = std::min(together, group_.size - rank);
    std::vector<std::string> texts;
    const Status status = read_some(topic, rank, count, deadline, &texts);
    if (status.code() == Code::kTimeout) return who_is_missing(topic, monotonic_now() - begin, status);
    if (!status.ok()) return status;
    for (const std::string& text : texts) {
      auto blob = Blob::parse(text);
      if (!blob.ok()) return blob.status();
      if (const Status error = blob->carried(); !error.ok()) {
        known_ = true;
        return Status(error.code(), "rank " + std::to_string(rank) + ": " + error.message());
      }
      blobs.push_back(std::move(blob.value()));
      ++rank;
    }
    together = texts.empty() ? 1 : 2 * count;
  }
  return blobs;
}

Status StoreExchange::who_is_missing(const std::string& topic, Duration waited, const Status& otherwise) {
  std::vector<int> missing;
  if (Status status = note_missing(topic, 0, group_.size, &missing); !status.ok()) return status;
  return missing.empty() ? otherwise : Status(Code::kTimeout, missing_message(missing, waited));
}

// By halves: few are missing, as a rule.
Status StoreExchange::note_missing(const std::string& topic, int first, int count, std::vector<int>* missing) {
  const auto there = store_.has_all(keys_of(topic, first, count));
  if (!there.ok()) return unreadable(there.status());
  if (there.value()) return {};
  if (count == 1) {
    missing->push_back(first);
    return {};
  }
  const Status status = note_missing(topic, first, count / 2, missing);
  return status.ok() ? note_missing(topic, first + count / 2, count - count / 2, missing) : status;
}

Result<Blob> StoreExchange::hear(const std::string& topic, int rank, const std::string& what, Time deadline) {
  const Time begin = monotonic_now();
  auto text = read(topic, rank, deadline);
  if (!text.ok()) {
    if (text.status().code() != Code::kTimeout) return text.status();
    return Status(Code::kTimeout, "rank " + std::to_string(rank) + " of " + group_.name + " did not " + what +
                                      " within " + in_seconds(monotonic_now() - begin) +
                                      ": is it running, and does it make the same group?");
  }
  auto blob = Blob::parse(text.value());
  if (!blob.ok()) return blob.status();
  const Status error = blob->carried();
  if (error.ok()) return blob;
  known_ = true;
  return error;
}

void StoreExchange::give_up(const Status& why) {
  if (std::exchange(known_, true) || why.code() == Code::kTimeout) return;
  const Status told(why.code(), "rank " + std::to_string(group_.rank) + ": " + why.message());
  (void)store_.set(kGaveUp, Blob::failure(told).encode()).ok();  // Without the store there is no way to tell.
}

void StoreExchange::part(Duration patience) {
  const std::string topic = "parted";
  if (!store_.set(rank_key(topic, group_.rank), "").ok() || group_.rank != 0) return;
  Time end = monotonic_now() + patience;
  std::deque<int> awaited(static_cast<size_t>(group_.size - 1));
  std::iota(awaited.begin(), awaited.end(), 1);
  size_t lost = 0;
  for (Time now = monotonic_now(); now < end && awaited.size() > lost; now = monotonic_now()) {
    if (lost == 0 && failed_ && !failed_().ok()) {
      lost = 1;  // It does not come, and perhaps not it alone.
      end = std::min(end, now + kLostTime);
    }
    const int rank = awaited.front();
    awaited.pop_front();
    const auto word = store_.get(rank_key(topic, rank), std::min(end, now + kPartSlice));
    if (!word.ok() && word.status().code() != Code::kTimeout) return;
    if (!word.ok()) awaited.push_back(rank);
  }
}

void give_up_opening(Rendezvous& store, const GroupInfo& group, const Status& why) {
  StoreExchange(store, group).give_up(why);
}

// What a rank has said comes before what is seen of it, which its end may be.
Status StoreExchange::ended() {
  const auto text = store_.get(kGaveUp, monotonic_now());
  if (text.ok()) {
    if (const auto blob = Blob::parse(text.value()); blob.ok() && !blob->carried().ok()) {
      known_ = true;
      return blob->carried();
    }
  }
  return failed_ ? failed_() : Status();
}

// Looks again and again: a store's own wait would hold its connection against other users of the group, and cannot be
// told that a rank has given up.
Result<std::string> StoreExchange::read(const std::string& topic, int rank, Time deadline) {
  const std::string key = rank_key(topic, rank);
  const bool gathers = group_.rank == 0;  // It alone looks so often.
  const Time begin = monotonic_now();
  Duration pause = kShortestPause;
  bool rung = false;
  for (bool first = true;; first = false) {
    auto text = store_.get(key, Time());
    if (text.ok()) return text;
    if (text.status().code() != Code::kTimeout) return unreadable(text.status());
    const Time now = monotonic_now();
    if (now >= deadline) return text;
    check_interruption();
    if (!first || (failed_ && !failed_().ok())) {
      if (Status end = ended(); !end.ok()) return end;
    }
    // TCPStore does not wait until a word is there: it may come behind its ring, which is not repeated.
    if (rung) pause = std::max<Duration>(pause, kBehindRing);
    rung = rest(std::min<Duration>(pause, deadline - now), rank == 0 && !rung);
    pause = std::min<Duration>(pause * 2, longest_pause(now - begin) / (gathers ? 5 : 1));
  }
}

bool StoreExchange::rest(Duration most, bool until_ring) const {
  if (bell_.rest) return bell_.rest(most, until_ring);
  std::this_thread::sleep_for(most);
  return false;
}

// Nothing of several ranks where not all have said it; one is awaited.
Status StoreExchange::read_some(const std::string& topic, int first, int count, Time deadline,
                                std::vector<std::string>* texts) {
  if (count == 1) {
    auto text = read(topic, first, deadline);
    if (text.ok()) texts->push_back(std::move(text.value()));
    return text.status();
  }
  auto found = store_.get_all(keys_of(topic, first, count));
  if (found.ok()) *texts = std::move(found.value());
  return found.ok() || found.status().code() == Code::kTimeout ? Status() : unreadable(found.status());
}

std::vector<std::string> StoreExchange::keys_of(const std::string& topic, int first, int count) {
  std::vector<std::string> keys;
  for (int rank = first; rank < first + count; ++rank) keys.push_back(rank_key(topic, rank));
  return keys;
}

Status StoreExchange::unreadable(const Status& why) {
  return cause_of({Code::kUnavailable, "the store of " + group_.name + " cannot be read: " + why.message()});
}

Status StoreExchange::cause_of(const Status& why, Time latest) {
  const Time end = std::min(monotonic_now() + kNewsTime, latest);
  while (failed_ && monotonic_now() < end) {
    if (Status status = ended(); !status.ok()) return status;
    std::this_thread::sleep_for(kNewsPause);
  }
  return why;
}

std::string StoreExchange::missing_message(const std::vector<int>& ranks, Duration waited) const {
  std::string list = ranks.size() == 1 ? "rank " : "ranks ";
  for (size_t i = 0; i < ranks.size(); ++i) list += (i == 0 ? "" : ", ") + std::to_string(ranks[i]);
  return list + " of " + group_.name + " did not come within " + in_seconds(waited) +
         ": is every rank running, and does each make the same group?";
}

}  // namespace switchml
