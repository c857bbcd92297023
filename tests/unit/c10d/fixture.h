// The ranks of a process group as threads of this process: a HashStore and an embedded switch on
// loopback.
#pragma once

#include <gtest/gtest.h>

#include <functional>
#include <memory>
#include <stdexcept>
#include <string>
#include <thread>
#include <torch/csrc/distributed/c10d/HashStore.hpp>
#include <vector>

#include "c10d/process_group.h"

namespace switchml {

using TensorList = std::vector<at::Tensor>;

/// What `f` throws, as text; empty if it throws nothing.
template <typename F>
std::string thrown_by(F&& f) {
  try {
    f();
  } catch (const c10::Error& error) {
    return error.what_without_backtrace();
  } catch (const std::exception& error) {
    return error.what();
  }
  return {};
}

/// Runs `body(rank)` for each rank in a thread of its own; an exception fails the test.
inline void on_each_rank(int size, const std::function<void(int)>& body) {
  std::vector<std::thread> threads;
  for (int rank = 0; rank < size; ++rank) {
    threads.emplace_back([&body, rank] {
      const std::string error = thrown_by([&] { body(rank); });
      EXPECT_EQ(error, "") << "on rank " << rank;
    });
  }
  for (std::thread& thread : threads) thread.join();
}

/// The text of the ValueError that `f` throws, or a sentence that says that it throws none.
template <typename F>
std::string value_error_of(F&& f) {
  try {
    f();
  } catch (const c10::ValueError& error) {
    return error.what_without_backtrace();
  } catch (const std::exception& error) {
    return std::string("not a ValueError: ") + error.what();
  }
  return "nothing was thrown";
}

/// The text of the RuntimeError (in Python) that `f` throws, or a sentence that says that it throws none.
template <typename F>
std::string refusal_of(F&& f) {
  try {
    f();
  } catch (const c10::ValueError& error) {
    return std::string("a ValueError: ") + error.what();
  } catch (const c10::Error& error) {
    return error.what_without_backtrace();
  } catch (const std::exception& error) {
    return std::string("not c10's: ") + error.what();
  }
  return "nothing was thrown";
}

inline ::testing::AssertionResult contains(const std::string& text, const std::string& part) {
  if (text.find(part) != std::string::npos) return ::testing::AssertionSuccess();
  return ::testing::AssertionFailure() << "\"" << text << "\" does not contain \"" << part << "\"";
}

inline ::testing::AssertionResult same(const at::Tensor& a, const at::Tensor& b) {
  if (a.scalar_type() == b.scalar_type() && a.sizes() == b.sizes() && at::equal(a, b)) {
    return ::testing::AssertionSuccess();
  }
  return ::testing::AssertionFailure() << a << " is not " << b;
}

/// 1, 2, ... as a tensor.
inline at::Tensor counting(int64_t count, at::ScalarType type = at::kFloat) {
  return at::arange(1, count + 1, at::kFloat).to(type);
}

/// PREMUL_SUM with a factor.
inline c10d::ReduceOp premultiplying(double factor) {
  c10d::ReduceOp op;
  op.op_ = c10d::ReduceOp::PREMUL_SUM;
  op.supplement_ = c10::make_intrusive<c10d::NCCLPreMulSumSupplement>(factor);
  return op;
}

/// A group whose ranks open and end at the same time.
class Cluster {
 public:
  using Group = ProcessGroupSwitchML;
  using Settings = Group::Settings;

  explicit Cluster(int size, const std::function<void(Settings&)>& adjust = nullptr)
      : groups_(static_cast<size_t>(size)) {
    on_each_rank(size, [&](int rank) {
      Settings mine = settings(rank, size);
      if (adjust) adjust(mine);
      groups_[static_cast<size_t>(rank)] = Group::create(std::move(mine));
    });
  }
  ~Cluster() { shutdown(); }

  Settings settings(int rank, int size) const {
    Settings result;
    result.store = store;
    result.rank = rank;
    result.size = size;
    result.timeout = std::chrono::seconds(20);
    result.name = "test";
    result.config.transport = "udp";  // through the switch in rank 0, though all ranks are on one host
    return result;
  }

  int size() const { return static_cast<int>(groups_.size()); }
  /// Throws if the rank could not open its group, or has dropped it.
  Group& operator[](int rank) const {
    const auto& group = groups_.at(static_cast<size_t>(rank));
    if (!group) throw std::runtime_error("rank " + std::to_string(rank) + " has no group");
    return *group;
  }
  void on_each(const std::function<void(int, Group&)>& body) const {
    on_each_rank(size(), [&](int rank) { body(rank, (*this)[rank]); });
  }
  void shutdown() const {
    on_each_rank(size(), [&](int rank) {
      if (const auto& group = groups_[static_cast<size_t>(rank)]) group->shutdown();
    });
  }
  /// The last reference of every rank goes, on a thread each.
  void drop() {
    on_each_rank(size(), [&](int rank) { groups_[static_cast<size_t>(rank)].reset(); });
    groups_.clear();
  }
  /// How often a rank's call went a way.
  uint64_t count(int rank, Call call, Way path) const { return (*this)[rank].calls().get(call, path); }

  const c10::intrusive_ptr<c10d::HashStore> store = c10::make_intrusive<c10d::HashStore>();

 private:
  std::vector<c10::intrusive_ptr<Group>> groups_;
};

}  // namespace switchml
