// Whether what leaves a rank is encrypted and authenticated: what rank 0 decides for its group, and tells all ranks.
#pragma once

#include <optional>
#include <string>

#include "base/config.h"
#include "base/status.h"
#include "seal/seal_key.h"
#include "session/hello.h"
#include "store/blob.h"

namespace switchml {

/// Which links of a group are sealed (transport/sealed_link.h).
struct Seals {
  bool switches = false;  // Those to the group's switches.
  bool ranks = false;     // Those between ranks, and to switches that take a lost one's place.

  void write(Blob* blob) const;
  static Seals read(const Blob& blob);
};

/// On rank 0. kInvalidArgument: the group insists on encryption, and its switches have no key; the error has the
/// remedy. Where a group of several hosts goes without by itself, the log says why (info). `group`: its name.
Result<Seals> choose_seals(const Config& config, const Roster& roster, const std::string& group);

}  // namespace switchml
