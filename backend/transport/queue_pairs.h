// What a link through an RDMA card needs beside frames: each peer must be told of a queue pair before frames go between
// the two, and memory that the card reads or writes must be registered.
//
// It belongs to the transport's thread.
#pragma once

#include <cstddef>
#include <memory>
#include <optional>

#include "base/status.h"
#include "socket/endpoint.h"
#include "wire/layout.h"

namespace switchml {

/// Memory of tensors, which lasts as long as a transport that uses it.
class TensorMemory {
 public:
  struct Extent {
    uint8_t* data = nullptr;  // null: none
    size_t bytes = 0;
  };
  virtual ~TensorMemory() = default;
  /// The whole piece in which these bytes lie. Thread-safe.
  virtual Extent extent_of(const void* data, size_t bytes) const = 0;
};

struct SlotRange {
  size_t first = 0;
  size_t count = 0;
};

class QueuePairs {
 public:
  virtual ~QueuePairs() = default;

  /// Where peers write results, before connect(): frames of so many bytes at most come for these slots. A peer that was
  /// connected is not any more. Errors name what does not fit.
  virtual Status post_receive_windows(SlotRange /*slots*/, size_t /*frame_bytes*/) { return {}; }
  /// The queue pair that `peer` must connect to before frames go between this transport and it. Anew after frames to it
  /// have stopped going: see is_connected().
  virtual Result<wire::Introduction> queue_pair_for(const Endpoint& peer) = 0;
  /// Connects to the queue pair that a peer has told. The same once more changes nothing, another one replaces what was
  /// known.
  virtual Status connect(const Endpoint& peer, const wire::Introduction& its) = 0;
  /// Whether frames can go to it, as far as this side knows. Else they are lost.
  virtual bool is_connected(const Endpoint& peer) const = 0;
  /// It will not be sent to any more, nor write here, and what is held for it is given back. A peer that was never
  /// connected is no error.
  virtual void disconnect(const Endpoint& peer) = 0;

  /// Frames may have their rest in such memory from now on, and peers may write there what this side tells them to.
  virtual void register_memory(const std::shared_ptr<const TensorMemory>& /*tensors*/) {}
  /// How a peer reaches these bytes. Nothing: not at all, nor can they be the rest of a frame.
  virtual std::optional<wire::Target> target_of(const void* /*data*/, size_t /*bytes*/) { return std::nullopt; }
};

}  // namespace switchml
