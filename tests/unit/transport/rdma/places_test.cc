#include "transport/rdma/places.h"

#include <gmock/gmock.h>

#include <cerrno>

#include "introduced.h"
#include "transport/harness.h"
#include "wire/packet.h"

namespace switchml {
namespace {

using ::testing::AllOf;
using ::testing::HasSubstr;

constexpr size_t kSlots = 8;
constexpr size_t kMost = wire::kHeaderBytes + 256;

/// A contribution with words of one value.
Bytes frame_for(uint16_t slot, uint32_t seq, size_t size = kMost, uint8_t value = 7) {
  Bytes frame(size, value);
  wire::Header header;
  header.version = wire::kVersion;
  header.kind = static_cast<uint8_t>(wire::Kind::kContribution);
  header.slot = slot;
  header.seq = seq;
  wire::write_header(header, frame.data());
  return frame;
}

/// Both have a pair before either meets the other's.
void acquaint(Transport& a, Transport& b) {
  const auto of_a = a.queue_pairs()->queue_pair_for(b.local()), of_b = b.queue_pairs()->queue_pair_for(a.local());
  ASSERT_TRUE(of_a.ok() && of_b.ok()) << of_a.status().to_string() << of_b.status().to_string();
  ASSERT_TRUE(b.queue_pairs()->connect(a.local(), of_a.value()).ok());
  ASSERT_TRUE(a.queue_pairs()->connect(b.local(), of_b.value()).ok());
}

class PlacesOf : public ::testing::Test {
 protected:
  void open(const fake_verbs::Behaviour& behaviour = {}) {
    library_.emplace(behaviour);
    a_ = make(1);
    b_ = make(2);
    for (Transport* each : {a_.get(), b_.get()})
      ASSERT_TRUE(each->queue_pairs()->post_receive_windows({0, kSlots}, kMost).ok());
  }
  static CardOptions options(uint16_t port) {
    CardOptions options;
    options.library = SWITCHML_FAKE_VERBS;
    options.local = literal_address("127.0.0.1", port).value();
    options.wish.emulated = true;
    return options;
  }
  static std::unique_ptr<Transport> make(uint16_t port) {
    auto made = make_places_transport(options(port));
    EXPECT_TRUE(made.ok()) << made.status().to_string();
    return made.ok() ? std::move(made.value()) : nullptr;
  }

  std::optional<fake_verbs::Library> library_;  // ends last
  std::unique_ptr<Transport> a_, b_;
};

TEST_F(PlacesOf, FramesArriveWholeInAnySlotAndVersion) {  // [RDMA-10, RDMA-11]
  open();
  acquaint(*a_, *b_);
  EXPECT_STREQ(a_->name(), "rdma");
  std::vector<Bytes> frames;
  for (const uint32_t seq : {1U, 2U, 0x10001U, 0xfffffffeU}) {
    for (const uint16_t slot : {uint16_t{0}, uint16_t{3}, uint16_t{kSlots - 1}}) {
      for (const size_t size : {wire::kHeaderBytes, wire::kHeaderBytes + 4, kMost}) {
        frames.push_back(frame_for(slot, seq, size, static_cast<uint8_t>(frames.size())));
        EXPECT_EQ(send_all(*a_, {frames.back()}, b_->local()), 1U);
        EXPECT_EQ(collect(*b_, 1), std::vector<Bytes>{frames.back()});
      }
    }
  }
  EXPECT_EQ(a_->take_error(), "");
}

TEST_F(PlacesOf, PlacesBeginWhereASwitchCanCountFrom) {  // [RDMA-10]
  open();
  const wire::Introduction told = a_->queue_pairs()->queue_pair_for(b_->local()).value();
  EXPECT_EQ(told.service, static_cast<uint8_t>(wire::Service::kUnreliableConnected));
  EXPECT_EQ(told.place_bits, 9) << "20 + 256 bytes";
  EXPECT_EQ(told.address % (uint64_t{1} << 32), 0U);
  EXPECT_NE(told.rkey, 0U);
  EXPECT_EQ(a_->limits().held_bytes, 2 * kSlots * 512);
  ASSERT_TRUE(a_->queue_pairs()->post_receive_windows({0, 4}, wire::kHeaderBytes + 1000).ok());
  EXPECT_EQ(a_->queue_pairs()->queue_pair_for(b_->local()).value().place_bits, 10) << "1020 bytes";
  ASSERT_TRUE(a_->queue_pairs()->post_receive_windows({0, 4}, 512).ok());
  EXPECT_EQ(a_->queue_pairs()->queue_pair_for(b_->local()).value().place_bits, 9);
}

TEST_F(PlacesOf, OfAPartOfTheSlotsLieWhereThoseOfAllWould) {
  open();
  ASSERT_TRUE(b_->queue_pairs()->post_receive_windows({4000, 8}, kMost).ok());
  EXPECT_EQ(b_->limits().held_bytes, 2 * 8 * 512);
  acquaint(*a_, *b_);
  const std::vector<Bytes> frames{frame_for(4000, 1), frame_for(4007, 2)};
  send_all(*a_, {frame_for(3999, 1), frame_for(4008, 2), frames[0], frames[1]}, b_->local());
  EXPECT_EQ(collect(*b_, 2), frames);
  EXPECT_EQ(b_->queue_pairs()->queue_pair_for(a_->local()).value().address % (uint64_t{1} << 32), 0U);
}

TEST_F(PlacesOf, WhatIsLentStaysWhateverIsWrittenMeanwhile) {
  open();
  acquaint(*a_, *b_);
  const Bytes first = frame_for(2, 5, kMost, 1), second = frame_for(2, 7, kMost, 2);
  send_all(*a_, {first}, b_->local());
  RxFrame lent[2];
  ASSERT_EQ(b_->receive(lent, 1), 1U);
  send_all(*a_, {second}, b_->local());
  ASSERT_EQ(b_->receive(lent + 1, 1), 1U);
  EXPECT_EQ(Bytes(lent[0].data, lent[0].data + lent[0].size), first);
  EXPECT_EQ(Bytes(lent[1].data, lent[1].data + lent[1].size), second);
  EXPECT_EQ(lent[0].from, a_->local());
}

TEST_F(PlacesOf, BuffersForWhatIsLentAreMadeFreeByRelease) {
  open();
  acquaint(*a_, *b_);
  size_t sent = 0;
  std::vector<RxFrame> lent(1000);
  size_t got = 0;
  for (; sent < 600; sent += kSlots) {
    for (uint16_t slot = 0; slot < kSlots; ++slot) send_all(*a_, {frame_for(slot, 1)}, b_->local());
    got += b_->receive(lent.data() + got, lent.size() - got);
  }
  EXPECT_EQ(got, 256U);
  b_->release();
  EXPECT_GT(b_->receive(lent.data(), lent.size()), 0U);
}

TEST_F(PlacesOf, AFrameOfItsOwnMemoryIsSentFromThereUnlessItMayChange) {
  fake_verbs::Behaviour late;
  late.late = 1;
  open(late);
  acquaint(*a_, *b_);
  uint8_t* const mine = a_->allocate(kMost);
  const Endpoint to = b_->local();
  for (const bool may_change : {false, true}) {
    const Bytes before = frame_for(1, 1, kMost, 1), after = frame_for(1, 1, kMost, 2);
    std::copy(before.begin(), before.end(), mine);
    TxFrame frame{mine, kMost, &to};
    frame.may_change = may_change;
    EXPECT_EQ(a_->send(&frame, 1), 1U);
    std::copy(after.begin(), after.end(), mine);
    EXPECT_EQ(collect(*b_, 1), std::vector<Bytes>{may_change ? before : after});
  }
}

TEST_F(PlacesOf, FramesThatFitNoPlaceAreNotSentAndThatIsSaid) {
  open();
  acquaint(*a_, *b_);
  for (const size_t size : {wire::kHeaderBytes - 1, size_t{513}}) {
    EXPECT_EQ(send_all(*a_, {Bytes(size, 0x12)}, b_->local()), 1U);
    EXPECT_THAT(a_->take_error(),
                AllOf(HasSubstr("frame of " + std::to_string(size) + " bytes"), HasSubstr("allowed are 20 to 512")));
  }
  const Status status = a_->queue_pairs()->post_receive_windows({0, kSlots}, 1025);
  EXPECT_EQ(status.code(), Code::kInvalidArgument);
  EXPECT_THAT(status.message(), AllOf(HasSubstr("1025"), HasSubstr("carries 1024"), HasSubstr("SWITCHML_PAYLOAD")));
}

// What the card lets pass, because it lies in the region, but names another slot.
TEST_F(PlacesOf, WhatIsToldOfOtherSlotsIsNotRead) {
  open();
  const wire::Introduction of_a = a_->queue_pairs()->queue_pair_for(b_->local()).value();
  wire::Introduction of_b = b_->queue_pairs()->queue_pair_for(a_->local()).value();
  ASSERT_TRUE(b_->queue_pairs()->connect(a_->local(), of_a).ok());
  of_b.address -= 2 * kSlots * 512;
  ASSERT_TRUE(a_->queue_pairs()->connect(b_->local(), of_b).ok());
  const fake_verbs::Counts before = library_->count();
  send_all(*a_, {frame_for(kSlots, 1), frame_for(2 * kSlots - 1, 1)}, b_->local());
  RxFrame frame;
  EXPECT_EQ(b_->receive(&frame, 1), 0U);
  EXPECT_EQ(library_->count().bytes - before.bytes, 2 * kMost) << "they were written";
}

// The same of what is longer than a place.
TEST_F(PlacesOf, WhatIsLongerThanAPlaceIsNotRead) {
  open();
  ASSERT_TRUE(a_->queue_pairs()->post_receive_windows({0, kSlots}, 1024).ok());
  wire::Introduction of_a = a_->queue_pairs()->queue_pair_for(b_->local()).value(),
                     of_b = b_->queue_pairs()->queue_pair_for(a_->local()).value();
  std::swap(of_a.place_bits, of_b.place_bits);
  ASSERT_TRUE(b_->queue_pairs()->connect(a_->local(), of_a).ok());
  ASSERT_TRUE(a_->queue_pairs()->connect(b_->local(), of_b).ok());
  const std::vector<Bytes> frames{frame_for(0, 2, 513), frame_for(0, 2, 512)};
  send_all(*a_, frames, b_->local());
  EXPECT_EQ(collect(*b_, 1), std::vector<Bytes>{frames[1]});
}

TEST_F(PlacesOf, StrangersGetNothing) {
  open();
  EXPECT_EQ(send_all(*a_, {frame_for(0, 1)}, b_->local()), 1U);
  acquaint(*a_, *b_);
  EXPECT_EQ(send_all(*a_, {frame_for(0, 1)}, address("127.0.0.1:77")), 1U);
  RxFrame frame;
  EXPECT_EQ(b_->receive(&frame, 1), 0U);
  b_->queue_pairs()->disconnect(a_->local());
  EXPECT_FALSE(b_->queue_pairs()->is_connected(a_->local()));
  EXPECT_EQ(send_all(*a_, {frame_for(0, 1)}, b_->local()), 1U);
  EXPECT_EQ(b_->receive(&frame, 1), 0U);
}

TEST_F(PlacesOf, IntroductionsOfOtherKindsAreRefused) {
  open();
  const wire::Introduction good = b_->queue_pairs()->queue_pair_for(a_->local()).value();
  wire::Introduction reliable = good, other_places = good, small_packets = good;
  reliable.service = 0;
  ++other_places.place_bits;
  small_packets.mtu = 1;
  for (const auto& bad : {wire::Introduction(), reliable, other_places, small_packets}) {
    EXPECT_EQ(a_->queue_pairs()->connect(b_->local(), bad).code(), Code::kInvalidArgument);
  }
  const auto unready = make(3);
  EXPECT_FALSE(unready->queue_pairs()->queue_pair_for(b_->local()).ok()) << "it does not know what to expect";
}

TEST_F(PlacesOf, TheSameIntroductionAgainChangesNothing) {  // [MEET-4]
  open();
  acquaint(*a_, *b_);
  const uint32_t number = a_->queue_pairs()->queue_pair_for(b_->local())->queue_pair;
  acquaint(*a_, *b_);
  EXPECT_EQ(a_->queue_pairs()->queue_pair_for(b_->local())->queue_pair, number);
  library_->break_pair(number);
  a_->wait(Duration(0));
  RxFrame frame;
  a_->receive(&frame, 1);
  EXPECT_FALSE(a_->queue_pairs()->is_connected(b_->local()));
  EXPECT_THAT(a_->take_error(), AllOf(HasSubstr("127.0.0.1:2/rdma"), HasSubstr("Flushed")));
  b_->queue_pairs()->disconnect(a_->local());
  acquaint(*a_, *b_);
  EXPECT_NE(a_->queue_pairs()->queue_pair_for(b_->local())->queue_pair, number);
  send_all(*a_, {frame_for(0, 1)}, b_->local());
  EXPECT_EQ(collect(*b_, 1), std::vector<Bytes>{frame_for(0, 1)});
}

// An answer to an introduction may come when its pair is no more. Another one would be one that nobody knows.
TEST_F(PlacesOf, WhoseAnswerComesTooLateIsIntroducedAnew) {
  for (const bool keeps : {false, true}) {
    fake_verbs::Behaviour behaviour;
    behaviour.keeps_completions = keeps;
    open(behaviour);
    const uint32_t first = a_->queue_pairs()->queue_pair_for(b_->local())->queue_pair;
    const wire::Introduction of_b = b_->queue_pairs()->queue_pair_for(a_->local()).value();
    library_->break_pair(first);
    a_->wait(Duration(0));
    RxFrame frame;
    a_->receive(&frame, 1);
    EXPECT_EQ(a_->queue_pairs()->connect(b_->local(), of_b).code(), Code::kUnavailable);
    EXPECT_FALSE(a_->queue_pairs()->is_connected(b_->local()));
    acquaint(*a_, *b_);
    EXPECT_NE(a_->queue_pairs()->queue_pair_for(b_->local())->queue_pair, first);
    wire::Introduction other = of_b;
    ++other.queue_pair;
    EXPECT_EQ(a_->queue_pairs()->connect(b_->local(), other).code(), Code::kUnavailable) << "ours knows the other one";
    EXPECT_FALSE(a_->queue_pairs()->is_connected(b_->local()));
    b_->queue_pairs()->disconnect(a_->local());
    acquaint(*a_, *b_);
    library_->fail_once("ibv_post_send", EPERM);
    send_all(*a_, {frame_for(0, 1)}, b_->local());
    b_->queue_pairs()->disconnect(a_->local());
    acquaint(*a_, *b_);
    send_all(*b_, {frame_for(0, 1)}, a_->local());
    EXPECT_EQ(collect(*a_, 1), std::vector<Bytes>{frame_for(0, 1)});
    a_.reset();
    b_.reset();
    library_.reset();
  }
}

TEST_F(PlacesOf, AnAddressThatSwitchesDoNotWriteToIsRefused) {
  const fake_verbs::Library library;
  CardOptions six = options(1), foreign = options(1);
  six.local = literal_address("[::1]:1", 0).value();
  foreign.wish.device = "fake0";
  foreign.wish.port = 1;
  foreign.wish.gid_index = 2;
  for (const CardOptions& other : {six, foreign}) {
    EXPECT_THAT(make_places_transport(other).status().message(), HasSubstr("switches write to IPv4 addresses"));
  }
}

// Lost, repeated and overtaken: what is lent is always a whole frame that was sent to its place.
TEST_F(PlacesOf, WhateverHappensOnTheWayFramesAreWhole) {
  for (uint64_t seed = 1; seed <= 10; ++seed) {
    fake_verbs::Behaviour behaviour;
    behaviour.seed = seed;
    behaviour.late = 0.5;
    behaviour.loss = behaviour.repeat = behaviour.overtake = 0.1;
    open(behaviour);
    acquaint(*a_, *b_);
    size_t got = 0;
    for (uint32_t round = 1; round <= 200; ++round) {
      const auto slot = static_cast<uint16_t>(round % kSlots);
      send_all(*a_, {frame_for(slot, round, kMost, static_cast<uint8_t>(round))}, b_->local());
      RxFrame frame;
      while (b_->receive(&frame, 1) == 1) {
        const wire::Header header = wire::read_header(frame.data);
        ASSERT_EQ(frame.size, kMost);
        ASSERT_EQ(
            Bytes(frame.data, frame.data + frame.size),
            frame_for(static_cast<uint16_t>(header.seq % kSlots), header.seq, kMost, static_cast<uint8_t>(header.seq)));
        ++got;
      }
      b_->release();
    }
    EXPECT_GT(got, 100U) << seed;
    a_.reset();
    b_.reset();
    library_.reset();
  }
}

TEST_F(PlacesOf, RequestsGoByUdp) {
  const fake_verbs::Library library;
  const auto there = open_udp(on("127.0.0.1:0"));
  CardOptions asking = options(0);
  asking.asks = UdpOptions();
  asking.asks->peer = there->local();
  auto made = make_places_transport(asking);
  ASSERT_TRUE(made.ok()) << made.status().to_string();
  Bytes request = pattern(1, 40);
  request[0] = static_cast<uint8_t>(wire::kVersion << 4) | static_cast<uint8_t>(wire::Kind::kRequest);
  send_all(*made.value(), {request}, with_carrier(there->local(), Carrier::kPlaces));
  EXPECT_EQ(collect(*there, 1), std::vector<Bytes>{request});
  send_all(*there, {request}, with_carrier(made.value()->local(), Carrier::kPackets));
  RxFrame frame;
  const Time end = monotonic_now() + seconds(60);
  while (made.value()->receive(&frame, 1) == 0 && monotonic_now() < end) made.value()->wait(seconds(1));
  EXPECT_EQ(frame.from, with_carrier(there->local(), Carrier::kPlaces));
}

TEST_F(PlacesOf, WhatCannotBeHadSaysWhichFunctionRefused) {
  open();
  for (const char* const function : {"ibv_reg_mr", "ibv_create_cq"}) {
    const auto other = make(3);
    library_->fail_once(function, EPERM);
    EXPECT_THAT(other->queue_pairs()->post_receive_windows({0, kSlots}, kMost).message(), HasSubstr(function));
    EXPECT_FALSE(other->queue_pairs()->queue_pair_for(b_->local()).ok());
    EXPECT_TRUE(other->queue_pairs()->post_receive_windows({0, kSlots}, kMost).ok());
    EXPECT_TRUE(other->queue_pairs()->queue_pair_for(b_->local()).ok());
  }
  for (const char* const function : {"ibv_create_cq", "ibv_create_qp", "ibv_modify_qp", "ibv_post_recv"}) {
    library_->fail_once(function, EPERM);
    EXPECT_THAT(a_->queue_pairs()->queue_pair_for(b_->local()).status().message(), HasSubstr(function));
  }
  acquaint(*a_, *b_);
  library_->fail_once("ibv_post_send", EPERM);
  EXPECT_EQ(send_all(*a_, {frame_for(0, 1)}, b_->local()), 1U);
  EXPECT_THAT(a_->take_error(), HasSubstr("ibv_post_send: Operation not permitted"));
  library_->fail_once("ibv_poll_cq", EPERM);
  RxFrame frame;
  EXPECT_EQ(b_->receive(&frame, 1), 0U);
  EXPECT_THAT(b_->take_error(), HasSubstr("ibv_poll_cq failed"));
}

}  // namespace
}  // namespace switchml
