// What an attacker on the path may do with the pieces of a connection, and that none of it opens.
#include "seal/stream_seal.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <algorithm>
#include <array>
#include <random>
#include <set>
#include <string>
#include <utility>
#include <vector>

#include "base/random.h"

namespace switchml::seal {
namespace {

using ::testing::HasSubstr;
using ::testing::Not;
using Bytes = std::vector<uint8_t>;

/// Both ends of a connection to a door.
struct Ends {
  explicit Ends(const StreamDoorOwner& owner, const MakeAead& make = make_aes_gcm, uint64_t pieces_per_key = 1 << 24) {
    const auto answer = answer_door(owner.door(), random_bytes);
    const auto accepted = owner.accept(answer->frame.data());
    frame = answer->frame;
    const auto both = [&](const AeadKey& seals, const AeadKey& opens) {
      return std::make_pair(StreamSeal(seals, AeadUse::kSeal, make, pieces_per_key),
                            StreamSeal(opens, AeadUse::kOpen, make, pieces_per_key));
    };
    ways.push_back(both(answer->keys.from_responder, accepted->from_responder));
    ways.push_back(both(accepted->from_initiator, answer->keys.from_initiator));
  }
  StreamSeal& seals(size_t way = 0) { return ways[way].first; }
  StreamSeal& opens(size_t way = 0) { return ways[way].second; }

  GreetingFrame frame;
  std::vector<std::pair<StreamSeal, StreamSeal>> ways;  // to the door, and from it
};

StreamDoorOwner a_door() { return {random_seal_key(), random_bytes}; }

Bytes sealed(StreamSeal& seal, const Bytes& bytes, size_t head = 0) {
  Bytes piece(bytes.size() + StreamSeal::kExtraBytes);
  seal.seal({bytes.data(), head}, {bytes.data() + head, bytes.size() - head}, piece.data());
  return piece;
}

/// What a piece of the right size seals. Empty: it does not open.
Bytes opened(StreamSeal& seal, Bytes piece) {
  if (StreamSeal::bytes_of(piece.data()) + StreamSeal::kExtraBytes != piece.size()) return {};
  if (!seal.open(piece.data())) return {};
  return {piece.begin() + StreamSeal::kLengthBytes, piece.end() - kTagBytes};
}

Bytes numbered(size_t size, uint8_t first = 1) {
  Bytes bytes(size);
  for (uint8_t& byte : bytes) byte = first++;
  return bytes;
}

TEST(StreamSeal, OpensWhatWasSealedInBothDirections) {
  const StreamDoorOwner owner = a_door();
  Ends ends(owner);
  for (const size_t size : {size_t{1}, size_t{15}, size_t{282}, StreamSeal::kMost}) {
    for (const size_t way : {0U, 1U}) {
      for (const size_t head : {size_t{0}, size / 3, size}) {
        const Bytes bytes = numbered(size, static_cast<uint8_t>(head));
        EXPECT_EQ(opened(ends.opens(way), sealed(ends.seals(way), bytes, head)), bytes);
      }
    }
  }
}

TEST(StreamSeal, ShowsNothingOfIt) {
  const StreamDoorOwner owner = a_door();
  Ends ends(owner);
  const std::string pattern = "a pattern that is known";
  const Bytes piece = sealed(ends.seals(), Bytes(pattern.begin(), pattern.end()));
  EXPECT_THAT(std::string(piece.begin(), piece.end()), Not(HasSubstr(pattern.substr(0, 4))));
  EXPECT_NE(sealed(ends.seals(), Bytes(pattern.begin(), pattern.end())), piece) << "what is said twice differs";
}

TEST(StreamSeal, TakesALengthForNoneThatIsTooLarge) {
  for (const uint32_t bytes : {0U, 1U, unsigned{StreamSeal::kMost}, unsigned{StreamSeal::kMost} + 1, ~0U}) {
    const uint8_t length[] = {static_cast<uint8_t>(bytes >> 24), static_cast<uint8_t>(bytes >> 16),
                              static_cast<uint8_t>(bytes >> 8), static_cast<uint8_t>(bytes)};
    EXPECT_EQ(StreamSeal::bytes_of(length), bytes <= StreamSeal::kMost ? bytes : 0);
  }
}

TEST(StreamSeal, OpensNothingOfWhichABitWasChanged) {  // [SEAL-32]
  const StreamDoorOwner owner = a_door();
  Ends ends(owner);
  const Bytes bytes = numbered(100);
  const Bytes piece = sealed(ends.seals(), bytes);
  for (size_t bit = 0; bit < 8 * piece.size(); ++bit) {
    Bytes changed = piece;
    changed[bit / 8] = static_cast<uint8_t>(changed[bit / 8] ^ 1U << bit % 8);
    EXPECT_TRUE(opened(ends.opens(), changed).empty()) << bit;
  }
  EXPECT_EQ(opened(ends.opens(), piece), bytes) << "or nothing was tested";
}

// [SEAL-32]
TEST(StreamSeal, OpensNothingOutOfItsPlace) {
  const StreamDoorOwner owner = a_door();
  Ends ends(owner), other(owner);
  const Bytes first = sealed(ends.seals(), numbered(40, 1));
  const Bytes second = sealed(ends.seals(), numbered(40, 2));
  const Bytes spliced = sealed(other.seals(), numbered(40, 3));
  const Bytes reflected = sealed(ends.seals(1), numbered(40, 4));
  EXPECT_TRUE(opened(ends.opens(), second).empty()) << "the first one was left out";
  EXPECT_TRUE(opened(ends.opens(), spliced).empty()) << "of another connection to the same door";
  EXPECT_TRUE(opened(ends.opens(), reflected).empty()) << "of the other direction";
  EXPECT_EQ(opened(ends.opens(), first), numbered(40, 1));
  EXPECT_TRUE(opened(ends.opens(), first).empty()) << "repeated";
  EXPECT_EQ(opened(ends.opens(), second), numbered(40, 2));
}

// Bytes changed, pieces made longer or shorter, left out, repeated, taken from elsewhere.
TEST(StreamSeal, OpensNoneOfManyForgeries) {
  const StreamDoorOwner owner = a_door();
  Ends ends(owner), other(owner);
  std::mt19937_64 random(4);
  const auto below = [&random](size_t bound) { return static_cast<size_t>(random() % bound); };
  std::vector<Bytes> pieces;
  for (int i = 0; i < 64; ++i) {
    Ends& from = i < 48 ? ends : other;
    pieces.push_back(sealed(from.seals(i % 3 == 0 ? 1 : 0), numbered(1 + below(300), static_cast<uint8_t>(i))));
  }
  int accepted = 0;
  for (int i = 0; i < 1000 * 1000; ++i) {
    Bytes piece = pieces[below(pieces.size())];
    const size_t changes = below(4);
    for (size_t change = 0; change < changes; ++change) {
      piece[below(piece.size())] = static_cast<uint8_t>(random());
    }
    if (i % 5 == 0) {
      const size_t size = StreamSeal::kExtraBytes + 1 + below(300);
      piece.resize(size);
      piece[0] = piece[1] = 0;
      piece[2] = static_cast<uint8_t>((size - StreamSeal::kExtraBytes) >> 8);
      piece[3] = static_cast<uint8_t>(size - StreamSeal::kExtraBytes);
    }
    if (piece == pieces[1]) continue;  // The one that may open.
    accepted += opened(ends.opens(), piece).empty() ? 0 : 1;
  }
  EXPECT_EQ(accepted, 0);
  EXPECT_FALSE(opened(ends.opens(), pieces[1]).empty()) << "or nothing was tested";
}

/// An Aead that notes each use of a key to seal.
class Watched : public Aead {
 public:
  using Uses = std::set<std::pair<std::array<uint8_t, 32>, uint64_t>>;
  Watched(const AeadKey& key, AeadUse use, Uses* uses) : key_(key.bytes), aead_(make_aes_gcm(key, use)), uses_(uses) {}
  void seal(uint64_t counter, ByteView associated, ByteView head, ByteView rest, uint8_t* out) override {
    EXPECT_TRUE(uses_->emplace(key_, counter).second) << "a key has sealed two things under one counter";
    aead_->seal(counter, associated, head, rest, out);
  }
  bool open(uint64_t counter, ByteView associated, uint8_t* bytes, size_t size) override {
    return aead_->open(counter, associated, bytes, size);
  }

 private:
  const std::array<uint8_t, 32> key_;
  const std::unique_ptr<Aead> aead_;
  Uses* const uses_;
};

// [SEAL-33]
TEST(StreamSeal, NeverSealsTwiceUnderOneCounter) {
  Watched::Uses uses;
  const MakeAead make = [&uses](const AeadKey& key, AeadUse use) { return std::make_unique<Watched>(key, use, &uses); };
  const StreamDoorOwner owner = a_door();
  Ends one(owner, make, 8), two(owner, make, 8);
  for (int i = 0; i < 50; ++i) {
    for (Ends* ends : {&one, &two}) {
      for (const size_t way : {0U, 1U}) {
        const Bytes bytes = numbered(20, static_cast<uint8_t>(i));
        ASSERT_EQ(opened(ends->opens(way), sealed(ends->seals(way), bytes)), bytes);
      }
    }
  }
  std::set<std::array<uint8_t, 32>> keys;
  for (const auto& [key, counter] : uses) keys.insert(key);
  EXPECT_EQ(uses.size(), 200U);
  EXPECT_EQ(keys.size(), 4U * 7U) << "a new one for eight pieces";
}

// ---- doors ----

TEST(StreamDoor, IsToldAsText) {
  const StreamDoorOwner owner = a_door();
  const std::string text = to_text(owner.door());
  EXPECT_EQ(text.size(), 128U);
  const auto door = parse_stream_door(text);
  ASSERT_TRUE(door.ok());
  EXPECT_EQ(door->key, owner.door().key);
  EXPECT_EQ(door->half, owner.door().half);
  for (const std::string& bad : {std::string(), text.substr(1), text + "0", "x" + text.substr(1), text.substr(64)}) {
    const auto none = parse_stream_door(bad);
    ASSERT_FALSE(none.ok()) << bad;
    EXPECT_THAT(none.status().message(), Not(HasSubstr(text.substr(70, 8))));
  }
}

TEST(StreamDoor, OpensOnlyToThoseThatKnowItsKey) {  // [SEAL-30]
  const StreamDoorOwner owner = a_door(), other = a_door();
  const auto answer = answer_door(owner.door(), random_bytes);
  ASSERT_TRUE(answer.has_value());
  EXPECT_TRUE(owner.accept(answer->frame.data()));
  EXPECT_FALSE(other.accept(answer->frame.data()));
  StreamDoor guessed = owner.door();
  guessed.key = random_seal_key();
  EXPECT_FALSE(owner.accept(answer_door(guessed, random_bytes)->frame.data()));
  for (size_t bit = 0; bit < 8 * answer->frame.size(); ++bit) {
    GreetingFrame changed = answer->frame;
    changed[bit / 8] = static_cast<uint8_t>(changed[bit / 8] ^ 1U << bit % 8);
    EXPECT_FALSE(owner.accept(changed.data())) << bit;
  }
}

TEST(StreamDoor, ThatMakesNoKeysIsNone) {
  StreamDoor door = a_door().door();
  door.half.fill(0);
  EXPECT_FALSE(answer_door(door, random_bytes));
}

}  // namespace
}  // namespace switchml::seal
