#include "c10d/store_rendezvous.h"

#include <algorithm>
#include <memory>
#include <thread>
#include <utility>

#include "base/interruption.h"

namespace switchml {
namespace {

/// Runs a store operation; an exception becomes kUnavailable.
template <typename F>
Status guarded(const std::string& what, F&& operation) {
  try {
    operation();
    return Status::ok_status();
  } catch (const std::exception& error) {
    return {Code::kUnavailable, "the process group's store failed on " + what + ": " + error.what()};
  }
}

std::string text_of(const std::vector<uint8_t>& bytes) { return {bytes.begin(), bytes.end()}; }

}  // namespace

static c10::intrusive_ptr<c10d::Store> without_prefixes(c10::intrusive_ptr<c10d::Store> store) {
  while (auto* prefixed = dynamic_cast<c10d::PrefixStore*>(store.get())) store = prefixed->getUnderlyingStore();
  return store;
}

std::string host_of(const c10::intrusive_ptr<c10d::Store>& store) {
  const auto bare = without_prefixes(store);
  const auto* served = dynamic_cast<const c10d::TCPStore*>(bare.get());
  return served == nullptr ? std::string() : served->getHost();
}

const void* below_prefixes(const c10::intrusive_ptr<c10d::Store>& store) { return without_prefixes(store).get(); }

Result<std::unique_ptr<StoreRendezvous>> StoreRendezvous::open(const c10::intrusive_ptr<c10d::Store>& store, int rank) {
  int64_t opening = 0;
  Status status =
      guarded("the first key", [&] { opening = store->add("switchml/openings/" + std::to_string(rank), 1); });
  if (!status.ok()) return status;
  return std::unique_ptr<StoreRendezvous>(new StoreRendezvous(store, "switchml/" + std::to_string(opening) + "/"));
}

StoreRendezvous::StoreRendezvous(c10::intrusive_ptr<c10d::Store> store, std::string prefix)
    : store_(std::move(store)), prefix_(std::move(prefix)) {}

Status StoreRendezvous::set(const std::string& key, const std::string& value) {
  return guarded("key '" + key + "'",
                 [&] { store_->set(prefix_ + key, std::vector<uint8_t>(value.begin(), value.end())); });
}

// Polls: a blocking wait() holds the store's lock against the group's other users, and its timeout leaves the
// connection of an old TCPStore out of step.
Result<std::string> StoreRendezvous::get(const std::string& key, Time deadline) {
  const std::string full = prefix_ + key;
  const Time begin = monotonic_now();
  Duration pause = kShortestPause;
  for (;;) {
    bool there = false;
    std::string value;
    Status status = guarded("key '" + key + "'", [&] {
      there = store_->check({full});
      if (!there) return;
      value = text_of(store_->get(full));
    });
    if (!status.ok()) return status;
    if (there) return value;
    const Time now = monotonic_now();
    if (now >= deadline) return Status(Code::kTimeout, "key '" + key + "' did not appear in the process group's store");
    check_interruption();
    std::this_thread::sleep_for(std::min<Duration>(pause, deadline - now));
    pause = std::min(pause * 2, longest_pause(now - begin));
  }
}

std::vector<std::string> StoreRendezvous::prefixed(const std::vector<std::string>& keys) const {
  std::vector<std::string> all;
  for (const std::string& key : keys) all.push_back(prefix_ + key);
  return all;
}

Result<bool> StoreRendezvous::has_all(const std::vector<std::string>& keys) {
  bool there = false;
  const Status status =
      guarded("keys beginning with '" + keys.front() + "'", [&] { there = store_->check(prefixed(keys)); });
  return status.ok() ? Result<bool>(there) : status;
}

Result<std::vector<std::string>> StoreRendezvous::get_all(const std::vector<std::string>& keys) {
  const auto there = has_all(keys);
  if (!there.ok()) return there.status();
  if (!there.value()) return Status(Code::kTimeout, "key '" + keys.front() + "' or one behind it is not there");
  std::vector<std::string> values;
  const Status status = guarded("keys beginning with '" + keys.front() + "'", [&] {
    for (const auto& bytes : compat::multi_get(*store_, prefixed(keys))) values.push_back(text_of(bytes));
  });
  return status.ok() ? Result<std::vector<std::string>>(std::move(values)) : status;
}

}  // namespace switchml
