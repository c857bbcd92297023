// send and recv through memory that the ranks share (messages/messages.h).
#pragma once

#include <memory>
#include <vector>

#include "c10d/group_core.h"
#include "messages/messages.h"

namespace switchml {

/// Sends the only one of `tensors` to rank `peer`, or receives it from that rank, as `call` says. The work of a send is
/// complete when the tensor may be written again: it is in shared memory, or with the receiver. That of a receive from
/// any rank (kAnySource) has the source.
c10::intrusive_ptr<c10d::Work> message_in_memory(const std::shared_ptr<GroupCore>& core,
                                                 const std::shared_ptr<Messages>& memory, Call call, c10d::OpType type,
                                                 const std::vector<at::Tensor>& tensors, int peer, int tag,
                                                 Time deadline);

}  // namespace switchml
