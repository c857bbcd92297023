#include "store/blob.h"

#include <cerrno>
#include <cstdlib>
#include <sstream>

#include "base/parse.h"

namespace switchml {

namespace {

constexpr const char* kFirstLine = "switchml-session 1";
constexpr size_t kMostBytes = 1 << 20;  // What 1,024 ranks say of themselves is a quarter of it.
constexpr uint64_t kLastCode = static_cast<uint64_t>(Code::kInternal);

Status malformed(const std::string& why) {
  return {Code::kMismatch, "a rank left something in the store that this version does not understand (" + why +
                               "): install the same switchml on all ranks"};
}

}  // namespace

Blob Blob::failure(const Status& status) {
  Blob blob;
  blob.set("error", status.message());
  blob.set("code", static_cast<uint64_t>(status.code()));
  return blob;
}

Result<Blob> Blob::parse(const std::string& text) {
  if (text.size() > kMostBytes) return malformed(std::to_string(text.size()) + " bytes");
  std::istringstream lines(text);
  std::string line;
  if (!std::getline(lines, line) || line != kFirstLine)
    return malformed("it begins with " + quoted(line.substr(0, 40)));
  Blob blob;
  while (std::getline(lines, line)) {
    const size_t equals = line.find('=');
    if (equals == std::string::npos || equals == 0) return malformed("line " + quoted(line.substr(0, 40)));
    if (!blob.values_.emplace(line.substr(0, equals), line.substr(equals + 1)).second) {
      return malformed(quoted(line.substr(0, equals)) + " twice");
    }
  }
  return blob;
}

void Blob::set(const std::string& key, const std::string& value) {
  std::string one_line = value;
  for (char& c : one_line) {
    if (c == '\n' || c == '\r') c = ' ';
  }
  values_[key] = one_line;
}

std::string Blob::encode() const {
  std::string text = std::string(kFirstLine) + "\n";
  for (const auto& [key, value] : values_) text += key + "=" + value + "\n";
  return text;
}

void Blob::put(const std::string& name, const Blob& inner) {
  for (const auto& [key, value] : inner.values_) values_[name + "/" + key] = value;
}

Blob Blob::inner(const std::string& name) const {
  const std::string start = name + "/";
  Blob blob;
  for (auto it = values_.lower_bound(start); it != values_.end() && it->first.compare(0, start.size(), start) == 0;
       ++it) {
    blob.values_.emplace(it->first.substr(start.size()), it->second);
  }
  return blob;
}

Status Blob::carried() const {
  const auto error = values_.find("error");
  if (error == values_.end()) return {};
  uint64_t code = 0;
  if (!number("code", kLastCode, &code) || code == 0) code = kLastCode;
  return {static_cast<Code>(code), error->second};
}

std::string Blob::text(const std::string& key) const {
  const auto it = values_.find(key);
  return it == values_.end() ? std::string() : it->second;
}

bool Blob::number(const std::string& key, uint64_t most, uint64_t* value) const {
  const std::string digits = text(key);
  if (digits.empty() || digits.size() > 20 || digits.find_first_not_of("0123456789") != std::string::npos) return false;
  errno = 0;
  const unsigned long long parsed = std::strtoull(digits.c_str(), nullptr, 10);
  if (errno != 0 || parsed > most) return false;
  *value = parsed;
  return true;
}

}  // namespace switchml
