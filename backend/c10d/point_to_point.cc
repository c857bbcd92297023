// send and recv.
#include "c10d/message_call.h"
#include "c10d/process_group.h"

namespace switchml {

using c10d::OpType;
using WorkPtr = ProcessGroupSwitchML::WorkPtr;
using Tensors = ProcessGroupSwitchML::Tensors;

// A barrier does not wait for these: their other end may come after it.
WorkPtr ProcessGroupSwitchML::message(Call call, OpType type, const Tensors& tensors, int peer, int tag) {
  WorkPtr work = start_message(core_, call, type, tensors, peer, tag, deadline({}));
  coalescing_.add(work);
  return work;
}

WorkPtr ProcessGroupSwitchML::send(Tensors& tensors, int destination, int tag) {
  arguments(Call::kSend).send(tensors, destination, tag);
  return message(Call::kSend, OpType::SEND, tensors, destination, tag);
}

WorkPtr ProcessGroupSwitchML::recv(Tensors& tensors, int source, int tag) {
  arguments(Call::kRecv).recv(tensors, source, tag);
  return message(Call::kRecv, OpType::RECV, tensors, source, tag);
}

WorkPtr ProcessGroupSwitchML::recvAnysource(Tensors& tensors, int tag) {
  arguments(Call::kRecvAnySource).recv_any_source(tensors, tag);
  return message(Call::kRecvAnySource, OpType::RECVANYSOURCE, tensors, kAnySource, tag);
}

}  // namespace switchml
