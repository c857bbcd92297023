#include "transport/byte_stream.h"

#include <sys/socket.h>
#include <sys/uio.h>

#include <algorithm>
#include <cstring>
#include <system_error>
#include <utility>

#include "base/random.h"

namespace switchml {

using seal::ByteView;
using seal::StreamSeal;

namespace {

constexpr size_t kMostPieces = 2;  // One system call takes so many.

/// At least `bytes`, the first `kept` of them as they were.
void make_room(size_t bytes, size_t kept, std::unique_ptr<uint8_t[]>* memory, size_t* room) {
  if (*room >= bytes) return;
  std::unique_ptr<uint8_t[]> larger(new uint8_t[bytes]);
  if (kept > 0) std::memcpy(larger.get(), memory->get(), kept);
  *memory = std::move(larger);
  *room = bytes;
}

ByteView part_of(ByteView all, size_t begin, size_t end) {
  begin = std::min(begin, all.size);
  return {all.data + begin, std::min(end, all.size) - begin};
}

iovec iovec_of(ByteView part) { return {const_cast<uint8_t*>(part.data), part.size}; }

}  // namespace

ByteStream::ByteStream(Fd fd, const std::optional<seal::StreamDoor>& door, ByteView first) : fd_(std::move(fd)) {
  make_room(seal::kGreetingBytes + StreamSeal::kExtraBytes + first.size, 0, &out_, &out_room_);
  if (!door) {
    std::memcpy(out_.get(), first.data, owed_ = first.size);
    return;
  }
  const auto answer = seal::answer_door(*door, random_bytes);
  if (!answer) {
    fd_ = Fd();
    return;
  }
  seals_ = std::make_unique<StreamSeal>(answer->keys.from_responder, seal::AeadUse::kSeal);
  opens_ = std::make_unique<StreamSeal>(answer->keys.from_initiator, seal::AeadUse::kOpen);
  std::memcpy(out_.get(), answer->frame.data(), answer->frame.size());
  owed_ = answer->frame.size();
  if (first.size == 0) return;
  seals_->seal(first, {}, out_.get() + owed_);
  owed_ += first.size + StreamSeal::kExtraBytes;
}

std::string ByteStream::error_text(int error) {
  if (error == kForged) return "what came is not what was sealed: it was altered, repeated or lost on its way";
  if (error == kCut) return "it was cut within a sealed piece";
  return std::system_category().message(error);
}

// ---- what goes ----

/// True: nothing is owed any more. False: errno says why.
bool ByteStream::pay() {
  while (paid_ < owed_) {
    const ssize_t taken = ::send(fd_.get(), out_.get() + paid_, owed_ - paid_, MSG_NOSIGNAL | MSG_DONTWAIT);
    if (taken < 0) return false;
    paid_ += static_cast<size_t>(taken);
  }
  paid_ = owed_ = 0;
  return true;
}

ssize_t ByteStream::send(ByteView head, ByteView rest) {
  if (!pay()) return -1;
  if (head.size + rest.size == 0) return 0;
  if (!seals_ && door_ != nullptr) {
    errno = ENOTCONN;
    return -1;
  }
  if (!seals_) {
    iovec parts[] = {iovec_of(head), iovec_of(rest)};
    msghdr message{};
    message.msg_iov = parts;
    message.msg_iovlen = 2;
    return ::sendmsg(fd_.get(), &message, MSG_NOSIGNAL | MSG_DONTWAIT);
  }
  const size_t total = std::min(head.size + rest.size, kMostPieces * StreamSeal::kMost);
  make_room(total + kMostPieces * StreamSeal::kExtraBytes, 0, &out_, &out_room_);
  for (size_t begin = 0; begin < total;) {
    const size_t end = std::min(begin + StreamSeal::kMost, total);
    const size_t in_rest = std::max(begin, head.size) - head.size;
    seals_->seal(part_of(head, begin, end), part_of(rest, in_rest, std::max(end, head.size) - head.size),
                 out_.get() + owed_);
    owed_ += end - begin + StreamSeal::kExtraBytes;
    begin = end;
  }
  if (!pay() && errno != EAGAIN && errno != EWOULDBLOCK && errno != EINTR) return -1;
  return static_cast<ssize_t>(total);
}

// ---- what comes ----

ssize_t ByteStream::receive(void* to, size_t room) {
  if (door_ == nullptr && opens_ == nullptr) return ::recv(fd_.get(), to, room, MSG_DONTWAIT);
  return receive_sealed(static_cast<uint8_t*>(to), room);
}

/// 1: `unit` bytes have come, and maybe the length of what follows; 0: the other end has closed before; -1: errno says
/// why they have not.
ssize_t ByteStream::fill(size_t unit) {
  const size_t most = unit == StreamSeal::kLengthBytes ? unit : unit + StreamSeal::kLengthBytes;
  make_room(most, come_, &in_, &in_room_);
  while (come_ < unit) {
    const ssize_t got = ::recv(fd_.get(), in_.get() + come_, most - come_, MSG_DONTWAIT);
    if (got < 0 || (got == 0 && come_ == 0)) return got;
    if (got == 0) {
      errno = kCut;
      return -1;
    }
    come_ += static_cast<size_t>(got);
  }
  return 1;
}

void ByteStream::drop_front(size_t bytes) {
  come_ -= bytes;
  std::memmove(in_.get(), in_.get() + bytes, come_);  // A length at most.
}

bool ByteStream::begin_at_door() {
  const auto keys = door_->accept(in_.get());
  if (!keys) return false;
  opens_ = std::make_unique<StreamSeal>(keys->from_responder, seal::AeadUse::kOpen);
  seals_ = std::make_unique<StreamSeal>(keys->from_initiator, seal::AeadUse::kSeal);
  drop_front(seal::kGreetingBytes);
  return true;
}

ssize_t ByteStream::receive_sealed(uint8_t* to, size_t room) {
  if (!opens_) {
    if (const ssize_t there = fill(seal::kGreetingBytes); there <= 0) return there;
    if (!begin_at_door()) {
      errno = kForged;
      return -1;
    }
  }
  if (const ssize_t there = fill(StreamSeal::kLengthBytes); there <= 0) return there;
  const size_t bytes = StreamSeal::bytes_of(in_.get());
  if (bytes > 0 && bytes <= room) {
    if (const ssize_t there = fill(bytes + StreamSeal::kExtraBytes); there <= 0) return there;
    if (opens_->open(in_.get())) {
      std::memcpy(to, in_.get() + StreamSeal::kLengthBytes, bytes);
      drop_front(bytes + StreamSeal::kExtraBytes);
      return static_cast<ssize_t>(bytes);
    }
  }
  errno = kForged;
  return -1;
}

}  // namespace switchml
