// The program switchml-switchd, started as a user does.
#include <fcntl.h>
#include <gtest/gtest.h>
#include <poll.h>
#include <signal.h>
#include <sys/wait.h>
#include <unistd.h>

#include <string>
#include <vector>

#include "base/clock.h"

namespace switchml {
namespace {

class Program {
 public:
  explicit Program(std::vector<std::string> arguments) {
    int out[2];
    int err[2];
    EXPECT_EQ(pipe(out), 0);
    EXPECT_EQ(pipe(err), 0);
    arguments.insert(arguments.begin(), SWITCHML_SWITCHD_PATH);
    std::vector<char*> argv;
    for (std::string& argument : arguments) argv.push_back(argument.data());
    argv.push_back(nullptr);
    pid_ = fork();
    if (pid_ == 0) {
      dup2(out[1], 1);
      dup2(err[1], 2);
      for (int fd : {out[0], out[1], err[0], err[1]}) close(fd);
      execv(argv[0], argv.data());
      _exit(127);
    }
    close(out[1]);
    close(err[1]);
    out_ = out[0];
    err_ = err[0];
  }
  ~Program() {
    if (!reaped_) {
      kill(pid_, SIGKILL);
      waitpid(pid_, nullptr, 0);
    }
    close(out_);
    close(err_);
  }
  std::string output_line() { return read_from(out_, true); }
  std::string output() { return read_from(out_, false); }
  std::string errors() { return read_from(err_, false); }
  void signal(int number) { kill(pid_, number); }
  /// The exit code, or -1 if it was killed or is still running after 10 s.
  int wait() {
    const Time end = monotonic_now() + seconds(10);
    int status = 0;
    while (waitpid(pid_, &status, WNOHANG) == 0) {
      if (monotonic_now() > end) return -1;
      usleep(2000);
    }
    reaped_ = true;
    return WIFEXITED(status) ? WEXITSTATUS(status) : -1;
  }

 private:
  // Until the end, or a newline, or 10 s of silence.
  static std::string read_from(int fd, bool line) {
    std::string text;
    char c = 0;
    pollfd ready{fd, POLLIN, 0};
    while (poll(&ready, 1, 10000) == 1 && read(fd, &c, 1) == 1) {
      text += c;
      if (line && c == '\n') break;
    }
    return text;
  }
  pid_t pid_ = -1;
  int out_ = -1;
  int err_ = -1;
  bool reaped_ = false;
};

class Signals : public ::testing::TestWithParam<int> {};

TEST_P(Signals, EndItCleanlyWithItsCounters) {
  Program program({"--listen", "127.0.0.1:0", "--log-level", "info"});
  const std::string line = program.output_line();
  EXPECT_EQ(line.rfind("listening on 127.0.0.1:", 0), 0U) << line;
  EXPECT_NE(line, "listening on 127.0.0.1:0\n");
  program.signal(GetParam());
  EXPECT_EQ(program.wait(), 0);
  EXPECT_NE(program.errors().find("final counters"), std::string::npos);
}

INSTANTIATE_TEST_SUITE_P(Main, Signals, ::testing::Values(SIGTERM, SIGINT));

TEST(Main, IsQuietByDefault) {
  Program program({"--listen", "127.0.0.1:0"});
  program.output_line();
  program.signal(SIGTERM);
  EXPECT_EQ(program.wait(), 0);
  EXPECT_EQ(program.errors(), "");
}

TEST(Main, StatisticsComePeriodically) {
  Program program({"--listen=127.0.0.1:0", "--log-level=info", "--stats-interval=1"});
  program.output_line();
  usleep(1500 * 1000);
  program.signal(SIGTERM);
  EXPECT_EQ(program.wait(), 0);
  EXPECT_NE(program.errors().find("switchml: counters:"), std::string::npos);
}

TEST(Main, BadArgumentsExitWithTwoAndNameThem) {
  const std::pair<std::vector<std::string>, std::string> cases[] = {
      {{"--threads", "0"}, "--threads=\"0\""},
      {{"--listen", "nonsense:notaport"}, "nonsense:notaport"},
      {{"--nonsense"}, "--nonsense"},
      {{"--lease"}, "--lease"},
  };
  for (const auto& [arguments, part] : cases) {
    Program program(arguments);
    EXPECT_EQ(program.wait(), 2) << part;
    const std::string errors = program.errors();
    EXPECT_NE(errors.find(part), std::string::npos) << errors;
    EXPECT_EQ(program.output(), "");
  }
}

TEST(Main, APortThatIsTakenExitsWithOne) {
  Program first({"--listen", "127.0.0.1:0"});
  std::string address = first.output_line().substr(std::string("listening on ").size());
  address.pop_back();
  Program second({"--listen", address});
  EXPECT_EQ(second.wait(), 1);
  EXPECT_NE(second.errors().find(address), std::string::npos);
}

TEST(Main, HelpAndVersion) {
  Program help({"--help"});
  EXPECT_EQ(help.wait(), 0);
  EXPECT_EQ(help.output().rfind("usage: switchml-switchd", 0), 0U);
  Program version({"--version"});
  EXPECT_EQ(version.wait(), 0);
  EXPECT_EQ(version.output().rfind("switchml-switchd ", 0), 0U);
}

TEST(Main, AnAgentIsAnnouncedOrRefusedWithTheReason) {
  Program program({"--listen", "127.0.0.1:0", "--agent", "127.0.0.1:0"});
#ifdef SWITCHML_HAS_AGENT
  program.output_line();
  const std::string line = program.output_line();
  EXPECT_EQ(line.rfind("agent on 127.0.0.1:", 0), 0U) << line;
  EXPECT_NE(line, "agent on 127.0.0.1:0\n");
  program.signal(SIGTERM);
  EXPECT_EQ(program.wait(), 0);
  Program tokenless({"--listen", "127.0.0.1:0", "--agent", "127.0.0.1:0", "--agent-token-file", "/nonexistent"});
  EXPECT_EQ(tokenless.wait(), 2);
  EXPECT_NE(tokenless.errors().find("--agent-token-file=\"/nonexistent\""), std::string::npos);
#else
  EXPECT_EQ(program.wait(), 2);
  EXPECT_NE(program.errors().find("libgrpc++-dev"), std::string::npos);
#endif
}

}  // namespace
}  // namespace switchml
