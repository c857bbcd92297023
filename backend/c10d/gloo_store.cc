#include "c10d/gloo_store.h"

#include <algorithm>
#include <cstdlib>
#include <thread>
#include <utility>

#include "base/clock.h"
#include "c10d/work.h"

namespace switchml {
namespace {

/// Gloo puts a rank's address under ".../CONTEXT/RANK"; -1 if the key does not end like that.
int rank_in(const std::string& key, int ranks) {
  const size_t slash = key.find_last_of('/');
  const std::string last = slash == std::string::npos ? key : key.substr(slash + 1);
  if (last.empty() || last.size() > 4 || last.find_first_not_of("0123456789") != std::string::npos) return -1;
  const int rank = std::atoi(last.c_str());
  return rank < ranks ? rank : -1;
}

}  // namespace

GlooStore::GlooStore(c10::intrusive_ptr<c10d::Store> below, std::string prefix, int ranks,
                     std::chrono::milliseconds timeout, std::function<Status()> interrupted)
    : c10d::Store(timeout),
      below_(std::move(below)),
      prefix_(std::move(prefix)),
      ranks_(ranks),
      interrupted_(std::move(interrupted)) {}

GlooStore::Keys GlooStore::prefixed(const Keys& keys) const {
  Keys result;
  for (const std::string& key : keys) result.push_back(prefix_ + key);
  return result;
}

c10::intrusive_ptr<c10d::Store> GlooStore::clone() {
  return c10::make_intrusive<GlooStore>(compat::clone(below_), prefix_, ranks_, timeout_, interrupted_);
}

void GlooStore::set(const std::string& key, const Bytes& value) { below_->set(prefix_ + key, value); }

GlooStore::Bytes GlooStore::get(const std::string& key) {
  wait({key});
  return below_->get(prefix_ + key);
}

int64_t GlooStore::add(const std::string& key, int64_t value) { return below_->add(prefix_ + key, value); }
bool GlooStore::deleteKey(const std::string& key) { return below_->deleteKey(prefix_ + key); }
bool GlooStore::check(const Keys& keys) { return below_->check(prefixed(keys)); }
int64_t GlooStore::getNumKeys() { return below_->getNumKeys(); }
void GlooStore::wait(const Keys& keys) { wait(keys, timeout_); }

void GlooStore::wait(const Keys& keys, const std::chrono::milliseconds& timeout) {
  const Keys full = prefixed(keys);
  const bool forever = timeout.count() <= 0;
  const Time begin = monotonic_now();
  Duration pause = microseconds(200);
  while (!below_->check(full)) {
    const Status interrupted = interrupted_();
    if (!interrupted.ok()) throw_status(interrupted, "switchml: waiting to connect the Gloo group");
    if (!forever && monotonic_now() - begin >= timeout) throw_missing(keys, timeout);
    std::this_thread::sleep_for(pause);
    pause = std::min<Duration>(pause * 2, milliseconds(10));
  }
}

void GlooStore::throw_missing(const Keys& keys, std::chrono::milliseconds waited) {
  std::string missing;
  for (const std::string& key : keys) {
    if (below_->check({prefix_ + key})) continue;
    const int rank = rank_in(key, ranks_);
    missing += missing.empty() ? "" : ", ";
    missing += rank >= 0 ? "rank " + std::to_string(rank) : "the owner of key '" + key + "'";
  }
  throw_status(
      Status(Code::kTimeout, missing + " did not come within " +
                                 std::to_string(std::chrono::duration<double>(waited).count()) +
                                 " s: is it dead, stopped, or has it not called anything that goes through Gloo?"),
      "switchml: connecting the Gloo group");
}

}  // namespace switchml
