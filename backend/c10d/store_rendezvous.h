// The session's key-value store on c10d's.
#pragma once

#include <string>
#include <vector>

#include "c10d/compat.h"
#include "store/rendezvous.h"

namespace switchml {

/// Name or address of the host that serves the store; empty where it is a file, or memory.
std::string host_of(const c10::intrusive_ptr<c10d::Store>& store);
/// The store that all groups of a world share, each below a prefix of its own: for comparisons.
const void* below_prefixes(const c10::intrusive_ptr<c10d::Store>& store);

class StoreRendezvous final : public Rendezvous {
 public:
  /// `store` is private to the group. A group that is opened again on the same store (destroy and init under one
  /// launcher) must not read the keys of the time before: each rank counts its openings, and the count is part of every
  /// key. An unreachable store gives an error.
  static Result<std::unique_ptr<StoreRendezvous>> open(const c10::intrusive_ptr<c10d::Store>& store, int rank);

  Status set(const std::string& key, const std::string& value) override;
  /// Where it waits it throws what an interruption does (base/interruption.h).
  Result<std::string> get(const std::string& key, Time deadline) override;
  Result<bool> has_all(const std::vector<std::string>& keys) override;
  Result<std::vector<std::string>> get_all(const std::vector<std::string>& keys) override;

  /// "switchml/3/": what the keys of this opening begin with.
  const std::string& prefix() const { return prefix_; }

 private:
  std::vector<std::string> prefixed(const std::vector<std::string>& keys) const;
  StoreRendezvous(c10::intrusive_ptr<c10d::Store> store, std::string prefix);

  const c10::intrusive_ptr<c10d::Store> store_;
  const std::string prefix_;
};

}  // namespace switchml
