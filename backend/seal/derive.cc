#include "seal/derive.h"

#include <openssl/crypto.h>
#include <openssl/evp.h>
#include <openssl/hmac.h>

#include <algorithm>
#include <cstring>

#include "base/assert.h"
#include "base/status.h"

namespace switchml::seal {

bool prepare_openssl() {
  static const bool prepared = OPENSSL_init_crypto(OPENSSL_INIT_NO_ATEXIT, nullptr) == 1;
  return prepared;
}

Hash hmac_sha256(ByteView key, std::initializer_list<ByteView> parts) {
  std::array<uint8_t, 256> all;
  size_t size = 0;
  for (const ByteView part : parts) {
    SWITCHML_ASSERT(part.size <= all.size() - size);
    std::copy_n(part.data, part.size, all.data() + size);
    size += part.size;
  }
  Hash hash;
  unsigned length = kHashBytes;
  const bool done = prepare_openssl() && HMAC(EVP_sha256(), key.data, static_cast<int>(key.size), all.data(), size,
                                              hash.data(), &length) != nullptr;
  wipe(all.data(), size);
  if (!done || length != kHashBytes) throw StatusError({Code::kUnsupported, "OpenSSL gives no HMAC-SHA256"});
  return hash;
}

void hkdf_sha256(ByteView salt, ByteView secret, ByteView info, uint8_t* out, size_t size) {
  SWITCHML_ASSERT(size <= 255 * kHashBytes);
  Hash extracted = hmac_sha256(salt, {secret});
  Hash block{};
  uint8_t number = 0;
  for (size_t at = 0; at < size; at += kHashBytes) {
    const ByteView before{block.data(), at == 0 ? 0 : block.size()};
    ++number;
    block = hmac_sha256(view(extracted), {before, info, {&number, 1}});
    std::copy_n(block.data(), std::min(kHashBytes, size - at), out + at);
  }
  wipe(extracted.data(), extracted.size());
  wipe(block.data(), block.size());
}

void wipe(void* secret, size_t size) { OPENSSL_cleanse(secret, size); }

}  // namespace switchml::seal
