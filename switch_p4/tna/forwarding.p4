// What is not aggregation: the switch's own address, answers on the way they came, Ethernet, and the addresses of the copies
// of a result.

const bit<16> FLOOD_GROUP = 1;
const bit<16> ARP_REPLY = 2;
const bit<8> ICMP_ECHO_REPLY = 0;
const bit<8> ICMP_ECHO_REQUEST = 8;

// Whether a packet is for the switch itself, and the address that it answers from.
control OwnAddress(in headers_t headers, inout metadata_t meta) {
    action own_mac(bit<48> mac) { meta.own_mac = mac; }
    table mac {
        key = {}
        actions = { own_mac; NoAction; }
        default_action = NoAction();
        size = 1;
    }

    action mine() { meta.to_switch = 1; }
    table addresses {
        key = { meta.asked: exact @name("ip"); }
        actions = { mine; NoAction; }
        const default_action = NoAction();
        size = 16;
    }

    apply {
        mac.apply();
        if (headers.ipv4.isValid() || headers.arp.isValid()) addresses.apply();
    }
}

// Control requests of workers to the process on the control port, and that one's packets out of any port.
control ControlPort(inout headers_t headers, inout metadata_t meta, inout ingress_intrinsic_metadata_for_tm_t for_tm,
                    inout ingress_intrinsic_metadata_for_deparser_t for_deparser) {
    action hand_over(PortId_t port) {
        headers.control_header.setValid();
        headers.control_header.port = (bit<16>)headers.bridge.port;
        for_tm.ucast_egress_port = port;
        meta.handed_over = 1;
    }
    action refuse() { for_deparser.drop_ctl = 1; }
    table control_port {
        key = {}
        actions = { hand_over; refuse; }
        default_action = refuse();
        size = 1;
    }
    apply { control_port.apply(); }
}

// Turns a packet for the switch into its answer. What has no answer is dropped.
control Answers(inout headers_t headers, inout metadata_t meta, inout ingress_intrinsic_metadata_for_tm_t for_tm,
                inout ingress_intrinsic_metadata_for_deparser_t for_deparser) {
    action to_sender() {
        headers.ethernet.destination = headers.ethernet.source;
        headers.ethernet.source = meta.own_mac;
        for_tm.ucast_egress_port = headers.bridge.port;
    }

    action swap_ip() {
        bit<32> asker = headers.ipv4.source;
        headers.ipv4.source = headers.ipv4.destination;
        headers.ipv4.destination = asker;
        headers.ipv4.time_to_live = 64;
    }

    action answer_arp() {
        to_sender();
        bit<32> own = headers.arp.target_ip;
        headers.arp.operation = ARP_REPLY;
        headers.arp.target_mac = headers.arp.sender_mac;
        headers.arp.target_ip = headers.arp.sender_ip;
        headers.arp.sender_mac = meta.own_mac;
        headers.arp.sender_ip = own;
    }

    // The type is the only change, so the checksum grows by what the type shrinks, with the carry (RFC 1624).
    action answer_ping(bit<16> growth) {
        to_sender();
        swap_ip();
        headers.bridge.egress = EGRESS_REWRITTEN;
        headers.icmp.checksum = headers.icmp.checksum + growth;
        headers.icmp.type = ICMP_ECHO_REPLY;
    }

    // UDP's checksum would need the whole payload: none is sent, as IPv4 allows. The witness is the end-to-end check.
    action is_result(bit<8> flags) {
        headers.udp.checksum = 0;
        headers.switchml.kind = KIND_RESULT;
        headers.switchml.worker = ALL_WORKERS;  // [PKT-7]
        headers.switchml.flags = flags;  // [PKT-4, PKT-5]
    }

#if ROCE
    // As a copy: what belongs to the sender's pair is found in the egress.
    action result_to_sender(bit<8> flags) {
        headers.ethernet.source = meta.own_mac;
        headers.ipv4.source = headers.ipv4.destination;
        headers.ipv4.time_to_live = 64;
        headers.udp.source = SWITCHML_PORT;
        headers.bridge.egress = EGRESS_ANSWER;
        headers.bridge.act = headers.switchml.worker + 1;
        for_tm.ucast_egress_port = headers.bridge.port;
        is_result(flags);
    }
#else
    action result_to_sender(bit<8> flags) {
        to_sender();
        swap_ip();
        headers.bridge.egress = EGRESS_REWRITTEN;
        headers.udp.destination = headers.udp.source;
        headers.udp.source = SWITCHML_PORT;
        is_result(flags);
    }
#endif

    // Each copy gets its destination in the egress.
    action to_members() {
        headers.ethernet.source = meta.own_mac;
        headers.ipv4.source = headers.ipv4.destination;
        headers.ipv4.time_to_live = 64;
        headers.udp.source = SWITCHML_PORT;
        headers.bridge.egress = EGRESS_COPY;
        for_tm.mcast_grp_a = headers.bridge.audience;
    }

    action result_to_members(bit<8> flags) {
        to_members();
        is_result(flags);
    }

    // [TREE-7]
    action pass_down() {
        to_members();
        headers.udp.checksum = 0;
    }

    // [TREE-4, TREE-5, TREE-6]
    action to_parent(bit<8> flags) {
        headers.ethernet.destination = meta.parent_mac;
        headers.ethernet.source = meta.own_mac;
        headers.ipv4.source = headers.ipv4.destination;
        headers.ipv4.destination = meta.parent_ip;
        headers.ipv4.time_to_live = 64;
        headers.udp.source = SWITCHML_PORT;
        headers.udp.checksum = 0;
        headers.switchml.worker = meta.own_number;
        headers.switchml.flags = flags;
        headers.bridge.egress = EGRESS_REWRITTEN;
        for_tm.ucast_egress_port = meta.parent_port;
    }

    action drop() { for_deparser.drop_ctl = 1; }

    table answers {
        key = {
            meta.next: ternary;
            meta.leaf: ternary;
            headers.bridge.receiver: ternary;
            headers.switchml.flags: ternary;
            headers.arp.isValid(): ternary;
            headers.icmp.isValid(): ternary;
            headers.icmp.type: ternary;
            headers.icmp.checksum: ternary;
            meta.bad_checksum: ternary;
        }
        actions = { result_to_sender; result_to_members; pass_down; to_parent; answer_arp; answer_ping; drop; }
        const entries = {
            (NEXT_ANSWER, 1, THE_SENDER, OPERATION_SUM &&& 1, _, _, _, _, _): to_parent(OPERATION_SUM | REPEAT_FLAG);
            (NEXT_ANSWER, 1, THE_SENDER, OPERATION_MAX &&& 1, _, _, _, _, _): to_parent(OPERATION_MAX | REPEAT_FLAG);
            (NEXT_ANSWER, 1, _, OPERATION_SUM &&& 1, _, _, _, _, _): to_parent(OPERATION_SUM);
            (NEXT_ANSWER, 1, _, OPERATION_MAX &&& 1, _, _, _, _, _): to_parent(OPERATION_MAX);
            (NEXT_ANSWER, _, THE_SENDER, OPERATION_SUM &&& 1, _, _, _, _, _): result_to_sender(OPERATION_SUM);
            (NEXT_ANSWER, _, THE_SENDER, OPERATION_MAX &&& 1, _, _, _, _, _): result_to_sender(OPERATION_MAX);
            (NEXT_ANSWER, _, _, OPERATION_SUM &&& 1, _, _, _, _, _): result_to_members(OPERATION_SUM);
            (NEXT_ANSWER, _, _, OPERATION_MAX &&& 1, _, _, _, _, _): result_to_members(OPERATION_MAX);
            (NEXT_PASS_DOWN, _, _, _, _, _, _, _, _): pass_down();
            (_, _, _, _, true, _, _, _, _): answer_arp();
            (_, _, _, _, _, true, ICMP_ECHO_REQUEST, 0xf800 &&& 0xf800, 0): answer_ping(0x0801);
            (_, _, _, _, _, true, ICMP_ECHO_REQUEST, _, 0): answer_ping(0x0800);
        }
        const default_action = drop();
        size = 16;
    }

    apply { answers.apply(); }
}

// Forwarding by destination; unknown ones and broadcasts go to all other ports.
control Layer2(inout headers_t headers, inout ingress_intrinsic_metadata_for_tm_t for_tm) {
    action forward(PortId_t port) { for_tm.ucast_egress_port = port; }
    action flood() {
        for_tm.mcast_grp_a = FLOOD_GROUP;
        headers.bridge.egress = EGRESS_FLOOD;
    }
    table stations {
        key = { headers.ethernet.destination: exact; }
        actions = { forward; flood; }
        default_action = flood();
        size = L2_ENTRIES;
    }
    apply { stations.apply(); }
}

#if ROCE
// Later passes and results are datagrams, whatever the contribution came as. A card's check stays behind the words; what
// came without one gets four bytes there, because the egress cannot reach behind the words.
control AsDatagram(inout headers_t headers, in metadata_t meta) {
    action as_datagram() {
        headers.ipv4.bytes = headers.ipv4.bytes - ROCE_BYTES;
        headers.udp.bytes = headers.udp.bytes - ROCE_BYTES;
        headers.udp.destination = SWITCHML_PORT;
        headers.base_transport.setInvalid();
        headers.extended_transport.setInvalid();
        headers.immediate.setInvalid();
    }
    action with_check() {
        headers.invariant_check.setValid();
        headers.invariant_check.crc = 0;
    }
    table carriers {
        key = {
            meta.next: ternary;
            headers.base_transport.isValid(): ternary;
            meta.form: ternary;
        }
        actions = { as_datagram; with_check; NoAction; }
        const entries = {
            (NEXT_ELSEWHERE, _, _): NoAction();
            (_, true, _): as_datagram();
            (_, _, FORM_BARE): with_check();
#if SEGMENTS == 1
            (_, _, FORM_WHOLE): with_check();  // of several segments: when the last one is taken in
#endif
        }
        const default_action = NoAction();
        size = 4;
    }
    apply { carriers.apply(); }
}
#endif
