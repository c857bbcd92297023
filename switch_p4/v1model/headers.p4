// Packets that the program knows, and what it carries along with one.
#ifndef SWITCHML_V1MODEL_HEADERS_P4
#define SWITCHML_V1MODEL_HEADERS_P4

typedef bit<9> port_t;

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

struct headers_t {
    control_h control_header;
    ethernet_h ethernet;
    arp_h arp;
    ipv4_h ipv4;
    icmp_h icmp;
    udp_h udp;
    base_transport_h base_transport;  // RoCE's headers, of packets from and to queue pairs
    extended_transport_h extended_transport;
    immediate_h immediate;
    switchml_h switchml;
    words_h words;
    invariant_check_h invariant_check;
}

// What the sequence number says about a packet.
const bit<2> SEQUENCE_NEW = 0;
const bit<2> SEQUENCE_SAME = 1;
const bit<2> SEQUENCE_STALE = 2;

const bit<8> ALL_WORKERS = 255;  // worker of a result
const bit<8> REPEAT_BIT = 2;     // of the flags: a retransmission

// A child switch speaks for all shards of a job from one address.
const bit<8> ANY_SHARD = 255;

// Who is to get the packet that leaves aggregation.
const bit<2> NOBODY = 0;
const bit<2> THE_SENDER = 1;   // the result, to the worker that asks again
const bit<2> ALL_MEMBERS = 2;  // the result
const bit<2> THE_PARENT = 3;   // a leaf's aggregate

struct metadata_t {
    bool to_switch;         // addressed to the switch itself
    bool for_aggregator;    // and to its UDP port
    bool request;           // a control request (kind 3) that has its fixed part
    bool from_parent;       // has the form of a parent's result
    bool on_its_way;        // to or from the control port: ControlPort has decided
    bool over_roce;         // came from a queue pair, or tried to
    bool foreign_roce;      // and is no message that a member sends
    bool rewritten;         // the IPv4 header is not the one that came
    bit<1> too_short;       // of a data packet: no whole header
    bit<1> odd_length;      // neither a header alone nor header and SWITCHML_WORDS words
    bit<REASON_BITS> reason;  // why it is dropped, or what became of it
    bit<8> counted_job;
    bit<MAX_WORKERS> worker_bit;
    bit<MAX_WORKERS> all_workers;
    bit<8> member_shard;
    bit<8> shard;           // of the slot
    bit<16> audience;       // multicast group of the shard
    bit<32> index;          // of (slot, version) in every register
    bit<2> sequence;
    bit<1> duplicate;       // this worker's bit was set
    bit<1> complete;        // after this packet, all bits are set
    bit<8> operation;
    bool leaf;              // the session has a parent; the next four fields are about it
    bit<8> own_number;
    bit<48> parent_mac;
    bit<32> parent_ip;
    port_t parent_port;
    bit<2> receiver;
    bit<16> replica;        // of THE_SENDER in its multicast group
}

#endif
