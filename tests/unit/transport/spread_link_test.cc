#include "transport/spread_link.h"

#include <gtest/gtest.h>

#include <memory>
#include <vector>

#include "transport/harness.h"
#include "wire/control.h"
#include "wire/packet.h"

namespace switchml {
namespace {

constexpr size_t kSwitches = 3;

class SpreadLink : public ::testing::Test {
 protected:
  SpreadLink() {
    std::vector<Endpoint> places;
    for (size_t i = 0; i < kSwitches; ++i) {
      switches_.push_back(hub_->attach());
      places.push_back(switches_.back()->local());
    }
    spread_ = spread_link(hub_->attach(), places);
  }
  void send(const Bytes& frame, const Endpoint& to = {}) {
    const TxFrame tx{frame.data(), static_cast<uint32_t>(frame.size()), &to};
    EXPECT_EQ(spread_->send(&tx, 1), 1U);
  }
  /// Which switches have got so many frames each, since the last call.
  std::vector<size_t> received() {
    std::vector<size_t> counts;
    for (const auto& each : switches_) {
      RxFrame frames[64];
      counts.push_back(each->receive(frames, 64));
      each->release();
    }
    return counts;
  }
  static Bytes contribution(uint16_t slot, wire::Kind kind) {
    Bytes frame(64);
    wire::Header header;
    header.version = wire::kVersion;
    header.kind = static_cast<uint8_t>(kind);
    header.slot = slot;
    wire::write_header(header, frame.data());
    return frame;
  }

  std::shared_ptr<InprocHub> hub_ = InprocHub::create({});
  std::vector<std::unique_ptr<Transport>> switches_;
  std::unique_ptr<Transport> spread_;
};

TEST_F(SpreadLink, ContributionsGoToTheSwitchOfTheirSlot) {  // [MOVE-6]
  for (const wire::Kind kind : {wire::Kind::kContribution, wire::Kind::kExactContribution}) {
    for (uint16_t slot = 0; slot < 300; ++slot) {
      send(contribution(slot, kind));
      std::vector<size_t> expected(kSwitches);
      expected[slot % kSwitches] = 1;
      ASSERT_EQ(received(), expected) << "slot " << slot;
    }
  }
}

TEST_F(SpreadLink, ProbesGoToTheSwitchOfTheirSlotAndJoinsToAll) {  // [MOVE-6]
  wire::Membership member;
  uint8_t frame[wire::kMaxControlBytes];
  const auto as_bytes = [&frame](size_t size) { return Bytes(frame, frame + size); };
  send(as_bytes(wire::build_probe(member, 257, 9, 1, frame)));
  EXPECT_EQ(received(), (std::vector<size_t>{0, 0, 1}));
  send(as_bytes(wire::build_join(member, 0, 2, frame)));
  EXPECT_EQ(received(), (std::vector<size_t>{1, 1, 1}));
  send(as_bytes(wire::build_close(member, 3, frame)));
  EXPECT_EQ(received(), (std::vector<size_t>{1, 1, 1}));
}

TEST_F(SpreadLink, FramesWithAnAddressGoThere) {
  send(contribution(0, wire::Kind::kContribution), switches_[1]->local());
  EXPECT_EQ(received(), (std::vector<size_t>{0, 1, 0}));
}

TEST_F(SpreadLink, ABurstIsSpreadInItsOrder) {
  std::vector<Bytes> bytes;
  for (uint16_t slot = 0; slot < 30; ++slot) bytes.push_back(contribution(slot, wire::Kind::kContribution));
  const Endpoint any;
  std::vector<TxFrame> frames;
  for (const Bytes& each : bytes) frames.push_back({each.data(), static_cast<uint32_t>(each.size()), &any});
  ASSERT_EQ(spread_->send(frames.data(), frames.size()), frames.size());
  for (size_t i = 0; i < kSwitches; ++i) {
    RxFrame got[64];
    ASSERT_EQ(switches_[i]->receive(got, 64), 10U);
    for (size_t k = 0; k < 10; ++k) EXPECT_EQ(wire::read_header(got[k].data).slot, k * kSwitches + i);
    switches_[i]->release();
  }
}

TEST_F(SpreadLink, WhatStrangersSendIsDroppedAndDoesNotKeepBuffers) {
  const auto stranger = hub_->attach();
  const Bytes frame = pattern(1, 100);
  const Endpoint here = spread_->local();
  const TxFrame tx{frame.data(), static_cast<uint32_t>(frame.size()), &here};
  for (int i = 0; i < 5000; ++i) {
    ASSERT_EQ(stranger->send(&tx, 1), 1U);
    if (i % 3 == 0) {
      ASSERT_EQ(switches_[0]->send(&tx, 1), 1U);
    }
    RxFrame frames[8];
    const size_t count = spread_->receive(frames, 8);
    ASSERT_EQ(count, i % 3 == 0 ? 1U : 0U) << i;
    if (count == 0) continue;  // as an engine, which gives back only what it got
    EXPECT_EQ(frames[0].from, switches_[0]->local());
    EXPECT_EQ(Bytes(frames[0].data, frames[0].data + frames[0].size), frame);
    spread_->release();
  }
}

}  // namespace
}  // namespace switchml
