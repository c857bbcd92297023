#include "live/live_page.h"

#include <dirent.h>
#include <fcntl.h>
#include <gtest/gtest.h>
#include <sys/stat.h>
#include <sys/wait.h>
#include <unistd.h>

#include <cstdlib>
#include <cstring>
#include <fstream>
#include <iterator>

namespace switchml {
namespace {

class LivePageTest : public testing::Test {
 protected:
  LivePageTest() {
    char name[] = "/dev/shm/switchml-test-XXXXXX";
    folder_ = ::mkdtemp(name);
  }
  ~LivePageTest() override {
    for (const std::string& name : files()) ::unlink((folder_ + "/" + name).c_str());
    ::rmdir(folder_.c_str());
  }

  std::shared_ptr<LiveGroup> add(const std::string& name, int rank = 0) const {
    return LivePage::add_group({folder_, {"all_reduce"}}, {name, rank, 4, 9});
  }

  std::vector<std::string> files() const {
    std::vector<std::string> names;
    DIR* const listing = ::opendir(folder_.c_str());
    while (const dirent* entry = ::readdir(listing)) {
      if (entry->d_name[0] != '.') names.emplace_back(entry->d_name);
    }
    ::closedir(listing);
    return names;
  }

  std::string bytes() const {
    std::ifstream file(folder_ + "/" + files().at(0), std::ios::binary);
    return {std::istreambuf_iterator<char>(file), {}};
  }
  template <typename T>
  static const T& at(const std::string& page, size_t place) {
    return *reinterpret_cast<const T*>(page.data() + place);
  }
  static const live::Row& row(const std::string& page, size_t i) {
    return at<live::Row>(page, live::kRowsAt + i * sizeof(live::Row));
  }
  static const live::Group& group(const std::string& page, size_t i) {
    return at<live::Group>(page, live::kGroupsAt + i * live::kGroupBytes);
  }

  std::string folder_;
};

TEST_F(LivePageTest, IsThereWhileThereAreGroups) {
  {
    const auto one = add("one");
    const auto two = add("two");
    EXPECT_EQ(files().size(), 1U);
    one->end();
    one->end();
    EXPECT_EQ(files().size(), 1U);
  }
  EXPECT_TRUE(files().empty());
  const auto again = add("again");
  EXPECT_EQ(files().size(), 1U);
}

TEST_F(LivePageTest, IsItsUsersAlone) {
  const auto one = add("one");
  struct stat about {};
  ASSERT_EQ(::stat((folder_ + "/" + files().at(0)).c_str(), &about), 0);
  EXPECT_EQ(about.st_mode & 0777, 0600U);
}

TEST_F(LivePageTest, HasGroups) {
  const auto one = add("one", 3);
  one->identify(77);
  one->opened("udp", "a switch", true);
  one->count({10, 2, 3, 4});
  one->failed("first");
  one->failed("second");
  const std::string page = bytes();
  EXPECT_EQ(std::memcmp(page.data(), live::kMagic, sizeof live::kMagic), 0);
  EXPECT_EQ(at<live::Head>(page, 0).group_slots, 1U);
  const live::Group& shown = group(page, 0);
  EXPECT_STREQ(shown.name, "one");
  EXPECT_EQ(shown.rank.get(), 3);
  EXPECT_EQ(shown.size.get(), 4);
  EXPECT_EQ(shown.global_rank.get(), 9U);
  EXPECT_NE(shown.identity.get(), 0U);
  EXPECT_NE(shown.identity.get(), 77U) << "the key would be the secret of the group's watch";
  EXPECT_EQ(shown.is_open.get(), 1);
  EXPECT_EQ(shown.encrypts.get(), 1);
  EXPECT_STREQ(shown.transport, "udp");
  EXPECT_STREQ(shown.switch_name, "a switch");
  EXPECT_STREQ(shown.failure, "first");
  EXPECT_EQ(shown.retransmissions.get(), 2U);
  EXPECT_EQ(shown.version.load() % 2, 0U);
}

TEST_F(LivePageTest, GivesThePlaceOfAGroupToALaterOne) {
  const auto kept = add("kept");
  add("short")->end();
  const auto next = add("next");
  const std::string page = bytes();
  EXPECT_EQ(at<live::Head>(page, 0).group_slots, 2U);
  EXPECT_STREQ(group(page, 1).name, "next");
  EXPECT_EQ(group(page, 1).number.get(), 3U);
}

TEST_F(LivePageTest, TakesMoreGroupsThanItHasRoomFor) {
  std::vector<std::shared_ptr<LiveGroup>> many;
  for (size_t i = 0; i <= live::kGroups; ++i) many.push_back(add("g"));
  EXPECT_NE(many.front()->begin({1, 8, 0, live::kCollective}, 5), 0U);
  EXPECT_EQ(many.back()->begin({1, 8, 0, live::kCollective}, 5), 0U);
  many.back()->opened("udp", "");
  many.back()->waits({});
}

TEST_F(LivePageTest, HasCalls) {
  const auto one = add("one");
  const uint64_t call = one->begin({5, 4096, 0, live::kCollective}, 100);
  const uint64_t message = one->begin({5, 16, 0, live::kReceive}, 110);
  one->started(call, 101);
  one->set_peer(message, 2);
  one->ended(call, true, 120);
  one->ended(message, false, 130);
  const std::string page = bytes();
  EXPECT_EQ(row(page, 0).id.load(), call);
  EXPECT_EQ(row(page, 0).sequence.get(), 5U);
  EXPECT_EQ(row(page, 0).bytes.get(), 4096U);
  EXPECT_EQ(row(page, 0).started.get(), 101);
  EXPECT_EQ(row(page, 0).ended.get(), 120);
  EXPECT_EQ(row(page, 0).failed.get(), 0);
  EXPECT_EQ(row(page, 1).peer.get(), 2);
  EXPECT_EQ(row(page, 1).failed.get(), 1);
  EXPECT_EQ(row(page, 2).id.load(), 0U);
  EXPECT_EQ(group(page, 0).called.get(), 5U);
  EXPECT_EQ(group(page, 0).completed.get(), 5U);
  EXPECT_EQ(group(page, 0).calls.get(), 2U);
}

TEST_F(LivePageTest, AnOldCallDoesNotEndTheOneThatHasItsRow) {
  const auto one = add("one");
  const uint64_t old = one->begin({1, 0, 0, live::kCollective}, 1);
  for (uint64_t i = 0; i < live::kRows; ++i) one->begin({2 + i, 0, 0, live::kCollective}, 2);
  one->ended(old, true, 3);
  one->started(old, 3);
  EXPECT_EQ(row(bytes(), 0).ended.get(), 0);
  EXPECT_EQ(row(bytes(), 0).started.get(), 0);
}

TEST_F(LivePageTest, AGroupThatHasEndedSaysNothing) {
  const auto other = add("other");
  const auto one = add("one");
  const uint64_t call = one->begin({1, 0, 0, live::kCollective}, 1);
  one->end();
  const auto next = add("next");
  one->ended(call, true, 2);
  one->failed("late");
  EXPECT_EQ(one->begin({2, 0, 0, live::kCollective}, 1), 0U);
  EXPECT_EQ(group(bytes(), 1).completed.get(), 0U);
  EXPECT_STREQ(group(bytes(), 1).failure, "");
}

TEST_F(LivePageTest, SaysWhatAGroupWaitsFor) {
  const auto one = add("one");
  one->waits({7, 40, 3, std::string(1000, 'x')});
  const std::string page = bytes();
  EXPECT_EQ(group(page, 0).waits_in.get(), 7U);
  EXPECT_EQ(group(page, 0).waits_chunk.get(), 40U);
  EXPECT_EQ(group(page, 0).waits_slot.get(), 3);
  EXPECT_EQ(group(page, 0).waits_for[sizeof(live::Group::waits_for) - 1], 'x');
  EXPECT_STREQ(group(page, 0).failure, "") << "a long text stays in its room";
}

/// The exit status of a child that runs `body`.
template <typename F>
int in_child(const F& body) {
  const pid_t child = ::fork();
  if (child == 0) ::_exit(body());
  int status = 0;
  EXPECT_EQ(::waitpid(child, &status, 0), child);
  return WIFEXITED(status) ? WEXITSTATUS(status) : -1;
}

TEST_F(LivePageTest, AForkedChildLeavesThePageAlone) {
  auto one = add("one");
  const int left = in_child([&] {
    if (one->begin({1, 0, 0, live::kCollective}, 1) != 0) return 1;
    one->failed("child");
    one.reset();
    if (files().size() != 1) return 2;
    const auto own = add("own");
    return files().size() == 2 ? 0 : 3;  // Its own one is left, as that of a process that is killed.
  });
  EXPECT_EQ(left, 0);
  EXPECT_EQ(group(bytes(), 0).calls.get(), 0U);
}

TEST_F(LivePageTest, RemovesPagesOfTheDeadAlone) {
  ASSERT_EQ(in_child([&] {
              new std::shared_ptr<LiveGroup>(add("dead"));
              return files().size() == 1 ? 0 : 1;
            }),
            0);
  ASSERT_EQ(files().size(), 1U);
  const std::string dead = files().at(0);
  std::ofstream(folder_ + "/another-file") << "x";
  const auto one = add("one");
  EXPECT_EQ(files().size(), 2U);
  EXPECT_NE(::access((folder_ + "/" + dead).c_str(), F_OK), 0);
  EXPECT_EQ(in_child([&] { return LivePage::clean(folder_), 0; }), 0);
  EXPECT_EQ(files().size(), 2U) << "a living one's was removed";
}

TEST_F(LivePageTest, NothingIsShownWhereThatIsNotWanted) {
  const auto off = LivePage::add_group({"off", {}}, {"one", 0, 1, 0});
  EXPECT_EQ(off->begin({1, 0, 0, live::kCollective}, 1), 0U);
  off->opened("", "");
  off->end();
  const auto nowhere = LivePage::add_group({"/nonexistent/folder", {}}, {"one", 0, 1, 0});
  EXPECT_EQ(nowhere->begin({1, 0, 0, live::kCollective}, 1), 0U);
}

}  // namespace
}  // namespace switchml
