// Runs one simulation, and prints its results as a line of JSON. benchmarks/scale/__main__.py runs many.
#include <cstdio>
#include <fstream>
#include <string>

#include "base/command_line.h"
#include "leaders.h"
#include "ring.h"
#include "shares.h"
#include "trees.h"

namespace switchml::scale {
namespace {

struct Settings {
  std::string way = "tree";
  FabricOptions fabric;
  TreeOptions tree;
  WayOptions other;
  double dies_ms = 0;
};

std::vector<Option> table(Settings* settings) {
  FabricOptions& fabric = settings->fabric;
  TreeOptions& tree = settings->tree;
  return {
      {"way", value::one_of({"tree", "ring", "leaders", "shares"}, &settings->way), "by which tensors are added"},
      {"racks", value::whole(1, 4096, &fabric.racks), "of hosts"},
      {"hosts", value::whole(1, 128, &fabric.hosts_per_rack), "of a rack"},
      {"pod", value::whole(0, 128, &fabric.racks_per_pod), "racks of a pod; 0: one pod of all, and no cores"},
      {"host-gbps", value::real(0.1, 1600, &fabric.host_gbps), "of hosts' links"},
      {"trunk-gbps", value::real(0.1, 1600, &fabric.trunk_gbps), "of links between switches"},
      {"oversubscription", value::real(1, 16, &fabric.oversubscription), "of each level"},
      {"hop-us", value::real(0, 1000, &fabric.hop_us), "of each link, and what it ends in, beside the frame's time"},
      {"queue-kib", value::real(1, 1 << 20, &fabric.queue_kib), "that wait for a link of a switch at most"},
      {"loss", value::real(0, 0.5, &fabric.loss), "of frames, on each link"},
      {"kib",
       value::whole(
           "N", 1, 1 << 20, [&tree](long n) { tree.bytes = static_cast<size_t>(n) << 10; },
           [&tree] { return std::to_string(tree.bytes >> 10); }, "KiB"),
       "of each tensor"},
      {"payload", value::payload_size(&tree.payload_bytes), "of frames"},
      {"window-kib",
       value::whole(
           "N", 1, 1 << 20, [settings](long n) { settings->other.window_bytes = static_cast<size_t>(n) << 10; },
           [settings] { return std::to_string(settings->other.window_bytes >> 10); }, "KiB"),
       "under way from a host, of ways other than trees"},
      {"slots", value::whole(4, 4096, &tree.slots), "of a session"},
      {"jobs", value::whole(1, 64, &tree.jobs), "that share the hosts out, and the tree"},
      {"spread", value::flag(&tree.spread), "the trees of jobs over planes, in turn"},
      {"dies-ms", value::real(0, 1e6, &settings->dies_ms), "when the topmost switch dies; 0: it does not"},
      {"notice", value::duration(0, 1e4, milliseconds(1), &tree.notice, "milliseconds"), "until ranks are told"},
      {"hand-over", value::duration(0, 1e4, milliseconds(1), &tree.hand_over, "milliseconds"), "what ranks exchange"},
      {"spoil", value::flag(&tree.spoil), "expect a wrong sum of one element, for tests: the run must fail"},
      {"seed", value::whole(0, 1 << 30, &fabric.seed), "of chance"},
  };
}

// Not ru_maxrss, which begins with that of the parent process.
uint64_t most_memory_kib() {
  std::ifstream status("/proc/self/status");
  for (std::string word; status >> word;) {
    uint64_t kib = 0;
    if (word == "VmHWM:" && status >> kib) return kib;
  }
  return 0;
}

void print(const Settings& settings, const Outcome& outcome, const Fabric& fabric, const EventQueue& events) {
  std::printf("{\"way\": \"%s\", \"workers\": %d, \"seconds\": [", settings.way.c_str(), fabric.hosts());
  const char* between = "";
  for (const Instant took : outcome.took) {
    std::printf("%s%.9f", between, static_cast<double>(took) / (1e3 * kMillisecond));
    between = ", ";
  }
  std::printf("]");
  const auto number = [](const char* name, uint64_t value) {
    std::printf(", \"%s\": %llu", name, static_cast<unsigned long long>(value));
  };
  number("chunks", outcome.chunks);
  number("retransmissions", outcome.retransmissions);
  number("timeouts", outcome.timeouts);
  number("duplicates_answered", outcome.duplicates_answered);
  number("handed_over", outcome.handed_over);
  number("slot_bytes", outcome.slot_bytes);
  number("frames", fabric.sent());
  number("lost", fabric.lost_by_chance());
  number("dropped", fabric.dropped());
  number("events", events.pushed());
  number("memory_kib", most_memory_kib());
  std::printf("}\n");
}

Outcome simulate(const Settings& settings, Fabric* fabric, EventQueue* events) {
  if (settings.way == "ring") return run_ring(settings.other, fabric, events);
  if (settings.way == "leaders") return run_leaders(settings.other, fabric, events);
  if (settings.way == "shares") return run_shares(settings.other, fabric, events);
  return run_trees(settings.tree, fabric, events);
}

int run(Settings settings) {
  settings.tree.seed = settings.fabric.seed;
  settings.other.bytes = settings.tree.bytes;
  settings.other.payload_bytes = settings.tree.payload_bytes;
  settings.other.jobs = settings.tree.jobs;
  if (settings.dies_ms > 0) settings.tree.dies_at = static_cast<Instant>(settings.dies_ms * kMillisecond);
  Fabric fabric(settings.fabric);
  EventQueue events;
  const Outcome outcome = simulate(settings, &fabric, &events);
  if (!outcome.wrong.empty()) throw StatusError({Code::kInternal, outcome.wrong});
  print(settings, outcome, fabric, events);
  return 0;
}

}  // namespace
}  // namespace switchml::scale

int main(int argc, char** argv) {
  switchml::scale::Settings settings;
  if (const auto status = switchml::answer_command_line(argc, argv, "usage: bench_scale [OPTION]...",
                                                        switchml::scale::table(&settings))) {
    return *status;
  }
  try {
    return switchml::scale::run(settings);
  } catch (const std::exception& error) {
    std::fprintf(stderr, "bench_scale: %s\n", error.what());
    return 1;
  }
}
