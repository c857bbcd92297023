#include "transport/complaint.h"

#include <gtest/gtest.h>

#include <cerrno>

#include "transport/address.h"

namespace switchml {
namespace {

Endpoint peer(const std::string& text) { return resolve_address(text, "test").value(); }

TEST(Complaint, NamesThePeerAndTheReason) {
  Complaint complaint;
  EXPECT_TRUE(complaint.empty());
  EXPECT_EQ(complaint.take(), "");
  complaint.note(peer("127.0.0.1:4711"), ECONNREFUSED);
  EXPECT_FALSE(complaint.empty());
  EXPECT_EQ(complaint.take(), "127.0.0.1:4711: Connection refused");
  EXPECT_TRUE(complaint.empty()) << "asking clears it";
}

TEST(Complaint, SaysWhatNoErrorNumberSays) {
  Complaint complaint;
  complaint.note(peer("127.0.0.1:4711"), "hung up");
  EXPECT_EQ(complaint.take(), "127.0.0.1:4711: hung up");
  EXPECT_FALSE(complaint.take_refusal());
}

TEST(Complaint, NamesBothSizes) {
  Complaint complaint;
  complaint.note_size(peer("127.0.0.1:4711"), 9000, 1472);
  EXPECT_EQ(complaint.take(), "127.0.0.1:4711: a frame of 9000 bytes is longer than 1472 and was not sent");
}

TEST(Complaint, TellsARefusalFromAnUnreachableNetwork) {
  Complaint complaint;
  complaint.note(peer("127.0.0.1:4711"), ENETUNREACH);
  complaint.note(peer("127.0.0.1:4711"), EHOSTUNREACH);
  EXPECT_FALSE(complaint.take_refusal());
  complaint.note(peer("127.0.0.1:4711"), ECONNREFUSED);
  EXPECT_TRUE(complaint.take_refusal()) << "though its text is that of the first";
  EXPECT_FALSE(complaint.take_refusal()) << "asking clears it";
}

TEST(Complaint, TheFirstStaysUntilItIsTaken) {
  Complaint complaint;
  complaint.note(peer("127.0.0.1:1"), ECONNREFUSED);
  complaint.note(peer("127.0.0.1:2"), ENETUNREACH);
  complaint.note_size(peer("127.0.0.1:3"), 2, 1);
  EXPECT_EQ(complaint.take().find("127.0.0.1:1: "), 0U);
  complaint.note_size(peer("127.0.0.1:3"), 2, 1);
  complaint.note(peer("127.0.0.1:2"), ENETUNREACH);
  EXPECT_EQ(complaint.take().find("127.0.0.1:3: "), 0U);
}

}  // namespace
}  // namespace switchml
