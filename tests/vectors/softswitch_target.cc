// Drives a SoftSwitch from standard input, for the vectors: no socket, no clock, the same seed every time. One command
// a line:
//
// - `frame ENDPOINT HEX`: one frame from that endpoint. Answer: "to ENDPOINT HEX" per frame sent and endpoint.
// - `counters`: answer: "NAME VALUE" per counter.
// - `reset` or `reset whole`: a fresh switch.
// - `install JOB EPOCH SHARDS SLOTS PAYLOAD MEMBER,MEMBER,... UPLINK PARENT`: a session as a controller installs it;
//   UPLINK and PARENT (an endpoint) are - for a switch that answers itself.
// - `member JOB EPOCH WORKER SHARD ENDPOINT`: where a member speaks from; shard -1: all.
// - `remove JOB EPOCH`: ends an installed session.
//
// Every answer ends with "done". ENDPOINT is any word of at most 28 bytes; HEX may be missing (an empty frame). A line
// that is none of these is answered with "error TEXT". Ends with the input, or at `quit`.
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
    } else if (command == "install" || command == "member" || command == "remove") {
      const Status status = control(command, words);
      if (!status.ok()) {
        out << "error " << status.message() << '\n';
        return;
      }
    } else {
      out << "error command '" << command << "': allowed are frame, counters, reset, install, member and remove\n";
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

  static Endpoint endpoint(const std::string& name) {
    Endpoint out;
    out.size = static_cast<uint8_t>(std::min(name.size(), Endpoint::kBytes));
    std::copy_n(name.begin(), out.size, out.bytes);
    return out;
  }

  // What a controller does; the one who writes these lines is a program, so their form is taken as right.
  Status control(const std::string& command, std::istream& words) {
    int job = 0;
    uint32_t epoch = 0;
    words >> job >> epoch;
    if (command == "install") return install(job, epoch, words);
    if (command == "remove") {
      switch_->remove(static_cast<uint8_t>(job), epoch);
      return {};
    }
    int worker = 0, shard = 0;
    std::string name;
    words >> worker >> shard >> name;
    return switch_->set_member(static_cast<uint8_t>(job), epoch, worker, shard, endpoint(name));
  }

  Status install(int job, uint32_t epoch, std::istream& words) {
    InstalledSession session;
    session.job = static_cast<uint8_t>(job);
    session.epoch = epoch;
    std::string members, uplink, parent, member;
    words >> session.shards >> session.slots >> session.payload_bytes >> members >> uplink >> parent >> session.exact >>
        session.session_key;
    std::istringstream numbers(members);
    while (std::getline(numbers, member, ',')) session.members.insert(std::stoi(member));
    if (uplink != "-") session.uplink = Uplink{static_cast<uint8_t>(std::stoi(uplink)), endpoint(parent)};
    return switch_->install(session, Time{});
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
  while (std::getline(std::cin, line) && line != "quit") {
    driver.answer(line, std::cout);
    std::cout.flush();
  }
  return 0;
}
