#include "c10d/message_work.h"

#include <ATen/record_function.h>
#include <gtest/gtest.h>

#include <algorithm>
#include <memory>
#include <stdexcept>
#include <string>
#include <vector>

#include "c10d/flight_log.h"
#include "fixture.h"

namespace switchml {
namespace {

std::shared_ptr<GroupCore> alone() { return std::make_shared<GroupCore>(GroupInfo{0, 1, "test"}); }

/// What Gloo would return, without a Gloo.
class Message final : public c10d::Work {
 public:
  explicit Message(std::exception_ptr error = nullptr) : error_(std::move(error)) {}
  bool wait(std::chrono::milliseconds timeout) override {
    waited = timeout;
    if (error_) std::rethrow_exception(error_);
    return arrives;
  }
  int sourceRank() const override { return 5; }
  void abort() override { aborted = true; }

  std::chrono::milliseconds waited{-1};
  bool arrives = true;
  bool aborted = false;

 private:
  const std::exception_ptr error_;
};

c10::intrusive_ptr<c10d::Work> start(const c10::intrusive_ptr<Message>& message) {
  return MessageWork::start(alone(), Call::kSend, c10d::OpType::SEND, {counting(2)}, 1, 0, [&] { return message; });
}

TEST(MessageWork, IsTheMessageOfTheGloo) {
  const auto message = c10::make_intrusive<Message>();
  const auto work = start(message);
  EXPECT_FALSE(work->isCompleted());
  EXPECT_TRUE(work->wait(milliseconds(77)));
  EXPECT_EQ(message->waited, milliseconds(77));
  EXPECT_TRUE(work->isSuccess());
  EXPECT_EQ(work->sourceRank(), 5);
  work->abort();
  EXPECT_TRUE(message->aborted);
}

TEST(MessageWork, ItsEntryGetsTheSourceWhenItIsKnown) {
  const auto core = std::make_shared<GroupCore>(GroupInfo{0, 6, "test"});
  const auto work = MessageWork::start(core, Call::kRecvAnySource, c10d::OpType::RECVANYSOURCE, {counting(2)}, -1, 3,
                                       [] { return c10::make_intrusive<Message>(); });
  EXPECT_FALSE(FlightLog::of_process().entries().back().stream);
  work->wait();
  const FlightEntry entry = FlightLog::of_process().entries().back();
  ASSERT_TRUE(entry.stream);
  EXPECT_EQ(entry.stream->source, 5);
  EXPECT_EQ(entry.stream->tag, 3);
}

TEST(MessageWork, ItsHookHearsOnceThatItIsOver) {
  const auto core = std::make_shared<GroupCore>(GroupInfo{0, 2, "test"});
  std::vector<uint64_t> over;
  core->completion_hooks().add(1, [&](uint64_t key, std::optional<float>) { over.push_back(key); });
  const auto message = c10::make_intrusive<Message>();
  const auto begun = [&] {
    return MessageWork::start(core, Call::kSend, c10d::OpType::SEND, {counting(2)}, 1, 0, [&] { return message; });
  };
  const auto work = begun();
  EXPECT_TRUE(over.empty());
  work->wait();
  work->wait();
  EXPECT_EQ(over, (std::vector<uint64_t>{compat::completion_key(*work)}));
  message->arrives = false;
  begun()->wait();
  EXPECT_EQ(over.size(), 1U);
}

TEST(MessageWork, SaysThatAMessageDidNotArrive) {
  const auto message = c10::make_intrusive<Message>();
  message->arrives = false;
  EXPECT_FALSE(start(message)->wait());
}

TEST(MessageWork, EndsInTheErrorOfTheGloo) {
  const auto core = alone();
  const auto work = MessageWork::start(core, Call::kSend, c10d::OpType::SEND, {counting(2)}, 1, 0, [] {
    return c10::make_intrusive<Message>(std::make_exception_ptr(std::runtime_error("cut")));
  });
  EXPECT_TRUE(
      contains(thrown_by([&] { work->wait(); }), "switchml send on rank 0 of 1 (group test): the Gloo group: cut"));
  EXPECT_FALSE(work->isSuccess());
}

TEST(MessageWork, EndsInTheErrorOfTheGroupWhereThatHasFailed) {
  const auto core = std::make_shared<GroupCore>(GroupInfo{0, 2, "test"});
  const auto work = MessageWork::start(core, Call::kRecv, c10d::OpType::RECV, {counting(2)}, 1, 0, [] {
    return c10::make_intrusive<Message>(std::make_exception_ptr(std::runtime_error("cut")));
  });
  core->call_failed(Status(Code::kUnavailable, "rank 1 is gone"));
  EXPECT_TRUE(contains(thrown_by([&] { work->wait(); }), "rank 1 is gone"));
}

TEST(MessageWork, PassesOnWhatIsThrownAtTheCall) {
  const auto fails = []() -> c10::intrusive_ptr<c10d::Work> { throw std::runtime_error("no such rank"); };
  EXPECT_EQ(
      thrown_by([&] { MessageWork::start(alone(), Call::kRecv, c10d::OpType::RECV, {counting(2)}, 1, 0, fails); }),
      "no such rank");
}

std::vector<std::string> seen;

std::unique_ptr<at::ObserverContext> note(const at::RecordFunction& function) {
  seen.emplace_back(function.name());
  return nullptr;
}

TEST(MessageWork, HasItsOwnNameInAProfile) {
  const auto handle = at::addThreadLocalCallback(at::RecordFunctionCallback(note));
  seen.clear();
  const auto work = MessageWork::start(alone(), Call::kRecv, c10d::OpType::RECV, {counting(2)}, 1, 0, [] {
    RECORD_USER_SCOPE("gloo:recv");
    return c10::make_intrusive<Message>();
  });
  at::removeCallback(handle);
  // Beside it may stand what makes the tensors.
  EXPECT_EQ(std::count(seen.begin(), seen.end(), "switchml:recv"), 1);
  EXPECT_EQ(std::count(seen.begin(), seen.end(), "gloo:recv"), 0);
  work->wait();
}

}  // namespace
}  // namespace switchml
