#include "seal/aead.h"

#include <openssl/crypto.h>
#include <openssl/evp.h>

#include "base/assert.h"
#include "base/status.h"
#include "seal/derive.h"
#include "wire/layout.h"

namespace switchml::seal {

namespace {

constexpr size_t kNonceBytes = 12;

struct FreeContext {
  void operator()(EVP_CIPHER_CTX* context) const { EVP_CIPHER_CTX_free(context); }
};

/// Looked up once: a look-up takes longer than a short frame. Null: OpenSSL has none.
const EVP_CIPHER* cipher() {
  static EVP_CIPHER* const fetched = prepare_openssl() ? EVP_CIPHER_fetch(nullptr, "AES-256-GCM", nullptr) : nullptr;
  return fetched;
}

class AesGcm final : public Aead {
 public:
  AesGcm(const AeadKey& key, AeadUse use) : context_(EVP_CIPHER_CTX_new()) {
    const int seals = use == AeadUse::kSeal ? 1 : 0;
    if (context_ == nullptr || cipher() == nullptr ||
        EVP_CipherInit_ex2(context_.get(), cipher(), key.bytes.data(), nullptr, seals, nullptr) != 1) {
      throw StatusError({Code::kUnsupported, "OpenSSL gives no AES-256-GCM"});
    }
  }

  void seal(uint64_t counter, ByteView associated, ByteView head, ByteView rest, uint8_t* out) override {
    bool done = begin(counter, associated) && update(head, out) && update(rest, out + head.size);
    out += head.size + rest.size;
    int none = 0;
    done = done && EVP_EncryptFinal_ex(context_.get(), out, &none) == 1 &&
           EVP_CIPHER_CTX_ctrl(context_.get(), EVP_CTRL_AEAD_GET_TAG, kTagBytes, out) == 1;
    SWITCHML_ASSERT(done);
  }

  bool open(uint64_t counter, ByteView associated, uint8_t* bytes, size_t size) override {
    const bool done = begin(counter, associated) && update({bytes, size}, bytes);
    SWITCHML_ASSERT(done);
    int none = 0;
    return EVP_CIPHER_CTX_ctrl(context_.get(), EVP_CTRL_AEAD_SET_TAG, kTagBytes, bytes + size) == 1 &&
           EVP_DecryptFinal_ex(context_.get(), bytes + size, &none) == 1;
  }

 private:
  // The key and its tables stay; only the nonce is new.
  bool begin(uint64_t counter, ByteView associated) {
    uint8_t nonce[kNonceBytes] = {};
    wire::detail::store<uint64_t>(nonce + kNonceBytes - sizeof counter, counter);
    int length = 0;
    return EVP_CipherInit_ex2(context_.get(), nullptr, nullptr, nonce, -1, nullptr) == 1 &&
           EVP_CipherUpdate(context_.get(), nullptr, &length, associated.data, static_cast<int>(associated.size)) == 1;
  }

  bool update(ByteView in, uint8_t* out) {
    int length = 0;
    return in.size == 0 || EVP_CipherUpdate(context_.get(), out, &length, in.data, static_cast<int>(in.size)) == 1;
  }

  const std::unique_ptr<EVP_CIPHER_CTX, FreeContext> context_;
};

}  // namespace

AeadKey::~AeadKey() { OPENSSL_cleanse(bytes.data(), bytes.size()); }

std::unique_ptr<Aead> make_aes_gcm(const AeadKey& key, AeadUse use) { return std::make_unique<AesGcm>(key, use); }

}  // namespace switchml::seal
