#include "format/call_mask.h"

#include <gtest/gtest.h>

namespace switchml {
namespace {

constexpr SipKey kKey{0x0706050403020100U, 0x0f0e0d0c0b0a0908U};

MaskInput some_input() {
  MaskInput input;
  input.epoch = 0x01020304;
  input.seq = 0x05060708;
  input.slot = 0x090a;
  input.op = 3;
  input.type = 4;
  input.stage = 2;
  input.count = 0x1112131415161718U;
  input.first = 0x2122232425262728U;
  input.exponents_hash = 0x3132333435363738U;
  return input;
}

TEST(CallMask, KnownAnswer) { EXPECT_EQ(call_mask(kKey, some_input()), 0x537e93efU); }  // [WIT-11, WIT-12]

TEST(CallMask, DependsOnTheSecret) {
  EXPECT_NE(call_mask({kKey.low, kKey.high + 1}, some_input()), call_mask(kKey, some_input()));
  EXPECT_NE(call_mask({kKey.low + 1, kKey.high}, some_input()), call_mask(kKey, some_input()));
}

}  // namespace
}  // namespace switchml
