// Parsing of texts that people write. Each must match as a whole.
#pragma once

#include <cstdint>
#include <optional>
#include <string>
#include <vector>

namespace switchml {

/// A number of at most 18 digits, without sign, from `low` to `high`.
std::optional<long> parse_integer(const std::string& text, long low, long high);

/// A finite number in decimal digits, perhaps with a fraction or an exponent, from `low` to `high`.
std::optional<double> parse_real(const std::string& text, double low, double high);
/// Whether the text is "HOST:PORT", with any host that is not empty, and a port from `least_port` to 65535.
bool is_host_port(const std::string& text, long least_port);
/// Whether the text names a port of another process, to connect to: 1 to 65535, and not the wildcard address.
bool is_peer(const std::string& text);

struct HostPort {
  std::string host;  // The brackets are removed.
  std::string port;  // Any text.
  bool has_port = false;
};
/// "ADDRESS" or "ADDRESS:PORT", where ADDRESS is a name, an IPv4 address, or an IPv6 one in brackets. Empty on success,
/// else what is wrong.
std::string split_address(const std::string& text, HostPort* out);
/// Whether split_address() takes it, the port is 1 to 65535 if any, and the host is valid and no wildcard.
bool is_address(const std::string& text);

struct NamedSwitch {
  std::string address;  // is_address()
  uint32_t weight = 1;
};
inline constexpr const char* kSwitchesForm =
    "ADDRESS:PORT or ADDRESS, no wildcard one, several with commas between them, each with *WEIGHT (1 to 1000) if "
    "wanted";
/// Reads a text of that form.
std::optional<std::vector<NamedSwitch>> parse_switches(const std::string& text);

/// For messages: "a, b or c".
std::string alternatives(const std::vector<std::string>& names);
/// For messages: in quotation marks, at most 2048 bytes, with \xNN for bytes other than printable ASCII.
std::string quoted(const std::string& text);
/// For messages to Python, which takes UTF-8 alone: other bytes, and control characters, become \xNN.
std::string readable(const std::string& text);

/// The content of a file; empty if it cannot be read.
std::string read_text_file(const std::string& path);

}  // namespace switchml
