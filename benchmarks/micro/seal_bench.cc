// The time of one core to seal a frame, and to open it in place: AES-256-GCM as sealed links use it
// (transport/sealed_link.h). Frames of docs/protocol-seal.md; what was opened is compared before anything is timed.
#include <algorithm>
#include <cstdio>
#include <string>
#include <vector>

#include "base/clock.h"
#include "base/command_line.h"
#include "seal/channel.h"

namespace {

using switchml::monotonic_now;
using switchml::Time;
using namespace switchml::seal;

constexpr size_t kSizes[] = {128, 1408, 16384, 64512};
constexpr size_t kHead = 24;  // As an exact contribution's: sealed apart from the elements.

struct Channel {
  SealedSender sender{make_aes_gcm({}, AeadUse::kSeal), 0, Form::kFromInitiator};
  SealedReceiver receiver{make_aes_gcm({}, AeadUse::kOpen)};
};

double microseconds_since(Time begin) {
  return std::chrono::duration<double, std::micro>(monotonic_now() - begin).count();
}

/// Medians, in nanoseconds.
struct Times {
  double seal = 0;
  double open = 0;
};

double median(std::vector<double> values) {
  std::sort(values.begin(), values.end());
  return values[values.size() / 2];
}

/// Nothing: what was opened is not what was sealed.
bool measure(size_t size, int rounds, Times* out) {
  const size_t count = std::max<size_t>(1, (256 << 10) / size);  // Frames that stay in the cache.
  std::vector<uint8_t> plain(size);
  for (size_t i = 0; i < size; ++i) plain[i] = static_cast<uint8_t>(i * 7);
  std::vector<std::vector<uint8_t>> frames(count, std::vector<uint8_t>(size + kSealBytes));
  Channel channel;
  std::vector<double> seal, open;
  for (int round = 0; round < rounds; ++round) {
    Time begin = monotonic_now();
    for (auto& frame : frames)
      channel.sender.seal({plain.data(), kHead}, {plain.data() + kHead, size - kHead}, frame.data());
    seal.push_back(1e3 * microseconds_since(begin) / static_cast<double>(count));
    begin = monotonic_now();
    size_t opened = 0;
    for (auto& frame : frames) {
      opened += channel.receiver.open(frame.data(), frame.size()) == SealedReceiver::Verdict::kOpened ? 1 : 0;
    }
    open.push_back(1e3 * microseconds_since(begin) / static_cast<double>(count));
    if (opened != count) return false;
    if (round == 0 && !std::equal(plain.begin(), plain.end(), frames.back().begin() + kFrontBytes)) return false;
  }
  *out = {median(seal), median(open)};
  return true;
}

int run(int rounds) {
  std::printf("%10s %10s %10s %10s %10s\n", "bytes", "seal ns", "open ns", "seal GB/s", "open GB/s");
  for (const size_t size : kSizes) {
    Times times;
    if (!measure(size, rounds, &times)) {
      std::fprintf(stderr, "bench_seal: a frame of %zu bytes did not open as it was sealed\n", size);
      return 1;
    }
    const auto bytes = static_cast<double>(size);
    std::printf("%10zu %10.0f %10.0f %10.2f %10.2f\n", size, times.seal, times.open, bytes / times.seal,
                bytes / times.open);
  }
  return 0;
}

}  // namespace

int main(int argc, char** argv) {
  int rounds = 200;
  const auto left = switchml::answer_command_line(
      argc, argv, "bench_seal: what encryption costs a core, by frame\n",
      {{"rounds", switchml::value::whole(1, 1000000, &rounds), "measurements, of which the median is printed"}});
  return left ? *left : run(rounds);
}
