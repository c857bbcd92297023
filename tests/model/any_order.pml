/* Every packet that was ever sent may arrive at any time, any number of times, or never: loss, duplication, reordering and
 * delay without any bound, also across sessions. So the network is the set of all packets that were sent, and needs no
 * channels. Contributions are not even listed: a worker may have sent those of all uses that it has opened.
 *
 * Safety only. channels.pml shows that everybody comes to an end.
 */
#include "slot.pml"

/* From one switch, in one session, for one slot: of which uses exact sums were sent, and for which numbers wrong ones. */
typedef Sent {
  unsigned exact : USES;
  unsigned wrong : MODULUS;
};
#define RESULTS(e, m, s) results[((e) * ROOT_MEMBERS + (m)) * SLOTS + (s)]
Sent results[SESSIONS * ROOT_MEMBERS * SLOTS]; /* from node 0 to its members */
#ifdef TREE
#define AGGREGATES(e, m, s) aggregates[((e) * ROOT_MEMBERS + (m)) * SLOTS + (s)]
Sent aggregates[SESSIONS * ROOT_MEMBERS * SLOTS]; /* from leaf m to the root */
#endif

inline send_held(packets, n, s, q) {
  if
  :: IS_EXACT(n, s, q) -> packets.exact = packets.exact | (1 << HELD(n, s, q).of_use)
  :: else -> packets.wrong = packets.wrong | (1 << HELD(n, s, q).seq)
  fi
}

#ifdef TREE
inline send_up(n, s, q) { send_held(AGGREGATES(HELD(n, s, q).epoch, n - 1, s), n, s, q) }
#else
inline send_up(n, s, q) { skip }
#endif

/* A leaf forwards whatever result of its session comes from the root, so what was sent to a leaf may come to any worker
 * beneath it; forwarding is no step of its own. */
inline answer_one(n, m, s, q) {
#ifdef TREE
  if
  :: n == 0 -> send_held(RESULTS(HELD(n, s, q).epoch, m, s), n, s, q)
#ifdef BUG_LEAF_ANSWERS
  :: else -> RESULTS(HELD(n, s, q).epoch, n - 1, s).wrong =
      RESULTS(HELD(n, s, q).epoch, n - 1, s).wrong | (1 << HELD(n, s, q).seq)
#else
  :: else -> send_up(n, s, q)
#endif
  fi
#else
  send_held(RESULTS(HELD(n, s, q).epoch, m, s), n, s, q)
#endif
}

inline choose(variable, limit) {
  variable = 0;
  do
  :: variable < (limit) -> variable++
  :: break
  od;
  skip /* what follows may be a d_step, which must not be jumped into */
}

/* Any contribution of any worker arrives at its switch. */
active proctype contributions() {
  byte n, s, e, w, u, q, to;
  d_step { nothing_held() };
  do
  :: atomic {
      choose(e, SESSIONS - 1);
      choose(w, WORKERS - 1);
      choose(s, SLOTS - 1);
      q = OPENED(e, w, s);
      choose(u, q - 1);
      d_step {
        q = SEQ_OF(u);
        n = NODE_OF(w);
        contribution_arrives(n, MEMBER_OF(w), e, s, q, u, true);
        look_for_forgotten(s);
        n = 0; s = 0; e = 0; w = 0; u = 0; q = 0
      }
    }
  od
}

#ifdef TREE
/* Any aggregate of a leaf arrives at the root. */
active proctype aggregates_arrive() {
  byte s, e, m, u, q, to, w;
  do
  :: atomic {
      choose(e, SESSIONS - 1);
      choose(m, ROOT_MEMBERS - 1);
      choose(s, SLOTS - 1);
      if
      :: choose(u, USES - 1);
        d_step {
          q = SEQ_OF(u);
          if
          :: AGGREGATES(e, m, s).exact & (1 << u) -> contribution_arrives(0, m, e, s, q, u, true)
          :: else
          fi;
          look_for_forgotten(s)
        }
      :: choose(q, MODULUS - 1);
        d_step {
          if
          :: AGGREGATES(e, m, s).wrong & (1 << q) -> contribution_arrives(0, m, e, s, q, u, false)
          :: else
          fi;
          look_for_forgotten(s)
        }
      fi;
      d_step { s = 0; e = 0; m = 0; u = 0; q = 0 }
    }
  od
}
#endif

/* Any result of any session arrives at any worker of any session: those of the second sit at the addresses of the first. */
active proctype results_arrive() {
  byte s, re, e, w, u, q;
  do
  :: atomic {
      choose(re, SESSIONS - 1);
      choose(e, SESSIONS - 1);
      choose(w, WORKERS - 1);
      choose(s, SLOTS - 1);
      if
      :: choose(u, USES - 1);
        d_step {
          q = SEQ_OF(u);
          if
          :: RESULTS(re, BRANCH_OF(w), s).exact & (1 << u) -> result_arrives(re, e, w, s, q, u, true)
          :: else
          fi
        }
      :: choose(q, MODULUS - 1);
        d_step {
          if
          :: RESULTS(re, BRANCH_OF(w), s).wrong & (1 << q) -> result_arrives(re, e, w, s, q, u, false)
          :: else
          fi
        }
      fi;
      d_step { s = 0; re = 0; e = 0; w = 0; u = 0; q = 0 }
    }
  od
}

#ifdef TRIAL
active proctype trials_end() {
  byte s, e, w;
  do
  :: atomic {
      choose(e, SESSIONS - 1);
      choose(s, SLOTS - 1);
      d_step {
        end_trial(e, s);
        s = 0; e = 0
      }
    }
  od
}
#endif

#if SESSIONS > 1
/* The switches of a tree learn of the new session one after the other, in any order. */
active proctype restart() {
  do
  :: node[0].live == 0 -> node[0].live = 1
#ifdef TREE
  :: node[1].live == 0 -> node[1].live = 1
  :: node[2].live == 0 -> node[2].live = 1
#endif
  od
}
#endif

/* A result that a worker accepts is the sum of exactly one contribution of each worker to that very use. */
ltl exact { [] !wrong_sum_accepted }
/* No worker takes the sum of one use twice. */
ltl once { [] !accepted_twice }
/* No packet of an old session changes a slot after the new session has been installed. */
ltl isolated { [] !touched_by_old_session }
/* A use that is complete stays in its slot, with its sum, until every worker has accepted it. */
ltl answerable { [] !forgotten }
