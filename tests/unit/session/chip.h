// What a switching chip is to workers that have queue pairs to it: requests by UDP, contributions and results by
// unreliable pairs of cards that are not there. A software switch adds.
#pragma once

#include <gtest/gtest.h>

#include <atomic>
#include <cstring>
#include <functional>
#include <map>
#include <memory>
#include <string>
#include <thread>
#include <utility>
#include <vector>

#include "client/fake_controller.h"
#include "socket/address.h"
#include "softswitch/switch.h"
#include "transport/rdma/rdma.h"
#include "transport/udp.h"
#include "wire/checksum.h"
#include "wire/control.h"

namespace switchml {

struct EndpointOrder {
  bool operator()(const Endpoint& a, const Endpoint& b) const { return to_string(a) < to_string(b); }
};

class Chip : private softswitch::PacketSink {
 public:
  Chip() : switch_(options()) {
    UdpOptions udp;
    udp.bind = literal_address("127.0.0.1", 0).value();
    udp_ = std::move(make_udp_transport(udp).value());
    thread_ = std::thread([this] { run(); });
  }
  Chip(const Chip&) = delete;
  Chip& operator=(const Chip&) = delete;
  ~Chip() override {
    stops_ = true;
    thread_.join();
  }

  Endpoint local() const { return udp_->local(); }
  /// Frames that came, and went, by pairs.
  uint64_t taken() const { return taken_; }
  uint64_t written() const { return written_; }
  uint64_t pairs_made() const { return pairs_made_; }

 private:
  static softswitch::SwitchOptions options() {
    softswitch::SwitchOptions options;
    options.max_payload_bytes = 512;
    options.seed = 1;
    return options;
  }

  void run() {
    while (!stops_) {
      serve(*udp_, [this](const RxFrame& frame) { on_packet(frame); });
      for (const auto& [worker, link] : links_) {
        serve(*link, [this, &who = worker](const RxFrame& frame) {
          ++taken_;
          switch_.process(frame.data, frame.size, who, monotonic_now(), *this);
        });
      }
      udp_->wait(links_.empty() ? milliseconds(1) : Duration(0));
    }
    links_.clear();
  }

  static void serve(Transport& link, const std::function<void(const RxFrame&)>& take) {
    RxFrame frames[16];
    for (size_t count = link.receive(frames, 16); count > 0; count = link.receive(frames, 16)) {
      for (size_t i = 0; i < count; ++i) take(frames[i]);
      link.release();
    }
  }

  void on_packet(const RxFrame& frame) {
    std::vector<uint8_t> request(frame.data, frame.data + frame.size);
    wire::ControlPacket packet;
    const auto parsed = wire::parse_control(request.data(), request.size(), wire::Kind::kRequest, &packet);
    ASSERT_EQ(parsed, wire::ParseError::kNone) << "data by UDP";
    if (packet.control.type == static_cast<uint8_t>(wire::Request::kMeet)) return meet(packet, frame.from);
    ASSERT_NE(packet.control.type, static_cast<uint8_t>(wire::Request::kJoin)) << "results would go by UDP from now on";
    if (packet.control.type == static_cast<uint8_t>(wire::Request::kOpen)) {  // the session below is of packets
      wire::Open asked = wire::read_open(packet.body);
      EXPECT_EQ(asked.flags, wire::kOpenUnreliable);
      asked.flags = 0;
      wire::write_open(asked, request.data() + wire::kControlBytes);
      wire::seal_control(request.data(), request.size() - wire::kControlCheckBytes);
    }
    switch_.process(request.data(), request.size(), frame.from, monotonic_now(), *this);
  }

  void meet(const wire::ControlPacket& packet, const Endpoint& from) {
    const auto joined = switch_.join(wire::read_join(packet.body), from, monotonic_now());
    uint8_t reply[wire::kMaxControlBytes] = {};
    if (wire::has_body(joined.status)) wire::write_join_reply(joined.reply, reply + wire::kControlBytes);
    if (joined.status == wire::ReplyStatus::kOk) {
      Transport& link = link_to(from);
      const auto its = wire::read_introduction(packet.body + wire::kJoinBytes);
      auto own = link.queue_pairs()->queue_pair_for(peer());
      if (!link.queue_pairs()->connect(peer(), its).ok()) {  // another pair of the worker's takes another one here
        own = link.queue_pairs()->queue_pair_for(peer());
        ASSERT_TRUE(link.queue_pairs()->connect(peer(), its).ok());
      }
      ASSERT_TRUE(own.ok()) << own.status().to_string();
      if (std::exchange(told_[from], own->queue_pair) != own->queue_pair) ++pairs_made_;
      wire::write_introduction(own.value(), reply + wire::kControlBytes + wire::kJoinReplyBytes);
    }
    const size_t size = wire::finish_reply(packet.control, joined.status, reply);
    const TxFrame frame{reply, static_cast<uint32_t>(size), &from};
    udp_->send(&frame, 1);
  }

  // All of a link's frames are for one peer, whatever it is called.
  static Endpoint peer() { return with_carrier(literal_address("127.0.0.1", 9).value(), Carrier::kPlaces); }

  Transport& link_to(const Endpoint& worker) {
    auto& link = links_[worker];
    if (link == nullptr) {
      CardOptions card;
      card.local = literal_address("127.0.0.1", static_cast<uint16_t>(100 + links_.size())).value();
      card.wish.emulated = true;
      link = std::move(make_places_transport(card).value());
      EXPECT_TRUE(
          link->queue_pairs()->post_receive_windows({0, granted_.slots}, wire::kHeaderBytes + granted_.payload).ok());
    }
    return *link;
  }

  // ---- what the switch sends ----
  void unicast(const uint8_t* frame, size_t size, const Endpoint& to) override {
    const bool is_reply = wire::kind_of(frame) == static_cast<uint8_t>(wire::Kind::kReply);
    const Endpoint at = is_reply ? to : peer();
    const TxFrame one{frame, static_cast<uint32_t>(size), &at};
    if (is_reply) {
      wire::Reply reply;
      const bool opened = wire::parse_reply(frame, size, &reply) == wire::ParseError::kNone &&
                          reply.type == wire::Request::kOpen && reply.status == wire::ReplyStatus::kOk;
      if (opened) granted_ = reply.open;
      udp_->send(&one, 1);
    } else {
      written_ += links_.at(to)->send(&one, 1);
    }
  }
  void multicast(const uint8_t* frame, size_t size, const Endpoint* const* to, size_t count) override {
    for (size_t i = 0; i < count; ++i) unicast(frame, size, *to[i]);
  }

  softswitch::SoftSwitch switch_;
  std::unique_ptr<Transport> udp_;
  wire::OpenReply granted_;
  std::map<Endpoint, std::unique_ptr<Transport>, EndpointOrder> links_;  // by the worker's address for requests
  std::map<Endpoint, uint32_t, EndpointOrder> told_;                     // the number of the pair
  std::atomic<uint64_t> taken_{0}, written_{0}, pairs_made_{0};
  std::atomic<bool> stops_{false};
  std::thread thread_;
};

}  // namespace switchml
