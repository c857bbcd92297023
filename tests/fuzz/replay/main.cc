// libFuzzer's part for any compiler: every file of a corpus goes to LLVMFuzzerTestOneInput. A child runs them, so that
// however it ends the parent knows at which.
#include <sys/mman.h>
#include <sys/wait.h>
#include <unistd.h>

#include <algorithm>
#include <atomic>
#include <chrono>
#include <csignal>
#include <cstdint>
#include <cstdio>
#include <filesystem>
#include <fstream>
#include <iterator>
#include <memory>
#include <string>
#include <thread>
#include <vector>

extern "C" int LLVMFuzzerTestOneInput(const uint8_t* bytes, size_t size);
extern "C" __attribute__((weak)) int LLVMFuzzerInitialize(int* argc, char*** argv);

namespace {

using Paths = std::vector<std::filesystem::path>;
/// Which file the child is at, in memory that both processes share.
using Progress = std::atomic<size_t>;

constexpr std::chrono::seconds kPatience{5};  // for one input

Paths read_folder(const char* folder) {
  Paths paths;
  std::error_code error;
  for (const auto& entry : std::filesystem::directory_iterator(folder, error)) paths.push_back(entry.path());
  std::sort(paths.begin(), paths.end());
  return paths;
}

void run_one(const std::filesystem::path& path) {
  std::ifstream file(path, std::ios::binary);
  const std::vector<char> bytes(std::istreambuf_iterator<char>(file), {});
  const std::unique_ptr<uint8_t[]> exact(new uint8_t[bytes.size()]);  // a sanitizer sees what reads past its end
  std::copy(bytes.begin(), bytes.end(), exact.get());
  LLVMFuzzerTestOneInput(exact.get(), bytes.size());
}

void run_all(const Paths& paths, Progress* at) {
  for (; *at < paths.size(); ++*at) run_one(paths[*at]);
}

/// Why the child has not come to its end; empty if it has.
std::string watch(pid_t child, const Progress& at, size_t end) {
  size_t seen = at;
  auto since = std::chrono::steady_clock::now();
  int status = 0;
  while (waitpid(child, &status, WNOHANG) == 0) {
    std::this_thread::sleep_for(std::chrono::milliseconds(5));
    const auto now = std::chrono::steady_clock::now();
    if (at != seen) seen = at, since = now;
    if (now - since < kPatience) continue;
    kill(child, SIGKILL);
    waitpid(child, &status, 0);
    return "took longer than " + std::to_string(kPatience.count()) + " s";
  }
  if (WIFSIGNALED(status)) return "ended by signal " + std::to_string(WTERMSIG(status));
  if (at < end || WEXITSTATUS(status) != 0) return "ended with status " + std::to_string(WEXITSTATUS(status));
  return "";
}

}  // namespace

int main(int argc, char** argv) {
  if (argc != 2) {
    std::fprintf(stderr, "usage: %s CORPUS\n", argv[0]);
    return 2;
  }
  const Paths paths = read_folder(argv[1]);
  if (paths.empty()) {
    std::fprintf(stderr, "%s: a folder with files is needed, and there are none\n", argv[1]);
    return 2;
  }
  void* shared = mmap(nullptr, sizeof(Progress), PROT_READ | PROT_WRITE, MAP_SHARED | MAP_ANONYMOUS, -1, 0);
  if (shared == MAP_FAILED) {
    std::perror("mmap");
    return 1;
  }
  auto* at = new (shared) Progress(0);
  const pid_t child = fork();
  if (child < 0) {
    std::perror("fork");
    return 1;
  }
  if (child == 0) {
    if (LLVMFuzzerInitialize != nullptr) LLVMFuzzerInitialize(&argc, &argv);
    run_all(paths, at);
    return 0;
  }
  const std::string why = watch(child, *at, paths.size());
  if (!why.empty()) {
    const size_t last = *at;
    std::fprintf(stderr, "%s: %s %s\n", argv[0], last < paths.size() ? paths[last].c_str() : "after the last input it",
                 why.c_str());
    return 1;
  }
  std::printf("%zu inputs of %s\n", paths.size(), argv[1]);
  return 0;
}
