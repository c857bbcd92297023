// Encrypted frames on the simulated network: the links that ship (transport/sealed_link.h), one for each node, over the
// cipher that ships; attackers that see all frames; and the rules that both must not break.
#pragma once

#include <functional>
#include <map>
#include <memory>
#include <unordered_set>
#include <utility>
#include <vector>

#include "nodes.h"
#include "random.h"
#include "record.h"
#include "sim_transport.h"
#include "transport/sealed_link.h"

namespace switchml::sim {

/// What has become of each key. Rule::kSeal: an end seals two frames under one counter, opens one twice, opens bytes
/// that were not sealed so, or one of a channel before the previous one; uses a key that the other end does not have;
/// agrees on keys with itself.
class KeyBook {
 public:
  explicit KeyBook(Record* record) : record_(record) {}

  struct Key {
    uint64_t number = 0;  // The order in which keys were made.
    int makers = 0;
    int first_maker = -1;          // A node.
    std::vector<uint64_t> sealed;  // Counter -> a hash of what was sealed, 0: nothing.
    std::vector<bool> opened;
  };
  Key* make(int node, const seal::AeadKey& key);
  void seal(Key* key, uint64_t counter, uint64_t hash);
  void open(Key* key, uint64_t counter, uint64_t hash);
  /// Frames are opened that have come from one node to another.
  void set_path(int from, int to) { path_ = {from, to}; }

 private:
  using Path = std::pair<int, int>;
  Record* const record_;
  std::map<std::array<uint8_t, 32>, Key> keys_;
  std::map<Path, std::pair<uint64_t, uint64_t>> newest_;  // The numbers of the two newest keys that opened frames.
  Path path_;
};

class SealedNetwork {
 public:
  /// Encrypted frames leave through `below`.
  SealedNetwork(uint64_t seed, Carrier* below, Record* record);
  ~SealedNetwork();

  /// A frame as a node means it.
  void send(int from, int to, const uint8_t* data, size_t size);
  using Take = std::function<void(std::vector<uint8_t> bytes)>;
  /// An encrypted frame that has arrived; `take` gets what the node's link makes of it.
  void deliver(int from, int to, std::vector<uint8_t> bytes, const Take& take);
  /// The node's process is another one from now on.
  void restart(int node);
  /// Half of the time.
  void maybe_restart(int node) {
    if (random_.chance(0.5)) restart(node);
  }

 private:
  class Port;
  class WatchedAead;
  struct Node;
  struct Captured {
    int from;
    int to;
    std::vector<uint8_t> bytes;
  };
  Node& node_at(int node);
  /// Frames that leave a link.
  void emit(int from, int to, const uint8_t* data, size_t size);
  void check_answer(int from, int to, uint64_t hash);
  void maybe_attack(int from, int to, const std::vector<uint8_t>& bytes);
  void attack(int from, int to, const std::vector<uint8_t>& bytes);
  void broken(const char* text) { record_->broken(Rule::kSeal, text); }

  Carrier* const below_;
  Record* const record_;
  Random random_;
  Random chance_;  // The attackers'.
  const double attacks_;
  KeyBook book_;
  std::map<int, std::unique_ptr<Node>> nodes_;
  std::map<std::pair<int, int>, std::unordered_set<uint64_t>> meant_;     // Path -> hashes of frames.
  std::unordered_set<uint64_t> greetings_;                                // Hashes of those that ends have sent.
  std::map<std::pair<int, int>, std::pair<uint64_t, uint64_t>> answers_;  // Path -> the last greeting and its answer.
  uint64_t being_read_ = 0;                                               // The frame that a link is given.
  std::vector<Captured> captured_;
  std::map<std::pair<int, int>, std::vector<uint8_t>> last_answers_;  // By path.
};

}  // namespace switchml::sim
