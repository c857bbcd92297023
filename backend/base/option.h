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

/// An option's allowed values, and the variable that it sets, which must outlive it. Mostly made by functions below.
struct OptionValue {
  std::string placeholder;  // "SECONDS", for --help; empty: an option without a value
  std::string allowed;      // "1 to 86400 (seconds)"
  /// Sets the variable. False: the value is not allowed, and nothing is changed.
  std::function<bool(const std::string& text)> take;
  /// The variable's value, as a user writes it; null: nothing to show.
  std::function<std::string()> print;
  bool plain = false;  // The placeholder says enough: --help leaves `allowed` out.
};

struct Option {
  std::string name;  // "lease": --lease, or SWITCHML_LEASE
  OptionValue value;
  std::string help;
  std::string default_text = {};  // The default for --help, if `print` does not say it.
};

/// kInvalidArgument: `NAME="VALUE" is not allowed: use ALLOWED`.
Status not_allowed(const std::string& name, const std::string& value, const std::string& allowed);

// `more` follows the allowed values in texts: a unit, or a relation to other options.
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
/// A number of `unit`, as are `low` and `high`, perhaps with a fraction.
OptionValue duration(double low, double high, Duration unit, Duration* out, const std::string& more);

/// Any text, also an empty one, or those that `good` accepts.
OptionValue text(std::string* out, const std::string& allowed, bool (*good)(const std::string&) = nullptr);
/// Any text but the empty one. The placeholder says what it is.
OptionValue word(const std::string& placeholder, std::string* out);
/// "ADDRESS:PORT"; the address may be a name, the port is 0 to 65535.
OptionValue host_port(std::string* out);
/// "ADDRESS:PORT" of another process, to connect to.
OptionValue peer(std::string* out);
OptionValue one_of(const std::vector<std::string>& names, std::function<void(const std::string&)> set,
                   std::function<std::string()> print, const std::string& more = "");
OptionValue one_of(const std::vector<std::string>& names, std::string* out, const std::string& more = "");
/// The name of a file. Its text is read at once.
OptionValue pem_file(std::string* text);
/// The name of a file. Its first word is a secret (base/secret.h), and is read at once.
OptionValue secret_file(std::string* secret);
OptionValue log_level(LogLevel* out);
OptionValue payload_size(size_t* out);

/// "auto", which stores `automatic`, or a value of `other`.
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
