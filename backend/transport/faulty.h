// A decorator that loses, repeats, reorders and corrupts frames of the transport below, from a seed. Decisions depend
// on the seed and the number of frames alone.
#pragma once

#include <cstdint>
#include <memory>

#include "transport/transport.h"

namespace switchml {

struct Faults {
  uint64_t seed = 1;
  double send_loss = 0.0;     // probability per frame sent
  double receive_loss = 0.0;  // per frame received
  double duplicate = 0.0;     // a sent frame is sent twice
  double delay = 0.0;         // a sent frame is held back and sent after up to `delay_frames` later ones
  int delay_frames = 8;
  double corrupt = 0.0;  // one bit of a sent frame is flipped
};

/// Takes ownership of `below`.
std::unique_ptr<Transport> make_faulty_transport(std::unique_ptr<Transport> below, const Faults& faults);

}  // namespace switchml
