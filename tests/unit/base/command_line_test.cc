#include "base/command_line.h"

#include <gtest/gtest.h>

#include <string>
#include <utility>
#include <vector>

namespace switchml {
namespace {

struct Words {
  bool flag = false;
  bool help = false;
  std::string word = "none";
  int number = 7;
};

std::vector<Option> words_table(Words* out) {
  return {{"flag", value::flag(&out->flag), "a flag"},
          {"word", value::word("WORD", &out->word), "a word"},
          {"number", value::whole(1, 9, &out->number), "a number that has quite some words about it", "half of it"},
          {"help", value::flag(&out->help), "help"}};
}

class Arguments {
 public:
  explicit Arguments(std::vector<std::string> words) : words_(std::move(words)) {
    words_.insert(words_.begin(), "program");
    for (std::string& word : words_) argv_.push_back(word.data());
    argv_.push_back(nullptr);
  }
  int count() const { return static_cast<int>(words_.size()); }
  char* const* get() const { return argv_.data(); }

 private:
  std::vector<std::string> words_;
  std::vector<char*> argv_;
};

Result<Given> parse_words(const std::vector<std::string>& words, Words* out) {
  const Arguments arguments(words);
  return parse_options(arguments.count(), arguments.get(), words_table(out));
}

TEST(CommandLine, ValuesGoToTheirPlaces) {
  Words out;
  const auto given = parse_words({"--word", "a", "--flag", "--word=b"}, &out);
  ASSERT_TRUE(given.ok()) << given.status().message();
  EXPECT_EQ(given.value(), (Given{"flag", "word"}));
  EXPECT_TRUE(out.flag);
  EXPECT_EQ(out.word, "b") << "the last one";
  EXPECT_EQ(out.number, 7);
  EXPECT_TRUE(parse_words({}, &out)->empty());
  EXPECT_EQ(parse_words({"-h"}, &out).value(), Given{"help"});
  EXPECT_TRUE(out.help);
}

TEST(CommandLine, MistakesAreNamed) {
  const std::pair<std::vector<std::string>, const char*> cases[] = {
      {{"--nonsense"}, "there is no option \"--nonsense\": see --help"},
      {{"-x"}, "there is no option \"-x\": see --help"},
      {{"-xh"}, "there is no option \"-x\": see --help"},
      {{"--flag=3"}, "--flag takes no value: see --help"},
      {{"--word"}, "--word needs a value: see --help"},
      {{"--flag", "x"}, "\"x\" is no option: all arguments begin with --, see --help"},
      {{"--number", "10", "--nonsense"}, "--number=\"10\" is not allowed: use 1 to 9"},
  };
  for (const auto& [words, message] : cases) {
    Words out;
    const auto given = parse_words(words, &out);
    EXPECT_EQ(given.status().code(), Code::kInvalidArgument);
    EXPECT_EQ(given.status().message(), message);
  }
}

TEST(CommandLine, HelpIsInColumns) {
  Words out;
  std::vector<Option> table = words_table(&out);
  EXPECT_EQ(options_text(table),
            "  --flag       a flag\n"
            "  --word WORD  a word (default none)\n"
            "  --number N   a number that has quite some words about it: 1 to 9 (default half of it)\n"
            "  --help       help\n");
  table = {{"flag", value::flag(&out.flag), std::string(95, 'x') + " y z"}};
  EXPECT_EQ(options_text(table), "  --flag  " + std::string(95, 'x') + " y z\n");
  table[0].help += " of";
  table[0].help += std::string(5, '!');
  EXPECT_EQ(options_text(table), "  --flag  " + std::string(95, 'x') + " y z\n          of!!!!!\n");
}

TEST(CommandLine, HelpAndMistakesAreAnswered) {
  const auto answer = [](const std::vector<std::string>& words) {
    Words out;
    std::vector<Option> table = words_table(&out);
    table.pop_back();
    const Arguments arguments(words);
    const auto check = [&out](const Given& given) {
      return given.count("word") != 0 && !out.flag ? Status(Code::kInvalidArgument, "--word needs --flag") : Status();
    };
    testing::internal::CaptureStdout();
    testing::internal::CaptureStderr();
    const auto status = answer_command_line(arguments.count(), arguments.get(), "usage\n", table, check);
    const std::string output = testing::internal::GetCapturedStdout();
    const std::string errors = testing::internal::GetCapturedStderr();
    return std::make_tuple(status, output.substr(0, 6), errors.substr(std::min(errors.find(": "), errors.size())));
  };
  using Answer = std::tuple<std::optional<int>, std::string, std::string>;
  EXPECT_EQ(answer({"--flag", "--word=a"}), Answer(std::nullopt, "", ""));
  EXPECT_EQ(answer({"--help", "--word=a"}), Answer(0, "usage\n", ""));
  EXPECT_EQ(answer({"--word=a"}), Answer(2, "", ": --word needs --flag\n"));
  EXPECT_EQ(answer({"--number=0"}), Answer(2, "", ": --number=\"0\" is not allowed: use 1 to 9\n"));
}

}  // namespace
}  // namespace switchml
