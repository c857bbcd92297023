#include "transport/tcp_reach.h"

#include <poll.h>

#include <algorithm>
#include <cerrno>
#include <chrono>
#include <system_error>

#include "base/interruption.h"
#include "socket/address.h"
#include "transport/tcp_socket.h"

namespace switchml {

namespace {

constexpr Duration kSlice = milliseconds(50);  // between two looks for a signal

std::string socket_error(const Endpoint& peer, int error) {
  return to_string(with_carrier(peer, Carrier::kTcp)) + ": " + std::system_category().message(error);
}

}  // namespace

std::string why_no_tcp(const std::vector<Endpoint>& peers, Time deadline) {
  std::vector<Fd> connecting;
  std::vector<pollfd> polled;
  for (const Endpoint& peer : peers) {
    Endpoint source;
    int error = 0;
    connecting.push_back(connect_tcp({}, with_carrier(peer, Carrier::kTcp), &source, &error));
    if (!connecting.back().valid()) return socket_error(peer, error);
    polled.push_back({connecting.back().get(), POLLOUT, 0});
  }
  for (size_t missing = peers.size(); missing > 0;) {
    check_interruption();
    const auto left = std::chrono::ceil<milliseconds>(std::min<Duration>(deadline - monotonic_now(), kSlice));
    ::poll(polled.data(), polled.size(), static_cast<int>(std::max<milliseconds::rep>(left.count(), 0)));
    for (size_t i = 0; i < peers.size(); ++i) {
      if (polled[i].fd < 0 || polled[i].revents == 0) continue;
      if (const int error = take_socket_error(polled[i].fd); error != 0) return socket_error(peers[i], error);
      polled[i].fd = -1;  // poll() passes it over
      --missing;
    }
    if (missing == 0 || monotonic_now() < deadline) continue;
    const auto silent = std::find_if(polled.begin(), polled.end(), [](const pollfd& p) { return p.fd >= 0; });
    return socket_error(peers[static_cast<size_t>(silent - polled.begin())], ETIMEDOUT);
  }
  return "";
}

}  // namespace switchml
