#include "session/opening_watch.h"

#include <fcntl.h>
#include <gtest/gtest.h>
#include <signal.h>
#include <sys/wait.h>
#include <unistd.h>

#include <algorithm>
#include <filesystem>
#include <fstream>
#include <sstream>

#include "base/temporary_tree.h"
#include "fixture.h"
#include "session/hello.h"

namespace switchml {
namespace {

/// A folder in which a key is a file, for ranks that are processes.
class FolderStore : public Rendezvous {
 public:
  explicit FolderStore(std::string folder) : folder_(std::move(folder)) {}
  Status set(const std::string& key, const std::string& value) override {
    if (words_left > 0 && --words_left == 0) ::raise(SIGKILL);
    const std::string path = path_of(key), unfinished = path + "." + std::to_string(::getpid());
    std::ofstream(unfinished) << value;
    std::filesystem::rename(unfinished, path);
    return {};
  }
  Result<std::string> get(const std::string& key, Time deadline) override {
    for (;;) {
      if (const std::ifstream file(path_of(key)); file) {
        std::ostringstream text;
        text << file.rdbuf();
        return text.str();
      }
      if (monotonic_now() >= deadline) return Status(Code::kTimeout, key);
      std::this_thread::sleep_for(milliseconds(1));
    }
  }
  int words_left = 0;  // in place of the last one this process is killed; 0: never

 private:
  std::string path_of(std::string key) const {
    std::replace(key.begin(), key.end(), '/', '-');
    return folder_ + "/" + key;
  }
  const std::string folder_;
};

/// Ranks that are processes, and open a group without ever running out of time.
class Ranks {
 public:
  Ranks(std::string hosts, Config config) : hosts_(std::move(hosts)), config_(std::move(config)) {}
  ~Ranks() {
    for (const auto& [rank, process] : processes_) {
      ::kill(process, SIGKILL);
      ::waitpid(process, nullptr, 0);
    }
  }
  int size() const { return static_cast<int>(hosts_.size()); }

  void start(int rank, int words = 0) {
    const pid_t process = ::fork();
    ASSERT_GE(process, 0);
    if (process == 0) {
      open(rank, words);
      ::_exit(0);
    }
    processes_[rank] = process;
  }
  void kill(int rank) {
    ::kill(processes_[rank], SIGKILL);
    EXPECT_TRUE(await_death(rank));
  }
  /// Whether it was killed; else it has an outcome.
  bool await_death(int rank) {
    int status = 0;
    const Time end = monotonic_now() + seconds(120);
    while (::waitpid(processes_[rank], &status, WNOHANG) == 0) {
      if (monotonic_now() >= end) {
        ADD_FAILURE() << "rank " << rank << " of " << hosts_ << " waits";
        return false;
      }
      std::this_thread::sleep_for(milliseconds(2));
    }
    processes_.erase(rank);
    return WIFSIGNALED(status);
  }
  /// "open" or why not.
  std::string outcome(int rank) const {
    return FolderStore(folder_.root()).get("outcome/" + std::to_string(rank), Time{}).value();
  }
  void await(const std::string& topic, int rank) const {
    EXPECT_TRUE(FolderStore(folder_.root()).get(rank_key(topic, rank), monotonic_now() + seconds(120)).ok());
  }

 private:
  void open(int rank, int words) const {
    FolderStore store(folder_.root());
    store.words_left = words;
    PlacedStore placed(store, rank, hosts_[static_cast<size_t>(rank)]);
    Rendezvous& own = hosts_.find('b') == hosts_.npos ? static_cast<Rendezvous&>(store) : placed;
    const auto session = Session::open(config_, {rank, size(), "group g"}, own, kNever);
    store.words_left = 0;
    (void)store.set("outcome/" + std::to_string(rank), session.ok() ? "open" : session.status().message());
  }

  const std::string hosts_;
  const Config config_;
  const TemporaryTree folder_;
  std::map<int, pid_t> processes_;
};

std::unique_ptr<Ranks> start_all(const std::string& hosts, const Config& config, int victim, int words) {
  auto ranks = std::make_unique<Ranks>(hosts, config);
  for (int rank = 0; rank < ranks->size(); ++rank) {
    ranks->start(rank, rank == victim ? words : 0);
    if (hosts != "aaa") ranks->await("hello", 0);  // what ranks of other hosts connect to before they say anything
  }
  return ranks;
}

/// Whether it was killed; if so, all others know.
bool is_named(Ranks* ranks, int victim) {
  const bool died = ranks->await_death(victim);
  for (int rank = 0; rank < ranks->size(); ++rank) {
    if (rank == victim) continue;
    EXPECT_FALSE(ranks->await_death(rank));
    const std::string outcome = ranks->outcome(rank), number = "rank " + std::to_string(victim);
    const bool named = outcome.find(number + " (") != outcome.npos || outcome.find(number + " is gone") != outcome.npos;
    EXPECT_EQ(named, died) << outcome;
    EXPECT_EQ(outcome.find("is gone: its process has ended without leaving the group") != outcome.npos, died)
        << outcome;
    EXPECT_EQ(outcome == "open", !died) << outcome;
  }
  return died;
}

TEST(OpeningWatch, ARankThatIsKilledWhileAGroupOpensIsNamedWhateverItSaidBefore) {
  constexpr int kMostWords = 13;
  const struct {
    std::string hosts;
    Config config;
    int least;  // words that a rank says
  } cases[] = {{"aaa", preset_config(), 3}, {"aaa", quick_config(), 4}, {"aab", preset_config(), 4}};
  for (const auto& c : cases) {
    for (const int victim : {0, 2}) {
      std::vector<std::unique_ptr<Ranks>> groups;        // most of the time somebody sleeps
      for (int words = 2; words <= kMostWords; ++words)  // without any it is a rank that has not come
        groups.push_back(start_all(c.hosts, c.config, victim, words));
      int deaths = 0;
      for (const auto& group : groups) deaths += is_named(group.get(), victim) ? 1 : 0;
      EXPECT_GE(deaths, c.least - 1) << c.hosts << ", rank " << victim;
      EXPECT_LT(deaths, kMostWords - 1) << "more words than this test knows of";
    }
  }
}

TEST(OpeningWatch, ARankThatIsKilledBeforeRankZeroHasComeIsNamedWhenThatComes) {
  Ranks ranks("aaa", preset_config());
  ranks.start(2);
  ranks.await("hello", 2);
  ranks.kill(2);
  ranks.start(0);
  ranks.start(1);
  for (const int rank : {0, 1}) {
    EXPECT_FALSE(ranks.await_death(rank));
    const std::string outcome = ranks.outcome(rank);
    EXPECT_NE(outcome.find("rank 2 ("), outcome.npos) << outcome;
    EXPECT_NE(outcome.find("is gone: its process has ended without leaving the group"), outcome.npos) << outcome;
  }
}

TEST(OpeningWatch, WhoRestsHearsRankZeroRing) {
  MapStore store;
  const Config config = preset_config();
  const GroupInfo zero{0, 2, "group g"}, one{1, 2, "group g"};
  OpeningWatch ringing(config, zero, store), resting(config, one, store);
  auto hello = hello_of(config, zero);
  ASSERT_TRUE(hello.ok());
  ringing.begin(&hello.value());
  ASSERT_TRUE(store.set(rank_key("hello", 0), hello->encode()).ok());
  resting.begin(&hello.value());  // It returns when they are connected.
  const Time end = monotonic_now() + seconds(60);
  ringing.bell().ring();
  resting.bell().rest(seconds(60), true);
  EXPECT_LT(monotonic_now(), end);
}

}  // namespace
}  // namespace switchml
