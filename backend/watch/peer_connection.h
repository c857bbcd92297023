// One end of a connection between ranks: small framed messages on a socket that never blocks.
#pragma once

#include <functional>
#include <string>

#include "base/clock.h"
#include "transport/byte_stream.h"

namespace switchml {

/// What ranks say to each other.
enum class PeerWord : char {
  kGreeting = 'G',  // Rank and process; rank 0's answer has the rank only.
  kFarewell = 'F',  // This rank leaves.
  kLoss = 'L',      // this rank has ended without a farewell; how
  kGivenUp = 'U',   // This rank does not go on, though its process may live; why.
  kNews = 'N',      // A text of this rank for all.
};

struct PeerMessage {
  PeerWord word = PeerWord::kFarewell;
  int rank = 0;
  std::string text;  // up to 255 bytes
};

/// Belongs to one thread. A forked child does not inherit it.
class PeerConnection {
 public:
  /// The stream is that of a TCP socket. A host that is silent for `patience` counts as gone.
  PeerConnection(ByteStream stream, Duration patience);
  PeerConnection(PeerConnection&&) = default;
  PeerConnection& operator=(PeerConnection&&) = delete;
  ~PeerConnection();

  int fd() const { return stream_.fd(); }
  /// Never blocks; a message for which there is no room is lost (the kernel's buffers hold hundreds), as a whole.
  void send(const PeerMessage& message);
  /// Hands over what has come, in order. False: the connection is over, and `error` is its errno (0: closed by the
  /// other side; EBADMSG: it says something else than messages, or something that it has not sealed).
  bool receive(const std::function<void(const PeerMessage&)>& take, int* error);
  /// No more will be sent.
  void finish();

 private:
  bool flush();

  ByteStream stream_;
  std::string cut_;  // the rest of a message that the kernel took a part of
  std::string received_;
};

}  // namespace switchml
