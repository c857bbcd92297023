// The bytes of a TCP connection, as they are or sealed (seal/stream_seal.h): what writes and reads them need not know
// which.
#pragma once

#include <sys/types.h>

#include <cerrno>
#include <memory>
#include <optional>
#include <string>

#include "seal/stream_seal.h"
#include "socket/fd.h"

namespace switchml {

/// Owns a socket that does not block. Belongs to one thread at a time.
class ByteStream {
 public:
  /// Has no connection: valid() is false.
  ByteStream() = default;
  /// Takes a socket that connects to a door; nullopt: the door is not sealed. `first`, of up to kMost bytes or none,
  /// goes before all else, in a piece of its own. Not valid() where the door's half makes no keys.
  ByteStream(Fd fd, const std::optional<seal::StreamDoor>& door, seal::ByteView first);
  /// Takes a connection that came in at a door, which must outlive it. Null: the door is not sealed. At a sealed one
  /// nothing may be sent before the owner knows which rank comes in [SEAL-34]: before it has begun, send() fails.
  ByteStream(Fd fd, const seal::StreamDoorOwner* door) : fd_(std::move(fd)), door_(door) {}

  bool valid() const { return fd_.valid(); }
  int fd() const { return fd_.get(); }
  Fd release() { return std::move(fd_); }

  /// Takes some bytes of `head` and then `rest`, and returns how many; -1: none, errno says why. What is sealed and not
  /// yet the kernel's is owed: another send(), of no bytes at least, pays that first.
  ssize_t send(seal::ByteView head, seal::ByteView rest = {});
  bool owes() const { return paid_ < owed_; }

  /// Writes what has come, and returns how many bytes; 0: the other end has closed; -1: none, errno says why. After
  /// kForged and kCut the connection is of no use any more. What this returns is all that was taken from the kernel, so
  /// that epoll tells of the rest.
  /// A piece of more bytes than `room` is kForged; least_room() bytes are enough for each.
  ssize_t receive(void* to, size_t room);
  size_t least_room() const { return door_ != nullptr || opens_ != nullptr ? seal::StreamSeal::kMost : 1; }

  static constexpr int kForged = EBADMSG;
  static constexpr int kCut = EPROTO;
  /// What errno says after a call that failed, in words.
  static std::string error_text(int error);

 private:
  bool pay();
  ssize_t fill(size_t unit);
  void drop_front(size_t bytes);
  ssize_t receive_sealed(uint8_t* to, size_t room);
  bool begin_at_door();

  Fd fd_;
  const seal::StreamDoorOwner* door_ = nullptr;
  std::unique_ptr<seal::StreamSeal> seals_, opens_;  // Null: not sealed, or what it begins with has not come.
  std::unique_ptr<uint8_t[]> out_;                   // What is owed, from paid_ to owed_.
  size_t out_room_ = 0, paid_ = 0, owed_ = 0;
  std::unique_ptr<uint8_t[]> in_;  // The part of a piece that has come.
  size_t in_room_ = 0, come_ = 0;
};

}  // namespace switchml
