#include "base/secret.h"

#include <gtest/gtest.h>
#include <sys/stat.h>

#include "temporary_file.h"

namespace switchml {
namespace {

TEST(Secret, OnlyTheVerySameIsTheSame) {
  EXPECT_TRUE(same_secret("abcdef", "abcdef"));
  EXPECT_TRUE(same_secret("", ""));
  for (const char* const other : {"", "a", "abcde", "abcdeg", "bbcdef", "abcdefabcdef", "abcdefa", "ABCDEF"}) {
    EXPECT_FALSE(same_secret("abcdef", other)) << other;
  }
  EXPECT_FALSE(same_secret("", "a"));
  EXPECT_FALSE(same_secret("abab", "ab")) << "a secret that repeats itself";
  EXPECT_FALSE(same_secret("ab", "abab"));
}

TEST(Secret, AFilesIsItsFirstWord) {
  const TemporaryFile file("  opensesame\nmore\n");
  EXPECT_EQ(read_secret(file.path(), "x").value(), "opensesame");
  const TemporaryFile empty(" \n");
  EXPECT_EQ(read_secret(empty.path(), "--token").status().message(), "--token: cannot be read, or is empty");
  EXPECT_FALSE(read_secret("/nonexistent", "x").ok());
}

TEST(Secret, APrivateFileIsItsOwnersAlone) {
  const TemporaryFile file("opensesame\n");
  for (const mode_t mode : {0600, 0400}) {
    ASSERT_EQ(chmod(file.path().c_str(), mode), 0);
    EXPECT_EQ(read_private_secret(file.path(), "x").value(), "opensesame");
  }
  for (const mode_t mode : {0640, 0604, 0644, 0620, 0602, 0666}) {
    ASSERT_EQ(chmod(file.path().c_str(), mode), 0);
    const Status status = read_private_secret(file.path(), "--key-file").status();
    EXPECT_EQ(status.code(), Code::kInvalidArgument);
    EXPECT_EQ(status.message().find("--key-file: others may read it (mode 06"), 0U) << status.message();
    EXPECT_NE(status.message().find("chmod 600 " + file.path()), std::string::npos) << status.message();
    EXPECT_EQ(status.message().find("opensesame"), std::string::npos) << status.message();
  }
  EXPECT_EQ(read_private_secret("/nonexistent", "x").status().message(), "x: cannot be read, or is empty");
}

TEST(Secret, WhatNoHeaderCanCarryIsNone) {
  EXPECT_TRUE(printable_secret("!~aZ0"));
  for (const char* const text : {"", "a b", "a\n", "\x7f", "caf\xc3\xa9"}) EXPECT_FALSE(printable_secret(text)) << text;
  const TemporaryFile file("caf\xc3\xa9\n");
  const Status status = read_secret(file.path(), "--token").status();
  EXPECT_EQ(status.message(), "--token: its first word has bytes that are not printable ASCII");
}

}  // namespace
}  // namespace switchml
