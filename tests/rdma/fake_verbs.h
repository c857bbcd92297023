// Cards that are not there: a library with the functions of libibverbs that this project calls, for one process. It
// loses, repeats, reorders and fails by a seed. It reads memory that is sent as late as a card may, and it ends the
// process where a card's rules are broken in a way that a card would not report.
//
// Each function named here is exported by name: a test finds it with dlsym() in the library that it loads.
#pragma once

#include <cstddef>
#include <cstdint>

namespace switchml::fake_verbs {

/// The treatment of messages. Shares are 0 to 1.
struct Behaviour {
  uint64_t seed = 1;
  double late = 0;                 // Share of messages that wait, though never for ever.
  double loss = 0;                 // Unreliable: share of lost messages.
  double partial = 0;              // Unreliable: share of half-written messages.
  double repeat = 0;               // Unreliable: share of messages that come once more, later.
  double overtake = 0;             // Unreliable: share of messages that the next one overtakes.
  int mtu = 1024;                  // Bytes, for all ports.
  int max_inline = 256;            // Bytes.
  double half = 0;                 // Reliable: share of messages that arrive as one packet at first.
  bool slow_flush = false;         // The requests of a pair in error complete some polls later.
  bool never_flush = false;        // The requests of a pair in error never complete.
  bool keeps_completions = false;  // Completions of ended pairs stay in the queues.
  bool emulated = true;            // The cards say that they are software.
  bool cut_off = false;            // Reliable: nothing arrives, and senders get errors.
  bool no_connection = false;      // No pair can be connected, as without the card's address.
  bool gone = false;               // All functions fail with EIO, and no message goes or completes.
  bool no_memory_rights = false;   // ibv_reg_mr fails as it does beyond RLIMIT_MEMLOCK.
};

/// Counts since configure().
struct Counts {
  uint64_t messages = 0;   // Posted work requests.
  uint64_t doorbells = 0;  // Calls that posted them.
  uint64_t receives = 0;
  uint64_t polls = 0;
  uint64_t completions = 0;
  uint64_t bytes = 0;  // Bytes written to peers.
  // From, and to, memory that peers may write to: that of tensors.
  uint64_t bytes_from_tensors = 0;
  uint64_t bytes_to_tensors = 0;
  int traffic_class = 0;  // The last connected pair's.
  int service_level = 0;
  uint64_t failures = 0;       // Failures that the test asked for.
  uint64_t lost_receives = 0;  // Shared receives lost with their pairs.
  uint64_t objects = 0;        // Living contexts, domains, regions, queues, pairs.
};

// Signatures of the functions that are exported as fake_verbs_NAME.
using Configure = void (*)(const Behaviour&);
/// Makes a function (such as "ibv_create_qp") fail once, after so many successful calls, in its own way. Destructors
/// end their object all the same, as the kernel does for a device that is gone.
using FailOnce = void (*)(const char* function, int error, int after);
/// Puts the pair (0: all) into error, as after a card's or a peer's fault.
using Break = void (*)(uint32_t qp_num);
/// Raises an event of an ibv_event_type: for all pairs if it is a pair's; otherwise for each context.
using Tell = void (*)(int type);
using Count = void (*)(Counts*);

}  // namespace switchml::fake_verbs
