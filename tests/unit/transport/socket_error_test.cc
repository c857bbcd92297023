#include "transport/socket_error.h"

#include <gtest/gtest.h>

#include <cerrno>

#include "socket/address.h"

namespace switchml {
namespace {

Endpoint peer(const std::string& text) { return resolve_address(text, "test").value(); }

TEST(SocketError, NamesThePeerAndTheReason) {
  SocketError socket_error;
  EXPECT_TRUE(socket_error.empty());
  EXPECT_EQ(socket_error.take(), "");
  socket_error.note(peer("127.0.0.1:4711"), ECONNREFUSED);
  EXPECT_FALSE(socket_error.empty());
  EXPECT_EQ(socket_error.take(), "127.0.0.1:4711: Connection refused");
  EXPECT_TRUE(socket_error.empty()) << "asking clears it";
}

TEST(SocketError, SaysWhatNoErrorNumberSays) {
  SocketError socket_error;
  socket_error.note(peer("127.0.0.1:4711"), "hung up");
  EXPECT_EQ(socket_error.take(), "127.0.0.1:4711: hung up");
  EXPECT_FALSE(socket_error.take_refusal());
}

TEST(SocketError, NamesBothSizes) {
  SocketError socket_error;
  socket_error.note_size(peer("127.0.0.1:4711"), 9000, 1472);
  EXPECT_EQ(socket_error.take(), "127.0.0.1:4711: a frame of 9000 bytes is longer than 1472 and was not sent");
}

TEST(SocketError, TellsARefusalFromAnUnreachableNetwork) {
  SocketError socket_error;
  socket_error.note(peer("127.0.0.1:4711"), ENETUNREACH);
  socket_error.note(peer("127.0.0.1:4711"), EHOSTUNREACH);
  EXPECT_FALSE(socket_error.take_refusal());
  socket_error.note(peer("127.0.0.1:4711"), ECONNREFUSED);
  EXPECT_TRUE(socket_error.take_refusal()) << "though its text is that of the first";
  EXPECT_FALSE(socket_error.take_refusal()) << "asking clears it";
}

TEST(SocketError, TheFirstStaysUntilItIsTaken) {
  SocketError socket_error;
  socket_error.note(peer("127.0.0.1:1"), ECONNREFUSED);
  socket_error.note(peer("127.0.0.1:2"), ENETUNREACH);
  socket_error.note_size(peer("127.0.0.1:3"), 2, 1);
  EXPECT_EQ(socket_error.take().find("127.0.0.1:1: "), 0U);
  socket_error.note_size(peer("127.0.0.1:3"), 2, 1);
  socket_error.note(peer("127.0.0.1:2"), ENETUNREACH);
  EXPECT_EQ(socket_error.take().find("127.0.0.1:3: "), 0U);
}

}  // namespace
}  // namespace switchml
