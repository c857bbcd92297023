// Ranks as threads of this process, with a map for a store.
#pragma once

#include <gtest/gtest.h>

#include <condition_variable>
#include <functional>
#include <future>
#include <map>
#include <memory>
#include <mutex>
#include <string>
#include <thread>
#include <vector>

#include "session/blob.h"
#include "session/session.h"
#include "session/store_channel.h"
#include "session/store_exchange.h"
#include "socket/address.h"

namespace switchml {

class MapStore : public Rendezvous {
 public:
  Status set(const std::string& key, const std::string& value) override {
    const std::lock_guard<std::mutex> lock(mutex_);
    if (broken) return {Code::kUnavailable, "the map is torn"};
    values_[key] = value;
    changed_.notify_all();
    return {};
  }
  Result<std::string> get(const std::string& key, Time deadline) override {
    std::unique_lock<std::mutex> lock(mutex_);
    while (values_.count(key) == 0) {
      const Time now = monotonic_now();
      if (now >= deadline) return Status(Code::kTimeout, key);
      changed_.wait_for(lock, std::min<Duration>(deadline - now, milliseconds(100)));
    }
    return values_[key];
  }
  bool broken = false;

 private:
  std::mutex mutex_;
  std::condition_variable changed_;
  std::map<std::string, std::string> values_;
};

/// A store that shows one rank something else than what another has left under one key.
class AlteredStore : public Rendezvous {
 public:
  /// `key` empty: it changes nothing.
  AlteredStore(Rendezvous& below, std::string key, std::function<void(Blob*)> change)
      : below_(below), key_(std::move(key)), change_(std::move(change)) {}
  Status set(const std::string& key, const std::string& value) override { return below_.set(key, value); }
  Result<std::string> get(const std::string& key, Time deadline) override {
    auto value = below_.get(key, deadline);
    if (!value.ok() || key != key_) return value;
    auto blob = Blob::parse(value.value());
    if (!blob.ok()) return blob.status();
    change_(&blob.value());
    return blob->encode();
  }

 private:
  Rendezvous& below_;
  const std::string key_;
  const std::function<void(Blob*)> change_;
};

/// The store as a rank sees it whose host has another name.
class PlacedStore : public Rendezvous {
 public:
  PlacedStore(Rendezvous& below, int rank, char host) : below_(below), hello_(rank_key("hello", rank)), host_(host) {}
  Status set(const std::string& key, const std::string& value) override {
    // Of a second session too, whose keys have something in front.
    const bool is_hello = key.size() >= hello_.size() && key.compare(key.size() - hello_.size(), key.npos, hello_) == 0;
    if (!is_hello) return below_.set(key, value);
    auto blob = Blob::parse(value);
    EXPECT_TRUE(blob.ok());
    blob->set("host", std::string(1, host_));
    return below_.set(key, blob->encode());
  }
  Result<std::string> get(const std::string& key, Time deadline) override { return below_.get(key, deadline); }

 private:
  Rendezvous& below_;
  const std::string hello_;
  const char host_;
};

inline bool contains(const Status& status, const std::string& part) {
  return status.message().find(part) != std::string::npos;
}

inline Endpoint endpoint_of(const std::string& text) {
  auto endpoint = resolve_address(text, "test");
  EXPECT_TRUE(endpoint.ok()) << endpoint.status().to_string();
  return endpoint.value();
}

/// A standalone switch; `options.listen` is overwritten.
inline std::unique_ptr<SwitchServer> start_switch(ServerOptions options = {}, const std::string& at = "127.0.0.1:0") {
  options.listen = endpoint_of(at);
  auto server = SwitchServer::start(options);
  EXPECT_TRUE(server.ok()) << server.status().to_string();
  return server.ok() ? std::move(server.value()) : nullptr;
}

/// A switch of its own at an address that is not loopback, because the hosts are several.
inline std::unique_ptr<SwitchServer> start_for_all(Config* config) {
  auto server = start_switch({}, "0.0.0.0:0");
  const auto address = announced_address("");
  EXPECT_TRUE(address.ok()) << address.status().to_string();
  config->switch_address = to_string(with_port(address.value(), port_of(server->local())));
  return server;
}

/// A port of loopback that nobody listens on.
inline Endpoint closed_port() { return start_switch()->local(); }

/// Waits for a rank that long.
inline StoreChannel::MayWait for_seconds(int n) {
  return [n](int, Duration waited) { return waited < seconds(n) ? Status() : Status(Code::kTimeout, "nobody comes"); };
}

/// Ranks that use a switch, though they are all on one host; embedded in rank 0 if no other is named.
inline Config quick_config(Duration timeout = seconds(10)) {
  Config config;
  config.connect_timeout = timeout;
  config.transport = "udp";
  return config;
}

/// Ranks on one host whose user has set nothing: they share memory.
inline Config preset_config(Duration timeout = seconds(10)) {
  Config config = quick_config(timeout);
  config.transport = Config().transport;
  return config;
}

/// An all-reduce (SUM) in place.
template <typename T>
Collective in_place(std::vector<T>* values, ElementType type) {
  Collective collective;
  collective.type = type;
  collective.input = values->data();
  collective.output = values->data();
  collective.count = values->size();
  collective.output_end = values->size();
  return collective;
}

/// Begins a collective.
inline std::future<Status> submit(Session& session, Collective collective, Duration limit = seconds(20)) {
  auto done = std::make_shared<std::promise<Status>>();
  collective.deadline = monotonic_now() + limit;
  collective.done = [done](const Status& status) { done->set_value(status); };
  auto result = done->get_future();
  session.engine().submit(std::move(collective));
  return result;
}

/// One all-reduce, to its end.
inline Status all_reduce(Session& session, std::vector<float>* values, Duration limit = seconds(20)) {
  return submit(session, in_place(values, ElementType::kFloat32), limit).get();
}

/// Runs `body(rank)` for each rank in a thread of its own.
inline void each_rank(int size, const std::function<void(int)>& body) {
  std::vector<std::thread> threads;
  for (int rank = 0; rank < size; ++rank) threads.emplace_back([&body, rank] { body(rank); });
  for (std::thread& thread : threads) thread.join();
}

}  // namespace switchml
