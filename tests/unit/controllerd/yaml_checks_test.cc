#include "controllerd/yaml_checks.h"

#include <gtest/gtest.h>

#include "temporary_file.h"

namespace switchml {
namespace {

/// The message of what `use` finds wrong with `text`, from the line number on.
std::string socket_error(const std::string& text, const std::function<void(const YAML::Node&)>& use) {
  const TemporaryFile file(text);
  const Status status = load_yaml(file.path(), use);
  EXPECT_FALSE(status.ok()) << text;
  EXPECT_EQ(status.message().rfind(file.path() + ":", 0), 0U) << status.message();
  return status.message().substr(std::min(status.message().size(), file.path().size() + 1));
}

TEST(YamlChecks, MistakesOfYamlItselfAreAtTheirLine) {
  EXPECT_EQ(socket_error("a: 1\nb: [1, 2\nc: 3\n", [](const YAML::Node&) {}).substr(0, 2), "3:");
}

TEST(YamlChecks, AFileThatIsNotThereIsNamed) {
  EXPECT_EQ(load_yaml("/nonexistent/x.yaml", [](const YAML::Node&) {}).message(),
            "/nonexistent/x.yaml: cannot be read (No such file or directory)");
  EXPECT_EQ(load_yaml("/tmp", [](const YAML::Node&) {}).message(), "/tmp: cannot be read (it is a folder)")
      << "a folder";
}

TEST(YamlChecks, KeysAreKnownAndComeOnce) {
  const auto keys = [](const YAML::Node& n) { yaml::check_keys(n, "it", {"a", "b"}); };
  EXPECT_EQ(socket_error("a: 1\nc: 2\n", keys), "2: it has no key \"c\"; allowed are a, b");
  EXPECT_EQ(socket_error("a: 1\nb: 2\na: 3\n", keys), "3: it has the key \"a\" twice");
  EXPECT_EQ(socket_error("- a\n", keys), "1: it must have keys; allowed are a, b");
  EXPECT_EQ(socket_error("", keys), "1: it must have keys; allowed are a, b");
  EXPECT_EQ(socket_error("\nb: 1\n", [](const YAML::Node& n) { yaml::required(n, "it", "a"); }),
            "2: it needs the key \"a\"");
}

TEST(YamlChecks, ValuesAreOfTheirKind) {
  const auto number = [](const YAML::Node& n) { yaml::number(n["a"], "a", 1, 9); };
  for (const char* const bad : {"0", "10", "x", "-1", "1.5", "99999999999999999999", "''"}) {
    EXPECT_NE(socket_error(std::string("a: ") + bad, number).find("allowed are 1 to 9"), std::string::npos) << bad;
  }
  EXPECT_EQ(socket_error("a: [1]", number), "1: a \"\": allowed are 1 to 9");
  const auto text = [](const YAML::Node& n) { yaml::text(n["a"], "a"); };
  EXPECT_EQ(socket_error("a: ''", text), "1: a must be a text that is not empty");
  EXPECT_EQ(socket_error("a: {b: 1}", text), "1: a must be a text that is not empty");
  EXPECT_EQ(socket_error("a: 1", [](const YAML::Node& n) { yaml::check_list(n["a"], "a"); }), "1: a must be a list");
}

TEST(YamlChecks, Booleans) {
  for (const char* const bad : {"yes", "1", "True", "''", "[true]"}) {
    EXPECT_NE(socket_error(std::string("a: ") + bad, [](const YAML::Node& n) { yaml::boolean(n["a"], "a"); })
                  .find("allowed are true and false"),
              std::string::npos)
        << bad;
  }
  const TemporaryFile file("[true, false]\n");
  const auto both = [](const YAML::Node& n) { EXPECT_TRUE(yaml::boolean(n[0], "a") && !yaml::boolean(n[1], "a")); };
  EXPECT_TRUE(load_yaml(file.path(), both).ok());
}

TEST(YamlChecks, Speeds) {
  for (const char* const bad : {"100", "G", ".5G", "100g", "100GG", "fast"}) {
    EXPECT_NE(
        socket_error(std::string("a: ") + bad, [](const YAML::Node& n) { yaml::speed(n["a"]); }).find("as in 100G"),
        std::string::npos)
        << bad;
  }
  const TemporaryFile file("a: 2.5G\n");
  EXPECT_TRUE(load_yaml(file.path(), [](const YAML::Node& n) { EXPECT_EQ(yaml::speed(n["a"]), "2.5G"); }).ok());
}

TEST(YamlChecks, Macs) {
  for (const char* const bad : {"02:00:00:00:00", "02:00:00:00:00:01:02", "02:00:00:00:00:0g", "2:0:0:0:0:1",
                                "00:00:00:00:00:00", "ff:ff:ff:ff:ff:ff", "01:00:5e:00:00:01", "'x'"}) {
    EXPECT_NE(socket_error(std::string("a: ") + bad, [](const YAML::Node& n) { yaml::mac(n["a"], "a"); })
                  .find("allowed is the MAC address of one host"),
              std::string::npos)
        << bad;
  }
  const TemporaryFile file("a: 0A:1b:2C:3d:4e:5f\n");
  EXPECT_TRUE(
      load_yaml(file.path(), [](const YAML::Node& n) { EXPECT_EQ(yaml::mac(n["a"], "a"), "0a:1b:2c:3d:4e:5f"); }).ok());
}

}  // namespace
}  // namespace switchml
