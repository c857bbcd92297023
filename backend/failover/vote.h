// What all ranks must do together or not at all, and rank 0 decides: each says what it has to say to it, rank 0 hears
// them all, and its word counts for all. So no rank goes where another does not, whatever happens meanwhile.
//
//   each rank  TOPIC/said     what it says, or why it cannot
//   rank 0     TOPIC/verdict  what follows, or why it is off
#pragma once

#include <functional>
#include <string>
#include <vector>

#include "store/blob.h"
#include "store/rendezvous.h"
#include "store/store_channel.h"

namespace switchml {

/// `conclude`: on rank 0, from what the ranks have said, in their order. An error is one on all ranks that can still
/// talk; of another rank, it begins with that one.
Result<Blob> vote(StoreChannel& channel, const GroupInfo& group, const std::string& topic, const Result<Blob>& mine,
                  const std::function<Blob(const std::vector<Blob>& said)>& conclude);

}  // namespace switchml
