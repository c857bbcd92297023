// send and recv: through memory, or by Gloo.
#include "c10d/byte_views.h"
#include "c10d/message_call.h"
#include "c10d/message_work.h"
#include "c10d/process_group.h"

namespace switchml {

using c10d::OpType;
using WorkPtr = ProcessGroupSwitchML::WorkPtr;
using Tensors = ProcessGroupSwitchML::Tensors;

// A barrier does not wait for these: their other end may come after it.

WorkPtr ProcessGroupSwitchML::message(Call call, OpType type, const Tensors& tensors, int peer, int tag,
                                      const std::function<WorkPtr(compat::Base&)>& by_gloo) {
  const std::shared_ptr<Session> session = core_->session();
  if (const Status closed = core_->closed(); !closed.ok()) throw_status(closed, core_->context(call));
  if (const auto memory = session ? session->messages() : nullptr) {
    return sent(message_in_memory(core_, memory, call, type, tensors, peer, tag, deadline({})));
  }
  if (const Status failure = core_->failure(); !failure.ok()) throw_status(failure, core_->context(call));
  const auto gloo = delegate_->get();
  const WorkPtr work = MessageWork::start(core_, call, type, tensors, peer, tag, [&] { return by_gloo(*gloo); });
  messages_.add(work);
  if (!core_->failure().ok()) work->abort();  // it came too late for abort_messages()
  return sent(work);
}

WorkPtr ProcessGroupSwitchML::send(Tensors& tensors, int destination, int tag) {
  arguments(Call::kSend).send(tensors, destination, tag);
  return message(Call::kSend, OpType::SEND, tensors, destination, tag, [&](compat::Base& gloo) {
    Tensors bytes = ByteViews().inputs(tensors);
    return gloo.send(bytes, destination, tag);
  });
}

WorkPtr ProcessGroupSwitchML::recv(Tensors& tensors, int source, int tag) {
  arguments(Call::kRecv).recv(tensors, source, tag);
  return message(Call::kRecv, OpType::RECV, tensors, source, tag, [&](compat::Base& gloo) {
    Tensors bytes = ByteViews().outputs(tensors);
    return gloo.recv(bytes, source, tag);
  });
}

WorkPtr ProcessGroupSwitchML::recvAnysource(Tensors& tensors, int tag) {
  arguments(Call::kRecvAnySource).recv_any_source(tensors, tag);
  return message(Call::kRecvAnySource, OpType::RECVANYSOURCE, tensors, kAnySource, tag, [&](compat::Base& gloo) {
    Tensors bytes = ByteViews().outputs(tensors);
    return gloo.recvAnysource(bytes, tag);
  });
}

}  // namespace switchml
