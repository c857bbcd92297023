#include "c10d/metrics_service.h"

#include <fcntl.h>
#include <gtest/gtest.h>
#include <sys/stat.h>
#include <sys/wait.h>

#include <cstdlib>
#include <filesystem>
#include <fstream>
#include <sstream>

#include "http_client.h"
#include "transport/http_server.h"

namespace switchml {
namespace {

constexpr int kPorts = 128;

std::string text_of(const MetricLabels& labels) {
  MetricsText out;
  out.gauge("a", "help", labels, 1);
  return out.text();
}

int port_of_place(const std::string& place) { return std::atoi(place.substr(place.rfind(':') + 1).c_str()); }

std::string content(const std::string& path) {
  std::ostringstream text;
  text << std::ifstream(path).rdbuf();
  return text.str();
}

class MetricsServiceTest : public ::testing::Test {
 protected:
  MetricsServiceTest() {
    ::unsetenv("LOCAL_RANK");
    std::filesystem::create_directory(folder_);
  }
  ~MetricsServiceTest() override {
    MetricsService::end();
    ::unsetenv("LOCAL_RANK");
    std::filesystem::remove_all(folder_);
  }
  std::string with_content(const std::string& name, int hours_old) const {
    const std::string path = folder_ + "/" + name;
    std::ofstream(path) << "b 1\n";
    std::filesystem::last_write_time(path,
                                     std::filesystem::file_time_type::clock::now() - std::chrono::hours(hours_old));
    return path;
  }

  const std::string folder_ = ::testing::TempDir() + "switchml_metrics_test_" + std::to_string(::getpid());
};

TEST_F(MetricsServiceTest, ThereIsNoneUnlessItIsAskedFor) {
  MetricsService::begin("", text_of);
  EXPECT_EQ(MetricsService::place(), "");
  MetricsService::end();
}

TEST_F(MetricsServiceTest, APortTellsThemUntilItEnds) {
  MetricsService::begin("127.0.0.1:0", text_of);
  const std::string place = MetricsService::place();
  EXPECT_NE(http_get(place, "/metrics").find("\r\n\r\n# HELP a help\n# TYPE a gauge\na 1\n"), std::string::npos);
  MetricsService::begin(folder_, text_of);  // The first one counts.
  EXPECT_EQ(MetricsService::place(), place);
  MetricsService::end();
  EXPECT_EQ(MetricsService::place(), "");
  EXPECT_TRUE(HttpServer::start("test", place, {}).ok()) << "the port is free again";
}

TEST_F(MetricsServiceTest, APortThatIsTakenIsPassedOver) {
  const auto other = HttpServer::start("test", "127.0.0.1:0", {});
  const int first = port_of_place(other.value()->local());
  MetricsService::begin(other.value()->local(), text_of);
  ASSERT_NE(MetricsService::place(), "");
  EXPECT_GT(port_of_place(MetricsService::place()), first);
  EXPECT_LT(port_of_place(MetricsService::place()), first + kPorts);
}

TEST_F(MetricsServiceTest, RanksThatTorchrunNumbersBeginWithDifferentPorts) {
  std::string address;
  {
    const auto other = HttpServer::start("test", "127.0.0.1:0", {});
    address = other.value()->local();
  }
  ::setenv("LOCAL_RANK", "3", 1);
  MetricsService::begin(address, text_of);
  EXPECT_GE(port_of_place(MetricsService::place()), port_of_place(address) + 3);
}

TEST_F(MetricsServiceTest, AFileHasThemUntilItEnds) {
  const mode_t before = ::umask(0077);
  MetricsService::begin(folder_, text_of);
  ::umask(before);
  const std::string place = MetricsService::place();
  EXPECT_EQ(place.rfind(folder_ + "/switchml_" + std::to_string(::getpid()) + "-", 0), 0U) << place;
  EXPECT_EQ(place.substr(place.size() - 5), ".prom");
  EXPECT_NE(content(place).find("\na{process=\"" + std::to_string(::getpid()) + "-"), std::string::npos);
  struct stat found {};
  ASSERT_EQ(::stat(place.c_str(), &found), 0);
  EXPECT_EQ(found.st_mode & 0777U, 0644U) << "node_exporter is another user";
  MetricsService::end();
  EXPECT_TRUE(std::filesystem::is_empty(folder_));
}

TEST_F(MetricsServiceTest, WhatTheDeadHaveLeftIsRemoved) {
  const std::string dead = with_content("switchml_1-00000000.prom", 1);
  const std::string half = with_content("switchml_1-00000000.tmp", 1);
  const std::string living = with_content("switchml_2-00000000.prom", 0);
  const std::string foreign = with_content("other.prom", 1);
  MetricsService::begin(folder_, text_of);
  EXPECT_FALSE(std::filesystem::exists(dead));
  EXPECT_FALSE(std::filesystem::exists(half));
  EXPECT_TRUE(std::filesystem::exists(living));
  EXPECT_TRUE(std::filesystem::exists(foreign));
}

TEST_F(MetricsServiceTest, AFolderThatIsNotThereIsNoErrorOfTheJob) {
  MetricsService::begin(folder_ + "/none", text_of);
  EXPECT_EQ(MetricsService::place(), "");
  std::filesystem::create_directory(folder_ + "/none");
  MetricsService::begin(folder_ + "/none", text_of);
  EXPECT_NE(MetricsService::place(), "") << "the next group tries again";
}

TEST_F(MetricsServiceTest, AForkedChildHasItsOwnAndKeepsNoPort) {
#ifdef __SANITIZE_THREAD__
  GTEST_SKIP() << "the thread sanitizer ends children that start threads";
#endif
  MetricsService::begin("127.0.0.1:0", text_of);
  const std::string place = MetricsService::place();
  int lives[2];
  ASSERT_EQ(::pipe(lives), 0);
  const pid_t child = ::fork();
  if (child == 0) {
    const bool none = MetricsService::place().empty();
    MetricsService::begin("127.0.0.1:0", text_of);
    const bool own = http_get(MetricsService::place(), "/metrics").find("a 1") != std::string::npos;
    MetricsService::end();
    char byte = 0;
    ::close(lives[1]);
    ::_exit(::read(lives[0], &byte, 1) == 0 && none && own ? 0 : 1);
  }
  EXPECT_NE(http_get(place, "/metrics").find("a 1"), std::string::npos);
  MetricsService::end();
  EXPECT_TRUE(HttpServer::start("test", place, {}).ok()) << "while the child lives";
  ::close(lives[0]);
  ::close(lives[1]);
  int status = -1;
  ::waitpid(child, &status, 0);
  EXPECT_EQ(status, 0);
}

}  // namespace
}  // namespace switchml
