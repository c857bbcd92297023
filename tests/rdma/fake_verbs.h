// Cards that are not there: a library with the functions of libibverbs that this project calls, for one process. It
// loses, repeats, reorders and fails by a seed. It reads memory that is sent as late as a card may, and it ends the
// process where a card's rules are broken in a way that a card would not report.
//
// Each function named here is exported by name: a test finds it with dlsym() in the library that it loads.
#pragma once

#include <cstddef>
#include <cstdint>

namespace switchml::fake_verbs {

/// What happens to messages. Shares of 0 to 1.
struct Behaviour {
  uint64_t seed = 1;
  double late = 0;                 // that a message waits when it might go; it never waits for ever
  double loss = 0;                 // unreliable: that a message is lost
  double partial = 0;              // unreliable: that only the first half of it is written
  double repeat = 0;               // unreliable: that it comes once more, later
  double overtake = 0;             // unreliable: that the one behind it goes first
  int mtu = 1024;                  // bytes; of all ports
  int max_inline = 256;            // bytes
  double half = 0;                 // reliable: that of a message of several packets only the first comes at first
  bool slow_flush = false;         // what a pair that is in error still holds completes some polls later
  bool never_flush = false;        // it never does
  bool keeps_completions = false;  // of pairs that end, in their queues
  bool emulated = true;            // the cards say that they are software, as those that are not there may
  bool cut_off = false;            // reliable: nothing arrives, and senders hear so
  bool no_connection = false;      // no pair can be connected, as without the card's address
  bool gone = false;               // the device: all functions fail with EIO, and no message goes or completes
  bool no_memory_rights = false;   // ibv_reg_mr fails as it does beyond RLIMIT_MEMLOCK
};

/// What was done since configure().
struct Counts {
  uint64_t messages = 0;   // work requests that were posted to be sent
  uint64_t doorbells = 0;  // calls that posted them
  uint64_t receives = 0;
  uint64_t polls = 0;
  uint64_t completions = 0;
  uint64_t bytes = 0;  // that were written to peers
  // From, and to, memory that peers may write to: that of tensors.
  uint64_t bytes_from_tensors = 0;
  uint64_t bytes_to_tensors = 0;
  int traffic_class = 0;  // of the pair that was connected last
  int service_level = 0;
  uint64_t failures = 0;       // of those that were to fail
  uint64_t lost_receives = 0;  // shared ones that pairs have taken with them
  uint64_t objects = 0;        // that live at present: contexts, domains, regions, queues, pairs
};

// Signatures of what is exported as fake_verbs_NAME.
using Configure = void (*)(const Behaviour&);
/// The function (such as "ibv_create_qp") fails once, after so many more calls that succeed, in its own way. What ends
/// an object ends it all the same, as the kernel does with those of a device that is gone.
using FailOnce = void (*)(const char* function, int error, int after);
/// The pair (0: all) has an error, as after a card's or a peer's fault.
using Break = void (*)(uint32_t qp_num);
/// Of an ibv_event_type: of pairs, all of them; otherwise each context.
using Tell = void (*)(int type);
using Count = void (*)(Counts*);

}  // namespace switchml::fake_verbs
