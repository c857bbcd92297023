// Drives a SoftSwitch from standard input, for the vectors: no socket, no clock, the same seed every time.
//
//   frame ENDPOINT HEX   one frame from that endpoint. Answer: a line "to ENDPOINT HEX" per frame sent and endpoint,
//   "done" counters             Answer: a line "NAME VALUE" per counter, "done" reset                a fresh switch.
//   Answer: "done"
//
// ENDPOINT is any word of at most 28 bytes; HEX may be missing (an empty frame). A line that is none of these is
// answered with "error TEXT". Ends with the input.
#include <algorithm>
#include <iostream>
#include <memory>
#include <sstream>
#include <string>
#include <vector>

#include "softswitch/switch.h"

namespace switchml::softswitch {
namespace {

constexpr char kDigits[] = "0123456789abcdef";

std::string to_hex(const uint8_t* data, size_t size) {
  std::string out;
  out.reserve(2 * size);
  for (size_t i = 0; i < size; ++i) {
    out += kDigits[data[i] >> 4];
    out += kDigits[data[i] & 15];
  }
  return out;
}

// False if `text` is not pairs of lower-case hexadecimal digits.
bool from_hex(const std::string& text, std::vector<uint8_t>* out) {
  if (text.size() % 2 != 0) return false;
  const std::string digits = kDigits;
  for (size_t i = 0; i < text.size(); i += 2) {
    const size_t high = digits.find(text[i]);
    const size_t low = digits.find(text[i + 1]);
    if (high == std::string::npos || low == std::string::npos) return false;
    out->push_back(static_cast<uint8_t>(high * 16 + low));
  }
  return true;
}

class PrintingSink : public PacketSink {
 public:
  explicit PrintingSink(std::ostream& out) : out_(out) {}
  void unicast(const uint8_t* frame, size_t size, const Endpoint& to) override {
    out_ << "to " << std::string(to.bytes, to.bytes + to.size) << ' ' << to_hex(frame, size) << '\n';
  }
  void multicast(const uint8_t* frame, size_t size, const Endpoint* const* to, size_t count) override {
    for (size_t i = 0; i < count; ++i) unicast(frame, size, *to[i]);
  }

 private:
  std::ostream& out_;
};

class Driver {
 public:
  Driver() { reset(false); }

  /// Answers one line of input.
  void answer(const std::string& line, std::ostream& out) {
    std::istringstream words(line);
    std::string command;
    words >> command;
    if (command == "frame") return frame(words, out);
    if (command == "counters") {
      switch_->counters().for_each(
          [&out](const CounterInfo& info, uint64_t value) { out << info.name << ' ' << value << '\n'; });
    } else if (command == "reset") {
      std::string lengths;
      words >> lengths;
      reset(lengths == "whole");
    } else {
      out << "error command '" << command << "': allowed are frame, counters and reset\n";
      return;
    }
    out << "done\n";
  }

 private:
  void reset(bool whole_chunks) {
    SwitchOptions options;
    options.seed = 1;
    options.whole_chunks = whole_chunks;
    switch_ = std::make_unique<SoftSwitch>(options);
  }

  void frame(std::istream& words, std::ostream& out) {
    std::string name, hex;
    words >> name >> hex;
    Endpoint from;
    std::vector<uint8_t> bytes;
    if (name.empty() || name.size() > Endpoint::kBytes) {
      out << "error endpoint '" << name << "': 1 to " << Endpoint::kBytes << " bytes are allowed\n";
    } else if (!from_hex(hex, &bytes)) {
      out << "error frame '" << hex << "': allowed are pairs of the digits " << kDigits << '\n';
    } else {
      std::copy(name.begin(), name.end(), from.bytes);
      from.size = static_cast<uint8_t>(name.size());
      PrintingSink sink(out);
      switch_->process(bytes.data(), bytes.size(), from, Time{}, sink);
      out << "done\n";
    }
  }

  std::unique_ptr<SoftSwitch> switch_;
};

}  // namespace
}  // namespace switchml::softswitch

int main() {
  switchml::softswitch::Driver driver;
  std::string line;
  while (std::getline(std::cin, line)) {
    driver.answer(line, std::cout);
    std::cout.flush();
  }
  return 0;
}
