#include "seal/derive.h"

#include <string>

#include "seal/harness.h"

namespace switchml::seal {
namespace {

Frame bytes_of(const std::string& hex) {
  Frame bytes;
  for (size_t i = 0; i < hex.size(); i += 2)
    bytes.push_back(static_cast<uint8_t>(std::stoi(hex.substr(i, 2), nullptr, 16)));
  return bytes;
}

// RFC 4231, test case 2, its data in two parts.
TEST(Derive, HmacAsRfc4231) {
  const Hash hash = hmac_sha256(text_view("Jefe"), {text_view("what do ya want "), text_view("for nothing?")});
  EXPECT_EQ(Frame(hash.begin(), hash.end()),
            bytes_of("5bdcc146bf60754e6a042426089575c75a003f089d2739839dec58b964ec3843"));
}

// RFC 5869, test cases 1 and 3.
TEST(Derive, HkdfAsRfc5869) {
  const auto secret = bytes_of("0b0b0b0b0b0b0b0b0b0b0b0b0b0b0b0b0b0b0b0b0b0b");
  Frame out(42);
  hkdf_sha256(view_of(bytes_of("000102030405060708090a0b0c")), view_of(secret),
              view_of(bytes_of("f0f1f2f3f4f5f6f7f8f9")), out.data(), out.size());
  EXPECT_EQ(out, bytes_of("3cb25f25faacd57a90434f64d0362f2a2d2d0a90cf1a5a4c5db02d56ecc4c5bf34007208d5b887185865"));
  hkdf_sha256({}, view_of(secret), {}, out.data(), out.size());
  EXPECT_EQ(out, bytes_of("8da4e775a563c18f715f802a063c5a31b8a11f5c5ee1879ec3454e5f3c738d2d9d201395faa4b61a96c8"));
}

}  // namespace
}  // namespace switchml::seal
