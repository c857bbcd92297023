#include "network.h"

#include <algorithm>
#include <utility>

namespace switchml::sim {

namespace {
// Frames arrive in steps of this, so that bursts are bursts.
constexpr Duration kStep = microseconds(10);
}  // namespace

Weather draw_weather(Random& random) {
  Weather w;
  constexpr double kRates[] = {0, 0, 0.001, 0.01, 0.05, 0.2};
  w.loss = random.pick(kRates);
  w.duplicate = random.pick(kRates);
  constexpr double kLate[] = {0, 0.002, 0.01, 0.03};
  w.late = random.pick(kLate);
  constexpr double kDamage[] = {0, 0, 0.002, 0.02};
  w.damage_caught = random.pick(kDamage);
  w.damage_passed = random.chance(0.15) ? 0.003 : 0;
  w.base = microseconds(random.between(1, 20) * 10);
  constexpr int kJitter[] = {1, 3, 20, 100};
  w.jitter = microseconds(random.pick(kJitter) * 10);
  constexpr int kLatest[] = {10, 50, 300, 3000};
  w.latest = milliseconds(random.pick(kLatest));
  return w;
}

Network::Network(Random* random, Record* record, Damage damage)
    : random_(random),
      record_(record),
      damage_(std::move(damage)),
      cut_until_(kNodes + 1, Time{}),
      highest_order_(kNodes + 1, 0) {}

void Network::cut_link(int from, int to, Time until) {
  const Time now = record_->now();
  links_.erase(std::remove_if(links_.begin(), links_.end(), [now](const Link& link) { return link.cut_until <= now; }),
               links_.end());
  links_.push_back({host_of(from), host_of(to), until});
}

bool Network::is_link_cut(int from, int to) const {
  return std::any_of(links_.begin(), links_.end(), [&](const Link& link) {
    return link.from == host_of(from) && link.to == host_of(to) && record_->now() < link.cut_until;
  });
}

bool Network::takes(bool host_is_cut, int from, int to) {
  const bool link_is_cut = !host_is_cut && is_link_cut(from, to);
  if (host_is_cut) record_->count(Fault::cut_off);
  if (link_is_cut) record_->count(Fault::link_cut_off);
  return host_is_cut || link_is_cut;
}

Duration Network::delay() {
  Duration out =
      weather_.base + kStep * static_cast<int64_t>(random_->below(static_cast<uint64_t>(weather_.jitter / kStep) + 1));
  if (!random_->chance(weather_.late)) return out;
  record_->count(Fault::held_back);
  const auto span = static_cast<uint64_t>((weather_.latest - milliseconds(5)) / kStep) + 1;
  return out + milliseconds(5) + kStep * static_cast<int64_t>(random_->below(span));
}

void Network::send(int from, int to, const uint8_t* data, size_t size) {
  record_->frame("send", from, to, data, size);
  if (takes(is_cut(from) || is_cut(to), from, to)) return;
  if (random_->chance(weather_.loss)) {
    record_->frame("lost", from, to, data, size);
    return record_->count(Fault::lost);
  }
  launch(from, to, data, size);
  for (int copies = 0; copies < 3 && random_->chance(weather_.duplicate); ++copies) {
    record_->count(Fault::duplicated);
    launch(from, to, data, size);
  }
}

size_t Network::free_place() {
  if (free_places_.empty()) {
    places_.emplace_back();
    return places_.size() - 1;
  }
  const size_t place = free_places_.back();
  free_places_.pop_back();
  return place;
}

void Network::launch(int from, int to, const uint8_t* data, size_t size) {
  if (random_->chance(weather_.damage_caught)) return record_->count(Fault::damage_caught);
  const size_t index = free_place();
  Place& place = places_[index];
  Delivery& d = place.delivery;
  if (!free_.empty()) {
    d.bytes = std::move(free_.back());
    free_.pop_back();
  }
  d.from = from;
  d.to = to;
  d.bytes.assign(data, data + size);
  d.damaged = random_->chance(weather_.damage_passed) && damage_(&d.bytes);
  if (d.damaged) {
    record_->frame("damaged", from, to, d.bytes.data(), size);
    record_->count(Fault::damage_passed);
  }
  place.order = ++sent_;
  queue_.push({record_->now() + delay(), sent_, index});
}

bool Network::pop(Time now, Delivery* out) {
  while (!queue_.empty() && queue_.top().at <= now) {
    const Flying flying = queue_.top();
    queue_.pop();
    *out = std::move(places_[flying.place].delivery);
    free_places_.push_back(flying.place);
    if (takes(is_cut(out->to), out->from, out->to)) {
      recycle(std::move(out->bytes));
      continue;
    }
    uint64_t& highest = highest_order_[static_cast<size_t>(out->to)];
    if (flying.order < highest) record_->count(Fault::reordered);
    highest = flying.order > highest ? flying.order : highest;
    record_->frame("arrive", out->from, out->to, out->bytes.data(), out->bytes.size());
    return true;
  }
  return false;
}

}  // namespace switchml::sim
