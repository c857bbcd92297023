// send and recv through memory that the ranks share (shm/messages.h).
#pragma once

#include <memory>
#include <vector>

#include "c10d/group_core.h"
#include "shm/messages.h"

namespace switchml {

/// Sends the only one of `tensors` to another rank. Counts the call. The work is complete when the tensor may be
/// written again: it is in shared memory, or with the receiver.
c10::intrusive_ptr<c10d::Work> send_in_memory(const std::shared_ptr<GroupCore>& core,
                                              const std::shared_ptr<shm::Messages>& memory,
                                              const std::vector<at::Tensor>& tensors, int destination, int tag,
                                              Time deadline);
/// Receives it, from any rank where `source` is kAnySource; the work has the source.
c10::intrusive_ptr<c10d::Work> recv_in_memory(const std::shared_ptr<GroupCore>& core,
                                              const std::shared_ptr<shm::Messages>& memory,
                                              const std::vector<at::Tensor>& tensors, int source, int tag,
                                              Time deadline);

}  // namespace switchml
