#include "messages/message_matcher.h"

#include <gtest/gtest.h>

#include <string>
#include <vector>

#include "shm/mail_memory.h"

namespace switchml::shm {
namespace {

using testing::End;

constexpr uint64_t kBehindAll = 100;  // a look behind all that come

Message wanted_from(int source, int tag, size_t number) { return End(source, tag, number).received(); }
MessageArrival arrival_of(int source, int tag, uint64_t ticket, MessageRecord::Kind kind = MessageRecord::kOffer,
                          uint64_t look = 1) {
  return {source, {kind, tag, ticket, 0, ticket}, look};
}
/// "receive 1 takes 5": numbers of receives are their sizes, of messages their tickets.
std::vector<std::pair<size_t, uint64_t>> match_numbers(const std::vector<MessageMatcher::Match>& matches) {
  std::vector<std::pair<size_t, uint64_t>> result;
  for (const auto& [message, arrival] : matches) result.emplace_back(message.bytes, arrival.record.ticket);
  return result;
}
using MatchNumbers = std::vector<std::pair<size_t, uint64_t>>;

TEST(MessageMatcher, GivesAReceiveFromAnyRankTheEarliest) {
  MessageMatcher matching;
  for (const auto& [source, ticket] : {std::pair{1, 5}, {2, 3}, {3, 4}}) {
    matching.arrive(arrival_of(source, 0, static_cast<uint64_t>(ticket)));
  }
  for (const size_t number : {1, 2, 3}) matching.want(wanted_from(kAnySource, 0, number));
  EXPECT_EQ(match_numbers(matching.fit(kBehindAll)), (MatchNumbers{{1, 3}, {2, 4}, {3, 5}}));
}

TEST(MessageMatcher, WaitsUntilEarlierOnesMustHaveCome) {
  MessageMatcher matching;
  matching.want(wanted_from(kAnySource, 0, 1));
  matching.want(wanted_from(2, 0, 2));
  matching.arrive(arrival_of(2, 0, 5, MessageRecord::kOffer, 1));
  EXPECT_TRUE(matching.fit(1).empty()) << "not before the next look, and it is not the second receive's";
  matching.arrive(arrival_of(1, 0, 4, MessageRecord::kOffer, 2));
  EXPECT_EQ(match_numbers(matching.fit(3)), (MatchNumbers{{1, 4}, {2, 5}}));
}

TEST(MessageMatcher, ServesReceivesInTheirOrder) {
  MessageMatcher matching;
  matching.want(wanted_from(kAnySource, 0, 1));
  matching.want(wanted_from(1, 0, 2));
  EXPECT_FALSE(matching.take_for(1, 0)) << "it is the first one's, which looks at all ranks";
  matching.arrive(arrival_of(1, 0, 1));
  matching.arrive(arrival_of(1, 0, 2));
  EXPECT_EQ(match_numbers(matching.fit(kBehindAll)), (MatchNumbers{{1, 1}, {2, 2}}));
}

TEST(MessageMatcher, FindsTheReceiveOfWhatComes) {
  MessageMatcher matching;
  matching.want(wanted_from(2, 0, 1));
  matching.want(wanted_from(1, 0, 2));
  matching.want(wanted_from(1, 0, 3));
  EXPECT_FALSE(matching.take_for(3, 0));
  EXPECT_FALSE(matching.take_for(1, 1));
  EXPECT_EQ(matching.take_for(1, 0)->bytes, 2U);
  matching.arrive(arrival_of(1, 0, 1));
  EXPECT_FALSE(matching.take_for(1, 0)) << "another one came first";
  EXPECT_EQ(match_numbers(matching.fit(kBehindAll)), (MatchNumbers{{3, 1}}));
}

TEST(MessageMatcher, GivesUpWhatARankOwes) {
  MessageMatcher matching;
  matching.want(wanted_from(1, 0, 1));
  matching.want(wanted_from(2, 0, 2));
  matching.want(wanted_from(kAnySource, 1, 3));
  matching.want(wanted_from(1, 2, 4));
  EXPECT_EQ(matching.give_up(1).size(), 2U);
  EXPECT_TRUE(matching.give_up(1).empty());
  matching.arrive(arrival_of(1, 1, 1, MessageRecord::kOffer));
  matching.arrive(arrival_of(1, 1, 2, MessageRecord::kWhole));
  matching.give_up(1);
  EXPECT_EQ(match_numbers(matching.fit(kBehindAll)), (MatchNumbers{{3, 2}}))
      << "an offer of a rank that is gone is none";
  EXPECT_EQ(matching.give_up_all().size(), 1U);
}

TEST(MessageMatcher, ShowsItsReceives) {
  MessageMatcher matching;
  matching.want(wanted_from(1, 0, 1));
  matching.want(wanted_from(2, 5, 2));
  size_t seen = 0;
  EXPECT_EQ(matching.find([&](const Message&) { return ++seen == 0; }), nullptr);
  EXPECT_EQ(seen, 2U);
  EXPECT_EQ(matching.find([](const Message& message) { return message.tag == 5; })->bytes, 2U);
}

}  // namespace
}  // namespace switchml::shm
