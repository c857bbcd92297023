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

// Counters: REASONS of them for each job number.
#define REASON_BITS 5
#define REASONS 32
#define JOB_REASONS 8192

#endif
