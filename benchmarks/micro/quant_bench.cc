// The speed of the kernels, relative to this machine's copies. Every kernel is checked against the scalar one before it
// is timed. Rates count bytes read plus bytes written per second of one core, those of a frame in cache too: a copy of
// n bytes counts 2n.
//
// Routes: "frame" is how the engine works, a large tensor on one side and one reused frame on the other; "memory" has
// large buffers on both sides; "cache" stays within frames (a switch with a slot in use).
#include <time.h>

#include <algorithm>
#include <cerrno>
#include <cmath>
#include <cstdio>
#include <cstdlib>
#include <cstring>
#include <functional>
#include <random>
#include <string>
#include <vector>

#include "base/command_line.h"
#include "base/limits.h"
#include "integer/block_exponent.h"
#include "kernels/kernels.h"

namespace {

using switchml::Kernels;
using switchml::Scale;

constexpr size_t kFrameBytes = 32 * 1024;
constexpr size_t kFrameWords = kFrameBytes / 4;
constexpr size_t kBlock = 256;  // Elements that share an exponent.
constexpr int kWorkers = 8;

struct Options {
  size_t mib = 256;
  int rounds = 9;
  std::string table = "all";
  std::string json;
  double require = 0;
};

// Buffers far beyond the caches, and one frame.
struct Workload {
  explicit Workload(size_t bytes)
      : elements(bytes / 4),
        tensor(elements),
        halves(elements),
        output(elements),
        words(4 * elements),
        frame(kFrameBytes),
        accumulators(kFrameWords),
        coefficients(kBlock),
        exponents(elements / kBlock) {}

  size_t elements;
  std::vector<float> tensor;
  std::vector<uint16_t> halves;  // Bit patterns that are finite as fp16 and as bf16.
  std::vector<float> output;
  std::vector<uint8_t> words;
  std::vector<uint8_t> frame;
  std::vector<int32_t> accumulators;
  std::vector<uint32_t> coefficients;
  std::vector<uint8_t> exponents;  // One for each block of `tensor`.
  uint32_t sink = 0;               // Keeps results alive.
};

const Kernels& scalar() { return *switchml::available_kernels().back(); }
int bits() { return switchml::magnitude_bits(kWorkers, 32, 24); }
int digit_bits() { return switchml::magnitude_bits(kWorkers, 16, 8); }
Scale down(uint8_t exponent) { return switchml::quantize_scale(exponent, bits()); }
Scale up(uint8_t exponent) { return switchml::dequantize_scale(exponent, bits()); }

void fill(Workload& w) {
  std::mt19937 random(1);
  std::normal_distribution<float> normal;
  // A million different values are enough; gradients' magnitudes differ from block to block.
  const size_t period = std::min<size_t>(w.elements, 1 << 20);
  for (size_t i = 0; i < period; ++i) {
    w.tensor[i] = std::ldexp(normal(random), -static_cast<int>((i / kBlock) % 20));
    w.halves[i] = static_cast<uint16_t>(random() & 0xbbffU);
  }
  for (size_t i = period; i < w.elements; ++i) {
    w.tensor[i] = w.tensor[i - period];
    w.halves[i] = w.halves[i - period];
  }
  for (size_t b = 0; b < w.exponents.size(); ++b) {
    w.exponents[b] = scalar().range[0](&w.tensor[b * kBlock], kBlock).max_exponent;
  }
  for (uint32_t& c : w.coefficients) c = static_cast<uint32_t>(random()) | 1U;
  for (size_t b = 0; b < w.exponents.size(); ++b) {
    scalar().quantize[0](&w.tensor[b * kBlock], &w.words[4 * b * kBlock], kBlock, down(w.exponents[b]));
  }
  std::memcpy(w.frame.data(), w.words.data(), kFrameBytes);
}

// ---- the timed functions: each handles all of the workload once ----

enum class Route { kFrame, kMemory };

uint8_t* words_of(Workload& w, Route route, size_t element) {
  return route == Route::kFrame ? &w.frame[4 * (element % kFrameWords)] : &w.words[4 * element];
}

void quantize(const Kernels& k, Workload& w, Route route) {
  for (size_t i = 0; i < w.elements; i += kBlock) {
    k.quantize[0](&w.tensor[i], words_of(w, route, i), kBlock, down(w.exponents[i / kBlock]));
  }
}

void range_and_quantize(const Kernels& k, Workload& w, Route route) {
  for (size_t i = 0; i < w.elements; i += kBlock) {
    const uint8_t exponent = k.range[0](&w.tensor[i], kBlock).max_exponent;
    k.quantize[0](&w.tensor[i], words_of(w, route, i), kBlock, down(exponent));
  }
}

void range(const Kernels& k, Workload& w) {
  for (size_t i = 0; i < w.elements; i += kBlock) w.sink += k.range[0](&w.tensor[i], kBlock).max_exponent;
}

void dequantize(const Kernels& k, Workload& w, Route route, float divisor) {
  for (size_t i = 0; i < w.elements; i += kBlock) {
    k.dequantize[0](words_of(w, route, i), &w.output[i], kBlock, up(w.exponents[i / kBlock]), divisor);
  }
}

void quantize_halves(const Kernels& k, Workload& w, int row) {
  for (size_t i = 0; i < w.elements; i += kBlock) {
    k.quantize[row](&w.halves[i], words_of(w, Route::kFrame, i), kBlock, Scale{});
  }
}

void dequantize_halves(const Kernels& k, Workload& w, int row) {
  auto* output = reinterpret_cast<uint16_t*>(w.output.data());
  for (size_t i = 0; i < w.elements; i += kBlock) {
    k.dequantize[row](words_of(w, Route::kFrame, i), output + i, kBlock, Scale{0x1p-20F, 1.0F}, 1.0F);
  }
}

// As the codec has it: blocks of 64, the range of each, and two digits in a word.
void quantize_digits(const Kernels& k, Workload& w) {
  alignas(64) uint8_t digits[4 * switchml::kMaxNarrowBlockElements];
  constexpr size_t kN = switchml::kMaxNarrowBlockElements;
  for (size_t i = 0; i < w.elements; i += kN) {
    const int exponent = k.range[2](&w.halves[i], kN).max_exponent;
    k.quantize[2](&w.halves[i], digits, kN, switchml::quantize_scale(exponent, digit_bits()));
    k.pack_digits(digits, &w.frame[2 * (i % kFrameWords)], kN);
  }
}

void dequantize_digits(const Kernels& k, Workload& w) {
  alignas(64) uint8_t digits[4 * switchml::kMaxNarrowBlockElements];
  constexpr size_t kN = switchml::kMaxNarrowBlockElements;
  auto* output = reinterpret_cast<uint16_t*>(w.output.data());
  for (size_t i = 0; i < w.elements; i += kN) {
    k.unpack_digits(&w.frame[2 * (i % kFrameWords)], digits, kN);
    k.dequantize[2](digits, output + i, kN, switchml::dequantize_scale(127, digit_bits()), 1.0F);
  }
}

void widen_and_narrow(const Kernels& k, Workload& w) {
  for (size_t i = 0; i < w.elements; i += kFrameWords) {
    k.widen[0](&w.tensor[i], w.frame.data(), kFrameWords, false);
    k.narrow[0](w.frame.data(), &w.output[i], kFrameWords, false);
  }
}

void add_in_memory(const Kernels& k, Workload& w) {
  auto* accumulators = reinterpret_cast<int32_t*>(w.output.data());
  for (size_t i = 0; i < w.elements; i += kFrameWords) k.add(accumulators + i, &w.words[4 * i], kFrameWords);
}

void add_in_cache(const Kernels& k, Workload& w) {
  for (size_t i = 0; i < w.elements; i += kFrameWords) k.add(w.accumulators.data(), w.frame.data(), kFrameWords);
}

// Copies a block at a time, which memcpy writes through the caches: the bound for kernels with such stores.
void copy_blocks(Workload& w) {
  for (size_t i = 0; i < w.elements; i += kBlock) std::memcpy(&w.words[4 * i], &w.tensor[i], 4 * kBlock);
}

void dot(const Kernels& k, Workload& w, Route route) {
  for (size_t i = 0; i < w.elements; i += kBlock) {
    w.sink += k.dot(words_of(w, route, i), w.coefficients.data(), kBlock);
  }
}

// The tensor as so many terms, one after the other in memory: different numbers of the same magnitude at the same
// index, like replicas' gradients.
std::vector<const void*> terms_of(Workload& w, size_t count) {
  std::vector<const void*> terms;
  for (size_t i = 0; i < count; ++i) terms.push_back(&w.tensor[i * (w.elements / count - 20 * kBlock)]);
  return terms;
}

void sum_exactly(const Kernels& k, Workload& w, size_t count) {
  const std::vector<const void*> terms = terms_of(w, count);
  k.exact_sum[0](terms.data(), count, w.output.data(), w.elements / count, 1);
}

// What the last switch makes of the partial sums of so many workers: a mean, of three parts here.
void round_partial_sums(const Kernels& k, Workload& w, size_t count) {
  const size_t n = w.elements / count;
  std::vector<switchml::SumSource> sources;
  for (const void* terms : terms_of(w, count)) sources.push_back({static_cast<const uint8_t*>(terms), 1, n});
  auto* const output = reinterpret_cast<uint8_t*>(w.output.data());
  for (size_t i = 0; i < n; i += switchml::kSumBlock) {
    w.sink +=
        static_cast<uint32_t>(k.partial_sums->sum_to_type(switchml::ElementType::kFloat32, sources.data(), count, i,
                                                          std::min(switchml::kSumBlock, n - i), 3, output + 4 * i));
  }
}

// The yardstick for exact sums: the same passes over memory, and one addition of floats for each term.
#if defined(__x86_64__)
__attribute__((target("avx2")))
#endif
void sum_floats(Workload& w, size_t count) {
  using Floats __attribute__((vector_size(32), aligned(4), may_alias)) = float;
  const std::vector<const void*> terms = terms_of(w, count);
  for (size_t i = 0; i + 8 <= w.elements / count; i += 8) {
    Floats sum = *reinterpret_cast<const Floats*>(static_cast<const float*>(terms[0]) + i);
    for (size_t t = 1; t < count; ++t) sum += *reinterpret_cast<const Floats*>(static_cast<const float*>(terms[t]) + i);
    *reinterpret_cast<Floats*>(&w.output[i]) = sum;
  }
}

struct Case {
  const char* kernel;
  const char* route;
  double bytes_per_element;  // Read and written.
  bool has_target;           // Quantize and dequantize of fp32: half of the copy bandwidth.
  std::function<void(const Kernels&, Workload&)> run;
};

std::vector<Case> cases() {
  using K = Kernels;
  using W = Workload;
  const auto frame = Route::kFrame;
  const auto memory = Route::kMemory;
  return {
      {"quantize f32", "frame", 8, true, [=](const K& k, W& w) { quantize(k, w, frame); }},
      {"quantize f32 + range", "frame", 8, true, [=](const K& k, W& w) { range_and_quantize(k, w, frame); }},
      {"dequantize f32", "frame", 8, true, [=](const K& k, W& w) { dequantize(k, w, frame, 1.0F); }},
      {"dequantize f32 / 8", "frame", 8, true, [=](const K& k, W& w) { dequantize(k, w, frame, 8.0F); }},
      {"quantize f32", "memory", 8, true, [=](const K& k, W& w) { quantize(k, w, memory); }},
      {"quantize f32 + range", "memory", 8, true, [=](const K& k, W& w) { range_and_quantize(k, w, memory); }},
      {"dequantize f32", "memory", 8, true, [=](const K& k, W& w) { dequantize(k, w, memory, 1.0F); }},
      {"copy by blocks", "memory", 8, false, [](const K&, W& w) { copy_blocks(w); }},
      {"range f32", "memory", 4, false, [](const K& k, W& w) { range(k, w); }},
      {"quantize f16", "frame", 6, false, [](const K& k, W& w) { quantize_halves(k, w, 1); }},
      {"dequantize f16", "frame", 6, false, [](const K& k, W& w) { dequantize_halves(k, w, 1); }},
      {"quantize bf16", "frame", 6, false, [](const K& k, W& w) { quantize_halves(k, w, 2); }},
      {"dequantize bf16", "frame", 6, false, [](const K& k, W& w) { dequantize_halves(k, w, 2); }},
      {"bf16 to digits", "frame", 4, false, [](const K& k, W& w) { quantize_digits(k, w); }},
      {"digits to bf16", "frame", 4, false, [](const K& k, W& w) { dequantize_digits(k, w); }},
      {"widen + narrow i32", "frame", 16, false, [](const K& k, W& w) { widen_and_narrow(k, w); }},
      {"exact sum of 2 f32", "memory", 6, false, [](const K& k, W& w) { sum_exactly(k, w, 2); }},
      {"floats added, 2", "memory", 6, false, [](const K&, W& w) { sum_floats(w, 2); }},
      {"exact sum of 8 f32", "memory", 4.5, false, [](const K& k, W& w) { sum_exactly(k, w, 8); }},
      {"floats added, 8", "memory", 4.5, false, [](const K&, W& w) { sum_floats(w, 8); }},
      {"partial sums, 8 f32", "memory", 4.5, false, [](const K& k, W& w) { round_partial_sums(k, w, 8); }},
      {"add", "memory", 12, false, [](const K& k, W& w) { add_in_memory(k, w); }},
      {"add", "cache", 12, false, [](const K& k, W& w) { add_in_cache(k, w); }},
      {"dot", "memory", 4, false, [=](const K& k, W& w) { dot(k, w, memory); }},
      {"dot", "cache", 4, false, [=](const K& k, W& w) { dot(k, w, frame); }},
  };
}

// ---- checking ----

// All memory that a kernel may have written, and its result.
uint64_t fingerprint(const Workload& w) {
  uint64_t hash = w.sink;
  const auto mix = [&hash](const void* data, size_t bytes) {
    for (size_t i = 0; i + 8 <= bytes; i += 8) {
      uint64_t word;
      std::memcpy(&word, static_cast<const uint8_t*>(data) + i, 8);
      hash = (hash ^ word) * 0x9e3779b97f4a7c15U;
      hash ^= hash >> 32;
    }
  };
  mix(w.frame.data(), w.frame.size());
  mix(w.accumulators.data(), 4 * w.accumulators.size());
  mix(w.words.data(), w.words.size());
  mix(w.output.data(), 4 * w.output.size());
  return hash;
}

// The same small workload of whole frames for both tables.
bool agrees_with_scalar(const Kernels& table, const Case& c) {
  uint64_t found[2];
  const Kernels* const pair[2] = {&scalar(), &table};
  for (int i = 0; i < 2; ++i) {
    Workload w(8 * kFrameBytes);
    fill(w);
    c.run(*pair[i], w);
    found[i] = fingerprint(w);
  }
  return found[0] == found[1];
}

// ---- timing ----

// Processor time of this thread, so that other programs do not count.
double thread_seconds() {
  timespec now{};
  clock_gettime(CLOCK_THREAD_CPUTIME_ID, &now);
  return static_cast<double>(now.tv_sec) + 1e-9 * static_cast<double>(now.tv_nsec);
}

double seconds_of(const std::function<void()>& work) {
  const double start = thread_seconds();
  work();
  return thread_seconds() - start;
}

double median(std::vector<double> values) {
  std::nth_element(values.begin(), values.begin() + static_cast<long>(values.size() / 2), values.end());
  return values[values.size() / 2];
}

struct Measurement {
  const Kernels* table;
  Case c;
  std::vector<double> rate;   // GB/s, one per round.
  std::vector<double> ratio;  // Rate / the copy's rate in the same round.
};

// GB read and written per second.
double copy_rate(Workload& w) {
  const size_t bytes = 4 * w.elements;
  const double seconds = seconds_of([&] { std::memcpy(w.output.data(), w.tensor.data(), bytes); });
  return 2e-9 * static_cast<double>(bytes) / seconds;
}

// Each round has all cases, so that a slow moment of the machine meets all of them.
std::vector<double> measure(std::vector<Measurement>& measurements, Workload& w, int rounds) {
  std::vector<double> copies;
  copy_rate(w);  // Touches the output's pages.
  for (int round = 0; round < rounds; ++round) {
    for (Measurement& m : measurements) {
      const double copy = copy_rate(w);
      const double seconds = seconds_of([&] { m.c.run(*m.table, w); });
      const double rate = 1e-9 * m.c.bytes_per_element * static_cast<double>(w.elements) / seconds;
      copies.push_back(copy);
      m.rate.push_back(rate);
      m.ratio.push_back(rate / copy);
    }
  }
  return copies;
}

// ---- output ----

// The scalar table is the reference: targets are for the others.
bool has_target(const Measurement& m) { return m.c.has_target && m.table != &scalar(); }

void print_table(const std::vector<Measurement>& measurements, double copy) {
  std::printf("copy (memcpy): %.1f GB/s read + written\n\n", copy);
  std::printf("%-8s %-22s %-7s %8s %8s %7s\n", "table", "kernel", "route", "GB/s", "of copy", "target");
  for (const Measurement& m : measurements) {
    std::printf("%-8s %-22s %-7s %8.1f %8.2f %7s\n", m.table->name, m.c.kernel, m.c.route, median(m.rate),
                median(m.ratio), has_target(m) ? "0.50" : "");
  }
}

bool write_json(const std::string& path, const std::vector<Measurement>& measurements, double copy,
                const Options& options) {
  std::FILE* file = std::fopen(path.c_str(), "w");
  if (file == nullptr) {
    std::fprintf(stderr, "bench_micro: --json %s: %s\n", path.c_str(), std::strerror(errno));
    return false;
  }
  std::fprintf(file, "{\n  \"benchmark\": \"micro\",\n  \"buffer_mib\": %zu,\n  \"rounds\": %d,\n", options.mib,
               options.rounds);
  std::fprintf(file, "  \"copy_gb_per_s\": %.3f,\n  \"results\": [\n", copy);
  for (size_t i = 0; i < measurements.size(); ++i) {
    const Measurement& m = measurements[i];
    std::fprintf(
        file,
        "    {\"table\": \"%s\", \"kernel\": \"%s\", \"route\": \"%s\", \"gb_per_s\": %.3f, \"of_copy\": %.3f, "
        "\"has_target\": %s}%s\n",
        m.table->name, m.c.kernel, m.c.route, median(m.rate), median(m.ratio), has_target(m) ? "true" : "false",
        i + 1 < measurements.size() ? "," : "");
  }
  std::fprintf(file, "  ]\n}\n");
  return std::fclose(file) == 0;
}

bool targets_met(const std::vector<Measurement>& measurements, double require) {
  bool met = true;
  for (const Measurement& m : measurements) {
    if (!has_target(m) || median(m.ratio) >= require) continue;
    std::fprintf(stderr, "bench_micro: %s %s (%s) reaches %.2f of copy, --require %.2f\n", m.table->name, m.c.kernel,
                 m.c.route, median(m.ratio), require);
    met = false;
  }
  return met;
}

// ---- arguments ----

std::vector<switchml::Option> table(Options* options) {
  namespace value = switchml::value;
  return {
      {"table", value::word("NAME", &options->table), "one table of kernels, or all that this processor runs"},
      {"mib", value::whole(1, 4096, &options->mib), "size of the large buffers in MiB; take 8 times the last cache"},
      {"rounds", value::whole(1, 1000, &options->rounds), "timed rounds, medians are reported"},
      {"require", value::real(0, 10, &options->require),
       "fail if fp32 quantize or dequantize of a vector table is below this part of copy"},
      {"json", value::word("FILE", &options->json), "write the results to FILE as well"}};
}

std::vector<const Kernels*> tables_named(const std::string& name) {
  if (name == "all") return switchml::available_kernels();
  const auto chosen = switchml::select_kernels(name);
  if (chosen.ok()) return {chosen.value()};
  std::fprintf(stderr, "bench_micro: --table: %s\n", chosen.status().message().c_str());
  std::exit(2);
}

}  // namespace

int main(int argc, char** argv) {
  Options options;
  const auto left = switchml::answer_command_line(argc, argv, "usage: bench_micro [OPTION]...\n", table(&options));
  if (left) return *left;
  std::vector<Measurement> measurements;
  for (const Kernels* table : tables_named(options.table)) {
    for (const Case& c : cases()) {
      if (!agrees_with_scalar(*table, c)) {
        std::fprintf(stderr, "bench_micro: %s %s (%s) differs from scalar\n", table->name, c.kernel, c.route);
        return 1;
      }
      measurements.push_back({table, c, {}, {}});
    }
  }
  Workload workload(options.mib << 20);
  fill(workload);
  const double copy = median(measure(measurements, workload, options.rounds));
  print_table(measurements, copy);
  if (!options.json.empty() && !write_json(options.json, measurements, copy, options)) return 1;
  return targets_met(measurements, options.require) ? 0 : 1;
}
