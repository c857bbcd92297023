// What a card does when it fails, and what comes of it.
#include <gmock/gmock.h>

#include <cerrno>
#include <string>
#include <vector>

#include "base/log.h"
#include "two_cards.h"

namespace switchml {
namespace {

using ::testing::AllOf;
using ::testing::HasSubstr;

// A shared receive that a message has begun to fill is the card's until the pair is flushed. A healthy peer needs it.
TEST_F(Rdma, WhatAMessageThatIsCutOffHasTakenComesBack) {
  for (const bool slow : {false, true}) {
    open({.half = 1, .slow_flush = slow});
    for (uint32_t round = 0; round < 2 * kReceives; ++round) {
      introduce(*a_, *b_);
      send_all(*a_, {pattern(round, 8000)}, b_->local());
      a_->queue_pairs()->disconnect(b_->local());
      b_->queue_pairs()->disconnect(a_->local());
      RxFrame frame;
      for (int i = 0; i < 30; ++i) EXPECT_EQ(b_->receive(&frame, 1), 0U) << "half a message is none";
    }
    EXPECT_EQ(library_->count().lost_receives, 0U);
    library_->behave({});
    introduce(*a_, *b_);
    for (uint32_t i = 0; i < kReceives; ++i) send_all(*a_, {pattern(i, 100)}, b_->local());
    std::vector<RxFrame> frames(kReceives);
    EXPECT_EQ(b_->receive(frames.data(), frames.size()), kReceives) << "each receive is posted";
    b_->release();
    a_.reset();
    b_.reset();
    library_.reset();
  }
}

// Some cards, and their emulations, do not tell of the last receive.
TEST_F(Rdma, APairThatIsNeverFlushedEndsAllTheSame) {
  open({.never_flush = true});
  const uint64_t before = library_->count().objects;
  introduce(*a_, *b_);
  a_->queue_pairs()->disconnect(b_->local());
  const Time end = monotonic_now() + seconds(60);
  EXPECT_GT(library_->count().objects, before + 2) << "it is waited for";
  b_->queue_pairs()->disconnect(a_->local());
  while (library_->count().objects > before && monotonic_now() < end) {
    for (Transport* each : {a_.get(), b_.get()}) each->wait(milliseconds(100));
  }
  EXPECT_EQ(library_->count().objects, before);
}

// Of each function that opening calls, whichever is the first to fail.
TEST_F(Rdma, WhatCannotBeOpenedSaysWhichFunctionRefused) {
  const fake_verbs::Library library;
  RdmaOptions options;
  options.library = SWITCHML_FAKE_VERBS;
  options.local = literal_address("127.0.0.1", 1).value();
  for (const char* const function : {"ibv_alloc_pd", "ibv_create_comp_channel", "ibv_create_cq", "ibv_create_srq",
                                     "ibv_reg_mr", "ibv_post_srq_recv"}) {
    library.fail_once(function, EPERM);
    const auto made = make_rdma_transport(options);
    ASSERT_FALSE(made.ok()) << function;
    EXPECT_EQ(made.status().code(), Code::kUnavailable);
    EXPECT_THAT(made.status().message(), AllOf(HasSubstr(function), HasSubstr("Operation not permitted")));
  }
}

TEST_F(Rdma, APairThatCannotBeMadeOrConnectedSaysWhy) {
  open();
  for (const char* const function : {"ibv_create_cq", "ibv_create_qp", "ibv_modify_qp"}) {
    library_->fail_once(function, EPERM);
    EXPECT_THAT(a_->queue_pairs()->queue_pair_for(b_->local()).status().message(), HasSubstr(function));
  }
  const auto of_b = b_->queue_pairs()->queue_pair_for(a_->local()).value();
  for (const int after : {1, 2}) {  // to INIT, to RTR, to RTS
    const Endpoint other = literal_address("127.0.0.1", static_cast<uint16_t>(100 + after)).value();
    library_->fail_once("ibv_modify_qp", EPERM, after);
    EXPECT_THAT(a_->queue_pairs()->connect(other, of_b).message(), HasSubstr(after == 1 ? "to RTR" : "to RTS"));
    EXPECT_FALSE(a_->queue_pairs()->is_connected(other));
  }
}

TEST_F(Rdma, ErrorsWhileItRunsAreTold) {
  open();
  introduce(*a_, *b_);
  library_->fail_once("ibv_post_send", EPERM);
  EXPECT_EQ(send_all(*a_, {pattern(1, 100)}, b_->local()), 1U);
  EXPECT_THAT(a_->take_error(), HasSubstr("ibv_post_send: Operation not permitted"));
  RxFrame frame;
  library_->fail_once("ibv_poll_cq", EPERM);
  EXPECT_EQ(b_->receive(&frame, 1), 0U);
  EXPECT_THAT(b_->take_error(), HasSubstr("ibv_poll_cq failed"));
  library_->fail_once("ibv_req_notify_cq", EPERM);
  b_->wait(nanoseconds(0));
  EXPECT_THAT(b_->take_error(), HasSubstr("ibv_req_notify_cq: Operation not permitted"));
}

/// What two that talk, part and end hear of failures. Whatever fails, it ends.
std::string heard_of_failures() {
  RdmaOptions options;
  options.library = SWITCHML_FAKE_VERBS;
  options.max_frame_bytes = 8256;
  options.receive_frames = 8;
  std::string heard;
  const auto hear = [&heard](const Status& status) { heard += status.ok() ? "" : status.message() + "\n"; };
  std::unique_ptr<Transport> ends[2];
  for (uint16_t i = 0; i < 2; ++i) {
    options.local = literal_address("127.0.0.1", static_cast<uint16_t>(1 + i)).value();
    auto made = make_rdma_transport(options);
    hear(made.status());
    if (!made.ok()) return heard;
    ends[i] = std::move(made.value());
  }
  for (int round = 0; round < 2; ++round) {
    for (const int i : {0, 1}) {
      const auto told = ends[i]->queue_pairs()->queue_pair_for(ends[1 - i]->local());
      hear(told.ok() ? ends[1 - i]->queue_pairs()->connect(ends[i]->local(), told.value()) : told.status());
    }
    for (const auto& end : ends) end->wait(nanoseconds(0));
    for (const int i : {0, 1, 0, 1}) {
      send_all(*ends[i], {pattern(1, 100), pattern(2, 8000)}, ends[1 - i]->local());
      ends[1 - i]->wait(nanoseconds(0));
      RxFrame frames[4];
      ends[1 - i]->receive(frames, 4);
      ends[1 - i]->release();
      const std::string error = ends[i]->take_error() + ends[1 - i]->take_error();
      if (!error.empty()) heard += error + "\n";
    }
    ends[round]->queue_pairs()->disconnect(ends[1 - round]->local());
    heard += ends[round]->take_error();
  }
  return heard;
}

// The header alone has a checksum: what is copied over another frame would be taken for it.
TEST_F(Rdma, ABufferIsFreeOnlyWhenTheCardHasFlushedIt) {
  RdmaOptions single;
  single.send_frames = 1;
  open({.late = 1, .slow_flush = true}, single);
  const auto c = make(single, 3);
  introduce(*a_, *b_);
  introduce(*a_, *c);
  send_all(*a_, {pattern(1, 4000)}, b_->local());
  library_->fail_once("ibv_post_send", EIO);
  send_all(*a_, {pattern(2, 20)}, b_->local());
  EXPECT_FALSE(a_->queue_pairs()->is_connected(b_->local()));
  send_all(*a_, {pattern(3, 4000)}, c->local());
  std::vector<Bytes> of_b, of_c;
  const Time end = monotonic_now() + seconds(60);
  while ((of_b.empty() || of_c.empty()) && monotonic_now() < end) {
    a_->wait(milliseconds(1));
    for (auto& [side, got] : {std::pair(b_.get(), &of_b), std::pair(c.get(), &of_c)}) {
      RxFrame frame;
      if (side->receive(&frame, 1) == 1) got->emplace_back(frame.data, frame.data + frame.size);
      side->release();
    }
  }
  EXPECT_EQ(of_b, std::vector<Bytes>{pattern(1, 4000)});
  EXPECT_EQ(of_c, std::vector<Bytes>{pattern(3, 4000)});
}

TEST_F(Rdma, WhatTheCardSaysOfAPairBreaksIt) {
  for (const auto type : {IBV_EVENT_QP_FATAL, IBV_EVENT_QP_REQ_ERR, IBV_EVENT_QP_ACCESS_ERR}) {
    open();
    introduce(*a_, *b_);
    library_->tell(type);
    a_->wait(seconds(60));
    EXPECT_FALSE(a_->queue_pairs()->is_connected(b_->local())) << type;
    b_->wait(seconds(60));
    introduce(*a_, *b_);
    send_all(*a_, {pattern(1, 100)}, b_->local());
    EXPECT_EQ(collect(*b_, 1).size(), 1U);
    a_.reset();
    b_.reset();
  }
}

// What it tells by stays readable for ever: it must keep no thread from sleeping.
TEST_F(Rdma, ACardThatIsGoneIsToldOfAndNotWaitedFor) {
  for (const auto type : {IBV_EVENT_DEVICE_FATAL, IBV_EVENT_CQ_ERR, IBV_EVENT_SRQ_ERR}) {
    open();
    introduce(*a_, *b_);
    send_all(*a_, {pattern(1, 100)}, b_->local());
    library_->behave({.gone = true});
    library_->tell(type);
    EXPECT_THAT(a_->take_error(), HasSubstr("card fake0 has failed"));
    EXPECT_FALSE(a_->queue_pairs()->is_connected(b_->local()));
    EXPECT_EQ(send_all(*a_, {pattern(2, 8000)}, b_->local()), 1U) << "lost on its way";
    EXPECT_THAT(a_->queue_pairs()->queue_pair_for(b_->local()).status().message(), HasSubstr("card fake0 has failed"));
    b_->wait(seconds(60));
    EXPECT_THAT(b_->take_error(), HasSubstr("card fake0 has failed"));
    const Time begin = monotonic_now();
    b_->wait(milliseconds(20));
    EXPECT_GE(monotonic_now() - begin, milliseconds(20)) << "nothing wakes it";
    b_->queue_pairs()->disconnect(a_->local());
    a_.reset();
    b_.reset();
    library_->behave({});
  }
}

TEST_F(Rdma, WhatACardSaysOfItsPortIsNoFailure) {
  open();
  introduce(*a_, *b_);
  for (const auto type : {IBV_EVENT_PORT_ERR, IBV_EVENT_PORT_ACTIVE, IBV_EVENT_GID_CHANGE}) library_->tell(type);
  EXPECT_EQ(a_->take_error(), "");
  send_all(*a_, {pattern(1, 100)}, b_->local());
  EXPECT_EQ(collect(*b_, 1).size(), 1U);
}

// Each in its own way, as each may be the first to meet a card that is gone.
TEST_F(Rdma, WhateverFailsIsAnErrorAndNoEnd) {
  set_log_level(LogLevel::kError);
  const std::vector<const char*> told = {
      "ibv_alloc_pd",      "ibv_reg_mr",    "ibv_create_srq",     "ibv_create_qp",    "ibv_create_comp_channel",
      "ibv_create_cq",     "ibv_modify_qp", "ibv_post_send",      "ibv_get_cq_event", "ibv_req_notify_cq",
      "ibv_post_srq_recv", "ibv_poll_cq",   "ibv_get_async_event"};
  // Another device serves, or there is nothing left that could fail.
  const std::vector<const char*> untold = {"ibv_get_device_list",      "ibv_open_device",     "ibv_query_device",
                                           "ibv_query_port",           "ibv_query_gid_table", "ibv_destroy_qp",
                                           "ibv_destroy_srq",          "ibv_destroy_cq",      "ibv_dereg_mr",
                                           "ibv_destroy_comp_channel", "ibv_dealloc_pd",      "ibv_close_device"};
  for (const auto* functions : {&told, &untold}) {
    for (const char* const function : *functions) {
      for (const int error : {EIO, ENODEV, ENOMEM, EINVAL, EPERM, EBUSY, EAGAIN, EINTR, ETIMEDOUT}) {
        uint64_t failures = 0;
        for (int after = 0; after < 6; ++after) {
          const fake_verbs::Library library;
          library.fail_once(function, error, after);
          const std::string heard = heard_of_failures();
          const uint64_t failed = library.count().failures;
          failures += failed;
          const bool is_none =
              std::string(function).find("event") != std::string::npos && (error == EAGAIN || error == EINTR);
          if (failed == 0 || functions != &told || is_none) continue;
          EXPECT_THAT(heard, HasSubstr(function)) << error << " after " << after;
        }
        EXPECT_GT(failures, 0U) << function;
      }
    }
  }
  set_log_level(LogLevel::kWarning);
}

TEST_F(Rdma, WhoMayPinTooLittleHearsOfTheLimit) {
  fake_verbs::Behaviour behaviour;
  behaviour.no_memory_rights = true;
  const fake_verbs::Library library(behaviour);
  RdmaOptions options;
  options.library = SWITCHML_FAKE_VERBS;
  options.local = literal_address("127.0.0.1", 1).value();
  EXPECT_THAT(make_rdma_transport(options).status().message(), HasSubstr("ulimit -l"));
}

}  // namespace
}  // namespace switchml
