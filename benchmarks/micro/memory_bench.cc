// The bound that memory sets for an all-reduce inside one host: threads, one for each rank, read a tensor and write a
// result of its size. A piece at a time goes through a buffer that stays in a cache, and with non-temporal stores from
// there. No way through memory that leaves tensors in place can be faster. Then the cost of handing a chunk over from
// one core to another.
#include <pthread.h>

#include <algorithm>
#include <cerrno>
#include <cstdio>
#include <cstdlib>
#include <cstring>
#include <optional>
#include <string>
#include <thread>
#include <vector>

#include "base/clock.h"
#include "base/command_line.h"
#include "base/parse.h"
#include "hand_over.h"
#include "kernels/kernels.h"

namespace {

using switchml::monotonic_now;
using switchml::Time;
using switchml::bench::HandOver;

constexpr size_t kPiece = 64 * 1024;

struct Options {
  std::vector<int> ranks = {2, 4, 8};
  size_t mib = 100;
  int rounds = 9;
  std::string json;
};

struct Rank {
  explicit Rank(size_t bytes) : tensor(bytes, 1), result(bytes, 2) {}
  std::vector<uint8_t> tensor, result;
};

void pass(Rank& rank) {
  std::vector<uint8_t> piece(kPiece);
  for (size_t i = 0; i < rank.tensor.size(); i += kPiece) {
    const size_t n = std::min(kPiece, rank.tensor.size() - i);
    std::memcpy(piece.data(), &rank.tensor[i], n);
    switchml::kernels().copy_non_temporal(piece.data(), &rank.result[i], n);
  }
}

/// The time from the start of all threads to the end of the last one.
double seconds_of_round(std::vector<Rank>& ranks) {
  pthread_barrier_t all;
  pthread_barrier_init(&all, nullptr, static_cast<unsigned>(ranks.size()));
  std::vector<Time> begins(ranks.size()), ends(ranks.size());
  std::vector<std::thread> threads;
  for (size_t r = 0; r < ranks.size(); ++r) {
    threads.emplace_back([&, r] {
      pthread_barrier_wait(&all);
      begins[r] = monotonic_now();
      pass(ranks[r]);
      ends[r] = monotonic_now();
    });
  }
  for (std::thread& thread : threads) thread.join();
  pthread_barrier_destroy(&all);
  return switchml::to_seconds(*std::max_element(ends.begin(), ends.end()) -
                              *std::min_element(begins.begin(), begins.end()));
}

std::vector<double> measure(int ranks, const Options& options) {
  std::vector<Rank> all(static_cast<size_t>(ranks), Rank(options.mib << 20));
  std::vector<double> seconds;
  for (int i = 0; i < options.rounds; ++i) seconds.push_back(seconds_of_round(all));
  for (const Rank& rank : all) {
    if (rank.result != rank.tensor) {
      std::fprintf(stderr, "bench_memory: a result differs from its tensor\n");
      std::exit(1);
    }
  }
  std::sort(seconds.begin(), seconds.end());
  return seconds;
}

void write_list(std::FILE* file, const std::vector<double>& numbers, int digits) {
  for (size_t i = 0; i < numbers.size(); ++i) std::fprintf(file, "%s%.*f", i == 0 ? "" : ", ", digits, numbers[i]);
}

void write_json(const Options& options, const std::vector<std::vector<double>>& all,
                const std::optional<HandOver>& hand_over) {
  std::FILE* file = std::fopen(options.json.c_str(), "w");
  if (file == nullptr) {
    std::fprintf(stderr, "bench_memory: --json %s: %s\n", options.json.c_str(), std::strerror(errno));
    std::exit(1);
  }
  std::fprintf(file, "{\n  \"benchmark\": \"memory\",\n  \"mib\": %zu,\n  \"runs\": [\n", options.mib);
  for (size_t i = 0; i < all.size(); ++i) {
    std::fprintf(file, "    {\"ranks\": %d, \"seconds\": [", options.ranks[i]);
    write_list(file, all[i], 6);
    std::fprintf(file, "]}%s\n", i + 1 < all.size() ? "," : "");
  }
  std::fprintf(file, "  ]");
  if (hand_over) {
    std::fprintf(file, ",\n  \"hand_over\": {\"round_trip_ns\": [");
    write_list(file, hand_over->round_trip_ns, 1);
    std::fprintf(file, "], \"cached_us\": [");
    write_list(file, hand_over->cached_us, 2);
    std::fprintf(file, "], \"past_caches_us\": [");
    write_list(file, hand_over->past_caches_us, 2);
    std::fprintf(file, "]}");
  }
  std::fprintf(file, "\n}\n");
  if (std::fclose(file) != 0) std::exit(1);
}

void print_range(const char* what, const std::vector<double>& sorted) {
  std::printf("  %-40s  %6.1f  %6.1f\n", what, sorted.front(), sorted.back());
}

switchml::OptionValue list(std::vector<int>* out, long low, long high) {
  const auto take = [=](const std::string& text) {
    std::vector<int> all;
    for (size_t begin = 0; begin <= text.size();) {
      const size_t end = std::min(text.find(',', begin), text.size());
      const auto number = switchml::parse_integer(text.substr(begin, end - begin), low, high);
      if (!number) return false;
      all.push_back(static_cast<int>(*number));
      begin = end + 1;
    }
    *out = all;
    return true;
  };
  return {"N,...", std::to_string(low) + " to " + std::to_string(high), take, nullptr};
}

std::vector<switchml::Option> table(Options* options) {
  namespace value = switchml::value;
  return {{"ranks", list(&options->ranks, 1, 64), "threads", "2,4,8"},
          {"mib", value::whole(1, 1024, &options->mib), "size of a tensor in MiB"},
          {"rounds", value::whole(1, 1000, &options->rounds), "timed rounds, the median is reported"},
          {"json", value::word("FILE", &options->json), "write the results to FILE as well"}};
}

}  // namespace

int main(int argc, char** argv) {
  Options options;
  const auto left = switchml::answer_command_line(argc, argv, "usage: bench_memory [OPTION]...\n", table(&options));
  if (left) return *left;
  std::vector<std::vector<double>> all;
  std::printf("%5s  %10s  %10s\n", "ranks", "median ms", "best ms");
  for (const int ranks : options.ranks) {
    all.push_back(measure(ranks, options));
    std::printf("%5d  %10.2f  %10.2f\n", ranks, 1e3 * all.back()[all.back().size() / 2], 1e3 * all.back().front());
  }
  const std::optional<HandOver> hand_over = switchml::bench::measure_hand_over();
  if (hand_over) {
    std::printf("from core to core, the fastest and the slowest of %zu:\n", hand_over->cached_us.size());
    print_range("a line there and back, ns", hand_over->round_trip_ns);
    print_range("128 KiB written in caches and read, us", hand_over->cached_us);
    print_range("128 KiB written past caches and read, us", hand_over->past_caches_us);
  }
  if (!options.json.empty()) write_json(options, all, hand_over);
  return 0;
}
