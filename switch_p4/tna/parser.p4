// Takes apart what is consistent in itself; everything else is forwarded or dropped as Ethernet, or counted by Checks. A
// frame that ends before its own lengths say disappears here, in the pass that misses a word.

const bit<16> TYPE_IPV4 = 0x0800;
const bit<16> TYPE_ARP = 0x0806;
const bit<8> PROTOCOL_ICMP = 1;
const bit<8> PROTOCOL_UDP = 17;

#define BARE_BYTES 28  // UDP's header and ours
#define WHOLE_BYTES (BARE_BYTES + 4 * SWITCHML_WORDS * SEGMENTS)
#define ROCE_BYTES 36  // of headers before a message, and of the check behind it

parser SwitchIngressParser(packet_in packet, out headers_t headers, out metadata_t meta,
                           out ingress_intrinsic_metadata_t intrinsic) {
    Checksum() ipv4_checksum;

    state start {
        packet.extract(intrinsic);
        port_metadata_t port = port_metadata_unpack<port_metadata_t>(packet);
        meta = { 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0,
#if ROCE
                 0, 0,
#endif
                 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0 };
        transition select(intrinsic.ingress_port, port.kind) {
            (LOOP_PORT &&& LOOP_PORT_MASK, _): parse_inside;
            (_, PORT_LOOP): parse_inside;
            (_, PORT_CONTROL): parse_control;
            default: parse_outside;
        }
    }

    // What follows leaves as it is.
    state parse_control {
        headers.bridge.setValid();
        packet.extract(headers.control_header);
        transition accept;
    }

    state parse_outside {
        headers.bridge.setValid();
        headers.bridge.port = intrinsic.ingress_port;
        transition parse_ethernet;
    }

    // Only the program itself sends such a packet here.
    state parse_inside {
        packet.extract(headers.bridge);
        transition select(headers.bridge.step) {
            0: parse_ethernet;
            default: parse_later_pass;
        }
    }

    state parse_ethernet {
        packet.extract(headers.ethernet);
        transition select(headers.ethernet.type) {
            TYPE_ARP: parse_arp;
            TYPE_IPV4: parse_ipv4;
            default: accept;
        }
    }

    state parse_arp {
        packet.extract(headers.arp);
        transition select(headers.arp.operation) {
            1: parse_arp_request;
            default: accept;
        }
    }

    state parse_arp_request {
        meta.asked = headers.arp.target_ip;
        transition accept;
    }

    // Options and fragments are not for us.
    state parse_ipv4 {
        packet.extract(headers.ipv4);
        meta.asked = headers.ipv4.destination;
        ipv4_checksum.add(headers.ipv4);
        meta.bad_checksum = (bit<1>)ipv4_checksum.verify();
        transition select(headers.ipv4.version, headers.ipv4.header_words, headers.ipv4.flags[0:0],
                          headers.ipv4.fragment, headers.ipv4.protocol) {
            (4, 5, 0, 0, PROTOCOL_ICMP): parse_icmp;
            (4, 5, 0, 0, PROTOCOL_UDP): parse_udp;
            default: accept;
        }
    }

    state parse_icmp {
        packet.extract(headers.icmp);
        transition accept;
    }

    // By what follows. The masked lengths are those below 16 and below BARE_BYTES, of RoCE below that and ROCE_BYTES.
    state parse_udp {
        udp_h udp = packet.lookahead<udp_h>();
        transition select(udp.destination, udp.bytes) {
            (SWITCHML_PORT, 0 &&& 0xfff0): parse_short;
            (SWITCHML_PORT, 16 &&& 0xfff8): parse_kind_of_short;
            (SWITCHML_PORT, 24 &&& 0xfffc): parse_kind_of_short;
            (SWITCHML_PORT, BARE_BYTES): parse_kind_of_bare;  // [LEN-3]
            (SWITCHML_PORT, WHOLE_BYTES): parse_kind_of_whole;
            (SWITCHML_PORT, _): parse_kind;
#if ROCE
            (ROCE_PORT, 0 &&& 0xffc0): parse_short;  // [RDMA-12]
            (ROCE_PORT, BARE_BYTES + ROCE_BYTES): parse_transport_of_bare;  // [LEN-3]
            (ROCE_PORT, WHOLE_BYTES + ROCE_BYTES): parse_transport_of_whole;
            (ROCE_PORT, _): parse_transport;
#endif
            default: accept;
        }
    }

    // A request may be shorter than a contribution's header. Its fixed part is the same in all versions. [CTL-1]
#if ROCE
#define COMES_FROM(what) meta.origin = what;
#else
#define COMES_FROM(what)
#endif
#define REQUEST_OR(other)                            \
    packet.extract(headers.udp);                     \
    COMES_FROM(headers.udp.source)                   \
    transition select(packet.lookahead<bit<8>>()) {  \
        3 &&& 0x0f: parse_request;                   \
        default: other;                              \
    }
    state parse_kind_of_short { REQUEST_OR(parse_short_datagram) }
    state parse_kind_of_bare { REQUEST_OR(parse_bare) }
    state parse_kind_of_whole { REQUEST_OR(parse_whole) }
    state parse_kind { REQUEST_OR(parse_odd) }

    state parse_short {
        packet.extract(headers.udp);
        transition parse_short_datagram;
    }

#if ROCE
    // The check stays behind the words. [RDMA-12, RDMA-13]
#define MESSAGE_OR_FOREIGN(message, padded)                                        \
    packet.extract(headers.udp);                                                   \
    packet.extract(headers.base_transport);                                        \
    meta.origin_high = headers.base_transport.queue_pair[23:16];                   \
    COMES_FROM(headers.base_transport.queue_pair[15:0])                            \
    transition select(headers.base_transport.opcode, headers.base_transport.pad,   \
                      headers.base_transport.transport_version) {                  \
        (OPCODE_WRITE_ONLY_WITH_IMMEDIATE, 0, 0): message;                         \
        (OPCODE_WRITE_ONLY_WITH_IMMEDIATE, _, 0): padded;                          \
        default: parse_foreign;                                                    \
    }
    state parse_transport_of_bare { MESSAGE_OR_FOREIGN(parse_bare_write, parse_short_datagram) }
    state parse_transport_of_whole { MESSAGE_OR_FOREIGN(parse_whole_write, parse_odd_write) }
    state parse_transport { MESSAGE_OR_FOREIGN(parse_odd_write, parse_odd_write) }

    state parse_foreign {
        meta.form = FORM_FOREIGN;
        transition accept;
    }

#define WRITE_OF(message)                        \
    packet.extract(headers.extended_transport);  \
    packet.extract(headers.immediate);           \
    transition message;
    state parse_bare_write { WRITE_OF(parse_bare) }
    state parse_whole_write { WRITE_OF(parse_whole) }
    state parse_odd_write { WRITE_OF(parse_odd) }
#endif

    state parse_request {
        meta.form = FORM_REQUEST;
        transition accept;
    }

    state parse_short_datagram {
        meta.form = FORM_SHORT;
        transition accept;
    }

    state parse_odd {
        meta.form = FORM_ODD;
        packet.extract(headers.switchml);
        transition accept;
    }

    state parse_bare {
        meta.form = FORM_BARE;
        packet.extract(headers.switchml);
        transition accept;
    }

    state parse_whole {
        meta.form = FORM_WHOLE;
        packet.extract(headers.switchml);
        transition parse_words;
    }

    state parse_words {
        packet.extract(headers.lower);
        packet.extract(headers.upper);
        transition accept;
    }

    // A pass that takes words in, or one that only gives some out.
    state parse_later_pass {
        packet.extract(headers.ethernet);
        packet.extract(headers.ipv4);
        packet.extract(headers.udp);
        packet.extract(headers.switchml);
        transition select(headers.bridge.step) {
#if SEGMENTS == 4
            1: parse_later_whole;
            2: parse_later_whole;
            3: parse_later_whole;
#if ROCE
            PLAIN_STEP + 1: parse_later_whole;
            PLAIN_STEP + 2: parse_later_whole;
            PLAIN_STEP + 3: parse_later_whole;
#endif
            BARE_STEP &&& BARE_STEP: parse_later_bare;
#endif
            default: parse_reading;
        }
    }

    state parse_reading {
        meta.form = FORM_READING;
        transition accept;
    }

#if SEGMENTS == 4
    // The first pass has compared the sender with the slot's shard.
    state parse_later_bare {
        meta.form = FORM_LATER + FORM_BARE;
        meta.member_shard = ANY_SHARD;
        transition accept;
    }

    state parse_later_whole {
        meta.form = FORM_LATER + FORM_WHOLE;
        meta.member_shard = ANY_SHARD;
        transition parse_words;
    }
#endif
}

control SwitchIngressDeparser(packet_out packet, inout headers_t headers, in metadata_t meta,
                              in ingress_intrinsic_metadata_for_deparser_t for_deparser) {
    apply { packet.emit(headers); }
}
