// Driving TCP transports in tests: they connect, accept and send what was queued while somebody waits or receives.
#pragma once

#include "transport/harness.h"
#include "transport/raw_tcp.h"
#include "transport/tcp.h"

namespace switchml {

inline TcpOptions listening(const std::string& at = "127.0.0.1:0") {
  TcpOptions options;
  options.listen = address(at);
  options.counters = std::make_shared<TcpCounters>();
  return options;
}

/// Waits with `transports`, in turns, until `done` or a minute has passed; whether it was done.
inline bool drive_until(const std::vector<Transport*>& transports, const std::function<bool()>& done) {
  const Time end = monotonic_now() + seconds(60);
  while (!done()) {
    if (monotonic_now() > end) return false;
    for (Transport* const transport : transports) transport->wait(milliseconds(1));
  }
  return true;
}

/// The next frame, copied, and whose it is. A minute at most.
struct Received {
  Bytes bytes;
  Endpoint from;
};
inline Received receive_one(Transport& at, const std::vector<Transport*>& others = {}) {
  Received got;
  drive_until(others.empty() ? std::vector<Transport*>{&at} : others, [&] {
    RxFrame frame;
    if (at.receive(&frame, 1) == 0) return false;
    got = {Bytes(frame.data, frame.data + frame.size), frame.from};
    at.release();
    return true;
  });
  return got;
}

/// Sends until the frame is taken.
inline bool send_surely(Transport& from, const Bytes& frame, const Endpoint& to,
                        const std::vector<Transport*>& others = {}) {
  std::vector<Transport*> all = others;
  all.push_back(&from);
  return drive_until(all, [&] {
    const TxFrame tx{frame.data(), static_cast<uint32_t>(frame.size()), &to};
    return from.send(&tx, 1) == 1;
  });
}

}  // namespace switchml
