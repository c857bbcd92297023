#include "controllerd/tokens.h"

#include <gtest/gtest.h>

#include "temporary_file.h"

namespace switchml {
namespace {

const char* const kGood = R"(tokens:
  - name: team-a
    token: aaaaaaaaaaaaaaaa
    max_jobs: 4
    max_slots: 512
  - name: team-b
    token: bbbbbbbbbbbbbbbb
    plans: true
)";

TEST(Tokens, AreReadWithTheirQuotas) {
  const TemporaryFile file(kGood);
  const auto tokens = read_tokens(file.path());
  ASSERT_TRUE(tokens.ok()) << tokens.status().message();
  ASSERT_EQ(tokens.value().size(), 2U);
  EXPECT_EQ(tokens.value()[0].owner.name, "team-a");
  EXPECT_EQ(tokens.value()[0].owner.max_jobs, 4U);
  EXPECT_EQ(tokens.value()[0].owner.max_slots, 512U);
  EXPECT_EQ(tokens.value()[1].owner.max_jobs, 0U);
  EXPECT_FALSE(tokens.value()[0].owner.plans);
  EXPECT_TRUE(tokens.value()[1].owner.plans);
}

TEST(Tokens, MistakesAreNamedWithTheirLineAndNoSecret) {
  const std::pair<const char*, const char*> cases[] = {
      {"tokens: []\n", "1: tokens: there is none; at least one is needed"},
      {"tokens:\n  - {name: a, token: short}\n",
       "2: token \"a\": token of 5 characters: allowed are 16 to 512, printable and without spaces"},
      {"tokens:\n  - {name: a, token: 'aaaaaaaa aaaaaaaa'}\n",
       "2: token \"a\": token of 17 characters: allowed are 16 to 512, printable and without spaces"},
      {"tokens:\n  - {name: a, token: aaaaaaaaaaaaaaaa}\n  - {name: a, token: bbbbbbbbbbbbbbbb}\n",
       "3: token name \"a\" is used twice"},
      {"tokens:\n  - {name: a, token: aaaaaaaaaaaaaaaa}\n  - {name: b, token: aaaaaaaaaaaaaaaa}\n",
       "3: token \"b\": token is that of \"a\" too"},
      {"tokens:\n  - {name: a, token: aaaaaaaaaaaaaaaa, max_jobs: 256}\n",
       "2: token \"a\": max_jobs \"256\": allowed are 1 to 255"},
      {"tokens:\n  - {name: a, token: aaaaaaaaaaaaaaaa, plans: yes}\n",
       "2: token \"a\": plans \"yes\": allowed are true and false"},
      {"tokens:\n  - {name: a}\n", "2: token \"a\" needs the key \"token\""},
      {"tokens:\n  - {name: a, token: aaaaaaaaaaaaaaaa, quota: 1}\n",
       "2: a token has no key \"quota\"; allowed are name, token, max_jobs, max_slots, plans"},
  };
  for (const auto& [text, message] : cases) {
    const TemporaryFile file(text);
    const auto tokens = read_tokens(file.path());
    ASSERT_FALSE(tokens.ok()) << text;
    EXPECT_EQ(tokens.status().message(), file.path() + ":" + message);
    EXPECT_EQ(tokens.status().message().find("aaaaaaaa"), std::string::npos);
  }
}

TEST(Tokens, TheHeaderTellsTheOwner) {
  const TemporaryFile file(kGood);
  const auto tokens = read_tokens(file.path()).value();
  EXPECT_EQ(owner_of(tokens, "Bearer bbbbbbbbbbbbbbbb")->name, "team-b");
  for (const char* const bad : {"", "Bearer ", "Bearer bbbbbbbbbbbbbbb", "bearer bbbbbbbbbbbbbbbb", "bbbbbbbbbbbbbbbb",
                                "Bearer bbbbbbbbbbbbbbbb ", "Basic bbbbbbbbbbbbbbbb"}) {
    EXPECT_FALSE(owner_of(tokens, bad).has_value()) << bad;
  }
}

}  // namespace
}  // namespace switchml
