// The sessions of a group whose ranks are on hosts. The hosts are this one, by other names.
#pragma once

#include <gtest/gtest.h>

#include <algorithm>
#include <memory>
#include <string>
#include <utility>
#include <vector>

#include "fixture.h"

namespace switchml {

class OpenSessions {
 public:
  /// Of "aabbb" two ranks are on one host, and three on another. A rank that cannot open fails the test.
  OpenSessions(const std::string& hosts, const Config& config) {
    const int size = static_cast<int>(hosts.size());
    for (int rank = 0; rank < size; ++rank) {
      stores_.push_back(std::make_unique<PlacedStore>(store_, rank, hosts[static_cast<size_t>(rank)]));
    }
    sessions.resize(hosts.size());
    each_rank(size, [&](int rank) {
      const auto r = static_cast<size_t>(rank);
      auto session = Session::open(config, {rank, size, "group g"}, *stores_[r], monotonic_now() + seconds(60));
      EXPECT_TRUE(session.ok()) << session.status().to_string();
      if (session.ok()) sessions[r] = std::move(session.value());
    });
  }
  ~OpenSessions() {
    each_rank(static_cast<int>(sessions.size()), [&](int rank) { sessions[static_cast<size_t>(rank)].reset(); });
  }
  OpenSessions(const OpenSessions&) = delete;
  OpenSessions& operator=(const OpenSessions&) = delete;

  bool complete() const {
    return std::all_of(sessions.begin(), sessions.end(), [](const auto& session) { return session != nullptr; });
  }

 private:
  MapStore store_;
  std::vector<std::unique_ptr<PlacedStore>> stores_;

 public:
  std::vector<std::unique_ptr<Session>> sessions;
};

}  // namespace switchml
