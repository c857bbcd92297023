/* The slot protocol of docs/protocol.md: what a switch does with a contribution, and a worker with a result. How packets
 * travel is up to the file that includes this one; it defines answer_one() for a member, and send_up() for a leaf.
 *
 * The witness is left out: the protocol has to be right without it. So are words: a sum is represented by what was added
 * to it (the fields after "known to the model alone"), so that a wrong sum can be told from a right one.
 *
 * Numbers. Uses count from 0 and never wrap; a packet carries seq_of(use), which does, so that the comparison of sequence
 * numbers meets the end of their range. Numbers that wrap are compared by signed difference, which holds while nothing
 * in the network is half the range or more older than what a slot holds. Here the oldest possible packet is USES-1 uses
 * old, and a step over the end skips two numbers: USES + 1 < MODULUS / 2. With 32 bits it is 2^31 - 3 uses.
 */
#ifndef WORKERS
#define WORKERS 2
#endif
#ifndef SLOTS
#define SLOTS 1
#endif
#ifndef USES
#define USES 6 /* of each slot: either version is taken over twice */
#endif
#ifndef SESSIONS
#define SESSIONS 1 /* 2: at any moment a second session takes the place of the first on the same slots */
#endif
#ifndef FIRST
#define FIRST 12 /* 12 13 14 15 2 3: the range ends in the middle */
#endif
/* EXACT: contributions are kept, and reduced when the last one comes. Each worker has one place in a slot for them, which
 * both versions of it share [EXACT-16].
 *
 * TRIAL: the first use is one that workers may give up before it is complete: when they have all said so, not through the
 * switch, they wait for its result no more [PATH-9].
 */
#ifdef BUG_SMALL_MODULUS
#define MODULUS 8
#else
#define MODULUS 16
#endif

/* Node 0 is the switch, or the root of a tree, whose two leaves are nodes 1 and 2 with half of the workers each. */
#ifdef TREE
#define NODES 3
#define UNDER_A_LEAF (WORKERS / 2)
#define NODE_OF(w) (1 + (w) / UNDER_A_LEAF)
#define MEMBER_OF(w) ((w) % UNDER_A_LEAF)
#define ROOT_MEMBERS 2
#define MEMBERS(n) ((n) == 0 -> 2 : UNDER_A_LEAF)
#define BRANCH_OF(w) ((w) / UNDER_A_LEAF)
#else
#define NODES 1
#define NODE_OF(w) 0
#define MEMBER_OF(w) (w)
#define ROOT_MEMBERS WORKERS
#define MEMBERS(n) WORKERS
#define BRANCH_OF(w) (w)
#endif
#ifdef BUG_COMPLETE_TOO_EARLY
#define ALL(n) ((1 << (MEMBERS(n) - 1)) - 1)
#else
#define ALL(n) ((1 << MEMBERS(n)) - 1)
#endif
#define EVERY(n) ((1 << MEMBERS(n)) - 1)

/* After the greatest number comes 2: 0 is forbidden, and the low bit, which chooses the version, alternates. */
#if defined(BUG_RESTARTED_SEQUENCE)
#define SEQ_OF(u) (FIRST + (u) % 2)
#elif defined(BUG_PARITY_LOST)
#define SEQ_OF(u) (FIRST + (u) < MODULUS -> FIRST + (u) : FIRST + (u) - (MODULUS - 1))
#else
#define SEQ_OF(u) (FIRST + (u) < MODULUS -> FIRST + (u) : FIRST + (u) - (MODULUS - 2))
#endif

#if defined(BUG_NO_STALE_CHECK)
#define NEWER(a, b) ((a) != (b))
#elif defined(BUG_UNSIGNED_COMPARISON)
#define NEWER(a, b) ((a) > (b))
#else
#define NEWER(a, b) ((a) != (b) && ((a) - (b) + MODULUS) % MODULUS < MODULUS / 2)
#endif

#define NOTHING 3 /* epoch of a version that no session has used */

typedef Version {
  unsigned epoch : 2;
  unsigned seq : 4;
  unsigned bits : WORKERS;
  /* known to the model alone */
  unsigned of_epoch : 2; /* to which session and use the first contribution belonged */
  unsigned of_use : 3;
  unsigned summed : WORKERS; /* whose contributions were added */
  bool mixed; /* something else was added, or something twice */
};
typedef Slot { Version version[2] };
typedef Node {
  unsigned live : 1; /* the epoch of the session installed here */
  Slot slot[SLOTS];
};
Node node[NODES];

/* Of worker w of session e in slot s: uses whose results were accepted; also the use that it waits for. */
#define ACCEPTED(e, w, s) accepted[((e) * WORKERS + (w)) * SLOTS + (s)]
byte accepted[SESSIONS * WORKERS * SLOTS];
/* Known to the model alone: of which uses it took the sum, one bit each. */
#define TAKEN(e, w, s) taken[((e) * WORKERS + (w)) * SLOTS + (s)]
byte taken[SESSIONS * WORKERS * SLOTS];

#ifdef EXACT
/* Known to the model alone: to which session and use that belongs which is kept of worker w in slot s; 0: nothing is. */
#define KEPT(w, s) kept[(w) * SLOTS + (s)]
#define KEPT_OF(e, u) ((e) * USES + (u) + 1)
byte kept[WORKERS * SLOTS];
#endif

#ifdef BUG_ONE_VERSION
#define HELD(n, s, q) node[n].slot[s].version[0]
#else
#define HELD(n, s, q) node[n].slot[s].version[(q) & 1]
#endif
#define COMPLETE(n, s, q) (HELD(n, s, q).bits == ALL(n))
/* The stored sum is one contribution of each member to this very use. */
#define IS_EXACT(n, s, q) (!HELD(n, s, q).mixed && HELD(n, s, q).summed == EVERY(n) && \
  HELD(n, s, q).of_epoch == HELD(n, s, q).epoch && SEQ_OF(HELD(n, s, q).of_use) == HELD(n, s, q).seq)

/* What happened, for the properties. */
bool wrong_sum_accepted;
bool accepted_twice;
bool touched_by_old_session;
bool forgotten;
#define LAST (SESSIONS - 1) /* session */
byte completed[SLOTS]; /* uses of the last session that were completed at node 0 */

/* ---- the switch ---- */

#ifdef EXACT
/* The other version holds a newer use, and this is no duplicate. */
#define OVERTAKEN(n, m, e, s, q) (HELD(n, s, (q) + 1).epoch == e && NEWER(HELD(n, s, (q) + 1).seq, q) && \
  !(HELD(n, s, q).epoch == e && HELD(n, s, q).seq == q && (HELD(n, s, q).bits & (1 << (m)))))

/* LocalRank m has just contributed to use u: what it sent is kept, unless it is the last. Then all that is kept is reduced. */
inline keep_or_reduce(n, m, e, s, q, u) {
  if
  :: COMPLETE(n, s, q) ->
    to = 0;
    do
    :: to < WORKERS ->
      HELD(n, s, q).mixed = HELD(n, s, q).mixed || (to != (m) && KEPT(to, s) != KEPT_OF(e, u));
      to++
    :: else -> break
    od;
    to = 0
  :: else -> KEPT(m, s) = KEPT_OF(e, u)
  fi
}
#endif

inline take_over(n, e, s, q, u, x) {
#ifdef BUG_ADD_ON_NEW
  HELD(n, s, q).mixed = HELD(n, s, q).mixed || HELD(n, s, q).epoch != NOTHING || !(x);
#else
  HELD(n, s, q).mixed = !(x);
#endif
  HELD(n, s, q).epoch = e;
  HELD(n, s, q).seq = q;
  HELD(n, s, q).bits = 0;
  HELD(n, s, q).of_epoch = e;
  HELD(n, s, q).of_use = u;
  HELD(n, s, q).summed = 0
}

/* A use of node n has just become complete. */
inline answer_all(n, s, q) {
  to = 0;
  do
  :: n == 0 && to < ROOT_MEMBERS -> answer_one(n, to, s, q); to++
  :: n == 0 && to == ROOT_MEMBERS -> break
  :: n != 0 -> send_up(n, s, q); break
  od;
  to = 0
}

/* A contribution of member m with epoch e and sequence number q, in truth to use u; x: it is what it should be. */
inline put_in(n, m, e, s, q, u, x) {
  touched_by_old_session = touched_by_old_session || e != node[n].live;
  HELD(n, s, q).mixed = HELD(n, s, q).mixed || !(x) || (HELD(n, s, q).summed & (1 << (m))) != 0 ||
    HELD(n, s, q).of_use != u || HELD(n, s, q).of_epoch != e;
  HELD(n, s, q).bits = HELD(n, s, q).bits | (1 << (m));
  HELD(n, s, q).summed = HELD(n, s, q).summed | (1 << (m));
#ifdef EXACT
  keep_or_reduce(n, m, e, s, q, u);
#endif
  if
  :: COMPLETE(n, s, q) ->
    if
    :: n == 0 && e == LAST && IS_EXACT(0, s, q) && completed[s] <= u -> completed[s] = u + 1
    :: else
    fi;
    answer_all(n, s, q)
  :: else
  fi
}

inline contribution_arrives(n, m, e, s, q, u, x) {
  if
#ifndef BUG_OLD_SESSION_TAKEN
  :: e != node[n].live -> skip
#endif
#if defined(EXACT) && !defined(BUG_OVERTAKEN_KEPT)
  :: e == node[n].live && OVERTAKEN(n, m, e, s, q) -> skip
#endif
  :: else ->
    if
#ifdef BUG_HELD_EPOCH_IGNORED
    :: HELD(n, s, q).epoch == NOTHING || NEWER(q, HELD(n, s, q).seq) ->
#else
    :: HELD(n, s, q).epoch != e || NEWER(q, HELD(n, s, q).seq) ->
#endif
      take_over(n, e, s, q, u, x);
      put_in(n, m, e, s, q, u, x)
    :: else ->
      if
      :: q != HELD(n, s, q).seq -> skip /* stale */
      :: q == HELD(n, s, q).seq && !(HELD(n, s, q).bits & (1 << (m))) -> put_in(n, m, e, s, q, u, x)
      :: else ->
#ifdef BUG_DUPLICATE_ADDED
        put_in(n, m, e, s, q, u, x)
#else
        if
#ifdef BUG_INCOMPLETE_ANSWERED
        :: true -> answer_one(n, m, s, q)
#else
#ifndef BUG_DUPLICATE_NOT_ANSWERED
        :: COMPLETE(n, s, q) -> answer_one(n, m, s, q)
#endif
        :: else
#endif
        fi
#endif
      fi
    fi
  fi
}

#define ANSWERABLE(s, u) (HELD(0, s, SEQ_OF(u)).epoch == LAST && HELD(0, s, SEQ_OF(u)).seq == SEQ_OF(u) && \
  COMPLETE(0, s, SEQ_OF(u)) && IS_EXACT(0, s, SEQ_OF(u)))

/* After a step that may have changed slot s of node 0: does it hold every complete use that a worker still waits for? */
inline look_for_forgotten(s) {
  w = 0;
  do
  :: w < WORKERS ->
    forgotten = forgotten ||
      (ACCEPTED(LAST, w, s) < completed[s] && !ANSWERABLE(s, ACCEPTED(LAST, w, s)));
    w++
  :: else -> break
  od;
  w = 0
}

/* ---- the worker ---- */

#ifdef BUG_USE_OPENED_EARLY
#define AHEAD 2
#else
#define AHEAD 1
#endif
/* Uses of slot s for which worker w of session e may have sent a contribution. Which of them it has sent does not need to
 * be known: a packet that was not sent yet is one that has not arrived yet. */
#define AFTER_TRIAL(e, w, s) (ACCEPTED(e, w, s) + AHEAD < USES -> ACCEPTED(e, w, s) + AHEAD : USES)
#ifdef TRIAL
#define TRIED(e, s) tried[(e) * SLOTS + (s)]
bool tried[SESSIONS * SLOTS];
#define OPENED(e, w, s) (TRIED(e, s) -> AFTER_TRIAL(e, w, s) : 1)

/* All have said that they are done with the first use, whether they have its result or not. */
inline end_trial(e, s) {
  w = 0;
  do
  :: w < WORKERS && ACCEPTED(e, w, s) == 0 -> ACCEPTED(e, w, s) = 1; w++
  :: w < WORKERS && ACCEPTED(e, w, s) != 0 -> w++
  :: else -> break
  od;
  w = 0;
  TRIED(e, s) = true
}
#else
#define OPENED(e, w, s) AFTER_TRIAL(e, w, s)
#endif

inline accept(e, w, s, u, x) {
  accepted_twice = accepted_twice || ((x) && (TAKEN(e, w, s) & (1 << (u))) != 0);
  TAKEN(e, w, s) = TAKEN(e, w, s) | (1 << (u))
}

/* A result with epoch re and sequence number q arrives at worker w of session e; in truth it is the sum of use u if x. */
inline result_arrives(re, e, w, s, q, u, x) {
  if
#ifndef BUG_WORKER_IGNORES_EPOCH
  :: re != e -> skip
#endif
  :: else ->
    if
#if defined(BUG_WORKER_IGNORES_SEQUENCE)
    :: ACCEPTED(e, w, s) < USES ->
#else
    :: ACCEPTED(e, w, s) < USES && q == SEQ_OF(ACCEPTED(e, w, s)) ->
#endif
      wrong_sum_accepted = wrong_sum_accepted || !(x) || re != e || u != ACCEPTED(e, w, s);
      accept(e, w, s, u, x);
      ACCEPTED(e, w, s) = ACCEPTED(e, w, s) + 1
#ifdef BUG_ACCEPTED_WITHOUT_WAITING
    :: ACCEPTED(e, w, s) > 0 && q == SEQ_OF(ACCEPTED(e, w, s) - 1) -> accept(e, w, s, u, x)
#endif
    :: else
    fi
  fi
}

inline nothing_held() {
  n = 0;
  do
  :: n < NODES ->
    s = 0;
    do
    :: s < SLOTS ->
      node[n].slot[s].version[0].epoch = NOTHING;
      node[n].slot[s].version[1].epoch = NOTHING;
      s++
    :: else -> break
    od;
    n++
  :: else -> break
  od;
  n = 0;
  s = 0
}
