// The inside of Sessions: what it keeps of a session beside the table's entry, and of work under way.
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

struct Sessions::Session {
  /// A member as its switch knows it.
  struct Confirmed {
    Place place;
    std::optional<QueuePair> its;  // none: it sends datagrams
    std::optional<QueuePair> own;  // the switch's end
  };

  SessionId id;
  std::string group;
  std::string owner;
  Tree tree;
  std::vector<Attachment> ranks;
  size_t share = 0;
  bool installed = false;
  std::vector<uint64_t> waiting;  // tickets of opens, until it is installed
  /// Members by (rank, shard) as their switch has confirmed them.
  std::map<std::pair<int, int>, Confirmed> confirmed;
  std::set<std::pair<int, int>> joining;  // the switch is being told
  std::set<int> probing;                  // ranks whose probe is under way: repeats of it are dropped
  SilentPaths silent_paths;

  /// Ranks whose every shard is confirmed.
  WorkerSet joined_ranks(int shards) const;
  /// To a join that has shown its cookie.
  wire::JoinReply join_reply(const wire::Join& asked) const;
};

/// Where a session's ranks come, and over which tree it goes.
struct Sessions::Shape {
  std::vector<Attachment> ranks;
  Tree tree;
};

/// What a meet says beside a join.
struct Sessions::Met {
  wire::Introduction introduction;
  QueuePair pair;
};

struct Sessions::Pending {
  enum class Kind { kOpen, kJoin, kProbe, kRemove } kind = Kind::kRemove;
  SessionId id;
  std::vector<Command> commands;
  // ---- kJoin, kProbe: the request to answer ----
  int at = 0;
  wire::Control asked;
  Place from;
  wire::Join join;
  std::optional<Met> met;
  std::optional<QueuePair> pair() const { return met ? std::optional(met->pair) : std::nullopt; }
  wire::Probe probe;
  Time asked_at{};
};

/// A control request, with what is known of where it came from.
struct Sessions::Request {
  int at = 0;
  wire::Control control;
  const uint8_t* body = nullptr;  // of the type's length
  Place from;
  Time now{};

  /// What has to be known of it when it can be answered.
  std::unique_ptr<Pending> pending(Pending::Kind kind, SessionId id) const {
    auto out = std::make_unique<Pending>();
    out->kind = kind;
    out->id = id;
    out->at = at;
    out->asked = control;
    out->from = from;
    out->asked_at = now;
    return out;
  }
};

}  // namespace switchml::controller
