// What a transport keeps of the errors that the kernel reports, for take_error().
#pragma once

#include <cerrno>
#include <string>
#include <system_error>
#include <utility>

#include "socket/address.h"

namespace switchml {

/// The first error since the last take(); later ones repeat it as a rule, and cost nothing. One thread.
class SocketError {
 public:
  void note(const Endpoint& peer, int error) {
    refused_ = refused_ || error == ECONNREFUSED;
    if (text_.empty()) note(peer, std::system_category().message(error));
  }
  void note(const Endpoint& peer, const std::string& what) {
    if (text_.empty()) text_ = to_string(peer) + ": " + what;
  }
  void note_size(const Endpoint& peer, size_t bytes, size_t allowed) {
    if (!text_.empty()) return;
    note(peer, "a frame of " + std::to_string(bytes) + " bytes is longer than " + std::to_string(allowed) +
                   " and was not sent");
  }
  bool empty() const { return text_.empty(); }
  std::string take() { return std::exchange(text_, std::string()); }
  bool take_refusal() { return std::exchange(refused_, false); }

 private:
  std::string text_;
  bool refused_ = false;
};

}  // namespace switchml
