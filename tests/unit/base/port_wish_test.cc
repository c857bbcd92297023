#include "base/port_wish.h"

#include <gtest/gtest.h>

namespace switchml {
namespace {

TEST(PortWish, IsADeviceAPortAndAnIndex) {
  PortWish wish;
  ASSERT_TRUE(parse_port_wish("mlx5_0:2:3", &wish));
  EXPECT_EQ(wish.device, "mlx5_0");
  EXPECT_EQ(wish.port, 2);
  EXPECT_EQ(wish.gid_index, 3);
  ASSERT_TRUE(parse_port_wish("rxe0", &wish));
  EXPECT_EQ(wish.device, "rxe0");
  EXPECT_EQ(wish.port, 0);
  EXPECT_EQ(wish.gid_index, -1);
  EXPECT_TRUE(parse_port_wish("", &wish));
}

TEST(PortWish, OtherFormsAreRefusedAndChangeNothing) {
  PortWish wish;
  wish.device = "kept";
  for (const char* const text : {":1", "a:", "a:0", "a:256", "a:x", "a:1:", "a:1:-1", "a:1:256", "a:1:2:3"}) {
    EXPECT_FALSE(parse_port_wish(text, &wish)) << text;
  }
  EXPECT_EQ(wish.device, "kept");
}

}  // namespace
}  // namespace switchml
