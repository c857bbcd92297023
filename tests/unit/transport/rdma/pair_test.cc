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
  info.service = wire::Service::kUnreliableConnected;
  info.places = {11, 0x12345678, 5ULL << 32};
  return info;
}

TEST(PairInfo, GoesThroughAnIntroduction) {
  const wire::Introduction introduction = some_pair().introduction();
  EXPECT_EQ(introduction.gid_high, 0x0102030405060708U);
  const auto read = PairInfo::read(introduction, wire::Service::kUnreliableConnected);
  ASSERT_TRUE(read.has_value());
  EXPECT_TRUE(*read == some_pair());
}

TEST(PairInfo, DiffersInEachField) {
  PairInfo number = some_pair(), psn = some_pair(), gid = some_pair(), mtu = some_pair(), service = some_pair();
  PairInfo bits = some_pair(), rkey = some_pair(), address = some_pair();
  ++number.number;
  ++psn.first_psn;
  ++gid.gid.raw[15];
  mtu.mtu = IBV_MTU_256;
  service.service = wire::Service::kReliableConnected;
  ++bits.places.bits;
  ++rkey.places.rkey;
  ++address.places.address;
  for (const PairInfo& other : {number, psn, gid, mtu, service, bits, rkey, address})
    EXPECT_FALSE(other == some_pair());
}

TEST(PairInfo, WhatIsNoneIsNotRead) {
  constexpr auto kService = wire::Service::kUnreliableConnected;
  EXPECT_FALSE(PairInfo::read(wire::Introduction(), kService).has_value()) << "nothing";
  const auto good = some_pair().introduction();
  wire::Introduction number = good, wide = good, psn = good, no_mtu = good, large = good, reliable = good;
  number.queue_pair = 0;
  wide.queue_pair = 1 << 24;
  psn.first_psn = 1 << 24;
  no_mtu.mtu = 0;
  large.mtu = 6;
  reliable.service = static_cast<uint8_t>(wire::Service::kReliableConnected);
  for (const auto& introduction : {number, wide, psn, no_mtu, large, reliable}) {
    EXPECT_FALSE(PairInfo::read(introduction, kService).has_value());
  }
}

TEST(SendBuffers, AreFreeWhenTheLastUserHasReleasedThem) {
  std::vector<uint8_t> memory(3 * 64);
  SendBuffers buffers(memory.data(), 64, 3);
  const int first = buffers.take();
  EXPECT_EQ(buffers.data(first), memory.data() + 64 * first);
  buffers.keep(first);
  EXPECT_FALSE(buffers.are_scarce());
  EXPECT_TRUE(buffers.are_for(1));
  EXPECT_FALSE(buffers.are_for(2)) << "what is left is for others";
  const int second = buffers.take(), third = buffers.take();
  EXPECT_TRUE(buffers.are_scarce());
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
