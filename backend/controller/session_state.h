// The inside of Sessions: a session's state beside the table's entry, and work under way.
#pragma once

#include <map>
#include <memory>
#include <optional>
#include <set>
#include <string>
#include <utility>
#include <vector>

#include "controller/sessions.h"
#include "controller/silent_paths.h"

namespace switchml::controller {

struct Sessions::SessionRecord {
  /// A member as its switch knows it.
  struct Confirmed {
    SwitchPort place;
    std::optional<QueuePair> its;  // None: it sends datagrams.
    std::optional<QueuePair> own;  // The switch's end.
  };

  SessionId id;
  std::string group;
  std::string owner;
  Tree tree;
  std::vector<Attachment> ranks;
  size_t share = 0;
  bool installed = false;
  std::vector<uint64_t> waiting;  // Tickets of opens, until it is installed.
  /// (rank, shard) -> member as its switch has confirmed it.
  std::map<std::pair<int, int>, Confirmed> confirmed;
  std::set<std::pair<int, int>> joining;  // (rank, shard) with a SetMember under way.
  std::set<int> probing;                  // Ranks with a probe under way: repeats of it are dropped.
  SilentPaths silent_paths;

  /// Ranks with all their shards confirmed.
  WorkerSet joined_ranks(int shards) const;
  /// The reply to a join with the right cookie.
  wire::JoinReply join_reply(const wire::Join& asked) const;
};

/// The switches of a session's ranks, and its tree.
struct Sessions::Shape {
  std::vector<Attachment> ranks;
  Tree tree;
};

/// The fields of a meet beside those of a join.
struct Sessions::Met {
  wire::Introduction introduction;
  QueuePair pair;
};

struct Sessions::PendingWork {
  enum class Cause { kOpen, kJoin, kProbe, kRemove } cause = Cause::kRemove;
  SessionId id;
  std::vector<Command> commands;
  // ---- kJoin, kProbe: the request to answer ----
  int at = 0;
  wire::Control asked;
  SwitchPort from;
  wire::Join join;
  std::optional<Met> met;
  std::optional<QueuePair> pair() const { return met ? std::optional(met->pair) : std::nullopt; }
  wire::Probe probe;
  Time asked_at{};
};

/// A control request, and its origin.
struct Sessions::ControlRequest {
  int at = 0;
  wire::Control control;
  const uint8_t* body = nullptr;  // Has the type's length.
  SwitchPort from;
  Time now{};

  /// The record of this request until it is answered.
  std::unique_ptr<PendingWork> pending(PendingWork::Cause cause, SessionId id) const {
    auto out = std::make_unique<PendingWork>();
    out->cause = cause;
    out->id = id;
    out->at = at;
    out->asked = control;
    out->from = from;
    out->asked_at = now;
    return out;
  }
};

}  // namespace switchml::controller
