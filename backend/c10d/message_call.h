// send and recv, as messages (messages/messages.h).
#pragma once

#include <memory>
#include <vector>

#include "c10d/group_core.h"
#include "messages/messages.h"

namespace switchml {

/// Throws where the group is closed, or has no other rank.
std::shared_ptr<Messages> messages_of(const GroupCore& core, Call call);

/// Sends the only one of `tensors` to rank `peer`, or receives it from that rank, as `call` says. The work of a send is
/// complete when the tensor may be written again: its transport has it, or the receiver. That of a receive from any
/// rank (kAnySource) has the source.
c10::intrusive_ptr<c10d::Work> start_message(const std::shared_ptr<GroupCore>& core, Call call, c10d::OpType type,
                                             const std::vector<at::Tensor>& tensors, int peer, int tag, Time deadline);

}  // namespace switchml
