// The tokens file: any text is read as tokens, or refused by file and line, without showing a token.
#include "controllerd/tokens.h"
#include "text_file.h"

extern "C" int LLVMFuzzerTestOneInput(const uint8_t* bytes, size_t size) {
  using namespace switchml;
  static const fuzz::TextFile file;
  file.write(std::string(reinterpret_cast<const char*>(bytes), size));
  const auto read = read_tokens(file.path());
  if (!read.ok()) {
    fuzz::check(read.status().message().rfind(file.path(), 0) == 0, "errors begin with the file");
    return 0;
  }
  fuzz::check(!read->empty(), "there is a token");
  for (const Token& token : read.value()) {
    fuzz::check(token.secret.size() >= 16 && token.secret.size() <= 512, "tokens have 16 to 512 characters");
    const auto owner = owner_of(read.value(), "Bearer " + token.secret);
    fuzz::check(owner && owner->name == token.owner.name, "a token shows its owner");
    fuzz::check(!owner_of(read.value(), "Bearer " + token.secret + "x") || read->size() > 1, "another text shows none");
  }
  return 0;
}
