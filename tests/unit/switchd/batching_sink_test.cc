#include "switchd/batching_sink.h"

#include <gtest/gtest.h>

#include <string>

namespace switchml {
namespace {

/// Writes down what it is asked to send.
class RecordingTransport : public Transport {
 public:
  struct Frame {
    Endpoint to;
    std::string bytes;
  };

  const char* name() const override { return "recording"; }
  TransportLimits limits() const override { return {65507, 0}; }
  Endpoint local() const override { return {}; }
  size_t path_frame_bytes(const Endpoint&) const override { return 65507; }
  uint8_t* allocate(size_t) override { return nullptr; }
  size_t send(const TxFrame* frames, size_t count) override {
    ++calls;
    for (size_t i = 0; i < count; ++i) {
      sent.push_back({*frames[i].to, {reinterpret_cast<const char*>(frames[i].data), frames[i].size}});
    }
    return count;
  }
  size_t multicast(const uint8_t* data, uint32_t size, const Endpoint* const* to, size_t count) override {
    ++calls;
    for (size_t i = 0; i < count; ++i) sent.push_back({*to[i], {reinterpret_cast<const char*>(data), size}});
    return count;
  }
  size_t receive(RxFrame*, size_t) override { return 0; }
  void release() override {}
  void wait(Duration) override {}
  void wake() override {}
  std::string take_error() override { return {}; }

  int calls = 0;
  std::vector<Frame> sent;
};

Endpoint number(uint8_t n) {
  Endpoint e;
  e.size = 1;
  e.bytes[0] = n;
  return e;
}

const uint8_t* bytes(const std::string& text) { return reinterpret_cast<const uint8_t*>(text.data()); }

TEST(BatchingSink, SmallFramesLeaveTogetherOrderedByDestination) {
  RecordingTransport transport;
  BatchingSink sink(transport);
  Endpoint a = number(1);
  Endpoint b = number(2);
  const Endpoint* both[] = {&b, &a};
  std::string frame = "first";
  sink.multicast(bytes(frame), frame.size(), both, 2);
  frame = "again";  // the switch may reuse its memory at once,
  sink.unicast(bytes(frame), frame.size(), b);
  sink.multicast(bytes(frame), frame.size(), both, 2);
  b = number(9);  // and its endpoints too
  EXPECT_EQ(transport.calls, 0);
  sink.flush();
  EXPECT_EQ(transport.calls, 1);
  ASSERT_EQ(transport.sent.size(), 5U);
  const char* const expected[] = {"first", "again", "first", "again", "again"};
  const int to[] = {1, 1, 2, 2, 2};
  for (size_t i = 0; i < 5; ++i) {
    EXPECT_EQ(transport.sent[i].bytes, expected[i]) << i;
    EXPECT_EQ(transport.sent[i].to, number(static_cast<uint8_t>(to[i]))) << i;
  }
  sink.flush();
  EXPECT_EQ(transport.calls, 1) << "nothing is sent twice";
}

TEST(BatchingSink, LargeFramesLeaveAtOnce) {
  RecordingTransport transport;
  BatchingSink sink(transport);
  const Endpoint a = number(1);
  const Endpoint* one[] = {&a};
  const std::string large(BatchingSink::kCopyBytes + 1, 'x');
  sink.unicast(bytes(large), large.size(), a);
  EXPECT_EQ(transport.sent.size(), 1U);
  sink.multicast(bytes(large), large.size(), one, 1);
  EXPECT_EQ(transport.sent.size(), 2U);
  EXPECT_EQ(transport.sent[1].bytes, large);
  const std::string small(BatchingSink::kCopyBytes, 'y');
  sink.unicast(bytes(small), small.size(), a);
  EXPECT_EQ(transport.sent.size(), 2U);
  sink.flush();
  EXPECT_EQ(transport.sent.size(), 3U);
}

}  // namespace
}  // namespace switchml
