// The egress: takes the bridge header off, addresses copies of results, and keeps flooded packets from where they came.

struct egress_headers_t {
    bridge_h bridge;
    ethernet_h ethernet;
    ipv4_h ipv4;
    udp_h udp;
#if ROCE
    base_transport_h base_transport;  // of a copy for a queue pair
    extended_transport_h extended_transport;
    immediate_h immediate;
#endif
}

#if ROCE
typedef bit<16> pair_index_t;
struct egress_metadata_t {
    bit<8> replica;      // of the member that the copy is for
    bit<8> paired;       // it has a queue pair
    pair_index_t index;  // of the pair in the registers here
    bit<16> slot;        // of the result
    bit<32> seq;
}
#else
struct egress_metadata_t {}
#endif

parser SwitchEgressParser(packet_in packet, out egress_headers_t headers, out egress_metadata_t meta,
                          out egress_intrinsic_metadata_t intrinsic) {
    state start {
        packet.extract(intrinsic);
#if ROCE
        meta.replica = intrinsic.egress_rid[7:0];
        meta.paired = 0;
        meta.index = 0;
        meta.slot = 0;
        meta.seq = 0;
#endif
        packet.extract(headers.bridge);
        transition select(headers.bridge.egress) {
            EGRESS_COPY: parse_copy;
#if ROCE
            EGRESS_ANSWER: parse_copy;
#endif
            EGRESS_REWRITTEN: parse_rewritten;
            default: accept;
        }
    }

    state parse_copy {
        packet.extract(headers.ethernet);
        packet.extract(headers.ipv4);
        packet.extract(headers.udp);
#if ROCE
        switchml_h result = packet.lookahead<switchml_h>();
        meta.slot = result.slot;
        meta.seq = result.seq;
#endif
        transition accept;
    }

    state parse_rewritten {
        packet.extract(headers.ethernet);
        packet.extract(headers.ipv4);
        transition accept;
    }
}

#if ROCE
// A place holds the words of all segments.
#if SEGMENTS == 1
#define WHOLE_PLACE_BITS PLACE_BITS
#else
#define WHOLE_PLACE_BITS (PLACE_BITS + 2)
#endif

// A result as the message that a worker's queue pair takes: RDMA WRITE ONLY WITH IMMEDIATE into the worker's place for the
// slot and version. The check behind the words is not right: cards must not look at it. [RDMA-10, RDMA-11, RDMA-14]
control ToPair(inout egress_headers_t headers, in egress_metadata_t meta) {
    Register<bit<32>, pair_index_t>(MEMBERS) psns;  // of the next packet to each pair [RDMA-15]
    RegisterAction<bit<32>, pair_index_t, bit<32>>(psns) next = {
        void apply(inout bit<32> held, out bit<32> psn) {
            psn = held;
            held = held + 1;
        }
    };
    action count() { headers.base_transport.psn = (bit<24>)next.execute(meta.index); }

    action is(bit<16> ip_bytes, bit<16> udp_bytes, bit<32> message_bytes) {
        headers.ipv4.bytes = ip_bytes;
        headers.udp.bytes = udp_bytes;
        headers.extended_transport.bytes = message_bytes;
    }
    table shapes {
        key = { headers.udp.bytes: exact; }
        actions = { is; NoAction; }
        const entries = {
            BARE_BYTES: is(20 + BARE_BYTES + ROCE_BYTES, BARE_BYTES + ROCE_BYTES, BARE_BYTES - 8);
            WHOLE_BYTES: is(20 + WHOLE_BYTES + ROCE_BYTES, WHOLE_BYTES + ROCE_BYTES, WHOLE_BYTES - 8);
        }
        const default_action = NoAction();
        size = 2;
    }

    // Two fields into one: a step each.
    action place_slot() {
        headers.extended_transport.address[WHOLE_PLACE_BITS + 16:WHOLE_PLACE_BITS + 1] = meta.slot;
        headers.immediate.slot = meta.slot;
        headers.immediate.seq_low = meta.seq[15:0];
    }
    action place_version() {
        headers.extended_transport.address[WHOLE_PLACE_BITS:WHOLE_PLACE_BITS] = meta.seq[0:0];
    }

    apply {
        count();
        shapes.apply();
        place_slot();
        place_version();
    }
}
#endif

// The copy of a result for one member, and no flooded packet back to where it came from.
control Copies(inout egress_headers_t headers, inout egress_metadata_t meta, in egress_intrinsic_metadata_t intrinsic,
               inout egress_intrinsic_metadata_for_deparser_t for_deparser) {
    action member(bit<48> mac, bit<32> ip, bit<16> port) {
        headers.ethernet.destination = mac;
        headers.ipv4.destination = ip;
        headers.udp.destination = port;
    }
#if ROCE
    // Of a member with a queue pair: its end of it, and its memory. `own`: the pair's number in the registers here.
    action pair(bit<48> mac, bit<32> ip, bit<16> source, bit<24> queue_pair, bit<32> address_high, bit<32> rkey,
                pair_index_t own) {
        headers.ethernet.destination = mac;
        headers.ipv4.destination = ip;
        headers.udp.source = source;
        headers.udp.destination = ROCE_PORT;
        headers.base_transport.setValid();
        headers.base_transport.opcode = OPCODE_WRITE_ONLY_WITH_IMMEDIATE;
        headers.base_transport.solicited = 0;
        headers.base_transport.migrated = 0;
        headers.base_transport.pad = 0;
        headers.base_transport.transport_version = 0;
        headers.base_transport.partition = 0xffff;
        headers.base_transport.congestion = 0;
        headers.base_transport.queue_pair = queue_pair;
        headers.base_transport.acknowledge = 0;
        headers.base_transport.reserved = 0;
        headers.extended_transport.setValid();
        headers.extended_transport.address = address_high ++ 32w0;
        headers.extended_transport.rkey = rkey;
        headers.immediate.setValid();
        meta.index = own;
        meta.paired = 1;
    }
    ToPair() to_pair;
#define MEMBER_ACTIONS member; pair; NoAction;
#define REPLICA meta.replica
#define IS_COPY headers.bridge.egress == EGRESS_COPY || headers.bridge.egress == EGRESS_ANSWER
#else
#define MEMBER_ACTIONS member; NoAction;
#define REPLICA intrinsic.egress_rid
#define IS_COPY headers.bridge.egress == EGRESS_COPY
#endif
    table members {
        key = {
            headers.bridge.audience: exact;
            REPLICA: exact @name("intrinsic.egress_rid");
        }
        actions = { MEMBER_ACTIONS }
        const default_action = NoAction();
        size = MEMBERS;
    }

    apply {
#if ROCE
        if (headers.bridge.egress == EGRESS_ANSWER) meta.replica = headers.bridge.act;
#endif
        if (IS_COPY) {
            members.apply();
        } else if (headers.bridge.egress == EGRESS_FLOOD && headers.bridge.port == intrinsic.egress_port) {
            for_deparser.drop_ctl = 1;
        }
#if ROCE
        if (meta.paired == 1) to_pair.apply(headers, meta);
#endif
        if (headers.bridge.egress != EGRESS_AROUND) headers.bridge.setInvalid();
    }
}

control SwitchEgress(inout egress_headers_t headers, inout egress_metadata_t meta, in egress_intrinsic_metadata_t intrinsic,
                     in egress_intrinsic_metadata_from_parser_t from_parser,
                     inout egress_intrinsic_metadata_for_deparser_t for_deparser,
                     inout egress_intrinsic_metadata_for_output_port_t for_port) {
    Copies() copies;
    apply { copies.apply(headers, meta, intrinsic, for_deparser); }
}

// Only what this program has rewritten has its IPv4 header parsed here: a checksum that came wrong stays wrong.
control SwitchEgressDeparser(packet_out packet, inout egress_headers_t headers, in egress_metadata_t meta,
                             in egress_intrinsic_metadata_for_deparser_t for_deparser) {
    Checksum() ipv4_checksum;
    apply {
        if (headers.ipv4.isValid()) {
            headers.ipv4.checksum = ipv4_checksum.update({
                headers.ipv4.version, headers.ipv4.header_words, headers.ipv4.service, headers.ipv4.bytes,
                headers.ipv4.identification, headers.ipv4.flags, headers.ipv4.fragment, headers.ipv4.time_to_live,
                headers.ipv4.protocol, headers.ipv4.source, headers.ipv4.destination });
        }
        packet.emit(headers);
    }
}
