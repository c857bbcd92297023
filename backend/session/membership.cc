#include "session/membership.h"

#include <algorithm>
#include <optional>
#include <thread>
#include <utility>
#include <vector>

#include "live/live_page.h"
#include "session/call_comparison.h"
#include "store/store_exchange.h"

namespace switchml {

namespace {

constexpr Duration kCompareTime = milliseconds(980);
constexpr Duration kCompareWait = milliseconds(700);
constexpr Duration kComparePause = milliseconds(2);  // Before the second look; doubled by each one.
constexpr size_t kMostNews = 255;

using Calls = std::vector<std::optional<std::string>>;

/// Takes what these ranks have said; returns those that are still to be heard. By halves: as a rule all have said it,
/// or few have not, and a request for each rank by each rank is more than a large group's store answers in time.
std::vector<int> take_calls(Rendezvous& store, const std::string& topic, const std::vector<int>& ranks, Time end,
                            Calls* calls) {
  std::vector<std::string> keys;
  keys.reserve(ranks.size());
  for (const int rank : ranks) keys.push_back(rank_key(topic, rank));
  const auto said = store.get_all(keys);
  if (!said.ok() && said.status().code() != Code::kTimeout) return {};  // The store says no more.
  for (size_t i = 0; said.ok() && i < ranks.size(); ++i) (*calls)[static_cast<size_t>(ranks[i])] = said.value()[i];
  if (said.ok()) return {};
  if (ranks.size() == 1 || monotonic_now() >= end) return ranks;
  const auto middle = ranks.begin() + static_cast<std::ptrdiff_t>(ranks.size() / 2);
  std::vector<int> unheard = take_calls(store, topic, {ranks.begin(), middle}, end, calls);
  const std::vector<int> others = take_calls(store, topic, {middle, ranks.end()}, end, calls);
  unheard.insert(unheard.end(), others.begin(), others.end());
  return unheard;
}

}  // namespace

void Membership::watch(WatchMeeting meeting, Duration patience, Handlers handlers) {
  handlers_ = std::move(handlers);
  if (const uint64_t number = meeting.number(); group_.live && number != 0) group_.live->identify(number);
  PeerWatchOptions options;
  options.rank = group_.rank;
  options.size = group_.size;
  options.process = this_process();
  options.patience = patience;
  options.on_loss = [this](int rank, const std::string& text, bool gone) {
    if (gone) note_gone(rank, text);
    lose(Status(Code::kUnavailable, text));
  };
  options.on_news = handlers_.on_news;
  options.on_leave = handlers_.on_leave;
  options.rank_0_left = handlers_.rank_0_left;
  const std::lock_guard<std::mutex> lock(watch_mutex_);
  if (meeting.listener.valid()) {
    watch_ = std::make_unique<PeerWatch>(options, std::move(meeting.listener), std::move(meeting.owner));
  } else if (meeting.address.size != 0) {
    watch_ = std::make_unique<PeerWatch>(options, meeting.address, meeting.door);
  }
}

void Membership::leave() {
  std::unique_ptr<PeerWatch> ended;  // Outlives the lock: the watch's thread may wait for that.
  const std::lock_guard<std::mutex> lock(watch_mutex_);
  ended.swap(watch_);
}

bool Membership::awaits_ranks() const {
  const std::lock_guard<std::mutex> lock(watch_mutex_);
  return group_.rank == 0 && watch_ && watch_->connected() < group_.size - 1;
}

void Membership::tell(const std::string& text) {
  const std::lock_guard<std::mutex> lock(watch_mutex_);
  if (watch_) watch_->tell(text.substr(0, kMostNews));
}

void Membership::give_up(const std::string& text) {
  const std::lock_guard<std::mutex> lock(watch_mutex_);
  if (watch_) watch_->give_up(text.substr(0, kMostNews));
}

void Membership::note_gone(int rank, const std::string& how) {
  const std::lock_guard<std::mutex> lock(loss_mutex_);
  gone_.emplace(rank, how);
}

void Membership::lose(const Status& why) {
  if (handlers_.on_loss) handlers_.on_loss(why);
  const std::lock_guard<std::mutex> lock(loss_mutex_);
  if (!loss_.ok()) return;
  loss_ = why;
  if (callback_) callback_(why);
}

bool Membership::has_loss() const {
  const std::lock_guard<std::mutex> lock(loss_mutex_);
  return !loss_.ok();
}

void Membership::when_lost(std::function<void(const Status&)> callback) {
  const std::lock_guard<std::mutex> lock(loss_mutex_);
  callback_ = std::move(callback);
  if (callback_ && !loss_.ok()) callback_(loss_);
}

std::map<int, std::string> Membership::gone_ranks() const {
  const std::lock_guard<std::mutex> lock(loss_mutex_);
  return gone_;
}

std::string Membership::compare_calls(const std::string& mine) {
  const std::string topic = "call/" + std::to_string(comparisons_.fetch_add(1));
  const Time begin = monotonic_now();
  Calls calls(static_cast<size_t>(group_.size));
  calls[static_cast<size_t>(group_.rank)] = mine;
  if (!store_.set(rank_key(topic, group_.rank), mine).ok()) return compare_sentence(calls);
  std::vector<int> unheard;
  for (int rank = 0; rank < group_.size; ++rank) {
    if (rank != group_.rank) unheard.push_back(rank);
  }
  for (Duration pause = kComparePause; !unheard.empty(); pause *= 2) {
    unheard = take_calls(store_, topic, unheard, begin + kCompareTime, &calls);
    const Time now = monotonic_now();
    if (unheard.empty() || now >= begin + kCompareWait) break;
    std::this_thread::sleep_for(std::min<Duration>(pause, begin + kCompareWait - now));
  }
  return compare_sentence(calls);
}

}  // namespace switchml
