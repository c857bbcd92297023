// One socket to many peers, as a transport for each of them: a thread that drives many sessions needs neither a socket
// for each nor a way to wait for several.
#pragma once

#include <memory>
#include <vector>

#include "transport/transport.h"

namespace switchml {

/// A transport per peer, over `link`, which belongs to them from here on. Frames of each peer go to its own one; those
/// of others are dropped. All are used by one thread, but for wake(). A wait() or pause() of any of them ends for
/// a frame of every peer, and a frame that one has lent may keep the link's buffers until the others have taken theirs.
/// So all are to be asked in turn: what waits for one that is not, while others ask in vain again and again, is lost.
/// No peer can be told to refuse: take_refusal() is false. Peers at one endpoint are sessions of several jobs there:
/// each gets the results of the job that it has sent contributions to, and the replies to all. Precondition: all of the
/// link's family.
std::vector<std::unique_ptr<Transport>> share_link(std::unique_ptr<Transport> link, const std::vector<Endpoint>& peers);

}  // namespace switchml
