// What ranks leave for each other in the store: a version line, then key=value lines. A blob may carry an error instead
// of what was expected, so that a failure on one rank is the same failure on all.
#pragma once

#include <cstdint>
#include <map>
#include <string>

#include "base/status.h"

namespace switchml {

class Blob {
 public:
  Blob() = default;
  /// A blob that carries a failure.
  static Blob failure(const Status& status);
  /// Text of another rank, not trusted: an error says what is wrong with it.
  static Result<Blob> parse(const std::string& text);

  /// `key` is a word; line breaks in `value` become blanks.
  void set(const std::string& key, const std::string& value);
  void set(const std::string& key, uint64_t value) { set(key, std::to_string(value)); }
  std::string encode() const;
  /// Another blob's values inside this one, under a name, and back. What there is not, is empty.
  void put(const std::string& name, const Blob& inner);
  Blob inner(const std::string& name) const;

  /// The failure that the blob carries, or ok.
  Status carried() const;
  /// Empty if there is no such key.
  std::string text(const std::string& key) const;
  /// False if the key is missing or not a whole number up to `most`.
  bool number(const std::string& key, uint64_t most, uint64_t* value) const;

 private:
  std::map<std::string, std::string> values_;
};

}  // namespace switchml
