#include "messages/message_sender.h"

#include <gtest/gtest.h>

#include <vector>

#include "shm/mail_memory.h"
#include "shm/mail_transport.h"

namespace switchml::shm {
namespace {

using testing::End;
using testing::MailMemory;

constexpr size_t kShortMessage = 16 * 1024;

/// What rank 0 has to write for rank 1, who reads it.
struct OneWay {
  explicit OneWay(int ranks = 2)
      : memory(ranks), transport(memory.mail(), 0), out(transport, 1), reader(memory.mail().ring(0, 1)) {}
  /// True if there may be more.
  bool write() {
    const auto more = out.write(&done);
    EXPECT_TRUE(more.ok());
    return more.ok() && more.value();
  }
  void write_all() {
    while (write()) {
    }
  }
  /// The kinds of all records that have been written.
  std::vector<uint32_t> read() {
    std::vector<uint32_t> kinds;
    reader.look();
    const uint8_t* behind = nullptr;
    while (const MessageRecord* record = reader.next(&behind)) {
      last = *record;
      kinds.push_back(record->kind);
      reader.pop();
    }
    return kinds;
  }
  MailMemory memory;
  MailTransport transport;
  MessageSender out;
  Ring reader;
  std::vector<Message> done;
  MessageRecord last;
};

using Kinds = std::vector<uint32_t>;

TEST(MessageSender, SendsShortMessagesWhole) {
  OneWay pair;
  End first(1, 3, 10);
  End second(1, 4, kShortMessage);
  pair.out.send(first.sent());
  pair.out.send(second.sent());
  pair.write_all();
  EXPECT_EQ(pair.done.size(), 2U);
  EXPECT_EQ(pair.read(), (Kinds{MessageRecord::kWhole, MessageRecord::kWhole}));
  EXPECT_EQ(pair.last.tag, 4);
  EXPECT_EQ(pair.last.id, 2U);
  EXPECT_EQ(pair.last.bytes, kShortMessage);
  EXPECT_EQ(pair.last.ticket, 2U);
  EXPECT_TRUE(pair.memory.mail().take_signals(1)[0]);
}

TEST(MessageSender, OffersLongOnesUntilTheyAreWanted) {
  OneWay pair;
  End end(1, 0, kShortMessage + 1);
  pair.out.send(end.sent());
  pair.write_all();
  EXPECT_EQ(pair.read(), Kinds{MessageRecord::kOffer});
  EXPECT_TRUE(pair.done.empty());
  EXPECT_FALSE(pair.out.answered(1, true));
  pair.write_all();
  EXPECT_EQ(pair.read(), Kinds{MessageRecord::kPiece});
  EXPECT_EQ(pair.last.bytes, kShortMessage + 1);
  EXPECT_EQ(pair.done.size(), 1U);
}

TEST(MessageSender, EndsWhatIsNotWantedOrHasNoBytes) {
  OneWay pair;
  End end(1, 0, kShortMessage + 1);
  pair.out.send(end.sent());
  pair.write_all();
  EXPECT_TRUE(pair.out.answered(1, false));
  EXPECT_TRUE(pair.out.give_up().empty());
}

// Whoever asks for nothing has at most so much lying there.
TEST(MessageSender, GivesNoMoreThanItsAllowance) {
  for (const size_t bytes : {size_t{0}, size_t{1}, size_t{4096}, kShortMessage}) {
    OneWay pair;
    End end(1, 0, bytes);
    size_t wholes = 0;
    for (;; ++wholes) {
      pair.out.send(end.sent());
      pair.write_all();
      if (pair.read() != Kinds{MessageRecord::kWhole}) break;
    }
    EXPECT_EQ(pair.last.kind, MessageRecord::kOffer);
    EXPECT_EQ(wholes, 4 * MessageSender::charge(kShortMessage) / MessageSender::charge(bytes)) << bytes;
    pair.reader.take(MessageSender::charge(bytes));
    pair.out.send(end.sent());
    pair.write_all();
    EXPECT_EQ(pair.read(), Kinds{MessageRecord::kWhole}) << "one was taken";
  }
}

TEST(MessageSender, WritesAnswersFirstAndBytesLast) {
  OneWay pair;
  End large(1, 0, 100000);
  End small(1, 0, 1);
  pair.out.send(large.sent());
  pair.write_all();
  pair.read();
  pair.out.answered(1, true);
  pair.out.send(small.sent());
  pair.out.answer(9, true);
  pair.out.answer(10, false);
  pair.write_all();
  EXPECT_EQ(pair.read(), (Kinds{MessageRecord::kWanted, MessageRecord::kDropped, MessageRecord::kWhole,
                                MessageRecord::kPiece, MessageRecord::kPiece}));
}

TEST(MessageSender, WaitsForRoomAndGoesOn) {
  OneWay pair;
  End large(1, 0, 3 * Mail::kMaxCapacity);
  pair.out.send(large.sent());
  pair.write_all();
  pair.read();
  pair.out.answered(1, true);
  size_t rounds = 0;
  uint64_t bytes = 0;
  for (; pair.done.empty(); ++rounds) {
    pair.write_all();
    ASSERT_FALSE(pair.write()) << "there is no room";
    pair.reader.look();
    const uint8_t* behind = nullptr;
    bool told = false;
    while (const MessageRecord* record = pair.reader.next(&behind)) {
      bytes += record->bytes;
      told = pair.reader.pop() || told;
    }
    ASSERT_EQ(told, pair.done.empty()) << "or nobody would write again";
  }
  EXPECT_EQ(bytes, 3 * Mail::kMaxCapacity);
  EXPECT_GT(rounds, 2U);
}

TEST(MessageSender, GivesUpAll) {
  OneWay pair;
  End large(1, 0, 3 * Mail::kMaxCapacity);
  for (int i = 0; i < 3; ++i) pair.out.send(large.sent());
  const Message* offered = pair.out.find([](const Message&) { return true; });
  EXPECT_EQ(pair.out.progress_of(*offered), "rank 1 has not read what came before it");
  pair.write_all();
  offered = pair.out.find([](const Message&) { return true; });
  EXPECT_EQ(pair.out.progress_of(*offered), "rank 1 has not asked for it");
  pair.out.answered(1, true);
  pair.write_all();
  const Message* leaving = pair.out.find([](const Message& message) { return message.moved > 0; });
  EXPECT_EQ(pair.out.progress_of(*leaving),
            "rank 1 has asked for it, and has read no more than " + std::to_string(leaving->moved) + " bytes");
  pair.out.send(large.sent());
  EXPECT_EQ(pair.out.give_up().size(), 4U);
  EXPECT_TRUE(pair.out.give_up().empty());
}

TEST(MessageSender, GoesThroughTheSmallestRings) {
  OneWay pair(kMaxWorkers);
  End end(1, 0, 1000, 7);
  pair.out.send(end.sent());
  pair.write_all();
  EXPECT_EQ(pair.read(), Kinds{MessageRecord::kOffer});
  pair.out.answered(1, true);
  std::vector<uint8_t> got;
  while (got.size() < end.data.size()) {
    pair.write_all();
    pair.reader.look();
    const uint8_t* behind = nullptr;
    while (const MessageRecord* record = pair.reader.next(&behind)) {
      got.insert(got.end(), behind, behind + record->bytes);
      pair.reader.pop();
    }
  }
  EXPECT_EQ(got, end.data);
}

}  // namespace
}  // namespace switchml::shm
