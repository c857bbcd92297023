#include "base/option.h"

#include <algorithm>
#include <sstream>
#include <utility>

#include "base/parse.h"
#include "base/payload_size.h"
#include "base/secret.h"

namespace switchml {

namespace {

std::string written(double number) {
  std::ostringstream out;
  out << number;
  return out.str();
}

OptionValue fraction(double low, double high, std::function<void(double)> set, std::function<double()> get,
                     const std::string& more) {
  const auto take = [low, high, set = std::move(set)](const std::string& text) {
    const auto number = parse_real(text, low, high);
    if (number) set(*number);
    return number.has_value();
  };
  const auto print = [get = std::move(get)] { return written(get()); };
  return {"X", written(low) + " to " + written(high) + more, take, print};
}

}  // namespace

Status not_allowed(const std::string& name, const std::string& value, const std::string& allowed) {
  return {Code::kInvalidArgument, name + "=" + quoted(value) + " is not allowed: use " + allowed};
}

namespace value {

OptionValue flag(bool* out) {
  const auto take = [out](const std::string&) { return *out = true; };
  return {"", "", take, nullptr, true};
}

OptionValue whole(const std::string& placeholder, long low, long high, std::function<void(long)> set,
                  std::function<std::string()> print, const std::string& more) {
  const auto take = [low, high, set = std::move(set)](const std::string& text) {
    const auto number = parse_integer(text, low, high);
    if (number) set(*number);
    return number.has_value();
  };
  return {placeholder, std::to_string(low) + " to " + std::to_string(high) + more, take, std::move(print)};
}

OptionValue mebibytes(long low, long high, size_t* bytes, const std::string& more) {
  const auto set = [bytes](long number) { *bytes = static_cast<size_t>(number) << 20; };
  return whole(
      "MIB", low, high, set, [bytes] { return std::to_string(*bytes >> 20); }, more);
}

OptionValue whole_seconds(long low, long high, Duration* out) {
  const auto set = [out](long number) { *out = seconds(number); };
  const auto print = [out] { return std::to_string(std::chrono::duration_cast<seconds>(*out).count()); };
  return whole("SECONDS", low, high, set, print, " (seconds)");
}

OptionValue real(double low, double high, double* out, const std::string& more) {
  return fraction(
      low, high, [out](double number) { *out = number; }, [out] { return *out; }, more);
}

OptionValue duration(double low, double high, Duration unit, Duration* out, const std::string& more) {
  const auto units = static_cast<double>(unit.count());
  const auto set = [units, out](double number) { *out = Duration(static_cast<Duration::rep>(number * units)); };
  return fraction(
      low, high, set, [units, out] { return static_cast<double>(out->count()) / units; }, more);
}

OptionValue text(std::string* out, const std::string& allowed, bool (*good)(const std::string&)) {
  const auto take = [out, good](const std::string& text) {
    if (good != nullptr && !good(text)) return false;
    *out = text;
    return true;
  };
  return {"TEXT", allowed, take, [out] { return *out; }};
}

OptionValue word(const std::string& placeholder, std::string* out) {
  const OptionValue value = text(out, placeholder, [](const std::string& text) { return !text.empty(); });
  return {placeholder, placeholder, value.take, value.print, true};
}

OptionValue host_port(std::string* out) {
  const OptionValue value = text(out, "ADDRESS:PORT", [](const std::string& text) { return is_host_port(text, 0); });
  return {value.allowed, value.allowed, value.take, value.print, true};
}

OptionValue peer(std::string* out) {
  const OptionValue value =
      text(out, "ADDRESS:PORT, with a port from 1 to 65535 and not the wildcard address", is_peer);
  return {"ADDRESS:PORT", value.allowed, value.take, value.print, true};
}

OptionValue one_of(const std::vector<std::string>& names, std::function<void(const std::string&)> set,
                   std::function<std::string()> print, const std::string& more) {
  const auto take = [names, set = std::move(set)](const std::string& text) {
    const bool known = std::find(names.begin(), names.end(), text) != names.end();
    if (known) set(text);
    return known;
  };
  return {"NAME", alternatives(names) + more, take, std::move(print)};
}

OptionValue one_of(const std::vector<std::string>& names, std::string* out, const std::string& more) {
  return one_of(
      names, [out](const std::string& name) { *out = name; }, [out] { return *out; }, more);
}

OptionValue pem_file(std::string* text) {
  const auto take = [text](const std::string& path) {
    *text = read_text_file(path);
    return !text->empty();
  };
  return {"FILE", "a file in PEM format that can be read", take, nullptr, true};
}

OptionValue secret_file(std::string* secret) {
  const auto take = [secret](const std::string& path) {
    const auto read = read_secret(path, path);
    if (read.ok()) *secret = read.value();
    return read.ok();
  };
  return {"FILE", "a file that can be read, whose first word is the token, in printable ASCII", take, nullptr, true};
}

OptionValue log_level(LogLevel* out) {
  const auto set = [out](const std::string& name) { *out = *parse_log_level(name); };
  return one_of({"debug", "info", "warning", "error", "off"}, set, [out] { return std::string(to_string(*out)); });
}

OptionValue payload_size(size_t* out) {
  const auto take = [out](const std::string& text) {
    const auto size = parse_payload_size(text);
    if (size) *out = *size;
    return size.has_value();
  };
  return {"BYTES", allowed_payloads(), take, [out] { return std::to_string(*out); }};
}

}  // namespace value
}  // namespace switchml
