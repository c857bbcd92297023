// Takes apart what is consistent in itself; everything else is forwarded or dropped as Ethernet, or counted by Checks. A
// frame that ends before its own lengths say disappears here.

const bit<16> TYPE_IPV4 = 0x0800;
const bit<16> TYPE_ARP = 0x0806;
const bit<8> PROTOCOL_ICMP = 1;
const bit<8> PROTOCOL_UDP = 17;

#define BARE_BYTES 28  // UDP's header and ours
#define WHOLE_BYTES (BARE_BYTES + 4 * SWITCHML_WORDS * SEGMENTS)

parser SwitchIngressParser(packet_in packet, out headers_t headers, out metadata_t meta,
                           out ingress_intrinsic_metadata_t intrinsic) {
    Checksum() ipv4_checksum;

    state start {
        packet.extract(intrinsic);
        port_metadata_t port = port_metadata_unpack<port_metadata_t>(packet);
        meta = { 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0,
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

    // The masked lengths are those below 16 and below BARE_BYTES.
    state parse_udp {
        packet.extract(headers.udp);
        transition select(headers.udp.destination, headers.udp.bytes) {
            (SWITCHML_PORT, 0 &&& 0xfff0): parse_short;
            (SWITCHML_PORT, 16 &&& 0xfff8): parse_kind_of_short;
            (SWITCHML_PORT, 24 &&& 0xfffc): parse_kind_of_short;
            (SWITCHML_PORT, BARE_BYTES): parse_kind_of_bare;  // [LEN-3]
            (SWITCHML_PORT, WHOLE_BYTES): parse_kind_of_whole;
            (SWITCHML_PORT, _): parse_kind;
            default: accept;
        }
    }

    // A request may be shorter than a contribution's header. Its fixed part is the same in all versions. [CTL-1]
#define REQUEST_OR(other)                            \
    transition select(packet.lookahead<bit<8>>()) {  \
        3 &&& 0x0f: parse_request;                   \
        default: other;                              \
    }
    state parse_kind_of_short { REQUEST_OR(parse_short) }
    state parse_kind_of_bare { REQUEST_OR(parse_bare) }
    state parse_kind_of_whole { REQUEST_OR(parse_whole) }
    state parse_kind { REQUEST_OR(parse_odd) }

    state parse_request {
        meta.form = FORM_REQUEST;
        transition accept;
    }

    state parse_short {
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
        meta.form = FORM_INSIDE;
        packet.extract(headers.ethernet);
        packet.extract(headers.ipv4);
        packet.extract(headers.udp);
        packet.extract(headers.switchml);
        transition select(headers.bridge.step) {
#if SEGMENTS == 4
            1: parse_words;
            2: parse_words;
            3: parse_words;
#endif
            default: accept;
        }
    }
}

control SwitchIngressDeparser(packet_out packet, inout headers_t headers, in metadata_t meta,
                              in ingress_intrinsic_metadata_for_deparser_t for_deparser) {
    apply { packet.emit(headers); }
}
