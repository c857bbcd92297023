// libFuzzer's part for any compiler: every file of a corpus, then mutations of them, goes to LLVMFuzzerTestOneInput.
// The n-th input is a function of n and the corpus alone, so what fails once fails always. A child runs them, so that
// however it ends the parent knows at which.
#include <sys/mman.h>
#include <sys/wait.h>
#include <unistd.h>

#include <algorithm>
#include <atomic>
#include <charconv>
#include <chrono>
#include <csignal>
#include <cstdint>
#include <cstdio>
#include <cstring>
#include <filesystem>
#include <fstream>
#include <iterator>
#include <memory>
#include <random>
#include <string>
#include <string_view>
#include <thread>
#include <vector>

extern "C" int LLVMFuzzerTestOneInput(const uint8_t* bytes, size_t size);
extern "C" __attribute__((weak)) int LLVMFuzzerInitialize(int* argc, char*** argv);

namespace {

using Bytes = std::vector<uint8_t>;
using Random = std::mt19937_64;

constexpr size_t kMaxBytes = 4096;            // of a mutation
constexpr std::chrono::seconds kPatience{5};  // for one input
constexpr uint64_t kMaxMutations = 1000000000;

// ---- inputs ----

struct Corpus {
  std::vector<std::filesystem::path> paths;
  std::vector<Bytes> files;
};

Corpus read_corpus(const std::filesystem::path& folder) {
  Corpus corpus;
  std::error_code error;
  for (const auto& entry : std::filesystem::directory_iterator(folder, error)) corpus.paths.push_back(entry.path());
  std::sort(corpus.paths.begin(), corpus.paths.end());
  for (const auto& path : corpus.paths) {
    std::ifstream file(path, std::ios::binary);
    corpus.files.emplace_back(std::istreambuf_iterator<char>(file), std::istreambuf_iterator<char>());
  }
  return corpus;
}

size_t below(Random& random, size_t bound) { return bound == 0 ? 0 : random() % bound; }

/// Some bytes of `from` overwrite some of `to`, or are put between them.
void splice(Random& random, const Bytes& from, Bytes* to) {
  const size_t begin = below(random, from.size());
  const size_t count = below(random, std::min<size_t>(from.size() - begin, 512) + 1);
  const size_t at = below(random, to->size() + 1);
  const Bytes part(from.begin() + static_cast<ptrdiff_t>(begin), from.begin() + static_cast<ptrdiff_t>(begin + count));
  const size_t replaced = random() % 2 == 0 ? std::min(count, to->size() - at) : 0;
  const auto where = to->begin() + static_cast<ptrdiff_t>(at);
  to->insert(to->erase(where, where + static_cast<ptrdiff_t>(replaced)), part.begin(), part.end());
}

void mutate(Random& random, const Bytes& other, Bytes* bytes) {
  static constexpr uint8_t kTelling[] = {0, 1, 2, 4, 8, 16, 32, 64, 127, 128, 254, 255};
  const size_t at = below(random, bytes->size());
  switch (bytes->empty() ? 4 : random() % 6) {
    case 0: (*bytes)[at] = static_cast<uint8_t>((*bytes)[at] ^ 1U << random() % 8); break;
    case 1: (*bytes)[at] = static_cast<uint8_t>(random()); break;
    case 2: (*bytes)[at] = kTelling[random() % std::size(kTelling)]; break;
    case 3: {
      const size_t count = below(random, std::min<size_t>(bytes->size() - at, 64) + 1);
      const auto where = bytes->begin() + static_cast<ptrdiff_t>(at);
      bytes->erase(where, where + static_cast<ptrdiff_t>(count));
      break;
    }
    case 4: splice(random, other, bytes); break;
    case 5: splice(random, Bytes(*bytes), bytes); break;
  }
}

/// Input `number`: a file of the corpus, or after those a mutation.
Bytes input(const Corpus& corpus, uint64_t number) {
  const std::vector<Bytes>& files = corpus.files;
  if (number < files.size()) return files[number];
  Random random(number);
  Bytes bytes = files[below(random, files.size())];
  for (uint64_t left = 1 + random() % 6; left > 0; --left) mutate(random, files[below(random, files.size())], &bytes);
  if (bytes.size() > kMaxBytes) bytes.resize(kMaxBytes);
  return bytes;
}

// ---- the child, and who watches it ----

/// Which inputs, and at which the child is.
struct Run {
  uint64_t first_mutation = 0;
  uint64_t mutations = 0;
  std::atomic<uint64_t>* at = nullptr;  // in memory that both processes share

  uint64_t end() const { return first_mutation + mutations; }
};

void run_one(const Corpus& corpus, uint64_t number, const Run& run) {
  run.at->store(number);
  const Bytes bytes = input(corpus, number);
  const std::unique_ptr<uint8_t[]> exact(new uint8_t[bytes.size()]);  // a sanitizer sees what reads past its end
  std::copy(bytes.begin(), bytes.end(), exact.get());
  LLVMFuzzerTestOneInput(exact.get(), bytes.size());
}

void run_all(const Corpus& corpus, const Run& run) {
  for (uint64_t number = 0; number < corpus.files.size(); ++number) run_one(corpus, number, run);
  for (uint64_t number = run.first_mutation; number < run.end(); ++number) run_one(corpus, number, run);
  run.at->store(UINT64_MAX);
}

/// Why the child has not come to its end; empty if it has.
std::string watch(pid_t child, const Run& run) {
  uint64_t seen = run.at->load();
  auto since = std::chrono::steady_clock::now();
  int status = 0;
  while (waitpid(child, &status, WNOHANG) == 0) {
    std::this_thread::sleep_for(std::chrono::milliseconds(5));
    const auto now = std::chrono::steady_clock::now();
    if (run.at->load() != seen) seen = run.at->load(), since = now;
    if (now - since < kPatience) continue;
    kill(child, SIGKILL);
    waitpid(child, &status, 0);
    return "took longer than " + std::to_string(kPatience.count()) + " s";
  }
  if (WIFSIGNALED(status)) return "ended by signal " + std::to_string(WTERMSIG(status));
  if (run.at->load() != UINT64_MAX || WEXITSTATUS(status) != 0)
    return "ended with status " + std::to_string(WEXITSTATUS(status));
  return "";
}

/// Says at which input it was, and leaves the input beside the log.
void report(const Corpus& corpus, const char* program, const char* folder, uint64_t number, const std::string& why) {
  const std::string name = std::filesystem::path(program).filename().string();
  if (number == UINT64_MAX) {
    std::fprintf(stderr, "%s: after the last input it %s\n", name.c_str(), why.c_str());
    return;
  }
  const std::string kept = name.substr(std::strlen("fuzz_replay_")) + "-input";
  const Bytes bytes = input(corpus, number);
  std::ofstream(kept, std::ios::binary | std::ios::trunc)
      .write(reinterpret_cast<const char*>(bytes.data()), static_cast<std::streamsize>(bytes.size()));
  const bool of_corpus = number < corpus.paths.size();
  std::fprintf(stderr, "%s: input %llu (%s) %s; it is kept as %s; once more: %s %s %d %llu\n", name.c_str(),
               static_cast<unsigned long long>(number), of_corpus ? corpus.paths[number].c_str() : "a mutation",
               why.c_str(), std::filesystem::absolute(kept).c_str(), program, folder, of_corpus ? 0 : 1,
               static_cast<unsigned long long>(number));
}

bool parse(std::string_view text, uint64_t* number) {
  const auto read = std::from_chars(text.data(), text.data() + text.size(), *number);
  if (read.ec == std::errc() && read.ptr == text.data() + text.size() && *number <= kMaxMutations) return true;
  std::fprintf(stderr, "\"%.*s\": allowed are 0 to %llu\n", static_cast<int>(text.size()), text.data(),
               static_cast<unsigned long long>(kMaxMutations));
  return false;
}

}  // namespace

int main(int argc, char** argv) {
  if (argc < 3 || argc > 4) {
    std::fprintf(stderr, "usage: %s CORPUS MUTATIONS [NUMBER OF THE FIRST]\n", argv[0]);
    return 2;
  }
  const Corpus corpus = read_corpus(argv[1]);
  if (corpus.files.empty()) {
    std::fprintf(stderr, "%s: a folder with files is needed, and there are none\n", argv[1]);
    return 2;
  }
  Run run;
  run.first_mutation = corpus.files.size();
  if (!parse(argv[2], &run.mutations) || (argc == 4 && !parse(argv[3], &run.first_mutation))) return 2;
  void* shared = mmap(nullptr, sizeof *run.at, PROT_READ | PROT_WRITE, MAP_SHARED | MAP_ANONYMOUS, -1, 0);
  if (shared == MAP_FAILED) {
    std::perror("mmap");
    return 1;
  }
  run.at = new (shared) std::atomic<uint64_t>(0);
  const pid_t child = fork();
  if (child < 0) {
    std::perror("fork");
    return 1;
  }
  if (child == 0) {
    if (LLVMFuzzerInitialize != nullptr) LLVMFuzzerInitialize(&argc, &argv);
    run_all(corpus, run);
    return 0;
  }
  const std::string why = watch(child, run);
  if (!why.empty()) {
    report(corpus, argv[0], argv[1], run.at->load(), why);
    return 1;
  }
  std::printf("%zu inputs of %s, %llu mutations\n", corpus.files.size(), argv[1],
              static_cast<unsigned long long>(run.mutations));
  return 0;
}
