// The sessions that a rank has joined while its group opens: the topics "plan", "joined" and "met" of agreement.h.
#pragma once

#include <functional>
#include <string>
#include <vector>

#include "session/links.h"
#include "session/opening.h"
#include "session/plan.h"

namespace switchml {

/// How long a rank waits for the switches' answers when it leaves sessions that it does not work with.
inline constexpr Duration kLeaveTime = milliseconds(200);

/// This rank is a member of the plan's sessions, and leaves them with this object, unless they are moved out of it.
struct Joined {
  Joined(Plan of, Links over, int index) : plan(std::move(of)), links(std::move(over)), number(index) {}
  Joined(Joined&&) = default;
  Joined& operator=(Joined&&) = delete;
  ~Joined() { leave(); }

  /// Now. The links stay.
  void leave();
  const SessionParameters& session() const { return plan.sessions.front(); }
  std::string topic(const std::string& name) const { return topic_of(name, number); }
  /// There are others than the first one, and what is said on them, only where a session is exchanged for another.
  static std::string topic_of(const std::string& name, int number);

  Plan plan;
  Links links;
  int number;  // From 0: the sessions that were left for this one.
};

/// Connects over what the plan says; on an error the links stay.
Status connect_as_planned(const PlanTerms& terms, Joined* joined);
/// Joins every session with each shard of this rank.
Status join_sessions(Opening& opening, const Joined& joined, Time end);
/// All ranks do as the plan says.
Result<Joined> join_all(Opening& opening, const PlanTerms& terms, const Blob& plan, Links links, int number);
/// The same with a plan that rank 0 makes. All ranks know why it makes none.
Result<Joined> open_and_join(Opening& opening, const PlanTerms& terms, Links links, int number,
                             const std::function<Result<Blob>(Links*)>& make_plan);

}  // namespace switchml
