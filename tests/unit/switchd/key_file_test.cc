#include "switchd/key_file.h"

#include <gtest/gtest.h>
#include <sys/stat.h>

#include <fstream>

namespace switchml {
namespace {

const std::string kDigits = std::string(62, '0') + "7f";

std::string file_with(const std::string& text, mode_t mode = 0600) {
  const std::string path = testing::TempDir() + "key_file_test";
  std::ofstream(path) << text;
  ::chmod(path.c_str(), mode);
  return path;
}

TEST(KeyFile, HasAKey) {
  const auto key = read_key_file("--key-file", file_with(kDigits + "\n"));
  ASSERT_TRUE(key.ok()) << key.status().to_string();
  EXPECT_EQ(to_hex(key.value()), kDigits);
}

TEST(KeyFile, ErrorsNameTheFileAndNoKey) {
  const std::string path = file_with(kDigits.substr(1));
  for (const std::string& wrong : {path, path + ".none"}) {
    const auto key = read_key_file("--key-file", wrong);
    EXPECT_EQ(key.status().code(), Code::kInvalidArgument);
    EXPECT_EQ(key.status().message().rfind("--key-file=\"" + wrong + "\"", 0), 0U) << key.status().message();
    EXPECT_EQ(key.status().message().find("000"), std::string::npos) << key.status().message();
  }
}

TEST(KeyFile, AKeyInPlaceOfANameIsNotShown) {
  const auto key = read_key_file("SWITCHML_SWITCH_KEY_FILE", kDigits);
  EXPECT_EQ(key.status().message(), "SWITCHML_SWITCH_KEY_FILE is a key: it must be the name of a file with the key");
}

TEST(KeyFile, OthersMayNotReadIt) {
  const auto key = read_key_file("--key-file", file_with(kDigits, 0644));
  EXPECT_NE(key.status().message().find("0644"), std::string::npos) << key.status().message();
}

}  // namespace
}  // namespace switchml
