// Options of programs and settings of workers. Each is declared once, as a row of a table: parsing, --help, messages
// and switchml.settings() follow from the row.
#pragma once

#include <functional>
#include <optional>
#include <string>
#include <vector>

#include "base/clock.h"
#include "base/log.h"
#include "base/status.h"

namespace switchml {

/// What a value may be and where it goes. Mostly made by the functions below; the place must outlive it.
struct OptionValue {
  std::string placeholder;  // "SECONDS", for --help; empty: an option without a value
  std::string allowed;      // "1 to 86400 (seconds)"
  /// Puts a value in its place. False: it is not allowed, and the place is as it was.
  std::function<bool(const std::string& text)> take;
  /// What is there, as a user writes it; null: nothing to be shown.
  std::function<std::string()> print;
  bool plain = false;  // the placeholder says enough: --help leaves `allowed` out
};

struct Option {
  std::string name;  // "lease": --lease, or SWITCHML_LEASE
  OptionValue value;
  std::string help;
  std::string default_text = {};  // what holds without it, if its place does not say so; for --help
};

/// kInvalidArgument: `NAME="VALUE" is not allowed: use ALLOWED`.
Status not_allowed(const std::string& name, const std::string& value, const std::string& allowed);

// `more` is told behind what is allowed: a unit, or a relation to other options.
namespace value {

OptionValue flag(bool* out);

/// Digits, from `low` to `high`.
OptionValue whole(const std::string& placeholder, long low, long high, std::function<void(long)> set,
                  std::function<std::string()> print, const std::string& more);
template <typename T>
OptionValue whole(long low, long high, T* out, const std::string& more = "") {
  const auto set = [out](long number) { *out = static_cast<T>(number); };
  return whole(
      "N", low, high, set, [out] { return std::to_string(*out); }, more);
}
template <typename T>
OptionValue whole(long low, long high, std::optional<T>* out, const std::string& more = "") {
  const auto set = [out](long number) { *out = static_cast<T>(number); };
  return whole(
      "N", low, high, set, [out] { return *out ? std::to_string(**out) : ""; }, more);
}
OptionValue mebibytes(long low, long high, size_t* bytes, const std::string& more);
OptionValue whole_seconds(long low, long high, Duration* out);
OptionValue real(double low, double high, double* out, const std::string& more = "");
/// A number of `unit`, like `low` and `high`, which may have a fraction.
OptionValue duration(double low, double high, Duration unit, Duration* out, const std::string& more);

/// Anything, nothing too, or what is `good`.
OptionValue text(std::string* out, const std::string& allowed, bool (*good)(const std::string&) = nullptr);
/// Anything but nothing. The placeholder says what.
OptionValue word(const std::string& placeholder, std::string* out);
/// "ADDRESS:PORT"; the address may be a name, the port is 0 to 65535.
OptionValue host_port(std::string* out);
/// The same of another process, to connect to.
OptionValue peer(std::string* out);
OptionValue one_of(const std::vector<std::string>& names, std::function<void(const std::string&)> set,
                   std::function<std::string()> print, const std::string& more = "");
OptionValue one_of(const std::vector<std::string>& names, std::string* out, const std::string& more = "");
/// The name of a file whose text is wanted: it is read at once.
OptionValue pem_file(std::string* text);
/// The name of a file whose first word is a secret (base/secret.h): it is read at once.
OptionValue secret_file(std::string* secret);
OptionValue log_level(LogLevel* out);
OptionValue payload_size(size_t* out);

/// "auto", which is `automatic`, or a value that goes to the same place.
template <typename T>
OptionValue or_auto(T* out, T automatic, OptionValue other) {
  other.allowed = "auto, or " + other.allowed;
  other.take = [out, automatic, take = std::move(other.take)](const std::string& text) {
    if (text != "auto") return take(text);
    *out = automatic;
    return true;
  };
  other.print = [out, automatic, print = std::move(other.print)] { return *out == automatic ? "auto" : print(); };
  return other;
}

}  // namespace value
}  // namespace switchml
