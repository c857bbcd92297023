#include "transport/tcp.h"

#include <ctime>
#include <thread>

#include "transport/tcp_harness.h"

namespace switchml {
namespace {

/// Sends `frames` one after the other while `to` receives; expects them in order.
void exchange(Transport& from, Transport& at, const Endpoint& to, const std::vector<Bytes>& frames) {
  size_t sent = 0;
  size_t got = 0;
  EXPECT_TRUE(drive_until({&from, &at}, [&] {
    std::vector<TxFrame> burst;
    for (size_t i = sent; i < std::min(sent + 32, frames.size()); ++i)
      burst.push_back({frames[i].data(), static_cast<uint32_t>(frames[i].size()), &to});
    sent += from.send(burst.data(), burst.size());
    RxFrame lent[32];
    const size_t n = at.receive(lent, 32);
    for (size_t i = 0; i < n; ++i, ++got) {
      EXPECT_TRUE(got < sent && frames[got] == Bytes(lent[i].data, lent[i].data + lent[i].size)) << got;
    }
    at.release();
    return got == frames.size();
  }));
}

TEST(Tcp, FramesOfAllSizesGoBothWaysInOrder) {
  for (const size_t kernel_bytes : {0, 8 << 10}) {
    TcpOptions options = listening();
    options.receive_buffer_bytes = options.send_buffer_bytes = kernel_bytes;
    const auto server = open_tcp(options);
    options.listen = {};
    const auto client = open_tcp(options);
    EXPECT_EQ(client->local(), Endpoint{});
    std::vector<Bytes> frames;
    for (uint32_t i = 0; i < 400; ++i) frames.push_back(pattern(i, i < 60 ? i + 1 : 1 + (i * 7919) % 65600));
    frames.push_back(pattern(400, 65600));
    for (uint32_t i = 0; i < 40; ++i) frames.push_back(pattern(i, 65560));
    exchange(*client, *server, server->local(), frames);
    ASSERT_TRUE(send_surely(*client, pattern(1, 1), server->local(), {server.get()}));
    const Endpoint back = receive_one(*server, {client.get(), server.get()}).from;
    EXPECT_EQ(back.carrier, Carrier::kTcpAccepted);
    exchange(*server, *client, back, frames);
    EXPECT_EQ(server->take_error() + client->take_error(), "");
    EXPECT_EQ(server->path_frame_bytes(back), options.max_frame_bytes);
  }
}

TEST(Tcp, BytesThatTrickleInMakeFrames) {
  const auto tcp = open_tcp(listening());
  RawTcp raw(tcp->local());
  Bytes stream;
  std::vector<Bytes> frames;
  for (const size_t size : {1, 3, 8, 300, 1}) {
    frames.push_back(pattern(static_cast<uint32_t>(frames.size()), size));
    const Bytes bytes = on_the_wire(frames.back());
    stream.insert(stream.end(), bytes.begin(), bytes.end());
  }
  std::vector<Bytes> got;
  for (const uint8_t byte : stream) {
    ASSERT_TRUE(raw.send({byte}));
    RxFrame frame;
    tcp->wait(milliseconds(1));
    while (tcp->receive(&frame, 1) != 0) {
      got.emplace_back(frame.data, frame.data + frame.size);
      tcp->release();
    }
  }
  while (got.size() < frames.size()) got.push_back(receive_one(*tcp).bytes);
  EXPECT_EQ(got, frames);
}

TEST(Tcp, WhatIsNoFrameEndsItsConnectionAndNoOther) {  // [TCP-3]
  TcpOptions options = listening();
  options.max_frame_bytes = 5000;
  const auto tcp = open_tcp(options);
  RawTcp good(tcp->local());
  Bytes oversize(kStreamPrefixBytes), empty(kStreamPrefixBytes);
  write_stream_prefix(5001, oversize.data());
  write_stream_prefix(0, empty.data());
  uint64_t broken = 0;
  for (const Bytes& bad : {oversize, empty, Bytes(100, 0), pattern(3, 4000), Bytes(100, 0xff)}) {
    RawTcp raw(tcp->local());
    Bytes bytes = on_the_wire(pattern(1, 5000));
    bytes.insert(bytes.end(), bad.begin(), bad.end());
    ASSERT_TRUE(raw.send(bytes));
    EXPECT_EQ(receive_one(*tcp).bytes, pattern(1, 5000)) << "what comes before it is a frame";
    ASSERT_TRUE(drive_until({tcp.get()}, [&] {
      RxFrame frame;
      EXPECT_EQ(tcp->receive(&frame, 1), 0U);
      return raw.is_over();
    }));
    EXPECT_EQ(options.counters->broken.load(), ++broken);
    const std::string socket_error = tcp->take_error();
    EXPECT_EQ(socket_error.find(to_string(with_carrier(raw.local(), Carrier::kTcp)) + ": "), 0U) << socket_error;
    EXPECT_NE(socket_error.find("no frame"), std::string::npos) << socket_error;
    EXPECT_FALSE(tcp->take_refusal());
  }
  ASSERT_TRUE(good.send(on_the_wire(pattern(2, 20))));
  EXPECT_EQ(receive_one(*tcp).bytes, pattern(2, 20));
}

Duration processor_time() {
  timespec now{};
  ::clock_gettime(CLOCK_THREAD_CPUTIME_ID, &now);
  return seconds(now.tv_sec) + nanoseconds(now.tv_nsec);
}

// Whatever ends a connection, and whatever does not: it costs no time afterwards, and others go on.
TEST(Tcp, AConnectionThatEndsOrIsSilentCostsNoTime) {
  enum End { kSilent, kCutFrame, kHalfClosed, kClosed, kReset, kResetInAFrame };
  for (const End end : {kSilent, kCutFrame, kHalfClosed, kClosed, kReset, kResetInAFrame}) {
    const auto tcp = open_tcp(listening());
    RawTcp raw(tcp->local());
    Bytes bytes = on_the_wire(pattern(1, 60000));
    ASSERT_TRUE(raw.send(bytes));
    const Received got = receive_one(*tcp);
    ASSERT_EQ(got.bytes.size(), 60000U);
    if (end == kCutFrame || end == kResetInAFrame) {
      ASSERT_TRUE(raw.send(Bytes(bytes.begin(), bytes.begin() + 30000)));
    }
    if (end == kHalfClosed) raw.shut_down(SHUT_WR);
    if (end == kReset || end == kResetInAFrame) {
      const linger at_once{1, 0};
      ::setsockopt(raw.fd(), SOL_SOCKET, SO_LINGER, &at_once, sizeof at_once);
    }
    if (end >= kClosed) raw.close();
    RxFrame frame;
    const auto receive_nothing = [&] {
      tcp->wait(milliseconds(20));
      EXPECT_EQ(tcp->receive(&frame, 1), 0U);
      tcp->release();
    };
    for (int i = 0; i < 10; ++i) receive_nothing();
    const Duration before = processor_time();
    for (int i = 0; i < 20; ++i) receive_nothing();
    tcp->wait(milliseconds(400));
    EXPECT_LT(processor_time() - before, milliseconds(200)) << end << ": of 800 ms";
    if (end == kHalfClosed) {
      EXPECT_TRUE(raw.is_over());
    }
    send_all(*tcp, {pattern(2, 20)}, got.from);
    if (end <= kCutFrame) {
      EXPECT_EQ(raw.receive(kStreamPrefixBytes + 20), on_the_wire(pattern(2, 20)));
    }
    RawTcp next(tcp->local());
    ASSERT_TRUE(next.send(on_the_wire(pattern(3, 30))));
    EXPECT_EQ(receive_one(*tcp).bytes, pattern(3, 30)) << end;
    EXPECT_EQ(tcp->take_error(), "") << "clients come and go";
  }
}

TEST(Tcp, WhatAPeerSentBeforeItsEndArrives) {
  const auto tcp = open_tcp(listening());
  {
    RawTcp raw(tcp->local());
    for (uint32_t i = 0; i < 20; ++i) ASSERT_TRUE(raw.send(on_the_wire(pattern(i, 20000))));
  }
  for (uint32_t i = 0; i < 20; ++i) {
    const Received got = receive_one(*tcp);
    EXPECT_EQ(got.bytes, pattern(i, 20000)) << i;
    send_all(*tcp, {pattern(99, 10)}, got.from);  // which the peer resets
  }
}

TEST(Tcp, ARefusingPeerIsReportedByName) {
  const Endpoint deserted = open_tcp(listening())->local();
  const auto tcp = open_tcp({});
  EXPECT_EQ(tcp->take_error(), "");
  send_all(*tcp, {pattern(1, 100), pattern(2, 100)}, deserted);
  std::string error;
  ASSERT_TRUE(drive_until({tcp.get()}, [&] { return !(error = tcp->take_error()).empty(); }));
  EXPECT_EQ(error, to_string(deserted) + ": Connection refused");
  EXPECT_TRUE(tcp->take_refusal());
  EXPECT_FALSE(tcp->take_refusal());
  EXPECT_EQ(send_all(*tcp, {pattern(1, 65000), pattern(2, 100)}, with_carrier(deserted, Carrier::kPackets)), 2U)
      << "lost: no TCP address";
}

TEST(Tcp, AnOversizedFrameIsReported) {
  TcpOptions options;
  options.max_frame_bytes = 100;
  const auto tcp = open_tcp(options);
  const Endpoint to = with_carrier(address("127.0.0.1:9"), Carrier::kTcp);
  EXPECT_EQ(send_all(*tcp, {pattern(1, 101)}, to), 1U);
  EXPECT_EQ(tcp->take_error(), "127.0.0.1:9/tcp: a frame of 101 bytes is longer than 100 and was not sent");
}

TEST(Tcp, APeerThatIsStartedAgainIsReachedAgain) {
  auto server = open_tcp(listening());
  TcpOptions options;
  options.max_backoff = milliseconds(20);
  const auto client = open_tcp(options);
  const Endpoint at = server->local();
  ASSERT_TRUE(send_surely(*client, pattern(1, 100), at));
  Endpoint from = receive_one(*server, {client.get(), server.get()}).from;
  int known_again = 0;  // if nobody has taken its port meanwhile
  for (uint32_t round = 0; round < 5; ++round) {
    server.reset();
    // Who never receives hears of it all the same.
    ASSERT_TRUE(drive_until({client.get()}, [&] {
      RxFrame frame;
      if (round < 2) {
        EXPECT_EQ(client->receive(&frame, 1), 0U);
      }
      return !client->take_error().empty();
    }));
    if (round % 2 == 1) {  // nobody is there for a while
      ASSERT_TRUE(drive_until({client.get()}, [&] {
        send_all(*client, {pattern(9, 9)}, at);
        client->take_error();
        return client->take_refusal();
      }));
    }
    TcpOptions again = listening();
    again.listen = at;
    server = open_tcp(again);
    ASSERT_TRUE(server);
    Received got;
    ASSERT_TRUE(drive_until({client.get(), server.get()}, [&] {
      send_all(*client, {pattern(round, 200)}, at);
      RxFrame frame;
      if (server->receive(&frame, 1) == 0) return false;
      got = {Bytes(frame.data, frame.data + frame.size), frame.from};
      server->release();
      return true;
    }));
    EXPECT_EQ(got.bytes, pattern(round, 200));
    known_again += got.from == std::exchange(from, got.from) ? 1 : 0;
    ASSERT_TRUE(send_surely(*server, pattern(7, 70), from));
    EXPECT_EQ(receive_one(*client, {client.get(), server.get()}).bytes, pattern(7, 70));
    client->take_error();
    client->take_refusal();
  }
  EXPECT_GT(known_again, 0);
}

// A reader that is slower than its sender: what was taken arrives, in order, and nothing else does.
TEST(Tcp, NothingThatWasTakenIsLostOnTheWayToASlowReader) {
  const auto server = open_tcp(listening());
  const auto client = open_tcp({});
  const Endpoint to = server->local();
  constexpr uint32_t kFrames = 6000;
  std::atomic<bool> over{false}, sent_all{false};
  std::atomic<uint64_t> refusals{0};
  std::thread sender([&] {
    const Time end = monotonic_now() + seconds(120);
    for (uint32_t id = 0; id < kFrames && monotonic_now() < end;) {
      std::vector<Bytes> frames;
      for (uint32_t i = 0; i < 8; ++i) frames.push_back(pattern(id + i, 1000 + (id + i) * 37 % 30000));
      const size_t taken = send_all(*client, frames, to);
      id += static_cast<uint32_t>(taken);
      if (taken == 8) continue;
      ++refusals;
      client->wait(milliseconds(5));
    }
    sent_all = true;
    while (!over) client->wait(milliseconds(5));
  });
  uint32_t next = 0;
  uint32_t pause = 0;
  const Time end = monotonic_now() + seconds(120);
  while (next < kFrames && monotonic_now() < end) {
    if (next >= pause) {  // until it is full again
      pause += 1500;
      const uint64_t before = refusals;
      while (refusals == before && !sent_all && monotonic_now() < end) std::this_thread::sleep_for(milliseconds(1));
    }
    RxFrame frames[16];
    const size_t n = server->receive(frames, 16);
    for (size_t i = 0; i < n; ++i, ++next) {
      const Bytes expected = pattern(next, 1000 + next * 37 % 30000);
      EXPECT_TRUE(Bytes(frames[i].data, frames[i].data + frames[i].size) == expected) << next;
    }
    server->release();
    if (n == 0) server->wait(milliseconds(5));
  }
  over = true;
  sender.join();
  EXPECT_GE(next, kFrames);
  EXPECT_GT(refusals.load(), 0U) << "the first time at least it was full";
}

TEST(Tcp, AFullConnectionDoesNotHoldUpOthers) {
  RawTcpListener full(address("127.0.0.1:0")), free(address("127.0.0.1:0"));
  const auto tcp = open_tcp({});
  const Endpoint to_full = full.at();
  const Endpoint to_free = free.at();
  const Bytes large = pattern(1, 60000);
  const Bytes small = pattern(2, 100);
  const auto tx = [](const Bytes& frame, const Endpoint& to) {
    return TxFrame{frame.data(), static_cast<uint32_t>(frame.size()), &to};
  };
  ASSERT_TRUE(send_surely(*tcp, large, to_full));
  ASSERT_TRUE(send_surely(*tcp, small, to_free));
  RawTcp at_full = full.accept(), at_free = free.accept();
  // Until it takes no more, not even after a while in which the kernel might have moved something.
  const TxFrame one = tx(large, to_full);
  for (int refused = 0; refused < 20;) {
    refused = tcp->send(&one, 1) == 1 ? 0 : refused + 1;
    tcp->wait(milliseconds(1));
  }
  const TxFrame burst[] = {tx(small, to_free), tx(large, to_full), tx(small, to_free), tx(large, to_full),
                           tx(small, to_free)};
  EXPECT_EQ(tcp->send(burst, 5), 1U);
  Bytes expected;
  for (int i = 0; i < 4; ++i) {
    const Bytes bytes = on_the_wire(small);
    expected.insert(expected.end(), bytes.begin(), bytes.end());
  }
  EXPECT_EQ(at_free.receive(expected.size()), expected);
  const TxFrame both[] = {tx(large, to_full), tx(large, to_free)};
  EXPECT_EQ(tcp->send(both, 2), 0U);
  EXPECT_EQ(at_free.receive(kStreamPrefixBytes + large.size()), on_the_wire(large));
}

// One that always has more to say does not keep others from being heard.
TEST(Tcp, AFloodLetsOthersThrough) {
  const auto tcp = open_tcp(listening());
  RawTcp flooder(tcp->local()), quiet(tcp->local());
  std::atomic<bool> over{false};
  std::thread flood([&] {
    const Bytes frame = on_the_wire(pattern(1, 1000));
    while (!over && flooder.send(frame)) continue;
  });
  for (uint32_t round = 0; round < 20; ++round) {
    EXPECT_EQ(receive_one(*tcp).bytes.size(), 1000U) << "the flood has begun";
    ASSERT_TRUE(quiet.deliver(on_the_wire(pattern(2, 20))));
    size_t before = 0;
    bool heard = false;
    const Time end = monotonic_now() + seconds(60);
    while (!heard && monotonic_now() < end) {
      RxFrame frames[8];
      const size_t n = tcp->receive(frames, 8);
      for (size_t i = 0; i < n; ++i) {
        heard = heard || frames[i].size == 20;
        before += frames[i].size == 20 ? 0 : 1;
      }
      tcp->release();
    }
    EXPECT_TRUE(heard);
    // Two turns, and what was lent already.
    EXPECT_LT(before, 3 * size_t{64});
  }
  over = true;
  flooder.shut_down(SHUT_RDWR);
  flood.join();
}

/// `count` frames of one byte, one after the other.
Bytes many_frames(size_t count) {
  Bytes stream;
  for (size_t i = 0; i < count; ++i) {
    const Bytes frame = on_the_wire({static_cast<uint8_t>(i)});
    stream.insert(stream.end(), frame.begin(), frame.end());
  }
  return stream;
}

// Thousands of frames may lie in what was read at once.
TEST(Tcp, WhoSendsManySmallFramesHasATurnLikeOthers) {
  const auto tcp = open_tcp(listening());
  constexpr size_t kMany = 3000;
  RawTcp quiet(tcp->local());
  ASSERT_TRUE(quiet.send(on_the_wire(pattern(2, 20))));
  ASSERT_EQ(receive_one(*tcp).bytes.size(), 20U);
  RawTcp busy(tcp->local());
  ASSERT_TRUE(busy.deliver(many_frames(kMany)));
  size_t got = 0;
  size_t since = 0;  // the quiet one spoke
  size_t answers = 0;
  bool said = false;
  ASSERT_TRUE(drive_until({}, [&] {
    RxFrame frames[24];
    const size_t n = tcp->receive(frames, 24);
    for (size_t i = 0; i < n; ++i) {
      if (frames[i].size == 20) {
        EXPECT_LE(since, 2 * 64U);
        said = false;
        ++answers;
        continue;
      }
      EXPECT_EQ(frames[i].size, 1U);
      EXPECT_EQ(frames[i].data[0], static_cast<uint8_t>(got)) << got;
      ++got;
      ++since;
    }
    tcp->release();
    if (got != 0 && !said) {
      said = quiet.deliver(on_the_wire(pattern(2, 20)));
      since = 0;
    }
    return got == kMany;
  }));
  EXPECT_GT(answers, kMany / 64 / 4);
}

// Frames that were read and not lent yet, which the kernel says nothing of: whoever waits for them would wait for ever.
TEST(Tcp, FramesThatAreLeftAreNotWaitedFor) {
  for (const bool closed : {false, true}) {
    const auto tcp = open_tcp(listening());
    auto peer = std::make_unique<RawTcp>(tcp->local());
    ASSERT_TRUE(peer->deliver(many_frames(200)));
    if (closed) peer.reset();
    size_t got = 0;
    const Time end = monotonic_now() + seconds(60);
    while (got < 200 && monotonic_now() < end) {
      tcp->wait(seconds(60));
      RxFrame frames[64];
      const size_t n = tcp->receive(frames, 64);
      for (size_t i = 0; i < n; ++i, ++got) EXPECT_EQ(frames[i].data[0], static_cast<uint8_t>(got));
      EXPECT_EQ(tcp->take_error(), "");
      tcp->release();
    }
    EXPECT_EQ(got, 200U);
    EXPECT_LT(monotonic_now(), end);
  }
}

TEST(Tcp, ManyPeersAreToldApart) {  // [TCP-4, TCP-5]
  const auto server = open_tcp(listening());
  std::vector<std::unique_ptr<Transport>> clients;
  std::vector<Transport*> all{server.get()};
  for (int i = 0; i < 60; ++i) {
    clients.push_back(open_tcp({}));
    all.push_back(clients.back().get());
  }
  std::vector<Endpoint> at(clients.size());
  for (uint32_t i = 0; i < clients.size(); ++i) send_surely(*clients[i], pattern(i, 3000 + i), server->local());
  for (size_t i = 0; i < clients.size(); ++i) {
    const Received got = receive_one(*server, all);
    ASSERT_GE(got.bytes.size(), 3000U);
    at[got.bytes.size() - 3000] = got.from;
  }
  const Bytes result = pattern(77, 65000);
  std::vector<TxFrame> same;
  for (const Endpoint& to : at) same.push_back({result.data(), 65000, &to});
  EXPECT_EQ(server->send(same.data(), same.size()), same.size());
  for (const auto& client : clients) EXPECT_EQ(receive_one(*client, all).bytes, result);
  std::vector<TxFrame> burst;
  std::vector<Bytes> frames;
  for (uint32_t i = 0; i < clients.size(); ++i) frames.push_back(pattern(i, 100 + i));
  for (int round = 0; round < 3; ++round) {
    for (size_t i = 0; i < clients.size(); ++i)
      burst.push_back({frames[i].data(), static_cast<uint32_t>(frames[i].size()), &at[i]});
  }
  EXPECT_EQ(server->send(burst.data(), burst.size()), burst.size());
  for (int round = 0; round < 3; ++round) {
    for (size_t i = 0; i < clients.size(); ++i) EXPECT_EQ(receive_one(*clients[i], all).bytes, frames[i]);
  }
}

// Buffers are bounded: who lends and never releases gets no more, and all of it after the release.
TEST(Tcp, WithoutAReleaseMemoryIsBoundedAndNothingIsLost) {
  TcpOptions options = listening();
  options.max_connections = 1;
  options.max_frame_bytes = 1000;
  const auto tcp = open_tcp(options);
  EXPECT_EQ(tcp->limits().max_frame_bytes, 1000U);
  EXPECT_EQ(tcp->limits().receive_buffer_bytes, 0U) << "no sender fills it: TCP holds them up";
  EXPECT_LT(tcp->limits().held_bytes, 50'000U);
  RawTcp raw(tcp->local());
  uint32_t sent = 0;
  for (; sent < 100; ++sent) ASSERT_TRUE(raw.send(on_the_wire(pattern(sent, 1000))));
  std::vector<RxFrame> lent(100);
  size_t count = 0;
  ASSERT_TRUE(drive_until({tcp.get()}, [&] {
    const size_t n = tcp->receive(lent.data() + count, lent.size() - count);
    count += n;
    return n == 0 && count >= 9 * 4;
  }));
  EXPECT_EQ(count, 9U * 4);
  for (uint32_t i = 0; i < count; ++i)
    EXPECT_TRUE(Bytes(lent[i].data, lent[i].data + lent[i].size) == pattern(i, 1000)) << i;
  tcp->release();
  for (auto i = static_cast<uint32_t>(count); i < sent; ++i) EXPECT_EQ(receive_one(*tcp).bytes, pattern(i, 1000));
}

}  // namespace
}  // namespace switchml
