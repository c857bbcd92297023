// Takes apart what is consistent in itself; everything else is forwarded or dropped as Ethernet, or counted by Checks.

const bit<16> TYPE_IPV4 = 0x0800;
const bit<16> TYPE_ARP = 0x0806;
const bit<8> PROTOCOL_ICMP = 1;
const bit<8> PROTOCOL_UDP = 17;
const bit<16> UDP_BYTES = 8;
const bit<16> IPV4_BYTES = 20;
const bit<16> ROCE_BYTES = 36;    // of headers before a message, and of the check behind it
const bit<16> CONTROL_BYTES = 8;  // of the fixed part of a control request

parser SwitchParser(packet_in packet, out headers_t headers, inout metadata_t meta, inout standard_metadata_t standard) {
    value_set<port_t>(1) control_ports;

    state start {
        transition select(standard.ingress_port) {
            control_ports: parse_control;
            default: parse_ethernet;
        }
    }

    // What follows leaves as it is.
    state parse_control {
        packet.extract(headers.control_header);
        transition accept;
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
        transition accept;
    }

    // Options and fragments are not for us.
    state parse_ipv4 {
        packet.extract(headers.ipv4);
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

    state parse_udp {
        packet.extract(headers.udp);
        transition select(headers.udp.destination) {
            SWITCHML_PORT: parse_lengths;
            ROCE_PORT: parse_roce_lengths;
            default: accept;
        }
    }

    // A datagram is as long as UDP says; what Ethernet pads after it does not count. [BASE-2]
    state parse_lengths {
        verify(headers.ipv4.bytes == headers.udp.bytes + IPV4_BYTES, error.HeaderTooShort);
        meta.too_short = headers.udp.bytes < UDP_BYTES + SWITCHML_HEADER_BYTES ? 1w1 : 1w0;
        transition select(headers.udp.bytes < UDP_BYTES + CONTROL_BYTES) {
            true: accept;
            default: parse_kind;
        }
    }

    // A request may be shorter than a contribution's header. Its fixed part is the same in all versions. [CTL-1]
    state parse_kind {
        meta.request = packet.lookahead<bit<8>>()[3:0] == KIND_REQUEST;
        transition select(meta.too_short) {
            1: accept;
            default: parse_switchml;
        }
    }

    // What is too short for a message of a member is none of a member, so nothing of it is looked at. [RDMA-12]
    state parse_roce_lengths {
        verify(headers.ipv4.bytes == headers.udp.bytes + IPV4_BYTES, error.HeaderTooShort);
        meta.over_roce = true;
        meta.too_short = headers.udp.bytes < UDP_BYTES + ROCE_BYTES + SWITCHML_HEADER_BYTES ? 1w1 : 1w0;
        transition select(meta.too_short) {
            1: accept;
            default: parse_base_transport;
        }
    }

    state parse_base_transport {
        packet.extract(headers.base_transport);
        bit<16> unpadded = headers.udp.bytes - (bit<16>)headers.base_transport.pad;
        meta.too_short = unpadded < UDP_BYTES + ROCE_BYTES + SWITCHML_HEADER_BYTES ? 1w1 : 1w0;
        transition select(meta.too_short, headers.base_transport.opcode, headers.base_transport.transport_version) {
            (1, _, _): accept;
            (0, OPCODE_WRITE_ONLY_WITH_IMMEDIATE, 0): parse_write;
            default: parse_foreign;
        }
    }

    state parse_foreign {
        meta.foreign_roce = true;
        transition accept;
    }

    state parse_write {
        packet.extract(headers.extended_transport);
        packet.extract(headers.immediate);
        packet.extract(headers.switchml);
        meta.odd_length = 1;
        transition select(headers.udp.bytes, headers.base_transport.pad) {
            (UDP_BYTES + ROCE_BYTES + SWITCHML_HEADER_BYTES, 0): parse_check_only;  // [LEN-3]
            (UDP_BYTES + ROCE_BYTES + SWITCHML_HEADER_BYTES + 4 * SWITCHML_WORDS, 0): parse_words_and_check;
            default: accept;
        }
    }

    state parse_words_and_check {
        packet.extract(headers.words);
        transition parse_check_only;
    }

    state parse_check_only {
        meta.odd_length = 0;
        packet.extract(headers.invariant_check);
        transition accept;
    }

    state parse_switchml {
        packet.extract(headers.switchml);
        meta.odd_length = 1;
        transition select(headers.udp.bytes) {
            UDP_BYTES + SWITCHML_HEADER_BYTES: parse_no_words;  // [LEN-3]
            UDP_BYTES + SWITCHML_HEADER_BYTES + 4 * SWITCHML_WORDS: parse_words;
            default: accept;
        }
    }

    state parse_no_words {
        meta.odd_length = 0;
        transition accept;
    }

    state parse_words {
        meta.odd_length = 0;
        packet.extract(headers.words);
        transition accept;
    }
}
