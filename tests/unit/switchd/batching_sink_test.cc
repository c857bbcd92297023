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
      sent_as.push_back(frames[i].ecn);
    }
    return count;
  }
  size_t receive(RxFrame*, size_t) override { return 0; }
  void release() override {}
  void wait(Duration) override {}
  void wake() override {}
  std::string take_error() override { return {}; }

  int calls = 0;
  std::vector<Frame> sent;
  std::vector<Ecn> sent_as;
};

Endpoint number(uint8_t n) {
  Endpoint e;
  e.size = 1;
  e.bytes[0] = n;
  return e;
}

const uint8_t* bytes(const std::string& text) { return reinterpret_cast<const uint8_t*>(text.data()); }

/// What reached an endpoint, in its order.
std::vector<std::string> at(const RecordingTransport& transport, uint8_t n) {
  std::vector<std::string> out;
  for (const auto& frame : transport.sent) {
    if (frame.to == number(n)) out.push_back(frame.bytes);
  }
  return out;
}

using Strings = std::vector<std::string>;

TEST(BatchingSink, SmallFramesLeaveTogetherDestinationByDestination) {
  RecordingTransport transport;
  BatchingSink sink(transport);
  Endpoint a = number(1);
  Endpoint b = number(2);
  const Endpoint* both[] = {&b, &a};
  const std::string frame = "first";
  sink.multicast(bytes(frame), frame.size(), both, 2);
  const std::string again = "again";
  sink.unicast(bytes(again), again.size(), b);
  sink.multicast(bytes(again), again.size(), both, 2);
  b = number(9);  // the switch may reuse its endpoints at once
  EXPECT_EQ(transport.calls, 0);
  sink.flush();
  EXPECT_EQ(transport.calls, 1);
  EXPECT_EQ(at(transport, 1), (Strings{"first", "again"}));
  EXPECT_EQ(at(transport, 2), (Strings{"first", "again", "again"}));
  ASSERT_EQ(transport.sent.size(), 5U);
  int changes = 0;
  for (size_t i = 1; i < 5; ++i) changes += transport.sent[i].to != transport.sent[i - 1].to ? 1 : 0;
  EXPECT_EQ(changes, 1) << "runs to one endpoint can be sent in one piece";
  sink.flush();
  EXPECT_EQ(transport.calls, 1) << "nothing is sent twice";
}

TEST(BatchingSink, BorrowedFramesLeaveFromWhereTheyLieWhenTheyAreClaimedBack) {
  RecordingTransport transport;
  BatchingSink sink(transport);
  const Endpoint a = number(1);
  const Endpoint* one[] = {&a};
  std::string frame = "first";
  sink.multicast(bytes(frame), frame.size(), one, 1);
  EXPECT_EQ(transport.calls, 0);
  sink.reclaim();
  frame = "later";
  sink.unicast(bytes(frame), frame.size(), a);
  sink.flush();
  EXPECT_EQ(at(transport, 1), (Strings{"first", "later"}));
  sink.reclaim();
  EXPECT_EQ(transport.calls, 2) << "nothing is sent twice";
}

// Destinations in any order, more of them than a guess of the next one can get right.
TEST(BatchingSink, ManyDestinationsGetWhatIsTheirs) {
  RecordingTransport transport;
  BatchingSink sink(transport);
  std::vector<std::string> frames;
  for (int i = 0; i < 200; ++i) frames.push_back(std::to_string(i));
  for (int burst = 0; burst < 2; ++burst) {
    transport.sent.clear();
    for (int i = 0; i < 200; ++i) {
      const Endpoint to = number(static_cast<uint8_t>(i * 7 % 13));
      sink.unicast(bytes(frames[static_cast<size_t>(i)]), frames[static_cast<size_t>(i)].size(), to);
    }
    sink.flush();
    for (int n = 0; n < 13; ++n) {
      Strings expected;
      for (int i = 0; i < 200; ++i) {
        if (i * 7 % 13 == n) expected.push_back(frames[static_cast<size_t>(i)]);
      }
      EXPECT_EQ(at(transport, static_cast<uint8_t>(n)), expected);
    }
  }
}

// The same host and port, but answers that have to leave from different addresses of ours.
TEST(BatchingSink, WhereAnAnswerLeavesFromIsKept) {
  RecordingTransport transport;
  BatchingSink sink(transport);
  Endpoint first = number(1), second = number(1);
  first.via = 1;
  second.via = 2;
  const std::string text = "x";
  for (const Endpoint* to : {&first, &second, &first}) sink.unicast(bytes(text), 1, *to);
  sink.flush();
  std::vector<int> vias;
  for (const auto& frame : transport.sent) vias.push_back(frame.to.via);
  EXPECT_EQ(vias, (std::vector<int>{1, 1, 2}));
}

TEST(BatchingSink, FramesKeepWhatTheySayOfQueues) {
  RecordingTransport transport;
  BatchingSink sink(transport);
  const Endpoint a = number(1);
  const Endpoint* one[] = {&a};
  const std::string large(BatchingSink::kHeldBytes + 1, 'x'), small = "y";
  for (const std::string* frame : {&large, &small}) {
    for (const Ecn ecn : {Ecn::kMarked, Ecn::kNone, Ecn::kCapable}) {
      sink.set_ecn(ecn);
      sink.unicast(bytes(*frame), frame->size(), a);
    }
    sink.multicast(bytes(*frame), frame->size(), one, 1);
    sink.set_ecn(Ecn::kNone);
  }
  sink.flush();
  const std::vector<Ecn> each = {Ecn::kMarked, Ecn::kNone, Ecn::kCapable, Ecn::kCapable};
  std::vector<Ecn> twice = each;
  twice.insert(twice.end(), each.begin(), each.end());
  EXPECT_EQ(transport.sent_as, twice);
}

TEST(BatchingSink, LargeFramesLeaveAtOnce) {
  RecordingTransport transport;
  BatchingSink sink(transport);
  const Endpoint a = number(1);
  const Endpoint* one[] = {&a};
  const std::string large(BatchingSink::kHeldBytes + 1, 'x');
  sink.unicast(bytes(large), large.size(), a);
  EXPECT_EQ(transport.sent.size(), 1U);
  sink.multicast(bytes(large), large.size(), one, 1);
  EXPECT_EQ(transport.sent.size(), 2U);
  EXPECT_EQ(transport.sent[1].bytes, large);
  const std::string small(BatchingSink::kHeldBytes, 'y');
  sink.unicast(bytes(small), small.size(), a);
  EXPECT_EQ(transport.sent.size(), 2U);
  sink.flush();
  EXPECT_EQ(transport.sent.size(), 3U);
}

}  // namespace
}  // namespace switchml
