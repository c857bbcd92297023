#include "store/store_exchange.h"

#include <algorithm>
#include <cstdio>
#include <deque>
#include <numeric>
#include <thread>

namespace switchml {

namespace {

const char* const kGaveUp = "switchml/gave_up";
constexpr Duration kNewsTime = seconds(1);
constexpr Duration kNewsPause = milliseconds(5);
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

Result<std::vector<Blob>> StoreExchange::hear_all(const std::string& topic, Time deadline) {
  const Time begin = monotonic_now();
  std::vector<Blob> blobs;
  std::vector<int> missing;
  for (int rank = 0; rank < group_.size; ++rank) {
    // After the deadline the others are asked once more, only to name all that did not come.
    const Time until = missing.empty() ? deadline : monotonic_now();
    auto text = read(topic, rank, until);
    if (!text.ok()) {
      if (text.status().code() != Code::kTimeout) return text.status();
      missing.push_back(rank);
      continue;
    }
    auto blob = Blob::parse(text.value());
    if (!blob.ok()) return blob.status();
    if (const Status error = blob->carried(); !error.ok()) {
      known_ = true;
      return Status(error.code(), "rank " + std::to_string(rank) + ": " + error.message());
    }
    blobs.push_back(std::move(blob.value()));
  }
  if (!missing.empty()) return Status(Code::kTimeout, missing_message(missing, monotonic_now() - begin));
  return blobs;
}

Status StoreExchange::who_is_missing(const std::string& topic, Duration waited, const Status& otherwise) {
  std::vector<int> missing;
  for (int rank = 0; rank < group_.size; ++rank) {
    const auto text = read(topic, rank, monotonic_now());
    if (!text.ok() && text.status().code() != Code::kTimeout) return text.status();
    if (!text.ok()) missing.push_back(rank);
  }
  return missing.empty() ? otherwise : Status(Code::kTimeout, missing_message(missing, waited));
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

Result<std::string> StoreExchange::read(const std::string& topic, int rank, Time deadline) {
  Status end;
  auto text = store_.get_while(rank_key(topic, rank), deadline, [&] { return end = ended(); });
  if (!end.ok()) return end;
  if (text.ok() || text.status().code() == Code::kTimeout) return text;
  return cause_of({Code::kUnavailable, "the store of " + group_.name + " cannot be read: " + text.status().message()});
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
