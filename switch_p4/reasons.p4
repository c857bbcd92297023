// What happened to a packet. Index of a job's counters: job * REASONS + reason; packets without a valid job count as job 0.
// The names are those of the software switch's counters (backend/base/counters.h).
#ifndef SWITCHML_REASONS_P4
#define SWITCHML_REASONS_P4

const bit<REASON_BITS> REASON_NONE = 0;
const bit<REASON_BITS> REASON_CONTRIBUTIONS_ADDED = 1;
const bit<REASON_BITS> REASON_USES_STARTED = 2;      // a contribution too
const bit<REASON_BITS> REASON_USES_COMPLETED = 3;    // a contribution too
const bit<REASON_BITS> REASON_STARTED_AND_COMPLETED = 4;  // jobs of one worker
const bit<REASON_BITS> REASON_DUPLICATES_ANSWERED = 5;
const bit<REASON_BITS> REASON_DUPLICATES_DROPPED = 6;
const bit<REASON_BITS> REASON_DROPPED_STALE = 7;
const bit<REASON_BITS> REASON_DROPPED_SHORT = 8;
const bit<REASON_BITS> REASON_DROPPED_VERSION = 9;
const bit<REASON_BITS> REASON_DROPPED_KIND = 10;
const bit<REASON_BITS> REASON_DROPPED_LENGTH = 11;
const bit<REASON_BITS> REASON_DROPPED_SESSION = 12;
const bit<REASON_BITS> REASON_DROPPED_WORKER = 13;
const bit<REASON_BITS> REASON_DROPPED_SOURCE = 14;
const bit<REASON_BITS> REASON_DROPPED_SLOT = 15;
const bit<REASON_BITS> REASON_DROPPED_OPERATION = 16;
const bit<REASON_BITS> REASON_DROPPED_SEQ = 17;
const bit<REASON_BITS> REASON_CONTROL_REQUESTS = 18;     // handed to the process on the control port
const bit<REASON_BITS> REASON_RESULTS_PASSED_DOWN = 19;  // of the parent, to the members of a leaf

#endif
