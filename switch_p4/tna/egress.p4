// The egress: takes the bridge header off, addresses copies of results, and keeps flooded packets from where they came.

struct egress_headers_t {
    bridge_h bridge;
    ethernet_h ethernet;
    ipv4_h ipv4;
    udp_h udp;
}

struct egress_metadata_t {}

parser SwitchEgressParser(packet_in packet, out egress_headers_t headers, out egress_metadata_t meta,
                          out egress_intrinsic_metadata_t intrinsic) {
    state start {
        packet.extract(intrinsic);
        packet.extract(headers.bridge);
        transition select(headers.bridge.egress) {
            EGRESS_COPY: parse_copy;
            EGRESS_REWRITTEN: parse_rewritten;
            default: accept;
        }
    }

    state parse_copy {
        packet.extract(headers.ethernet);
        packet.extract(headers.ipv4);
        packet.extract(headers.udp);
        transition accept;
    }

    state parse_rewritten {
        packet.extract(headers.ethernet);
        packet.extract(headers.ipv4);
        transition accept;
    }
}

control Copies(inout egress_headers_t headers, in egress_intrinsic_metadata_t intrinsic,
               inout egress_intrinsic_metadata_for_deparser_t for_deparser) {
    action member(bit<48> mac, bit<32> ip, bit<16> port) {
        headers.ethernet.destination = mac;
        headers.ipv4.destination = ip;
        headers.udp.destination = port;
    }
    table members {
        key = {
            headers.bridge.audience: exact;
            intrinsic.egress_rid: exact;
        }
        actions = { member; NoAction; }
        const default_action = NoAction();
        size = MEMBERS;
    }

    apply {
        if (headers.bridge.egress == EGRESS_COPY) {
            members.apply();
        } else if (headers.bridge.egress == EGRESS_FLOOD && headers.bridge.port == intrinsic.egress_port) {
            for_deparser.drop_ctl = 1;
        }
        if (headers.bridge.egress != EGRESS_AROUND) headers.bridge.setInvalid();
    }
}

control SwitchEgress(inout egress_headers_t headers, inout egress_metadata_t meta, in egress_intrinsic_metadata_t intrinsic,
                     in egress_intrinsic_metadata_from_parser_t from_parser,
                     inout egress_intrinsic_metadata_for_deparser_t for_deparser,
                     inout egress_intrinsic_metadata_for_output_port_t for_port) {
    Copies() copies;
    apply { copies.apply(headers, intrinsic, for_deparser); }
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
