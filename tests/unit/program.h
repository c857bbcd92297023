// A program started as a user does.
#pragma once

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

class Program {
 public:
  Program(const std::string& path, std::vector<std::string> arguments) {
    int out[2];
    int err[2];
    EXPECT_EQ(pipe2(out, O_CLOEXEC), 0);
    EXPECT_EQ(pipe2(err, O_CLOEXEC), 0);
    arguments.insert(arguments.begin(), path);
    std::vector<char*> argv;
    for (std::string& argument : arguments) argv.push_back(argument.data());
    argv.push_back(nullptr);
    pid_ = fork();
    if (pid_ == 0) {
      dup2(out[1], 1);
      dup2(err[1], 2);
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
  Program(const Program&) = delete;
  Program& operator=(const Program&) = delete;

  /// A line of its output, without the newline.
  std::string line() { return read_from(out_, true); }
  std::string output() { return read_from(out_, false); }
  std::string errors() { return read_from(err_, false); }
  std::string error_line() { return read_from(err_, true); }
  void signal(int number) { kill(pid_, number); }
  /// The exit code, or -1 if it was killed or is still running after a minute.
  int wait() {
    const Time end = monotonic_now() + seconds(60);
    int status = 0;
    while (waitpid(pid_, &status, WNOHANG) == 0) {
      if (monotonic_now() > end) return -1;
      usleep(2000);
    }
    reaped_ = true;
    return WIFEXITED(status) ? WEXITSTATUS(status) : -1;
  }

 private:
  // Until the end, or a newline, or a minute of silence.
  static std::string read_from(int fd, bool one_line) {
    std::string text;
    char c = 0;
    pollfd ready{fd, POLLIN, 0};
    while (poll(&ready, 1, 60000) == 1 && read(fd, &c, 1) == 1) {
      if (one_line && c == '\n') break;
      text += c;
    }
    return text;
  }
  pid_t pid_ = -1;
  int out_ = -1;
  int err_ = -1;
  bool reaped_ = false;
};

/// What follows `prefix` in a line: addresses that programs say they listen on.
inline std::string after(const std::string& prefix, const std::string& line) {
  EXPECT_EQ(line.rfind(prefix, 0), 0U) << line;
  return line.size() < prefix.size() ? "" : line.substr(prefix.size());
}

}  // namespace switchml
