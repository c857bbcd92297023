#include "shm/mail_transport.h"

#include <utility>

#include "base/assert.h"

namespace switchml::shm {

MailTransport::MailTransport(const Mail& mail, int rank, std::shared_ptr<const void> owner)
    : owner_(std::move(owner)), mail_(mail), rank_(rank) {
  SWITCHML_ASSERT(rank >= 0 && rank < mail.ranks());
  for (int other = 0; other < mail.ranks(); ++other) {
    out_.push_back(mail.ring(rank, other));
    in_.push_back({mail.ring(other, rank)});
  }
}

Status MailTransport::look(int source) {
  Inbox& in = in_[static_cast<size_t>(source)];
  if (!in.opened) {
    if (Status opened = in.ring.open(); !opened.ok()) return opened;
    in.opened = true;
  }
  in.ring.look();
  return {};
}

void MailTransport::pop(int source) {
  if (from(source).pop()) mail_.signal(rank_, source);
}

Result<bool> MailTransport::put(int to, const MessageRecord& record, const void* data, size_t behind) {
  Ring& ring = out_[static_cast<size_t>(to)];
  Result<bool> written = ring.put(record, data, behind);
  if (written.ok() && !written.value() && !ring.await_room()) written = ring.put(record, data, behind);
  if (written.ok() && written.value()) mail_.signal(rank_, to);
  return written;
}

}  // namespace switchml::shm
