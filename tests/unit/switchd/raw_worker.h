// A worker that speaks the protocol by hand, over UDP or TCP.
#pragma once

#include <gtest/gtest.h>

#include <memory>
#include <optional>
#include <vector>

#include "socket/address.h"
#include "switchd/server.h"
#include "transport/sealed_link.h"
#include "transport/tcp.h"
#include "transport/udp.h"
#include "wire/control.h"

namespace switchml {

inline Endpoint loopback(const char* text) {
  auto endpoint = resolve_address(text, "test");
  EXPECT_TRUE(endpoint.ok()) << endpoint.status().to_string();
  return endpoint.value();
}

class RawWorker {
 public:
  /// `key`: of the switch's links.
  explicit RawWorker(const Endpoint& to, const std::optional<SealKey>& key = {}) : to_(to) {
    UdpOptions options;
    options.peer = to;
    options.bind = with_port(to, 0);
    auto made = to.carrier == Carrier::kTcp ? make_tcp_transport({}) : make_udp_transport(options);
    EXPECT_TRUE(made.ok()) << made.status().to_string();
    transport_ = std::move(made.value());
    if (key) transport_ = seal_link(std::move(transport_), *key, SealEnd::kMember);
  }
  Endpoint local() const { return transport_->local(); }
  void send(const std::vector<uint8_t>& frame) {
    const TxFrame tx{frame.data(), static_cast<uint32_t>(frame.size()), &to_};
    EXPECT_EQ(transport_->send(&tx, 1), 1U);
  }
  /// All in one burst: neighbours of one size leave as one piece.
  void send_burst(const std::vector<std::vector<uint8_t>>& frames) {
    std::vector<TxFrame> burst;
    for (const auto& frame : frames) burst.push_back({frame.data(), static_cast<uint32_t>(frame.size()), &to_});
    EXPECT_EQ(transport_->send(burst.data(), burst.size()), frames.size());
  }
  /// The next frame, or empty after `patience`.
  std::vector<uint8_t> receive(Duration patience = seconds(10)) {
    const Time end = monotonic_now() + patience;
    while (monotonic_now() < end) {
      RxFrame rx;
      if (transport_->receive(&rx, 1) == 1) {
        std::vector<uint8_t> frame(rx.data, rx.data + rx.size);
        transport_->release();
        return frame;
      }
      transport_->wait(milliseconds(50));
    }
    return {};
  }
  wire::Reply ask(const uint8_t* frame, size_t size) {
    send({frame, frame + size});
    const auto answer = receive();
    wire::Reply reply;
    EXPECT_EQ(wire::parse_reply(answer.data(), answer.size(), &reply), wire::ParseError::kNone);
    return reply;
  }

  /// Joins with shard 0, and shows the cookie that it is asked for.
  wire::Reply join(wire::Membership member) {
    uint8_t frame[wire::kMaxControlBytes];
    member.cookie = ask(frame, wire::build_join(member, 0, 2, frame)).join.cookie;
    return ask(frame, wire::build_join(member, 0, 3, frame));
  }
  /// From now on by memory. Precondition: it has joined.
  void link_directly(SwitchServer& server, const wire::Membership& member) {
    transport_ = server.link_directly(member, 0, std::move(transport_));
    EXPECT_TRUE(transport_->is_direct());
  }

 private:
  Endpoint to_;
  std::unique_ptr<Transport> transport_;
};

/// Word i is value + i.
inline std::vector<uint8_t> contribution(const wire::OpenReply& session, int worker, uint16_t slot, size_t words,
                                         uint32_t value, uint32_t seq = 1) {
  std::vector<uint8_t> frame(wire::kHeaderBytes + 4 * words);
  wire::Header h;
  h.version = wire::kVersion;
  h.kind = static_cast<uint8_t>(wire::Kind::kContribution);
  h.job = session.job;
  h.epoch = session.epoch;
  h.worker = static_cast<uint8_t>(worker);
  h.slot = slot;
  h.seq = seq;
  wire::write_header(h, frame.data());
  for (size_t i = 0; i < words; ++i) {
    wire::detail::store<uint32_t>(frame.data() + wire::kHeaderBytes + 4 * i, value + static_cast<uint32_t>(i));
  }
  return frame;
}

}  // namespace switchml
