// Packets that the program knows, and what it carries along with one.
#ifndef SWITCHML_TNA_HEADERS_P4
#define SWITCHML_TNA_HEADERS_P4

// What the egress has to do with a packet. 0: nothing.
const bit<8> EGRESS_COPY = 1;    // of a result, for one member
const bit<8> EGRESS_REWRITTEN = 2;  // its IPv4 header is not the one that came
const bit<8> EGRESS_FLOOD = 3;
const bit<8> EGRESS_AROUND = 4;  // back into an ingress, with this header
#if ROCE
const bit<8> EGRESS_ANSWER = 5;  // a result for one member, whose replica number is in `act`
#endif

// In front of Ethernet between ingress and egress, and on the way around.
header bridge_h {
    bit<8> egress;
    bit<8> step;      // number of the pass, 0 for the first; with BARE_STEP if the packet has no words
    bit<8> segment;   // of the payload: which SWITCHML_WORDS words
    bit<8> act;       // what the registers of words do in a pass that only gives words out
    bit<8> receiver;  // of the aggregate
    bit<16> audience;
    @padding bit<7> pad;
    PortId_t port;    // that the packet came in by
}

// In front of Ethernet, only on the control port: the port that a packet came in by, or that it has to leave by.
header control_h {
    bit<16> port;
}

header ethernet_h {
    bit<48> destination;
    bit<48> source;
    bit<16> type;
}

header arp_h {  // of IPv4 over Ethernet
    bit<16> hardware;
    bit<16> protocol;
    bit<8> hardware_bytes;
    bit<8> protocol_bytes;
    bit<16> operation;
    bit<48> sender_mac;
    bit<32> sender_ip;
    bit<48> target_mac;
    bit<32> target_ip;
}

header ipv4_h {
    bit<4> version;
    bit<4> header_words;
    bit<8> service;
    bit<16> bytes;
    bit<16> identification;
    bit<3> flags;
    bit<13> fragment;
    bit<8> time_to_live;
    bit<8> protocol;
    bit<16> checksum;
    bit<32> source;
    bit<32> destination;
}

header icmp_h {
    bit<8> type;
    bit<8> code;
    bit<16> checksum;
}

header udp_h {
    bit<16> source;
    bit<16> destination;
    bit<16> bytes;
    bit<16> checksum;
}

// The words of a pass in halves: a pass gives out one of them.
#define LOWER_WORD(i, low, high) bit<32> w##low;
#define UPPER_WORD(i, low, high) bit<32> w##high;
header lower_words_h { FOR_EACH_PAIR(LOWER_WORD) }
header upper_words_h { FOR_EACH_PAIR(UPPER_WORD) }

// What the table $PORT_METADATA says about a port.
const bit<8> PORT_LOOP = 1;     // in loopback mode, beside the chip's own
const bit<8> PORT_CONTROL = 2;  // the process that handles control requests is there
struct port_metadata_t {
    bit<8> kind;
}

struct headers_t {
    bridge_h bridge;
    control_h control_header;
    ethernet_h ethernet;
    arp_h arp;
    ipv4_h ipv4;
    icmp_h icmp;
    udp_h udp;
#if ROCE
    base_transport_h base_transport;  // of packets from queue pairs
    extended_transport_h extended_transport;
    immediate_h immediate;
#endif
    switchml_h switchml;
    lower_words_h lower;
    upper_words_h upper;
#if ROCE
    invariant_check_h invariant_check;  // only of what came without one
#endif
}

// What a packet to the aggregator is by its lengths.
const bit<8> FORM_NONE = 0;     // not to the aggregator's port
const bit<8> FORM_SHORT = 1;
const bit<8> FORM_BARE = 2;     // no words
const bit<8> FORM_WHOLE = 3;    // all words
const bit<8> FORM_ODD = 4;      // any other length
const bit<8> FORM_REQUEST = 5;  // a control request
const bit<8> FORM_READING = 6;  // in a pass that only gives words out
const bit<8> FORM_FOREIGN = 7;  // RoCE that is no message of a member
const bit<8> FORM_LATER = 8;    // added to FORM_BARE and FORM_WHOLE in a pass after the first that takes words in
#define BARE_OR_LATER FORM_BARE &&& 7
#define WHOLE_OR_LATER FORM_WHOLE &&& 7

// What Checks makes of it; below these, the reason why it is dropped.
const bit<REASON_BITS> IS_LATER = 28;  // a contribution, in a pass after the first that takes words in
const bit<REASON_BITS> IS_CONTRIBUTION = 29;
const bit<REASON_BITS> IS_RESULT = 30;
const bit<REASON_BITS> IS_REQUEST = 31;

// Added to the step of a packet without words: the other segments' words have to hear of it too.
const bit<8> BARE_STEP = 16;
// Added to that of one with words that came as a datagram, until all are taken in: a result has a card's check behind them.
const bit<8> PLAIN_STEP = 32;

// What the sequence number says about a packet.
const bit<8> SEQUENCE_STALE = 0;
const bit<8> SEQUENCE_NEW = 1;
const bit<8> SEQUENCE_SAME = 2;

// What the registers of words do. 0: nothing.
const bit<8> ACT_NEW = 1;
const bit<8> ACT_SUM = 2;
const bit<8> ACT_MAX = 3;
const bit<8> ACT_READ_LOWER = 4;
const bit<8> ACT_READ_UPPER = 5;  // adds zeros: a register has no fifth operation

const bit<8> ALL_WORKERS = 255;  // worker of a result
const bit<8> REPEAT_FLAG = 4;    // a retransmission

// A child switch speaks for all shards of a job from one address.
const bit<8> ANY_SHARD = 255;

// Who is to get the packet that leaves aggregation.
const bit<8> NOBODY = 0;
const bit<8> THE_SENDER = 1;   // the result, to the worker that asks again
const bit<8> ALL_MEMBERS = 2;  // the result

// What becomes of the packet.
const bit<8> NEXT_DROP = 0;
const bit<8> NEXT_ANSWER = 1;     // the last pass for it
const bit<8> NEXT_AROUND = 2;
const bit<8> NEXT_ELSEWHERE = 3;  // to the pipe that holds the job's slots
const bit<8> NEXT_PASS_DOWN = 4;
const bit<8> NEXT_CONTROL = 5;

struct pair_t {
    bit<32> lower;
    bit<32> upper;
}

// A byte each, because tables of one stage cannot write into one container.
struct metadata_t {
    bit<48> own_mac;
    bit<32> asked;          // IPv4 address that a packet is for
    bit<1> bad_checksum;    // of the IPv4 header
    bit<8> form;
    bit<REASON_BITS> class;
    bit<8> to_switch;       // addressed to the switch itself
    bit<8> consistent;      // IPv4's and UDP's length say the same
    bit<8> live;            // the session is
    bit<8> counted_job;
    bit<8> workers;         // that contribute to a use
    bit<8> member;          // known worker
    bit<8> speaker;         // from a known address
    bit<8> member_shard;
#if ROCE
    bit<8> origin_high;     // where it comes from: number of the switch's end of a queue pair, or, below all of these,
    bit<16> origin;         // UDP port
#endif
    bit<8> mapped;          // slot in range
    bit<8> shard;           // of the slot
    bit<8> same_shard;
    bit<8> page;
    bit<8> elsewhere;       // another pipe holds the job's slots
    PortId_t way;           // to that pipe
    bit<32> seen;           // seq that the version holds
    bit<8> sequence;
    bit<32> lower_bits;     // this worker's in the bitmap, then whether it was set
    bit<32> upper_bits;
    bit<8> duplicate;
    bit<8> count;           // of contributions
    bit<8> complete;
    bit<8> act;
    bit<8> leaf;            // the session has a parent, this place of its own in it, and the next four fields
    bit<8> own_number;
    bit<48> parent_mac;
    bit<32> parent_ip;
    PortId_t parent_port;
    bit<8> from_parent;
    bit<8> handed_over;     // to the control port
    bit<8> next;
    bit<REASON_BITS> reason;
}

#endif
