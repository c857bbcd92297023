#include "store/store_channel.h"

#include <utility>

#include "store/store_exchange.h"

namespace switchml {

namespace {

constexpr Duration kGlance = milliseconds(100);
const std::string kWell = "ok";

}  // namespace

StoreChannel::StoreChannel(Rendezvous& store, int rank, MayWait may_wait, std::string prefix)
    : store_(store), rank_(rank), may_wait_(std::move(may_wait)), prefix_(std::move(prefix)) {}

Status StoreChannel::say(const std::string& topic, const std::string& text) {
  return store_.set(rank_key(prefix_ + topic, rank_), text);
}

Result<std::string> StoreChannel::hear(const std::string& topic, int rank) const {
  const Time begin = monotonic_now();
  for (;;) {
    auto text = store_.get(rank_key(prefix_ + topic, rank), monotonic_now() + kGlance);
    if (text.ok() || text.status().code() != Code::kTimeout) return text;
    if (Status status = may_wait_(rank, monotonic_now() - begin); !status.ok()) return status;
  }
}

Status StoreChannel::say_blob(const std::string& topic, const Result<Blob>& found) {
  const Status& why = found.status();
  const Blob blob = found.ok()
                        ? found.value()
                        : Blob::failure(Status(why.code(), "rank " + std::to_string(rank_) + ": " + why.message()));
  const Status said = say(topic, blob.encode());
  return found.ok() ? said : why;
}

Result<Blob> StoreChannel::hear_blob(const std::string& topic, int rank) const {
  auto text = hear(topic, rank);
  if (!text.ok()) return text.status();
  auto blob = Blob::parse(text.value());
  if (blob.ok() && !blob->carried().ok()) return blob->carried();
  return blob;
}

Status StoreChannel::agree(const std::string& topic, int ranks, const Status& mine) {
  const std::string fared = mine.ok() ? kWell : "rank " + std::to_string(rank_) + ": " + mine.message();
  if (Status status = say(topic, fared); !status.ok()) return status;
  if (!mine.ok()) return mine;
  for (int rank = 0; rank < ranks; ++rank) {
    auto theirs = hear(topic, rank);
    if (!theirs.ok()) return theirs.status();
    if (theirs.value() != kWell) return {Code::kUnavailable, theirs.value()};
  }
  return {};
}

}  // namespace switchml
