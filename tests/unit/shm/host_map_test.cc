#include "shm/host_map.h"

#include <gtest/gtest.h>

namespace switchml::shm {
namespace {

TEST(HostMap, OfOneHostAreTheRanks) {
  const HostMap host_map = HostMap::on_one_host(3);
  EXPECT_EQ(host_map.hosts(), 1);
  EXPECT_EQ(host_map.pieces(), 3U);
  EXPECT_EQ(host_map.ranks_here(), (std::vector<int>{0, 1, 2}));
  for (int rank = 0; rank < 3; ++rank) {
    EXPECT_EQ(host_map.piece_of(rank), static_cast<size_t>(rank));
    EXPECT_EQ(host_map.local_index(rank), rank);
    EXPECT_TRUE(host_map.is_here(rank));
  }
}

TEST(HostMap, PiecesLieByHostAndAHostWithFewRanksLeavesSomeOut) {  // [MOVED-8]
  const HostMap host_map({{0, 2, 4}, {1}, {3, 5}}, 2);
  EXPECT_EQ(host_map.hosts(), 3);
  EXPECT_EQ(host_map.host(), 2);
  EXPECT_EQ(host_map.pieces_of_a_host(), 3U);
  EXPECT_EQ(host_map.pieces(), 9U);
  EXPECT_EQ(host_map.ranks_here(), (std::vector<int>{3, 5}));
  const std::vector<size_t> pieces = {0, 3, 1, 6, 2, 7};
  const std::vector<int> hosts = {0, 1, 0, 2, 0, 2}, among = {0, 0, 1, 0, 2, 1};
  for (int rank = 0; rank < 6; ++rank) {
    const auto r = static_cast<size_t>(rank);
    EXPECT_EQ(host_map.piece_of(rank), pieces[r]);
    EXPECT_EQ(host_map.host_of(rank), hosts[r]);
    EXPECT_EQ(host_map.local_index(rank), among[r]);
    EXPECT_EQ(host_map.is_here(rank), hosts[r] == 2);
  }
}

}  // namespace
}  // namespace switchml::shm
