#include "seal/aead.h"

#include "seal/harness.h"

namespace switchml::seal {
namespace {

Frame sealed_with(Aead* aead, uint64_t counter, const Frame& associated, const Frame& head, const Frame& rest) {
  Frame out(head.size() + rest.size() + kTagBytes);
  aead->seal(counter, view_of(associated), view_of(head), view_of(rest), out.data());
  return out;
}

// Of the GCM specification, test case 14: a key and a nonce of zeros, 16 bytes of zeros. [SEAL-4]
TEST(Aead, IsAes256Gcm) {
  const Frame expected{0xce, 0xa7, 0x40, 0x3d, 0x4d, 0x60, 0x6b, 0x6e, 0x07, 0x4e, 0xc5, 0xd3, 0xba, 0xf3, 0x9d, 0x18,
                       0xd0, 0xd1, 0xc8, 0xa7, 0x99, 0x99, 0x6b, 0xf0, 0x26, 0x5b, 0x98, 0xb5, 0xd4, 0x8a, 0xb9, 0x19};
  const auto aead = make_aes_gcm(aead_key_of(0), AeadUse::kSeal);
  EXPECT_EQ(sealed_with(aead.get(), 0, {}, Frame(16), {}), expected);
}

TEST(Aead, OpensWhatWasSealedInTwoParts) {
  const auto seals = make_aes_gcm(aead_key_of(1), AeadUse::kSeal), opens = make_aes_gcm(aead_key_of(1), AeadUse::kOpen);
  Numbers numbers(1);
  const Frame associated = numbers.bytes(8);
  for (size_t size = 0; size < 300; ++size) {
    const Frame plain = numbers.bytes(size);
    const size_t cut = size == 0 ? 0 : numbers.below(size + 1);
    const Frame head(plain.begin(), plain.begin() + static_cast<ptrdiff_t>(cut));
    const Frame rest(plain.begin() + static_cast<ptrdiff_t>(cut), plain.end());
    Frame bytes = sealed_with(seals.get(), size, associated, head, rest);
    ASSERT_EQ(bytes, sealed_with(seals.get(), size, associated, plain, {}));
    ASSERT_TRUE(opens->open(size, view_of(associated), bytes.data(), size));
    bytes.resize(size);
    ASSERT_EQ(bytes, plain);
  }
}

TEST(Aead, AnotherCounterKeyOrHeaderDoesNotOpen) {
  const auto seals = make_aes_gcm(aead_key_of(1), AeadUse::kSeal);
  const Frame plain(100, 5);
  const auto opens = [&](uint8_t key, uint64_t counter, const Frame& associated) {
    Frame bytes = sealed_with(seals.get(), 7, Frame(8, 1), plain, {});
    return make_aes_gcm(aead_key_of(key), AeadUse::kOpen)->open(counter, view_of(associated), bytes.data(), 100);
  };
  EXPECT_TRUE(opens(1, 7, Frame(8, 1)));
  EXPECT_FALSE(opens(2, 7, Frame(8, 1)));
  EXPECT_FALSE(opens(1, 8, Frame(8, 1)));
  EXPECT_FALSE(opens(1, 7 + (uint64_t{1} << 32), Frame(8, 1)));
  EXPECT_FALSE(opens(1, 7, Frame(8, 2)));
}

}  // namespace
}  // namespace switchml::seal
