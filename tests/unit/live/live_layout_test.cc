#include "live/live_layout.h"

#include <gtest/gtest.h>

namespace switchml::live {
namespace {

TEST(LiveLayout, DescribesEachField) {
  Owner owner;
  owner.version = "1.2";
  owner.host = "a \"b\"\n";
  owner.calls = {"all_reduce", "barrier"};
  const std::string text = description(owner);
  EXPECT_EQ(text.find(R"({"version":"1.2","host":"a \"b\"?","calls":)"), 0U) << text;
  EXPECT_NE(text.find(R"("calls":["all_reduce","barrier"])"), std::string::npos) << text;
  EXPECT_NE(text.find(R"("sequence":[8,"Q"])"), std::string::npos) << text;
  EXPECT_NE(text.find(R"("peer":[52,"i"])"), std::string::npos) << text;
  EXPECT_NE(text.find("\"name\":[" + std::to_string(offsetof(Group, name)) + ",\"64s\"]"), std::string::npos) << text;
  EXPECT_LE(text.size(), kMostText);
}

TEST(LiveLayout, AllNamesOfCallsFit) {
  Owner owner;
  owner.host = std::string(255, 'h');
  owner.calls = std::vector<std::string>(32, std::string(31, 'c'));
  EXPECT_LE(description(owner).size(), kMostText);
}

}  // namespace
}  // namespace switchml::live
