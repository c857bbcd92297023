// What the ranks of each kind of session write to the store, key by key, is what transcripts.txt says.
#include <gtest/gtest.h>

#include <algorithm>
#include <cstdlib>
#include <deque>
#include <fstream>
#include <set>
#include <sstream>

#include "agree_each.h"
#include "client/fake_controller.h"
#ifdef SWITCHML_FAKE_VERBS
#include "fake_library.h"
#endif

namespace switchml {
namespace {

/// Fields whose values are the same on all machines, and at all times; of others the name is written down alone.
const std::set<std::string> kConstant = {
    "carrier", "check",      "controller",  "each_host",     "faults", "hosts",     "leaves_host",
    "more",    "payload",    "precision",   "rdma",          "shards", "size",      "on_switch_failure",
    "standby", "tcp",        "weight",      "switches",      "tree",   "transport", "workers",
    "aes",     "encryption", "seals_ranks", "seals_switches"};

std::string last_part(const std::string& path) { return path.substr(path.rfind('/') + 1); }

/// What a rank has written: under which key, without what all of its keys have in common, and which fields.
struct Word {
  std::string topic, fields;
};

class RecordingStore : public Rendezvous {
 public:
  RecordingStore(Rendezvous& below, int rank, bool with_hello)
      : below_(below), end_("/" + std::to_string(rank)), with_hello_(with_hello) {}
  Status set(const std::string& key, const std::string& value) override {
    Word word{shortened(key), ""};
    std::istringstream lines(value);
    std::string line;
    const bool is_shown = with_hello_ || last_part(word.topic) != "hello";
    for (std::getline(lines, line); is_shown && std::getline(lines, line);) {
      const std::string name = line.substr(0, line.find('='));
      word.fields += " " + (kConstant.count(last_part(name)) > 0 ? line : name);
    }
    words.push_back(word);
    return below_.set(key, value);
  }
  Result<std::string> get(const std::string& key, Time deadline) override { return below_.get(key, deadline); }

  std::deque<Word> words;

 private:
  std::string shortened(std::string key) const {
    if (const size_t at = key.find("switchml/"); at != std::string::npos) key.erase(at, sizeof "switchml/" - 1);
    const bool is_own = key.size() > end_.size() && key.compare(key.size() - end_.size(), key.npos, end_) == 0;
    return is_own ? key.substr(0, key.size() - end_.size()) : key;
  }

  Rendezvous& below_;
  const std::string end_;
  const bool with_hello_;
};

/// A kind of session: the ranks' hosts, "aab" say, their settings, and what some ranks read in place of what was said.
struct Kind {
  std::string hosts;
  Config config;
  std::vector<Alteration> alterations = {};
  std::shared_ptr<ControllerClient> controller = nullptr;
  bool with_hello = false;  // The fields of hellos, which are those of the settings, are written down too.
};

/// Whether some rank writes on the topic, but on others before.
bool comes_later(const std::vector<std::unique_ptr<RecordingStore>>& ranks, const std::string& topic) {
  for (const auto& rank : ranks) {
    for (size_t i = 0; i < rank->words.size() && rank->words[i].topic != topic; ++i) {
      for (size_t later = i + 1; later < rank->words.size(); ++later) {
        if (rank->words[later].topic == topic) return true;
      }
    }
  }
  return false;
}

/// All ranks' words as one list, which has those of each rank in their order. Ranks that write the same share a word.
std::string merged(std::vector<std::unique_ptr<RecordingStore>>& ranks) {
  std::string text;
  for (;;) {
    const auto is_next = [&](const auto& rank) {
      return !rank->words.empty() && !comes_later(ranks, rank->words.front().topic);
    };
    const auto first = std::find_if(ranks.begin(), ranks.end(), is_next);
    if (first == ranks.end()) return text + "\n";
    const Word word = (*first)->words.front();
    text += (!text.empty() && text.back() == ';' ? " " : "") + word.topic;
    for (size_t rank = 0; rank < ranks.size(); ++rank) {
      auto& words = ranks[rank]->words;
      if (words.empty() || words.front().topic != word.topic || words.front().fields != word.fields) continue;
      text += " " + std::to_string(rank);
      words.pop_front();
    }
    text += word.fields.empty() ? ";" : ":" + word.fields + "\n";
  }
}

/// Opens a session of that kind, and ends it.
std::string transcript_of(const Kind& kind) {
  MapStore store;
  const int size = static_cast<int>(kind.hosts.size());
  std::vector<std::unique_ptr<RecordingStore>> recordings;
  for (int rank = 0; rank < size; ++rank)
    recordings.push_back(std::make_unique<RecordingStore>(store, rank, kind.with_hello));
  Config config = kind.config;
  config.connect_timeout = seconds(120);
  each_rank(size, [&](int rank) {
    const auto r = static_cast<size_t>(rank);
    std::vector<std::unique_ptr<Rendezvous>> views;
    views.push_back(std::make_unique<PlacedStore>(*recordings[r], rank, kind.hosts[r]));
    for (const Alteration& one : kind.alterations) {
      if (one.reader == rank) views.push_back(std::make_unique<AlteredStore>(*views.back(), one.key, one.change));
    }
    const auto session =
        Session::open(config, {rank, size, "group t"}, *views.back(), monotonic_now() + seconds(120), kind.controller);
    EXPECT_TRUE(session.ok()) << session.status().to_string();
  });
  return merged(recordings);
}

/// What transcripts.txt has under that title.
std::string expected_of(const std::string& title) {
  std::string path = __FILE__;
  std::ifstream file(path.replace(path.rfind('/') + 1, path.npos, "transcripts.txt"));
  EXPECT_TRUE(file.good()) << path;
  std::string text, line;
  bool is_inside = false;
  while (std::getline(file, line)) {
    if (line.rfind("# ", 0) == 0) {
      is_inside = line == "# " + title;
    } else if (is_inside) {
      text += line + "\n";
    }
  }
  return text;
}

/// With SWITCHML_TEST_TRANSCRIPTS the transcript is added to that file, from which a new transcripts.txt can be made.
void expect_transcript(const std::string& title, const Kind& kind) {
  SCOPED_TRACE(title);
  const std::string text = transcript_of(kind);
  EXPECT_EQ(text, expected_of(title));
  if (const char* const path = std::getenv("SWITCHML_TEST_TRANSCRIPTS")) {
    std::ofstream(path, std::ios::app) << "# " << title << "\n" << text;
  }
}

Config at_switch(const SwitchServer& server, Config config = quick_config()) {
  config.switch_address = to_string(server.local());
  return config;
}

/// Rank 0 hears this in what both ranks say on a topic.
std::vector<Alteration> rank_0_hears(const std::string& topic, const std::function<void(Blob*)>& change) {
  return {{0, rank_key(topic, 0), change}, {0, rank_key(topic, 1), change}};
}

std::vector<Alteration> with(std::vector<Alteration> some, const std::vector<Alteration>& more) {
  some.insert(some.end(), more.begin(), more.end());
  return some;
}

/// Paths that lead off the host; fast ones are for TCP. They hold little, as a busy machine's may seem not to.
std::vector<Alteration> far(bool fast) {
  return with(rank_0_hears("path", leads_away), rank_0_hears("speed", [fast](Blob* speed) {
                speed->set("rate", fast ? 100000 : 100);
                speed->set("chunks", 2);
              }));
}

TEST(Transcript, OfOneHost) {
  expect_transcript("memory", {"aaa", preset_config(), {}, nullptr, true});
  expect_transcript("a switch in rank 0", {"aa", quick_config()});
  expect_transcript("one rank", {"a", quick_config()});
}

TEST(Transcript, OfHostsWithoutASwitch) {
  expect_transcript("hosts of one rank", {"ab", config_over("udp")});
  expect_transcript("hosts of several ranks", {"aabb", config_over("auto")});
  expect_transcript("hosts over tcp", {"aabb", config_over("tcp")});
}

TEST(Transcript, OfASwitchThatIsNamed) {
  const auto server = start_switch(), other = start_switch();
  expect_transcript("named switch", {"aa", at_switch(*server)});
  Config integers = at_switch(*server);
  integers.precision = Precision::kInteger;
  expect_transcript("named switch, integers", {"aa", integers});
  Config several = at_switch(*server);
  several.switch_address += "," + to_string(other->local()) + "*3";
  expect_transcript("named switches", {"aa", several});
  Config hosts = preset_config();
  const auto for_all = start_for_all(&hosts);
  expect_transcript("hosts of several ranks at a switch", {"aabb", hosts});
}

TEST(Transcript, OfPathsThatAreFound) {
  const auto server = start_switch();
  expect_transcript("slow paths", {"ab", config_over("auto"), far(false)});
  expect_transcript("fast paths", {"ab", config_over("auto"), far(true)});
  const auto narrow = rank_0_hears("passes", [](Blob* passes) { passes->set("payload", 512); });
  expect_transcript("narrow paths", {"aa", at_switch(*server), with(far(false), narrow)});
  const auto deaf = rank_0_hears("path", [](Blob* path) { path->set("tcp_alone", "a switch"); });
  expect_transcript("paths that only tcp passes", {"ab", config_over("auto"), deaf});
}

TEST(Transcript, OfPathsThatHoldMore) {
  ServerOptions options;
  options.softswitch.slot_memory_bytes = size_t{64} << 20;
  const auto server = start_switch(options);
  if (server->limits().receive_buffer_bytes < 16 << 20) GTEST_SKIP() << "the kernel gives sockets small queues";
  const auto long_paths = rank_0_hears("speed", [](Blob* speed) { speed->set("chunks", 500); });
  expect_transcript("long paths", {"aa", at_switch(*server), with(far(false), long_paths)});
}

TEST(Transcript, OfAControllersSwitch) {
  const auto server = start_switch();
  FakeController controller;
  controller.move_to(server->local());
  Config config = quick_config();
  config.controller = "c:1";
  config.precision = Precision::kInteger;
  expect_transcript("controller", {"aa", config, {}, borrowed(controller)});
}

TEST(Transcript, OfPairs) {
  ServerOptions chip;
  chip.softswitch.whole_chunks = true;
  const auto server = start_switch(chip);
  expect_transcript("pair of ranks of one host", {"aa", at_switch(*server, preset_config())});
  const auto for_all = start_switch(chip, "0.0.0.0:0");
  Config config = config_over("auto");
  config.switch_address = to_string(with_port(announced_address("").value(), port_of(for_all->local())));
  config.fallback = true;
  expect_transcript("pair with fallback", {"aab", config, {}, nullptr, true});
}

#ifdef SWITCHML_FAKE_VERBS
TEST(Transcript, OfCards) {
  fake_verbs::Behaviour behaviour;
  behaviour.emulated = false;
  {
    const fake_verbs::Library library(behaviour);
    expect_transcript("rdma that is named", {"aabb", config_over("rdma")});
    expect_transcript("rdma that is found", {"ab", config_over("auto"), far(true)});
  }
  behaviour.cut_off = true;
  const fake_verbs::Library library(behaviour);
  expect_transcript("cards that reach nothing, slow paths", {"ab", config_over("auto"), far(false)});
  expect_transcript("cards that reach nothing, fast paths", {"ab", config_over("auto"), far(true)});
}
#endif

}  // namespace
}  // namespace switchml
