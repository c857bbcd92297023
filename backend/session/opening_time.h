// How long a group may take to open. Ranks wait for ranks as long as the group's timeout says. What a rank does with a
// switch has a time of its own, which stands still while the rank waits for others.
#pragma once

#include <algorithm>
#include <utility>

#include "base/clock.h"

namespace switchml {

class OpeningTime {
 public:
  /// `search`: for the switch (Config::connect_timeout). `deadline`: of the group; kNever: none.
  OpeningTime(Duration search, Time deadline)
      : search_(search),
        deadline_(deadline),
        begin_(monotonic_now()),
        margin_(std::min<Duration>(milliseconds(500), std::max(deadline - begin_, Duration(0)) / 10)) {}

  /// Until when a rank waits for others.
  Time deadline() const { return deadline_; }
  /// Until when it does where others wait for what it makes of the answers: they still read its reason.
  Time gather_end() const { return deadline_ - margin_; }
  /// Until when that share of the search may last.
  Time stage_end(double share) const {
    const auto whole = static_cast<double>((std::min(begin_ + search_, deadline_) - begin_).count());
    return begin_ + Duration(static_cast<Duration::rep>(whole * share));
  }

  /// What `wait`, which waits for other ranks, returns; the time that it takes is none of the search.
  template <typename Wait>
  auto awaiting(Wait&& wait) {
    const Time before = monotonic_now();
    auto result = std::forward<Wait>(wait)();
    begin_ += monotonic_now() - before;
    return result;
  }

 private:
  Duration search_;
  Time deadline_;
  Time begin_;  // The search's, later by what was waited.
  Duration margin_;
};

}  // namespace switchml
