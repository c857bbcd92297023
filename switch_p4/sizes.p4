// Every size of the switch programs, in one place. docs/switch.md says what they cost.
#ifndef SWITCHML_SIZES_P4
#define SWITCHML_SIZES_P4

// Slots of all jobs together; each has two versions. A multiple of PAGE_SLOTS.
#define SLOTS 10240
#define SLOT_VERSIONS 20480
// A job's slots come in pages, so that slot numbers are mapped by one exact match.
#define PAGE_SLOTS 128
#define PAGE_BITS 7
#define PAGES 80

// Workers of one job on one switch: bits of the bitmap.
#define MAX_WORKERS 64
#define SESSIONS 256
#define MEMBERS 4096

#define L2_ENTRIES 1024

// Tofino only. Payload of a session in passes of SWITCHML_WORDS words: 1 (256 B) or 4 (1024 B).
#ifndef SEGMENTS
#define SEGMENTS 1
#endif
// Tofino only, too: 1 makes the switch the end of queue pairs.
#ifndef ROCE
#define ROCE 0
#endif
// A whole page is one entry, a part of one up to PAGE_BITS; for every segment.
#define PAGE_ENTRIES (512 * SEGMENTS)
// Ways of the passes after the first: for each job and pass one entry or more, by slot; and to a job's pipe, by port.
#define LOOPS (512 * SEGMENTS)
#define HOMES 512

// Counters: REASONS of them for each job number.
#define REASON_BITS 5
#define REASONS 32
#define JOB_REASONS 8192

#endif
