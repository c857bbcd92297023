#include "shm/mail.h"

#include <gtest/gtest.h>

#include <string>
#include <thread>

#include "integers.h"
#include "mail_memory.h"
#include "shm/arena.h"

namespace switchml::shm {
namespace {

using testing::kLong;
using testing::MailMemory;
using Sleeper = Mail::Sleeper;

TEST(Mail, IsBounded) {
  for (int ranks = 1; ranks <= kMaxHostRanks; ++ranks) {
    EXPECT_LE(Mail::bytes(ranks), Mail::kMaxRingsBytes + Mail::boxes_bytes(ranks)) << ranks;
    EXPECT_GE(Mail::capacity(ranks), 512U) << ranks;
  }
  EXPECT_EQ(Mail::capacity(2), Mail::kMaxCapacity);
}

TEST(Mail, LiesBetweenTheBoardAndTheArenas) {
  const BoardShape shape = shape_for(4);
  EXPECT_EQ(segment_bytes(shape, 0), mail_begin(shape) + mail_bytes(shape));
  EXPECT_GE(mail_begin(shape), shape.bytes());
  EXPECT_EQ(mail_bytes(shape_on_host(2, 2, 2)), 0U) << "hosts with a switch have none";
}

TEST(Mail, SaysWhoHasSignalled) {
  const MailMemory memory(kMaxHostRanks);
  const Mail& mail = memory.mail();
  EXPECT_FALSE(mail.any_signal(0));
  for (const int from : {1, 63, 64, 127}) mail.signal(from, 0);
  mail.signal(64, 0);
  EXPECT_TRUE(mail.any_signal(0));
  EXPECT_FALSE(mail.any_signal(1));
  const RankSet signals = mail.take_signals(0);
  for (size_t from = 0; from < kMaxHostRanks; ++from) {
    EXPECT_EQ(signals[from], from == 1 || from == 63 || from == 64 || from == 127) << from;
  }
  EXPECT_FALSE(mail.any_signal(0));
  EXPECT_FALSE(mail.take_signals(0).any());
}

TEST(Mail, NumbersMessagesByReceiver) {
  const MailMemory memory(2);
  EXPECT_EQ(memory.mail().ticket(0), 1U);
  EXPECT_EQ(memory.mail().ticket(0), 2U);
  EXPECT_EQ(memory.mail().ticket(1), 1U);
}

TEST(Mail, RingsForWhoeverSleeps) {
  const MailMemory memory(2);
  const Mail& mail = memory.mail();
  for (const Sleeper who : {Sleeper::kThread, Sleeper::kCaller}) {
    const Sleeper other = who == Sleeper::kThread ? Sleeper::kCaller : Sleeper::kThread;
    const uint32_t heard = mail.doorbell(0, who);
    mail.signal(1, 0);
    EXPECT_EQ(mail.doorbell(0, who), heard) << "nobody sleeps";
    mail.fall_asleep(0, who);
    const uint32_t others = mail.doorbell(0, other);
    mail.signal(1, 0);
    mail.signal(1, 0);
    EXPECT_EQ(mail.doorbell(0, who), heard + 1) << "once for each sleep";
    EXPECT_EQ(mail.doorbell(0, other), others);
    mail.wait_for_bell(0, who, heard, kLong);  // at once
    mail.fall_asleep(0, who);
    mail.awake(0);
    mail.signal(1, 0);
    EXPECT_EQ(mail.doorbell(0, who), heard + 1);
  }
}

TEST(Mail, EndsASleep) {
  const MailMemory memory(2);
  const Mail& mail = memory.mail();
  std::thread sleeper([&] {
    while (!mail.any_signal(0)) {
      const uint32_t heard = mail.doorbell(0, Sleeper::kCaller);
      mail.fall_asleep(0, Sleeper::kCaller);
      if (!mail.any_signal(0)) mail.wait_for_bell(0, Sleeper::kCaller, heard, kLong);
    }
  });
  mail.signal(1, 0);
  sleeper.join();
}

TEST(Mail, SaysWhoIsGoneAndWhy) {
  const MailMemory memory(3);
  const Mail& mail = memory.mail();
  EXPECT_EQ(mail.state(1), Mail::State::kHere);
  mail.go(1, Mail::State::kGaveUp, std::string(1000, 'x'));
  mail.go(1, Mail::State::kLeft, "later");
  EXPECT_EQ(mail.state(1), Mail::State::kGaveUp);
  EXPECT_EQ(mail.reason(1), std::string(Mail::kMaxReason, 'x'));
  EXPECT_TRUE(mail.take_signals(0)[1]);
  EXPECT_TRUE(mail.take_signals(2)[1]);
  EXPECT_FALSE(mail.any_signal(1));
}

}  // namespace
}  // namespace switchml::shm
