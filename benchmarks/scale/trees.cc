#include "trees.h"

#include <algorithm>

namespace switchml::scale {

namespace {

class Trees {
 public:
  Trees(const TreeOptions& options, Fabric* fabric, EventQueue* events)
      : options_(options),
        inputs_(options.bytes / sizeof(float)),
        frames_(options.payload_bytes + 1024),
        carrier_{*fabric, *events, frames_} {}

  Outcome run() {
    make();
    while (!carrier_.events.empty() && carrier_.running > 0) handle(carrier_.events.pop());
    return outcome();
  }

 private:
  void make();
  void handle(const Event& event);
  void die();
  Outcome outcome();
  WorkerEnd& worker(uint32_t node) {
    const uint32_t number = node - carrier_.first_worker();
    return jobs_[job_of_[number]]->worker(index_of_[number]);
  }

  const TreeOptions options_;
  Inputs inputs_;
  Frames frames_;
  Carrier carrier_;
  Switches switches_;
  std::vector<std::unique_ptr<Job>> jobs_;
  std::vector<uint32_t> job_of_, index_of_;  // Index: worker.
};

void Trees::make() {
  for (int node = 0; node < carrier_.fabric.switches(); ++node)
    switches_.push_back(std::make_unique<SwitchEnd>(static_cast<uint32_t>(node), &carrier_));
  for (int j = 0; j < options_.jobs; ++j) {
    std::vector<int> hosts;
    for (int host = j; host < carrier_.fabric.hosts(); host += options_.jobs) hosts.push_back(host);
    const auto first = static_cast<uint32_t>(carrier_.hosts.size());
    for (size_t w = 0; w < hosts.size(); ++w) {
      carrier_.push(EventKind::kStart, 0, carrier_.first_worker() + first + static_cast<uint32_t>(w));
      job_of_.push_back(static_cast<uint32_t>(j));
      index_of_.push_back(static_cast<uint32_t>(w));
    }
    carrier_.hosts.insert(carrier_.hosts.end(), hosts.begin(), hosts.end());
    jobs_.push_back(std::make_unique<Job>(j, options_, inputs_, &carrier_, &switches_));
    jobs_.back()->make_workers(hosts, first);
    jobs_.back()->install({options_.spread ? j % carrier_.fabric.planes() : 0, 0});
  }
  carrier_.running = carrier_.hosts.size();
  if (options_.dies_at != kNoInstant) carrier_.push(EventKind::kDeath, options_.dies_at, 0);
}

void Trees::handle(const Event& event) {
  switch (static_cast<EventKind>(event.kind)) {
    case EventKind::kArrival: {
      auto* frame = static_cast<Frame*>(event.data);
      if (!carrier_.is_worker(event.to)) return switches_[event.to]->deliver(frame, event.from);
      return worker(event.to).deliver(frame);
    }
    case EventKind::kTimer: return worker(event.to).on_timer();
    case EventKind::kStart: return worker(event.to).start();
    case EventKind::kDeath: return die();
    case EventKind::kSuspend: return jobs_[event.to]->suspend(event.from);
    case EventKind::kHandOver: return jobs_[event.to]->hand_over();
    case EventKind::kResume: return jobs_[event.to]->resume(event.from);
  }
}

void Trees::die() {
  const int dead = jobs_.front()->top();
  switches_[static_cast<size_t>(dead)]->kill();
  for (auto& job : jobs_) {
    if (job->top() == dead) job->begin_move();
  }
}

Outcome Trees::outcome() {
  Outcome outcome;
  for (auto& job : jobs_) {
    outcome.took.push_back(job->ended_at());
    if (outcome.wrong.empty()) outcome.wrong = job->wrong();
    outcome.handed_over += job->handed_over();
    for (size_t w = 0; w < job->workers(); ++w) {
      outcome.chunks += job->worker(w).chunks();
      outcome.retransmissions += job->worker(w).counters().retransmissions.get();
      outcome.timeouts += job->worker(w).counters().timeouts.get();
    }
  }
  for (auto& end : switches_) {
    if (!end->alive()) continue;
    outcome.slot_bytes = std::max<uint64_t>(outcome.slot_bytes, end->core().slot_memory_in_use());
    outcome.duplicates_answered += end->core().counters().duplicates_answered.get();
  }
  return outcome;
}

}  // namespace

Outcome run_trees(const TreeOptions& options, Fabric* fabric, EventQueue* events) {
  return Trees(options, fabric, events).run();
}

}  // namespace switchml::scale
