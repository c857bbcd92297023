#include "failover/share_failovers.h"

#include <pthread.h>

#include <cstdlib>
#include <utility>

#include "base/log.h"
#include "base/thread.h"

namespace switchml {

namespace {

constexpr Duration kPlanPause = seconds(1);  // Pause between questions to a controller.
constexpr Duration kPlanTime = seconds(3);   // Time for its answer.

FailoverOptions of_share(const FailoverOptions& options, size_t number, const SessionParameters& session) {
  FailoverOptions mine = options;
  mine.session = session;
  mine.share.number = number;
  if (options.tell) {
    mine.tell = [tell = options.tell, number](const std::string& text) { tell(std::to_string(number) + " " + text); };
  }
  return mine;
}

FailoverOptions of_all(FailoverOptions options, const std::vector<SessionParameters>& sessions) {
  options.share.of = sessions.size();
  for (const SessionParameters& session : sessions) options.weights.push_back(session.weight);
  return options;
}

}  // namespace

ShareFailovers::ShareFailovers(SwitchEngine& engine, Rendezvous& store, FailoverOptions options,
                               const std::vector<SessionParameters>& sessions)
    : engine_(engine), options_(of_all(std::move(options), sessions)) {
  for (const SessionParameters& session : sessions) {
    const size_t number = shares_.size();
    shares_.push_back(std::make_unique<Failover>(engine, store, of_share(options_, number, session)));
  }
  if (options_.group.rank != 0 || !sessions.front().controlled) return;
  thread_ = make_thread("following a controller's plan", [this] { follow_plans(); });
}

ShareFailovers::~ShareFailovers() { stop(); }

void ShareFailovers::heard(int rank, const std::string& text) {
  char* end = nullptr;
  const auto share = std::strtoull(text.c_str(), &end, 10);
  if (end != text.c_str() && *end == ' ' && share < shares_.size()) {
    shares_[share]->heard(rank, end + 1);
    return;
  }
  const std::lock_guard<std::mutex> lock(mutex_);
  news_.hear(rank, text);
  changed_.notify_all();
}

void ShareFailovers::heard_leave(int rank) {
  for (const auto& share : shares_) share->heard_leave(rank);
  const std::lock_guard<std::mutex> lock(mutex_);
  news_.hear_leave(rank);
  changed_.notify_all();
}

bool ShareFailovers::moved() const {
  bool any = false;
  for (const auto& share : shares_) any = any || share->moved();
  return any;
}

std::vector<SessionParameters> ShareFailovers::sessions() const {
  std::vector<SessionParameters> all;
  all.reserve(shares_.size());
  for (const auto& share : shares_) all.push_back(share->session());
  return all;
}

void ShareFailovers::await_others() {
  constexpr Duration kGlance = milliseconds(20);
  std::unique_lock<std::mutex> lock(mutex_);
  if (stopping_ || news_.at_the_end(options_.group.rank)) return;
  news_.hear(options_.group.rank, News::end());
  if (options_.tell) options_.tell(News::end());
  const Time end = monotonic_now() + options_.config.failure_timeout;
  const auto all = static_cast<size_t>(options_.group.size);
  while (news_.at_the_end() < all && engine_.status().ok() && monotonic_now() < end) changed_.wait_for(lock, kGlance);
}

void ShareFailovers::stop() {
  std::thread running;
  {
    const std::lock_guard<std::mutex> lock(mutex_);
    stopping_ = true;
    running.swap(thread_);
    changed_.notify_all();
  }
  if (running.joinable()) running.join();
  for (const auto& share : shares_) share->stop();
}

// ---- plans ----

void ShareFailovers::follow_plans() {
  pthread_setname_np(pthread_self(), "switchml-plan");
  std::unique_lock<std::mutex> lock(mutex_);
  while (!changed_.wait_for(lock, kPlanPause, [this] { return stopping_; })) {
    lock.unlock();
    if (const auto places = options_.controller.places(monotonic_now() + kPlanTime); places.ok())
      follow(places.value());
    lock.lock();
  }
}

// Where there is no plan, or one of other shares, the group stays where it is.
void ShareFailovers::follow(const Blob& places) {
  const auto count = shares_of(places);
  if (!count.ok() || count.value() != shares_.size()) return;
  std::vector<SessionParameters> planned = sessions();
  std::vector<uint32_t> weights;
  for (size_t i = 0; i < planned.size(); ++i) {
    if (!read_place(places, i, &planned[i]).ok() || planned[i].tree_id == 0) return;
    weights.push_back(planned[i].weight);
  }
  for (size_t i = 0; i < planned.size(); ++i) shares_[i]->follow(planned[i].tree_id);
  if (weights.size() > 1) shares_.front()->share_out(weights);
}

}  // namespace switchml
