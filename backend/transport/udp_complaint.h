// What a UDP transport keeps of the errors that the kernel reports, for take_error().
#pragma once

#include <cerrno>
#include <string>
#include <system_error>
#include <utility>

#include "transport/address.h"

namespace switchml {

/// The first complaint since the last take(); later ones repeat it as a rule, and cost nothing. One thread.
class UdpComplaint {
 public:
  void note(const Endpoint& peer, int error) {
    refused_ = refused_ || error == ECONNREFUSED;
    if (text_.empty()) text_ = to_string(peer) + ": " + std::system_category().message(error);
  }
  void note_size(const Endpoint& peer, size_t bytes, size_t allowed) {
    if (!text_.empty()) return;
    text_ = to_string(peer) + ": a frame of " + std::to_string(bytes) + " bytes is longer than " +
            std::to_string(allowed) + " and was not sent";
  }
  bool empty() const { return text_.empty(); }
  std::string take() { return std::exchange(text_, std::string()); }
  bool take_refusal() { return std::exchange(refused_, false); }

 private:
  std::string text_;
  bool refused_ = false;
};

}  // namespace switchml
