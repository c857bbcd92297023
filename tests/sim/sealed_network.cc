#include "sealed_network.h"

#include <utility>

#include "transport/frame_memory.h"

namespace switchml::sim {

namespace {

constexpr size_t kCaptured = 500;

uint64_t hash_of(seal::ByteView first, seal::ByteView second, seal::ByteView third) {
  std::vector<uint8_t> all(first.data, first.data + first.size);
  for (const seal::ByteView part : {second, third}) {
    if (part.size > 0) all.insert(all.end(), part.data, part.data + part.size);
  }
  return hash_bytes(all.data(), all.size()) | 1;
}

seal::Form form_of(const std::vector<uint8_t>& frame) {
  return seal::is_sealed(frame.data(), frame.size()) ? seal::read_front(frame.data()).form
                                                     : static_cast<seal::Form>(15);
}

}  // namespace

// ---- keys ----

KeyBook::Key* KeyBook::make(int node, const seal::AeadKey& key) {
  Key& entry = keys_[key.bytes];
  if (entry.makers == 0) {
    entry.number = keys_.size();
    entry.first_maker = node;
  } else if (entry.first_maker == node) {
    record_->broken(Rule::kSeal, "an end agrees on keys with itself");
  }
  ++entry.makers;
  return &entry;
}

void KeyBook::seal(Key* key, uint64_t counter, uint64_t hash) {
  if (key->makers < 2) record_->broken(Rule::kSeal, "an end seals for another one that does not have the key");
  if (counter >= key->sealed.size()) key->sealed.resize(counter + 1), key->opened.resize(counter + 1);
  if (std::exchange(key->sealed[counter], hash) != 0) {
    record_->broken(Rule::kSeal, "counter " + std::to_string(counter) + " of a key is used a second time");
  }
}

void KeyBook::open(Key* key, uint64_t counter, uint64_t hash) {
  if (counter >= key->sealed.size() || key->sealed[counter] != hash) {
    return record_->broken(Rule::kSeal, "what was opened is not what was sealed");
  }
  if (key->opened[counter]) record_->broken(Rule::kSeal, "a frame is opened a second time");
  key->opened[counter] = true;
  auto& [newest, before] = newest_[path_];
  if (key->number < before) record_->broken(Rule::kSeal, "a channel before the previous one opens still");
  if (key->number > newest) {
    before = std::exchange(newest, key->number);
  } else if (key->number != newest && key->number > before) {
    before = key->number;
  }
}

/// The cipher that ships, and a note of each use.
class SealedNetwork::WatchedAead final : public seal::Aead {
 public:
  WatchedAead(KeyBook* book, int node, const seal::AeadKey& key, seal::AeadUse use)
      : aead_(seal::make_aes_gcm(key, use)), book_(book), key_(book->make(node, key)) {}

  void seal(uint64_t counter, seal::ByteView associated, seal::ByteView head, seal::ByteView rest,
            uint8_t* out) override {
    book_->seal(key_, counter, hash_of(associated, head, rest));
    aead_->seal(counter, associated, head, rest, out);
  }
  bool open(uint64_t counter, seal::ByteView associated, uint8_t* bytes, size_t size) override {
    if (!aead_->open(counter, associated, bytes, size)) return false;
    book_->open(key_, counter, hash_of(associated, {bytes, size}, {}));
    return true;
  }

 private:
  const std::unique_ptr<seal::Aead> aead_;
  KeyBook* const book_;
  KeyBook::Key* const key_;
};

// ---- nodes ----

/// What a node's link stands on.
class SealedNetwork::Port final : public Transport {
 public:
  Port(SealedNetwork* network, int node) : network_(network), node_(node) {}

  void put(int from, std::vector<uint8_t> bytes) { inbox_.emplace_back(from, std::move(bytes)); }

  const char* name() const override { return "sim"; }
  TransportLimits limits() const override { return {65507, 0, 0}; }
  Endpoint local() const override { return endpoint_of(node_); }
  size_t path_frame_bytes(const Endpoint&) const override { return 65507; }
  uint8_t* allocate(size_t bytes) override { return memory_.allocate(bytes); }
  size_t send(const TxFrame* frames, size_t count) override {
    for (size_t i = 0; i < count; ++i)
      network_->emit(node_, sim::node_at(*frames[i].to), frames[i].data, frames[i].size);
    return count;
  }
  size_t receive(RxFrame* frames, size_t count) override {
    size_t n = 0;
    for (; n < count && !inbox_.empty(); ++n) {
      lent_.push_back(std::move(inbox_.front().second));
      frames[n] = {lent_.back().data(), static_cast<uint32_t>(lent_.back().size()), endpoint_of(inbox_.front().first)};
      inbox_.pop_front();
    }
    return n;
  }
  void release() override { lent_.clear(); }
  void wait(Duration) override {}
  void wake() override {}
  std::string take_error() override { return {}; }

 private:
  SealedNetwork* const network_;
  const int node_;
  FrameMemory memory_;
  std::deque<std::pair<int, std::vector<uint8_t>>> inbox_;
  std::vector<std::vector<uint8_t>> lent_;
};

struct SealedNetwork::Node {
  Port* port = nullptr;
  std::shared_ptr<SealCounters> counters = std::make_shared<SealCounters>();
  std::unique_ptr<Transport> link;
};

SealedNetwork::SealedNetwork(uint64_t seed, Carrier* below, Record* record)
    : below_(below),
      record_(record),
      random_(seed),
      chance_(seed ^ 0xa77ac4),
      attacks_(random_.chance(0.5) ? 0 : 0.02),
      book_(record) {}

SealedNetwork::~SealedNetwork() {
  for (const auto& [number, node] : nodes_) record_->count(Fault::channels, node->counters->channels);
}

SealedNetwork::Node& SealedNetwork::node_at(int number) {
  std::unique_ptr<Node>& node = nodes_[number];
  if (node != nullptr) return *node;
  node = std::make_unique<Node>();
  auto port = std::make_unique<Port>(this, number);
  node->port = port.get();
  SealOptions options;
  options.counters = node->counters;
  options.random = [this](uint8_t* out, size_t size) {
    for (size_t i = 0; i < size; ++i) out[i] = static_cast<uint8_t>(random_.next());
  };
  options.make_aead = [this, number](const seal::AeadKey& key, seal::AeadUse use) -> std::unique_ptr<seal::Aead> {
    return std::make_unique<WatchedAead>(&book_, number, key, use);
  };
  SealKey key;
  key.bytes.fill(1);
  node->link = seal_link(std::move(port), key, is_switch(number) ? SealEnd::kSwitch : SealEnd::kMember, options);
  return *node;
}

void SealedNetwork::restart(int node) {
  const auto found = nodes_.find(node);
  if (found == nodes_.end()) return;
  record_->count(Fault::channels, found->second->counters->channels);
  nodes_.erase(found);
  answers_.erase(answers_.lower_bound({node, 0}), answers_.lower_bound({node + 1, 0}));
}

void SealedNetwork::send(int from, int to, const uint8_t* data, size_t size) {
  const Charge charge(kSimulator);
  meant_[{from, to}].insert(hash_bytes(data, size));
  const Endpoint endpoint = endpoint_of(to);
  const TxFrame frame{data, static_cast<uint32_t>(size), &endpoint};
  node_at(from).link->send(&frame, 1);
}

void SealedNetwork::deliver(int from, int to, std::vector<uint8_t> bytes, const Take& take) {
  Node& node = node_at(to);
  const uint64_t hash = hash_bytes(bytes.data(), bytes.size());
  being_read_ = hash;
  book_.set_path(from, to);
  node.port->put(from, std::move(bytes));
  RxFrame frame;
  std::vector<uint8_t> opened;
  const bool taken = node.link->receive(&frame, 1) == 1;
  if (taken) opened.assign(frame.data, frame.data + frame.size);
  node.link->release();
  being_read_ = 0;
  if (!taken) return;
  if (meant_[{from, to}].count(hash_bytes(opened.data(), opened.size())) == 0) {
    return broken("a node takes a frame that was not sent to it from there");
  }
  take(std::move(opened));
}

// ---- what is on the wire ----

void SealedNetwork::emit(int from, int to, const uint8_t* data, size_t size) {
  std::vector<uint8_t> bytes(data, data + size);
  const uint64_t hash = hash_bytes(data, size);
  if (!seal::is_sealed(data, size)) return broken("a frame leaves that is not encrypted");
  if (form_of(bytes) == seal::Form::kGreeting) greetings_.insert(hash);
  if (form_of(bytes) == seal::Form::kAnswer) check_answer(from, to, hash);
  below_->carry(from, to, data, size);
  if (attacks_ > 0) maybe_attack(from, to, bytes);
  Captured frame{from, to, std::move(bytes)};
  if (captured_.size() < kCaptured) {
    captured_.push_back(std::move(frame));
  } else {
    captured_[chance_.below(kCaptured)] = std::move(frame);
  }
}

void SealedNetwork::check_answer(int from, int to, uint64_t hash) {
  if (is_worker(from)) broken("a worker answers a greeting");
  if (greetings_.count(being_read_) == 0) return broken("a greeting is answered that no end has sent");
  const std::pair<uint64_t, uint64_t> answer{being_read_, hash};
  const auto before = std::exchange(answers_[{from, to}], answer);
  if (before.first == answer.first && before != answer) broken("a greeting has two answers");
}

void SealedNetwork::maybe_attack(int from, int to, const std::vector<uint8_t>& bytes) {
  const seal::Form form = form_of(bytes);
  const bool answers = form == seal::Form::kAnswer, greets = form == seal::Form::kGreeting;
  if (chance_.chance(answers ? 0.2 : attacks_)) attack(from, to, bytes);
  // Both sent back, while the greeting waits for its answer, would make a switch agree with itself.
  if ((greets || answers) && is_switch(from) && is_switch(to) && chance_.chance(0.5)) {
    below_->carry(to, from, bytes.data(), bytes.size());
  }
  // The answer before, which is to another greeting.
  const std::vector<uint8_t>& before = last_answers_[{to, from}];
  if (greets && !before.empty() && chance_.chance(0.3)) below_->carry(to, from, before.data(), before.size());
  if (answers) last_answers_[{from, to}] = bytes;
}

// They see and send everything, from any address, but do not know the key.
void SealedNetwork::attack(int from, int to, const std::vector<uint8_t>& bytes) {
  record_->count(Fault::attacks);
  std::vector<uint8_t> changed = bytes;
  const auto flip = [&](size_t begin, size_t end) {
    const uint64_t bit = begin * 8 + chance_.below((end - begin) * 8);
    changed[bit / 8] = static_cast<uint8_t>(changed[bit / 8] ^ 1U << bit % 8);
  };
  const auto send = [this](int source, int target, const std::vector<uint8_t>& frame) {
    if (!frame.empty()) below_->carry(source, target, frame.data(), frame.size());
  };
  switch (chance_.below(8)) {
    case 0: flip(0, 2); return send(from, to, changed);
    case 1: flip(2, seal::kFrontBytes); return send(from, to, changed);
    case 2: flip(seal::kFrontBytes, changed.size()); return send(from, to, changed);
    case 3: changed.resize(chance_.below(2 * changed.size())); return send(from, to, changed);
    case 4: return send(to, from, bytes);  // back to where it came from
    case 5: {                              // no seal at all, as if a switch or a worker had sent it
      for (auto& byte : changed) byte = static_cast<uint8_t>(chance_.next());
      changed[0] = static_cast<uint8_t>(wire::kVersion << 4 | (1 + chance_.below(6)));
      return send(from, to, changed);
    }
    case 6:
    default: {
      if (captured_.empty()) return;
      const Captured& old = captured_[chance_.below(captured_.size())];
      const bool elsewhere = chance_.chance(0.3);
      return send(elsewhere ? from : old.from, elsewhere ? to : old.to, old.bytes);
    }
  }
}

}  // namespace switchml::sim
