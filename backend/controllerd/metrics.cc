#include "controllerd/metrics.h"

#ifdef SWITCHML_HAS_PROMETHEUS
#include <prometheus/metric_family.h>
#include <prometheus/text_serializer.h>

#include <map>
#endif

namespace switchml {

#ifdef SWITCHML_HAS_PROMETHEUS

namespace {

using prometheus::MetricFamily;
using Labels = std::vector<prometheus::ClientMetric::Label>;

class Families {
 public:
  void gauge(const std::string& name, const std::string& help, const Labels& labels, double value) {
    add(name, help, prometheus::MetricType::Gauge, labels).gauge.value = value;
  }
  void counter(const std::string& name, const std::string& help, const Labels& labels, double value) {
    add(name + "_total", help, prometheus::MetricType::Counter, labels).counter.value = value;
  }
  std::vector<MetricFamily> take() {
    std::vector<MetricFamily> all;
    for (auto& [name, family] : families_) all.push_back(std::move(family));
    return all;
  }

 private:
  prometheus::ClientMetric& add(const std::string& name, const std::string& help, prometheus::MetricType type,
                                const Labels& labels) {
    MetricFamily& family = families_[name];
    family.name = name;
    family.help = help;
    family.type = type;
    family.metric.emplace_back();
    family.metric.back().label = labels;
    return family.metric.back();
  }

  std::map<std::string, MetricFamily> families_;
};

/// Whether Prometheus takes a counter's name, which the switch has chosen.
bool good_name(const std::string& name) {
  return !name.empty() && name.find_first_not_of("abcdefghijklmnopqrstuvwxyz0123456789_") == std::string::npos;
}

class Collector {
 public:
  explicit Collector(Dispatcher& dispatcher) : dispatcher_(dispatcher) {}

  std::vector<MetricFamily> collect() const {
    Families families;
    add_controller(&families);
    add_sessions(&families);
    add_switches(&families);
    return families.take();
  }

 private:
  void add_controller(Families* out) const {
    const controller::ControllerCounters c = dispatcher_.counters();
    const auto add = [out](const char* name, const char* help, uint64_t value) {
      out->counter(std::string("switchml_controller_") + name, help, {}, static_cast<double>(value));
    };
    add("sessions_opened", "sessions opened", c.sessions_opened);
    add("opens_refused", "opens refused", c.opens_refused);
    add("sessions_closed", "sessions closed by their members", c.sessions_closed);
    add("sessions_expired", "sessions of which nobody was heard for the lease", c.sessions_expired);
    add("sessions_lost", "sessions that a switch has forgotten or could not install", c.sessions_lost);
    add("requests", "control packets that arrived at switches", c.requests);
    add("requests_malformed", "control packets dropped", c.requests_malformed);
    add("joins_refused", "joins refused", c.joins_refused);
    add("silent_paths", "paths between switches over which nothing of a session came", c.silent_paths);
  }

  void add_sessions(Families* out) const {
    const auto sessions = dispatcher_.sessions();
    out->gauge("switchml_controller_sessions", "sessions now", {}, static_cast<double>(sessions.size()));
    for (const controller::SessionView& view : sessions) {
      const Labels labels = {{"job", std::to_string(view.id.job)}, {"group", view.group}, {"owner", view.owner}};
      out->gauge("switchml_session_workers", "ranks of the session", labels, view.workers);
      out->gauge("switchml_session_joined_workers", "ranks that have joined with all their shards", labels,
                 view.joined.count());
      out->gauge("switchml_session_slots", "slots granted", labels, view.slots);
    }
  }

  void add_switches(Families* out) const {
    const auto switches = dispatcher_.switches();
    for (size_t i = 0; i < switches.size(); ++i) {
      const Labels labels = {{"switch", switches[i].name}};
      out->gauge("switchml_switch_connected", "1 if the switch's agent answers", labels, switches[i].connected ? 1 : 0);
      out->gauge("switchml_switch_free_slots", "slots left at the largest payload", labels,
                 static_cast<double>(switches[i].free_slots));
      add_counters(static_cast<int>(i), switches[i].name, out);
    }
  }

  void add_counters(int at, const std::string& name, Families* out) const {
    v1::CountersReply reply;
    if (!dispatcher_.switch_counters(at, &reply).ok()) return;
    for (const v1::JobCounters& job : reply.jobs()) {
      for (const auto& [counter, value] : job.values()) {
        if (!good_name(counter)) continue;
        out->counter("switchml_switch_" + counter, "as the switch counts (docs/troubleshooting.md)",
                     {{"switch", name}, {"job", std::to_string(job.job())}}, static_cast<double>(value));
      }
    }
  }

  Dispatcher& dispatcher_;
};

}  // namespace

Result<std::unique_ptr<HttpServer>> serve_metrics(const std::string& address, Dispatcher& dispatcher) {
  HttpServer::Page page{"/metrics", "text/plain; version=0.0.4; charset=utf-8", [&dispatcher] {
                          return prometheus::TextSerializer().Serialize(Collector(dispatcher).collect());
                        }};
  return HttpServer::start("--metrics", address, std::move(page));
}

#else

Result<std::unique_ptr<HttpServer>> serve_metrics(const std::string& address, Dispatcher&) {
  return Status(Code::kUnsupported,
                "--metrics=\"" + address + "\": this build has no metrics; install prometheus-cpp-dev and build again");
}

#endif

}  // namespace switchml
