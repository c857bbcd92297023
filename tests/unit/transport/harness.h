// A pair (or more) of transports of each kind, for suites that hold for all of them.
#pragma once

#include <gtest/gtest.h>

#include <cstdint>
#include <cstdlib>
#include <functional>
#include <iterator>
#include <memory>
#include <sstream>
#include <string>
#include <vector>

#include "socket/address.h"
#include "transport/decorator.h"
#include "transport/faulty.h"
#include "transport/inproc.h"
#include "transport/shared_link.h"
#include "transport/tcp.h"
#include "transport/udp.h"
#ifdef SWITCHML_FAKE_VERBS
#include "transport/rdma/introduced.h"
#endif

namespace switchml {

inline Endpoint address(const std::string& text) {
  Result<Endpoint> endpoint = resolve_address(text, "test");
  EXPECT_TRUE(endpoint.ok()) << endpoint.status().to_string();
  return endpoint.ok() ? endpoint.value() : Endpoint{};
}

inline std::unique_ptr<Transport> open_udp(const UdpOptions& options) {
  Result<std::unique_ptr<Transport>> transport = make_udp_transport(options);
  EXPECT_TRUE(transport.ok()) << transport.status().to_string();
  return transport.ok() ? std::move(transport.value()) : nullptr;
}

inline UdpOptions on(const std::string& text) {
  UdpOptions options;
  options.bind = address(text);
  return options;
}

inline std::unique_ptr<Transport> open_tcp(const TcpOptions& options) {
  Result<std::unique_ptr<Transport>> transport = make_tcp_transport(options);
  EXPECT_TRUE(transport.ok()) << transport.status().to_string();
  return transport.ok() ? std::move(transport.value()) : nullptr;
}

/// The transports of all peers of a shared link as one, asked in turn as an engine's thread does.
class InTurn final : public TransportDecorator {
 public:
  explicit InTurn(std::vector<std::unique_ptr<Transport>> peers)
      : TransportDecorator(*peers.back()), peers_(std::move(peers)) {}

  size_t receive(RxFrame* frames, size_t count) override {
    size_t got = 0;
    for (size_t i = 0; i < peers_.size() && got < count; ++i) got += peers_[i]->receive(frames + got, count - got);
    return got;
  }
  void release() override {
    for (const auto& peer : peers_) peer->release();
  }
  void wait(Duration timeout) override { peers_.front()->wait(timeout); }

 private:
  const std::vector<std::unique_ptr<Transport>> peers_;
};

/// Makes transports that reach each other.
struct Kind {
  std::string name;
  /// A maker of transports; `max_frame_bytes` and a receive queue of about `queue_bytes` hold for each.
  std::function<std::function<std::unique_ptr<Transport>()>(size_t max_frame_bytes, size_t queue_bytes)> network;
  bool sends_from_local = true;  // frames come from where the sender's local() says
};

inline std::vector<Kind> kinds() {
  const auto udp = [](const std::string& bind, bool segmentation) {
    return [bind, segmentation](size_t max_frame_bytes, size_t queue_bytes) {
      return [=]() -> std::unique_ptr<Transport> {
        UdpOptions options = on(bind);
        options.segmentation = segmentation;
        options.max_frame_bytes = max_frame_bytes;
        options.receive_buffer_bytes = queue_bytes;
        return open_udp(options);
      };
    };
  };
  // With narrow buffers the kernel takes a part of nearly every frame.
  const auto tcp = [](const std::string& listen, size_t kernel_buffer_bytes) {
    return [=](size_t max_frame_bytes, size_t queue_bytes) {
      return [=]() -> std::unique_ptr<Transport> {
        TcpOptions options;
        options.listen = address(listen);
        options.max_frame_bytes = max_frame_bytes;
        options.queue_bytes = queue_bytes;
        options.receive_buffer_bytes = options.send_buffer_bytes = kernel_buffer_bytes;
        return open_tcp(options);
      };
    };
  };
  const auto inproc = [](size_t max_frame_bytes, size_t queue_bytes) {
    InprocHub::Options options;
    options.max_frame_bytes = max_frame_bytes;
    options.queue_frames = queue_bytes / 65536 + 1;
    const std::shared_ptr<InprocHub> hub = InprocHub::create(options);
    return [hub]() -> std::unique_ptr<Transport> { return hub->attach(); };
  };
  const auto faultless = [inproc](size_t max_frame_bytes, size_t queue_bytes) {
    const auto below = inproc(max_frame_bytes, queue_bytes);
    return [below]() -> std::unique_ptr<Transport> { return make_faulty_transport(below(), Faults{}); };
  };
  // Each knows all others before the first one is handed out.
  const auto shared = [](const auto& network) {
    return [network](size_t max_frame_bytes, size_t queue_bytes) {
      const auto below = network(max_frame_bytes, queue_bytes);
      const auto links = std::make_shared<std::vector<std::unique_ptr<Transport>>>();
      std::vector<Endpoint> peers;
      for (int i = 0; i < 12; ++i) {
        links->push_back(below());
        peers.push_back(links->back()->local());
      }
      return [links, peers]() -> std::unique_ptr<Transport> {
        auto link = std::move(links->back());
        links->pop_back();
        return std::make_unique<InTurn>(share_link(std::move(link), peers));
      };
    };
  };
  std::vector<Kind> all = {{"inproc", inproc},
                           {"faultless", faultless},
                           {"udp4", udp("127.0.0.1:0", true)},
                           {"udp6", udp("[::1]:0", true)},
                           {"udp4_plain", udp("127.0.0.1:0", false)},
                           {"tcp4", tcp("127.0.0.1:0", 0), false},
                           {"tcp6", tcp("[::1]:0", 0), false},
                           {"tcp4_narrow", tcp("127.0.0.1:0", 16 << 10), false},
                           {"shared_inproc", shared(inproc)},
                           {"shared_udp4", shared(udp("127.0.0.1:0", true))}};
#ifdef SWITCHML_FAKE_VERBS
  // `cards`: what there is of them.
  const auto rdma = [](const auto& cards) {
    return [cards](size_t max_frame_bytes, size_t queue_bytes) {
      RdmaOptions options;
      options.max_frame_bytes = max_frame_bytes;
      options.receive_frames = static_cast<int>(queue_bytes / 65536 + 1);
      options.send_frames = options.frames_under_way = options.receive_frames;
      options.waiting_bytes = queue_bytes;
      const auto network = std::make_shared<RdmaNetwork>(cards, options);
      return [network]() -> std::unique_ptr<Transport> { return network->make(); };
    };
  };
  fake_verbs::Behaviour late;
  late.late = 0.5;
  all.push_back({"rdma", rdma(fake_verbs::Behaviour())});
  all.push_back({"rdma_late", rdma(late)});
  // Addresses of cards that this host has (tests/rdma).
  if (const char* const addresses = std::getenv("SWITCHML_TEST_RDMA")) {
    std::istringstream words(addresses);
    const std::vector<std::string> each{std::istream_iterator<std::string>(words), {}};
    all.push_back({"rdma_card", rdma(each)});
  }
#endif
  return all;
}

using Bytes = std::vector<uint8_t>;

/// `size` bytes that tell `id` and their own place, so that a cut, joined or shifted frame shows.
inline Bytes pattern(uint32_t id, size_t size) {
  Bytes bytes(size);
  uint64_t state = id * 0x9e3779b97f4a7c15ULL + size;
  for (uint8_t& byte : bytes) {
    state = state * 6364136223846793005ULL + 1442695040888963407ULL;
    byte = static_cast<uint8_t>(state >> 56);
  }
  for (size_t i = 0; i < 4 && i < size; ++i) bytes[i] = static_cast<uint8_t>(id >> (8 * i));
  return bytes;
}
inline uint32_t id_of(const uint8_t* data) {
  return data[0] | uint32_t{data[1]} << 8 | uint32_t{data[2]} << 16 | uint32_t{data[3]} << 24;
}

/// Receives until `count` frames are there or a minute has passed; returns copies. `meanwhile` is called while there
/// are none.
inline std::vector<Bytes> collect(
    Transport& transport, size_t count, const std::function<void()>& meanwhile = [] {}) {
  std::vector<Bytes> got;
  const Time end = monotonic_now() + seconds(60);
  RxFrame frames[32];
  while (got.size() < count && monotonic_now() < end) {
    const size_t n = transport.receive(frames, 32);
    for (size_t i = 0; i < n; ++i) got.emplace_back(frames[i].data, frames[i].data + frames[i].size);
    if (n != 0) {
      transport.release();
    } else {
      meanwhile();
      transport.wait(milliseconds(20));
    }
  }
  return got;
}

/// Sends `frames` to `to` in one burst.
inline size_t send_all(Transport& from, const std::vector<Bytes>& frames, const Endpoint& to) {
  std::vector<TxFrame> burst;
  for (const Bytes& frame : frames) burst.push_back({frame.data(), static_cast<uint32_t>(frame.size()), &to});
  return from.send(burst.data(), burst.size());
}

}  // namespace switchml
