// Engines of the ranks of two hosts, with their threads and the real clock, and a switch in this process.
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <algorithm>
#include <atomic>
#include <future>
#include <thread>

#include "engine/switch_thread.h"
#include "integers.h"
#include "shm/engine.h"
#include "transport/decorator.h"

namespace switchml::shm {
namespace {

using switchml::testing::SwitchThread;
using testing::Ints;
using testing::kLong;
using testing::outcome_of;

/// Keeps the results of the short stream from the engine while it is closed: tensors are announced there.
class Gate final : public TransportDecorator {
 public:
  Gate(std::unique_ptr<Transport> link, int slots, const std::atomic<bool>& is_closed)
      : TransportDecorator(*link), link_(std::move(link)), slots_(slots), is_closed_(is_closed) {}
  size_t receive(RxFrame* frames, size_t count) override {
    const auto is_kept = [this](const RxFrame& frame) {
      const bool is_result = wire::kind_of(frame.data) == static_cast<uint8_t>(wire::Kind::kExactResult);
      return is_closed_ && is_result && wire::read_exact_header(frame.data).slot < slots_;
    };
    RxFrame* const end = std::remove_if(frames, frames + below().receive(frames, count), is_kept);
    return static_cast<size_t>(end - frames);
  }

 private:
  const std::unique_ptr<Transport> link_;
  const int slots_;
  const std::atomic<bool>& is_closed_;
};

/// Ranks 0 and 1 on one host, rank 2 on another.
class TwoHosts {
 public:
  /// `lease`: what the first host takes it to be.
  explicit TwoHosts(Duration lease = seconds(30)) {
    wire::Open open;
    open.client_key = 5;
    open.workers = 2;
    open.shards = 1;
    open.slots = 32;
    open.payload = 1024;
    open.flags = wire::kOpenExact;
    std::unique_ptr<Transport> links[2] = {hub_->attach(), hub_->attach()};
    session = switchml::testing::open_session(*links[0], switch_.address(), open);
    EXPECT_TRUE(session.exact && session.lanes_per_shard().has_bulk());
    session.ranks = 3;
    for (int host = 0; host < 2; ++host) {
      session.worker = host;
      session.lease = host == 0 ? lease : seconds(30);
      switchml::testing::join(*links[host], session, 0);
      start(host, host == 0 ? 2 : 1, std::move(links[host]));
    }
  }
  std::future<Status> submit(int rank, Collective collective) {
    auto end = testing::end_of(&collective);
    engines_[static_cast<size_t>(rank)]->submit(std::move(collective));
    return end;
  }
  /// The session ends at the switch, as if its lease had run out.
  void end_session() {
    const auto link = hub_->attach();
    for (uint8_t worker = 0; worker < 2; ++worker) {
      wire::Membership member = session.membership();
      member.worker = worker;
      uint8_t frame[wire::kMaxControlBytes];
      const size_t size = wire::build_close(member, 70U + worker, frame);
      switchml::testing::ask(*link, switch_.address(), frame, size, 70U + worker);
    }
  }

  SessionParameters session;
  std::atomic<bool> keeps_announcements{false};  // From the first host.

 private:
  void start(int host, int ranks, std::unique_ptr<Transport> link) {
    const BoardShape shape = shape_on_host(ranks, 2, 1);
    auto segment = Segment::create(shape.bytes());
    ASSERT_TRUE(segment.ok());
    const auto memory = std::make_shared<Segment>(std::move(segment.value()));
    for (int rank = 0; rank < ranks; ++rank) {
      HostUplinkOptions uplink;
      uplink.engine.session = session;
      uplink.host_map = HostMap({{0, 1}, {2}}, host);
      if (link && host == 0) {
        uplink.transports.push_back(
            std::make_unique<Gate>(std::move(link), session.lanes_per_shard().data, keeps_announcements));
      } else if (link) {
        uplink.transports.push_back(std::move(link));
      }
      engines_.push_back(start_memory_engine({memory, shape, rank, nullptr}, std::move(uplink)));
    }
  }

  const std::shared_ptr<InprocHub> hub_ = InprocHub::create({});
  SwitchThread switch_{*hub_};
  std::vector<std::unique_ptr<Engine>> engines_;
};

// The elements of the second tensor come after the end of the first, if that does not wait for the announcement.
TEST(HostEngine, ATensorEndsWhenItsAnnouncementHasEnded) {  // [HOST-10]
  TwoHosts hosts;
  hosts.keeps_announcements = true;
  constexpr size_t kElements = 200000;
  std::vector<std::vector<Ints>> tensors(2, std::vector<Ints>(3, Ints(kElements, 1)));
  ResultWatermark written[2];
  std::vector<std::future<Status>> outcomes;
  for (size_t call = 0; call < 2; ++call) {
    for (int rank = 0; rank < 3; ++rank) {
      Collective sum = testing::sum_of(tensors[call][static_cast<size_t>(rank)]);
      if (rank == 0) sum.written = &written[call];
      outcomes.push_back(hosts.submit(rank, std::move(sum)));
    }
  }
  const Time end = monotonic_now() + kLong;
  while (written[1].elements() < kElements && monotonic_now() < end) std::this_thread::yield();
  ASSERT_EQ(written[1].elements(), kElements);
  EXPECT_EQ(outcomes[0].wait_for(seconds(0)), std::future_status::timeout) << "others wait for its announcement";
  hosts.keeps_announcements = false;
  for (auto& outcome : outcomes) {
    const Status status = outcome_of(outcome);
    EXPECT_TRUE(status.ok()) << status.to_string();
  }
  EXPECT_EQ(tensors[1][1], Ints(kElements, 3));
}

// No chunk is under way that would tell it.
TEST(HostEngine, WhatTheOwnerLearnsOfTheSwitchIsToldToAllOfTheHost) {
  TwoHosts hosts(milliseconds(200));
  hosts.end_session();
  Ints tensor(1000, 1);
  auto outcome = hosts.submit(1, testing::sum_of(tensor));
  const Status status = outcome_of(outcome);
  EXPECT_EQ(status.code(), Code::kUnavailable) << status.to_string();
  EXPECT_THAT(status.message(), ::testing::HasSubstr("no longer knows this session"));
}

}  // namespace
}  // namespace switchml::shm
