#include "shm/message.h"

#include <gtest/gtest.h>

#include "mail_memory.h"

namespace switchml::shm {
namespace {

using testing::End;

TEST(Message, SaysWhatItIs) {
  EXPECT_EQ(describe(End(1, 3, 80).sent()), "send of 80 bytes to rank 1 with tag 3");
  EXPECT_EQ(describe(End(2, 0, 0).received()), "recv of 0 bytes from rank 2 with tag 0");
  EXPECT_EQ(describe(End(kAnySource, 7, 4).received()), "recv of 4 bytes from any rank with tag 7");
}

}  // namespace
}  // namespace switchml::shm
