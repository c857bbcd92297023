// A RankReducer for ranks that are threads of this process.
#pragma once

#include <algorithm>
#include <condition_variable>
#include <memory>
#include <mutex>
#include <vector>

#include "session/rank_reducer.h"

namespace switchml {

/// Where the ranks meet. A call ends when all `size` have made it.
class Meeting {
 public:
  explicit Meeting(int size) : size_(size) {}

  template <typename T, typename Combine>
  Status reduce(T* values, size_t count, std::vector<T> Meeting::*held, Combine combine) {
    std::unique_lock<std::mutex> lock(mutex_);
    const uint64_t round = round_;
    std::vector<T>& all = this->*held;
    if (arrived_ == 0) {
      all.assign(values, values + count);
    } else {
      if (all.size() != count) sizes_differ = true;
      for (size_t i = 0; i < std::min(count, all.size()); ++i) all[i] = combine(all[i], values[i]);
    }
    if (++arrived_ == size_) {
      arrived_ = 0;
      ++round_;
      met_.notify_all();
    } else {
      met_.wait(lock, [&] { return round_ != round || over_; });
    }
    if (round_ == round) return {Code::kAborted, "the meeting is over"};
    std::copy_n(all.begin(), std::min(count, all.size()), values);
    // The next call must not overwrite what others have not read yet.
    if (++read_ == size_) {
      read_ = 0;
      met_.notify_all();
    } else {
      met_.wait(lock, [&] { return read_ == 0 || over_; });
    }
    return {};
  }

  void end() {
    const std::lock_guard<std::mutex> lock(mutex_);
    over_ = true;
    met_.notify_all();
  }

  std::vector<int64_t> longs;
  std::vector<int32_t> words;
  bool sizes_differ = false;

 private:
  const int size_;
  std::mutex mutex_;
  std::condition_variable met_;
  int arrived_ = 0;
  int read_ = 0;
  uint64_t round_ = 0;
  bool over_ = false;
};

class ThreadReducer final : public RankReducer {
 public:
  explicit ThreadReducer(std::shared_ptr<Meeting> meeting) : meeting_(std::move(meeting)) {}
  Status maximum(int64_t* values, size_t count) override {
    return meeting_->reduce(values, count, &Meeting::longs, [](int64_t a, int64_t b) { return std::max(a, b); });
  }
  Status maximum(int32_t* values, size_t count) override {
    return meeting_->reduce(values, count, &Meeting::words, [](int32_t a, int32_t b) { return std::max(a, b); });
  }
  Status sum(int32_t* values, size_t count) override {
    return meeting_->reduce(values, count, &Meeting::words, [](int32_t a, int32_t b) {
      return static_cast<int32_t>(static_cast<uint32_t>(a) + static_cast<uint32_t>(b));
    });
  }
  void interrupt() override { meeting_->end(); }

 private:
  const std::shared_ptr<Meeting> meeting_;
};

}  // namespace switchml
