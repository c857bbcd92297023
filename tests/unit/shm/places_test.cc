#include "shm/places.h"

#include <gtest/gtest.h>

namespace switchml::shm {
namespace {

TEST(Places, OfOneHostAreTheRanks) {
  const Places places = Places::on_one_host(3);
  EXPECT_EQ(places.hosts(), 1);
  EXPECT_EQ(places.pieces(), 3U);
  EXPECT_EQ(places.ranks_here(), (std::vector<int>{0, 1, 2}));
  for (int rank = 0; rank < 3; ++rank) {
    EXPECT_EQ(places.piece_of(rank), static_cast<size_t>(rank));
    EXPECT_EQ(places.place_of(rank), rank);
    EXPECT_TRUE(places.is_here(rank));
  }
}

TEST(Places, PiecesLieByHostAndAHostWithFewRanksLeavesSomeOut) {  // [MOVED-8]
  const Places places({{0, 2, 4}, {1}, {3, 5}}, 2);
  EXPECT_EQ(places.hosts(), 3);
  EXPECT_EQ(places.host(), 2);
  EXPECT_EQ(places.pieces_of_a_host(), 3U);
  EXPECT_EQ(places.pieces(), 9U);
  EXPECT_EQ(places.ranks_here(), (std::vector<int>{3, 5}));
  const std::vector<size_t> pieces = {0, 3, 1, 6, 2, 7};
  const std::vector<int> hosts = {0, 1, 0, 2, 0, 2}, among = {0, 0, 1, 0, 2, 1};
  for (int rank = 0; rank < 6; ++rank) {
    const auto r = static_cast<size_t>(rank);
    EXPECT_EQ(places.piece_of(rank), pieces[r]);
    EXPECT_EQ(places.host_of(rank), hosts[r]);
    EXPECT_EQ(places.place_of(rank), among[r]);
    EXPECT_EQ(places.is_here(rank), hosts[r] == 2);
  }
}

}  // namespace
}  // namespace switchml::shm
