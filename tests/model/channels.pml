/* The slot protocol over channels that lose, copy and reorder packets, each a bounded number of times: does everybody come to
 * an end? Every process is one that takes its turns again and again (weak fairness): a worker's timer, a worker's
 * receiver, a switch's port. What fails to arrive has to be sent again; nothing else helps.
 *
 * Slots do not depend on one another, so there is one. It holds what a session that is over has left in it: the sessions of
 * any_order.pml, from the moment at which the second is installed.
 */
#define SLOTS 1
#define SESSIONS 1
#include "slot.pml"

#ifndef LOSSES
#define LOSSES 3
#endif
#ifndef COPIES
#define COPIES 1
#endif
#ifndef SWAPS
#define SWAPS 1
#endif
#ifndef ROOM
#define ROOM 2 /* packets in a channel; a packet that finds no room is lost, and counts for nothing */
#endif
#define OLD 1 /* epoch of the session that is over */

/* sequence number, use, whether it is the sum or contribution that it should be */
chan to_switch[WORKERS] = [ROOM] of { byte, byte, bool };
chan to_worker[WORKERS] = [ROOM] of { byte, byte, bool };
#ifdef TREE
chan to_root[ROOT_MEMBERS] = [ROOM] of { byte, byte, bool };
chan to_leaf[ROOT_MEMBERS] = [ROOM] of { byte, byte, bool };
#endif

inline put(channel, q, u, x) {
  if
  :: nfull(channel) -> channel!q, u, x
  :: full(channel) -> skip
  fi
}

#ifdef TREE
inline send_up(n, s, q) { put(to_root[n - 1], q, HELD(n, s, q).of_use, IS_EXACT(n, s, q)) }

inline answer_one(n, m, s, q) {
  if
  :: n == 0 -> put(to_leaf[m], q, HELD(n, s, q).of_use, IS_EXACT(n, s, q))
#ifdef BUG_AGGREGATE_NOT_REPEATED
  :: else
#else
  :: else -> send_up(n, s, q)
#endif
  fi
}
#else
inline send_up(n, s, q) { skip }
inline answer_one(n, m, s, q) { put(to_worker[m], q, HELD(n, s, q).of_use, IS_EXACT(n, s, q)) }
#endif

/* A worker's timer: it sends the contribution to the use that it waits for, for the first time or again. */
proctype timer(byte w) {
#ifdef BUG_NEVER_AGAIN
  byte sent;
  do
  :: d_step {
      sent == ACCEPTED(0, w, 0) && sent < USES && nfull(to_switch[w]) ->
      to_switch[w]!SEQ_OF(sent), sent, true;
      sent++
    }
  od
#else
  do
  :: d_step {
      ACCEPTED(0, w, 0) < USES && nfull(to_switch[w]) ->
      to_switch[w]!SEQ_OF(ACCEPTED(0, w, 0)), ACCEPTED(0, w, 0), true
    }
  od
#endif
}

proctype receiver(byte w) {
  byte q, u;
  bool x;
  do
  :: d_step {
      to_worker[w]?q, u, x ->
      result_arrives(0, 0, w, 0, q, u, x);
      q = 0; u = 0; x = 0
    }
  od
}

/* Where a worker's contributions come in. */
proctype port(byte w) {
  byte q, u, to;
  bool x;
  do
  :: d_step {
      to_switch[w]?q, u, x ->
      contribution_arrives(NODE_OF(w), MEMBER_OF(w), 0, 0, q, u, x);
      q = 0; u = 0; x = 0
    }
  od
}

#ifdef TREE
/* Where the root hears a leaf, and a leaf hears the root. */
proctype root_port(byte m) {
  byte q, u, to;
  bool x;
  do
  :: d_step {
      to_root[m]?q, u, x ->
      contribution_arrives(0, m, 0, 0, q, u, x);
      q = 0; u = 0; x = 0
    }
  od
}

proctype leaf_port(byte m) {
  byte q, u, w;
  bool x;
  do
  :: d_step {
      to_leaf[m]?q, u, x ->
      w = 0;
      do
      :: w < WORKERS && BRANCH_OF(w) == m -> put(to_worker[w], q, u, x); w++
      :: w < WORKERS && BRANCH_OF(w) != m -> w++
      :: else -> break
      od;
      q = 0; u = 0; x = 0; w = 0
    }
  od
}
#endif

byte losses = LOSSES, copies = COPIES, swaps = SWAPS;

inline disturb(channel) {
  if
  :: d_step { losses > 0 && nempty(channel) -> channel?q, u, x; losses-- }
  :: d_step { copies > 0 && nempty(channel) && nfull(channel) -> channel?<q, u, x>; channel!q, u, x; copies-- }
  :: d_step { swaps > 0 && len(channel) > 1 -> channel?q, u, x; channel!q, u, x; swaps-- }
  fi;
  d_step { q = 0; u = 0; x = 0 }
}

/* What happens to the packets of worker w, or of leaf w. */
proctype network(byte w) {
  byte q, u;
  bool x;
  do
  :: atomic { disturb(to_switch[w]) }
  :: atomic { disturb(to_worker[w]) }
#ifdef TREE
  :: atomic { w < ROOT_MEMBERS; disturb(to_root[w]) }
  :: atomic { w < ROOT_MEMBERS; disturb(to_leaf[w]) }
#endif
  od
}

/* What the old session has left in a version: nothing, one contribution to the number that comes first now, or a complete
 * use of a later one. */
inline left_behind(version_number) {
  if
  :: true
  :: node[0].slot[0].version[version_number].seq = SEQ_OF(version_number);
    node[0].slot[0].version[version_number].bits = 1;
    node[0].slot[0].version[version_number].epoch = OLD
  :: node[0].slot[0].version[version_number].seq = SEQ_OF(version_number + 4);
    node[0].slot[0].version[version_number].bits = ALL(0);
    node[0].slot[0].version[version_number].epoch = OLD
  fi;
  node[0].slot[0].version[version_number].of_epoch = node[0].slot[0].version[version_number].epoch
}

init {
  byte n, s, w;
  atomic {
    nothing_held();
#ifndef TREE
    left_behind(0);
    left_behind(1);
#else
    run root_port(0); run root_port(1); run leaf_port(0); run leaf_port(1);
#endif
    do
    :: w < WORKERS -> run timer(w); run receiver(w); run port(w); run network(w); w++
    :: else -> break
    od;
    w = 0
  }
}

#if WORKERS == 2
#define FINISHED (ACCEPTED(0, 0, 0) == USES && ACCEPTED(0, 1, 0) == USES)
#else
#define FINISHED (ACCEPTED(0, 0, 0) == USES && ACCEPTED(0, 1, 0) == USES && ACCEPTED(0, 2, 0) == USES)
#endif
/* Whatever is lost, copied and reordered, every worker gets the sums of all its uses in the end. */
ltl finishes { <> FINISHED }
/* And no sum is wrong on the way. */
ltl exact { [] !wrong_sum_accepted }
