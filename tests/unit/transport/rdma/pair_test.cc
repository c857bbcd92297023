#include "transport/rdma/pair.h"

#include <gtest/gtest.h>

namespace switchml::rdma {
namespace {

PairInfo some_pair() {
  PairInfo info;
  info.number = 0xabcdef;
  info.first_psn = 0x123456;
  for (size_t i = 0; i < sizeof info.gid.raw; ++i) info.gid.raw[i] = static_cast<uint8_t>(i + 1);
  info.mtu = IBV_MTU_2048;
  return info;
}

TEST(PairInfo, GoesThroughAnIntroduction) {
  const wire::Introduction introduction = some_pair().introduction();
  EXPECT_EQ(introduction.gid_high, 0x0102030405060708U);
  const auto read = PairInfo::read(introduction);
  ASSERT_TRUE(read.has_value());
  EXPECT_TRUE(*read == some_pair());
}

TEST(PairInfo, DiffersInEachField) {
  PairInfo number = some_pair(), psn = some_pair(), gid = some_pair(), mtu = some_pair();
  ++number.number;
  ++psn.first_psn;
  ++gid.gid.raw[15];
  mtu.mtu = IBV_MTU_256;
  for (const PairInfo& other : {number, psn, gid, mtu}) EXPECT_FALSE(other == some_pair());
}

TEST(PairInfo, WhatIsNoneIsNotRead) {
  EXPECT_FALSE(PairInfo::read(wire::Introduction()).has_value()) << "nothing";
  const auto good = some_pair().introduction();
  wire::Introduction number = good, wide = good, psn = good, no_mtu = good, large = good, unreliable = good;
  number.queue_pair = 0;
  wide.queue_pair = 1 << 24;
  psn.first_psn = 1 << 24;
  no_mtu.mtu = 0;
  large.mtu = 6;
  unreliable.service = static_cast<uint8_t>(wire::Service::kUnreliableConnected);
  for (const auto& introduction : {number, wide, psn, no_mtu, large, unreliable}) {
    EXPECT_FALSE(PairInfo::read(introduction).has_value());
  }
}

TEST(SendBuffers, AreFreeWhenTheLastUserHasReleasedThem) {
  std::vector<uint8_t> memory(3 * 64);
  SendBuffers buffers(memory.data(), 64, 3);
  const int first = buffers.take();
  EXPECT_EQ(buffers.data(first), memory.data() + 64 * first);
  buffers.keep(first);
  EXPECT_FALSE(buffers.is_scarce());
  const int second = buffers.take(), third = buffers.take();
  EXPECT_TRUE(buffers.is_scarce());
  EXPECT_EQ(buffers.take(), -1);
  buffers.release(first);
  EXPECT_EQ(buffers.take(), -1) << "another still sends it";
  buffers.release(first);
  EXPECT_EQ(buffers.take(), first);
  buffers.release(second);
  buffers.release(third);
}

}  // namespace
}  // namespace switchml::rdma
