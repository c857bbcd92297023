#include "transport/tcp_pieces.h"

#include <gtest/gtest.h>

namespace switchml {
namespace {

TEST(PiecePool, GivesUpToTheMostAndTheLastOneBackFirst) {
  PiecePool pool(100, 2);
  EXPECT_EQ(pool.memory_bytes(), 0U) << "none was needed yet";
  Piece* const a = pool.take();
  Piece* const b = pool.take();
  EXPECT_EQ(pool.memory_bytes(), 200U);
  ASSERT_TRUE(a != nullptr && b != nullptr && a->data != b->data);
  EXPECT_EQ(pool.take(), nullptr);
  pool.give_back(a);
  pool.give_back(b);
  EXPECT_EQ(pool.take(), b);
  EXPECT_EQ(pool.take(), a);
  EXPECT_EQ(pool.take(), nullptr);
}

TEST(PiecePool, WhatIsLentRestsUntilRelease) {
  PiecePool pool(100, 2);
  Piece* const a = pool.take();
  pool.lend(a);
  pool.give_back(a);
  Piece* const b = pool.take();
  EXPECT_NE(b, a);
  EXPECT_EQ(pool.take(), nullptr);
  pool.release();
  EXPECT_EQ(pool.take(), a);
  // What was lent before the release does not rest after it.
  pool.lend(b);
  pool.release();
  pool.give_back(b);
  EXPECT_EQ(pool.take(), b);
}

}  // namespace
}  // namespace switchml
