#include "controllerd/metrics.h"

#include "base/metrics_text.h"

namespace switchml {

namespace {

/// Whether Prometheus takes a counter's name, which the switch has chosen.
bool good_name(const std::string& name) {
  return !name.empty() && name.find_first_not_of("abcdefghijklmnopqrstuvwxyz0123456789_") == std::string::npos;
}

class Collector {
 public:
  explicit Collector(Dispatcher& dispatcher) : dispatcher_(dispatcher) {}

  std::string collect() const {
    MetricsText out;
    add_controller(&out);
    add_sessions(&out);
    add_switches(&out);
    return out.text();
  }

 private:
  void add_controller(MetricsText* out) const {
    const controller::ControllerCounters c = dispatcher_.counters();
    const auto add = [out](const char* name, const char* help, uint64_t value) {
      out->counter(std::string("switchml_controller_") + name, help, {}, value);
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

  void add_sessions(MetricsText* out) const {
    const auto sessions = dispatcher_.sessions();
    out->gauge("switchml_controller_sessions", "sessions now", {}, static_cast<double>(sessions.size()));
    for (const controller::SessionView& view : sessions) {
      const MetricLabels labels = {{"job", std::to_string(view.id.job)}, {"group", view.group}, {"owner", view.owner}};
      out->gauge("switchml_session_workers", "ranks of the session", labels, view.workers);
      out->gauge("switchml_session_joined_workers", "ranks that have joined with all their shards", labels,
                 view.joined.count());
      out->gauge("switchml_session_slots", "slots granted", labels, view.slots);
    }
  }

  void add_switches(MetricsText* out) const {
    const auto switches = dispatcher_.switches();
    for (size_t i = 0; i < switches.size(); ++i) {
      const MetricLabels labels = {{"switch", switches[i].name}};
      out->gauge("switchml_switch_connected", "1 if the switch's agent answers", labels, switches[i].connected ? 1 : 0);
      out->gauge("switchml_switch_free_slots", "slots left at the largest payload", labels,
                 static_cast<double>(switches[i].free_slots));
      add_counters(static_cast<int>(i), switches[i].name, out);
    }
  }

  void add_counters(int at, const std::string& name, MetricsText* out) const {
    v1::CountersReply reply;
    if (!dispatcher_.switch_counters(at, &reply).ok()) return;
    for (const v1::JobCounters& job : reply.jobs()) {
      for (const auto& [counter, value] : job.values()) {
        if (!good_name(counter)) continue;
        out->counter("switchml_switch_" + counter, "as the switch counts (docs/troubleshooting.md)",
                     {{"switch", name}, {"job", std::to_string(job.job())}}, value);
      }
    }
  }

  Dispatcher& dispatcher_;
};

}  // namespace

Result<std::unique_ptr<HttpServer>> serve_metrics(const std::string& address, Dispatcher& dispatcher) {
  HttpServer::Page page{"/metrics", kMetricsContentType, [&dispatcher] { return Collector(dispatcher).collect(); }};
  return HttpServer::start("--metrics", address, std::move(page));
}

}  // namespace switchml
