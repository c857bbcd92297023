#include "base/command_line.h"

#include <gtest/gtest.h>

#include <string>
#include <utility>
#include <vector>

namespace switchml {
namespace {

constexpr option kTable[] = {{"flag", no_argument, nullptr, 1}, {"word", required_argument, nullptr, 2}, {}};

using Taken = std::vector<std::pair<int, std::string>>;

Status scan(std::vector<std::string> words, Taken* taken) {
  words.insert(words.begin(), "program");
  std::vector<char*> argv;
  for (std::string& word : words) argv.push_back(word.data());
  return scan_options(static_cast<int>(argv.size()), argv.data(), kTable,
                      [taken](int index, const std::string& value) -> Status {
                        taken->emplace_back(index, value);
                        return value == "bad" ? Status(Code::kInvalidArgument, "it is bad") : Status();
                      });
}

TEST(CommandLine, OptionsComeInOrder) {
  Taken taken;
  ASSERT_TRUE(scan({"--word", "a", "--flag", "-h", "--word=b"}, &taken).ok());
  EXPECT_EQ(taken, (Taken{{1, "a"}, {0, ""}, {-1, ""}, {1, "b"}}));
  EXPECT_TRUE(scan({}, &taken).ok());
}

TEST(CommandLine, MistakesAreNamed) {
  const std::pair<std::vector<std::string>, const char*> cases[] = {
      {{"--nonsense"}, "there is no option \"--nonsense\": see --help"},
      {{"--word"}, "--word needs a value: see --help"},
      {{"--flag", "x"}, "\"x\" is no option: all arguments begin with --, see --help"},
      {{"--word", "bad", "--nonsense"}, "it is bad"},
  };
  for (const auto& [words, message] : cases) {
    Taken taken;
    EXPECT_EQ(scan(words, &taken).message(), message);
  }
}

}  // namespace
}  // namespace switchml
