// Sums on two "ranks" (threads) through an embedded switch, with nothing but the installed headers and libraries.
#include <condition_variable>
#include <cstdio>
#include <map>
#include <mutex>
#include <thread>
#include <vector>

#include "session/session.h"

namespace {

class MapStore : public switchml::Rendezvous {
 public:
  switchml::Status set(const std::string& key, const std::string& value) override {
    const std::lock_guard<std::mutex> lock(mutex_);
    values_[key] = value;
    changed_.notify_all();
    return {};
  }
  switchml::Result<std::string> get(const std::string& key, switchml::Time deadline) override {
    std::unique_lock<std::mutex> lock(mutex_);
    while (values_.count(key) == 0) {
      if (switchml::monotonic_now() >= deadline) return switchml::Status(switchml::Code::kTimeout, key);
      changed_.wait_for(lock, std::chrono::milliseconds(10));
    }
    return values_[key];
  }

 private:
  std::mutex mutex_;
  std::condition_variable changed_;
  std::map<std::string, std::string> values_;
};

bool run(int rank, MapStore& store) {
  const auto deadline = switchml::monotonic_now() + switchml::seconds(20);
  auto session = switchml::Session::open({}, {rank, 2, "consumer"}, store, deadline);
  if (!session.ok()) {
    std::fprintf(stderr, "%s\n", session.status().to_string().c_str());
    return false;
  }
  std::vector<float> values(1000, static_cast<float>(rank + 1));
  switchml::Reduce sum;
  sum.input = values.data();
  sum.output = {values.data(), 0, values.size()};
  switchml::Collective call;
  call.kind = sum;
  call.count = values.size();
  call.deadline = deadline;
  std::mutex mutex;
  std::condition_variable done;
  bool finished = false;
  bool good = false;
  call.done = [&](const switchml::Status& status) {
    const std::lock_guard<std::mutex> lock(mutex);
    finished = true;
    good = status.ok();
    done.notify_all();
  };
  session.value()->engine().submit(call);
  std::unique_lock<std::mutex> lock(mutex);
  done.wait(lock, [&] { return finished; });
  return good && values.front() == 3.0F && values.back() == 3.0F;
}

}  // namespace

int main() {
  MapStore store;
  bool good[2] = {false, false};
  std::thread other([&] { good[1] = run(1, store); });
  good[0] = run(0, store);
  other.join();
  std::puts(good[0] && good[1] ? "3.0 on both ranks" : "wrong");
  return good[0] && good[1] ? 0 : 1;
}
