#include "transport/rdma/card.h"

#include <fcntl.h>
#include <sys/epoll.h>

#include <cerrno>
#include <system_error>

#include "base/log.h"
#include "socket/address.h"
#include "transport/rdma/pair.h"
#include "transport/udp_path.h"

namespace switchml::rdma {

Status Card::open() {
  if (!waker_.valid()) {
    return {Code::kUnavailable, "cannot open an eventfd: " + std::system_category().message(errno)};
  }
  Status status = options_.asks ? open_udp() : Status();
  if (status.ok()) status = open_card();
  return status.ok() ? watch() : status;
}

Status Card::open_udp() {
  auto socket = open_udp_socket(*options_.asks);
  if (!socket.ok()) return socket.status();
  udp_ = std::make_unique<UdpSide>(std::move(socket.value()), *options_.asks);
  const Endpoint to = options_.asks->peer.size > 0 ? options_.asks->peer : options_.route_to;
  options_.local = with_port(local_address_towards(to), port_of(udp_->socket.local));
  return {};
}

Status Card::open_card() {
  auto port = find_port(verbs_, options_.wish, options_.local);
  if (!port.ok()) return port.status();
  port_ = std::move(port.value());
  Status status = keep(verbs_.protection_domain(port_.context.get()), &domain_);
  if (status.ok()) status = keep(verbs_.completion_channel(port_.context.get()), &channel_);
  for (const int fd : {status.ok() ? channel_->fd : -1, port_.context->async_fd}) {
    if (status.ok() && ::fcntl(fd, F_SETFL, O_NONBLOCK) != 0) {
      status = {Code::kUnavailable, "events of card " + port_.device + " cannot be made non-blocking"};
    }
  }
  return status;
}

Status Card::watch() {
  watched_ = Fd(::epoll_create1(EPOLL_CLOEXEC));
  for (const int fd : {channel_->fd, port_.context->async_fd, udp_ ? udp_->socket.fd.get() : -1}) {
    epoll_event event{};
    event.events = EPOLLIN;
    if (fd < 0 || (watched_.valid() && ::epoll_ctl(watched_.get(), EPOLL_CTL_ADD, fd, &event) == 0)) continue;
    return {Code::kUnavailable, "epoll: " + std::system_category().message(errno)};
  }
  return {};
}

void Card::ask(const TxFrame& frame) {
  if (!udp_) return;
  const Endpoint to = with_carrier(*frame.to, Carrier::kPackets);
  const TxFrame packet{frame.data, frame.size, &to};
  udp_->sender.send(&packet, 1);
}

size_t Card::receive_replies(RxFrame* frames, size_t count, Carrier carrier) {
  const size_t got = udp_ ? udp_->receiver.receive(frames, count) : 0;
  for (size_t i = 0; i < got; ++i) {
    frames[i].from.carrier = carrier;
    frames[i].beside = true;
  }
  return got;
}

void Card::release() {
  if (udp_) udp_->receiver.release();
}

void Card::take_events() {
  ibv_async_event event{};
  while (failed_.empty()) {
    const auto taken = verbs_.take_async_event(port_.context.get(), &event);
    if (!taken.ok()) return fail(taken.status().message());
    if (!taken.value()) return;
    hear(event);
  }
}

void Card::hear(const ibv_async_event& event) {
  const std::string text = verbs_.text_of(event.event_type);
  switch (event.event_type) {
    case IBV_EVENT_QP_LAST_WQE_REACHED: return static_cast<Pair*>(event.element.qp->qp_context)->set_flushed();
    case IBV_EVENT_QP_FATAL:
    case IBV_EVENT_QP_REQ_ERR:
    case IBV_EVENT_QP_ACCESS_ERR: return static_cast<Pair*>(event.element.qp->qp_context)->set_broken(text);
    case IBV_EVENT_DEVICE_FATAL:
    case IBV_EVENT_CQ_ERR:
    case IBV_EVENT_SRQ_ERR: return fail(text);
    default: SWITCHML_LOG(kInfo) << "card " << port_.device << ": " << text;  // most often the port's state
  }
}

// What it tells by stays readable, and nothing can be taken from it any more.
void Card::fail(const std::string& what) {
  if (!failed_.empty()) return;
  failed_ = "card " + port_.device + " has failed (" + what + ")";
  SWITCHML_LOG(kWarning) << failed_ << ": nothing is sent or received by it any more";
  for (const int fd : {channel_->fd, port_.context->async_fd}) ::epoll_ctl(watched_.get(), EPOLL_CTL_DEL, fd, nullptr);
  error_ = to_string(local()) + ": " + failed_;  // it says more than an earlier error
}

void Card::arm(ibv_cq* queue) {
  if (const int error = ::ibv_req_notify_cq(queue, 0); error != 0) {
    note(local(), "ibv_req_notify_cq: " + std::system_category().message(error));
  }
}

void Card::wait(Duration timeout) {
  waker_.wait(watched_.get(), timeout);
  take_events();
  while (failed_.empty()) {
    const auto event = verbs_.take_event(channel_.get());
    if (!event.ok()) return fail(event.status().message());
    if (!event.value()) return;
  }
}

void Card::note(const Endpoint& peer, const std::string& what) {
  if (error_.empty()) error_ = to_string(peer) + ": " + what;
}

std::string Card::take_error() {
  take_events();
  if (error_.empty() && udp_) error_ = udp_->error.take();
  return std::exchange(error_, std::string());
}

}  // namespace switchml::rdma
