// What is not aggregation: the switch's own address, answers on the way they came, Ethernet, and the addresses of the copies
// of a result.

const bit<16> FLOOD_GROUP = 1;
const bit<16> DROP_PORT = 511;
const bit<16> ARP_REQUEST = 1;
const bit<16> ARP_REPLY = 2;
const bit<8> ICMP_ECHO_REPLY = 0;
const bit<8> ICMP_ECHO_REQUEST = 8;

// Whether a packet is for the switch itself, and the address that it answers from.
control OwnAddress(in headers_t headers, inout metadata_t meta) {
    bit<32> asked = 0;
    action mine() { meta.to_switch = true; }
    table addresses {
        key = { asked: exact @name("ip"); }
        actions = { mine; NoAction; }
        default_action = NoAction();
        size = 16;
    }

    apply {
        if (headers.arp.isValid() && headers.arp.operation == ARP_REQUEST) {
            asked = headers.arp.target_ip;
            addresses.apply();
        } else if (headers.ipv4.isValid()) {
            asked = headers.ipv4.destination;
            addresses.apply();
        }
        meta.for_aggregator = meta.to_switch && headers.udp.isValid() && headers.udp.destination == SWITCHML_PORT;
    }
}

// Control requests of workers to the process on the control port, and that one's packets out of any port.
control ControlPort(inout headers_t headers, inout metadata_t meta, inout standard_metadata_t standard) {
    action hand_over(port_t port) {
        headers.control_header.setValid();
        headers.control_header.port = (bit<16>)standard.ingress_port;
        standard.egress_spec = port;
        meta.reason = REASON_CONTROL_REQUESTS;
        meta.on_its_way = true;
    }
    table control_port {
        key = {}
        actions = { hand_over; NoAction; }
        default_action = NoAction();
    }

    apply {
        if (!headers.control_header.isValid()) {
            control_port.apply();
        } else {
            // No port has such a number; so a host's own broadcasts through the interface go nowhere.
            if (headers.control_header.port >= DROP_PORT) mark_to_drop(standard);
            else standard.egress_spec = (port_t)headers.control_header.port;
            headers.control_header.setInvalid();
            meta.on_its_way = true;
        }
    }
}

// Turns a packet for the switch into its answer. What has no answer is dropped.
control Answers(inout headers_t headers, inout metadata_t meta, inout standard_metadata_t standard) {
    action own_mac(bit<48> mac) {
        headers.ethernet.destination = headers.ethernet.source;
        headers.ethernet.source = mac;
        standard.egress_spec = standard.ingress_port;
    }
    table mac {
        key = {}
        actions = { own_mac; NoAction; }
        default_action = NoAction();
    }

    action swap_ip() {
        bit<32> asker = headers.ipv4.source;
        headers.ipv4.source = headers.ipv4.destination;
        headers.ipv4.destination = asker;
        headers.ipv4.time_to_live = 64;
        meta.rewritten = true;
    }

    action answer_arp() {
        bit<32> own = headers.arp.target_ip;
        headers.arp.operation = ARP_REPLY;
        headers.arp.target_mac = headers.arp.sender_mac;
        headers.arp.target_ip = headers.arp.sender_ip;
        headers.arp.sender_mac = headers.ethernet.source;
        headers.arp.sender_ip = own;
    }

    // The type is the only change, so the checksum grows by what the type shrinks (RFC 1624).
    action answer_ping() {
        bit<32> sum = (bit<32>)headers.icmp.checksum + 0x0800;
        headers.icmp.checksum = sum[15:0] + sum[31:16];
        headers.icmp.type = ICMP_ECHO_REPLY;
    }

    // UDP's checksum would need the whole payload: none is sent, as IPv4 allows. The witness is the end-to-end check.
    action answer_worker() {
        bit<16> asker = headers.udp.source;
        headers.udp.source = headers.udp.destination;
        headers.udp.destination = asker;
        headers.udp.checksum = 0;
    }

    action ask_parent() {
        headers.ethernet.destination = meta.parent_mac;
        headers.ipv4.destination = meta.parent_ip;
        headers.udp.destination = SWITCHML_PORT;
        standard.egress_spec = meta.parent_port;
    }

    apply {
        bool arp = headers.arp.isValid();
        bool ping = headers.icmp.isValid() && headers.icmp.type == ICMP_ECHO_REQUEST;
        bool aggregate = meta.receiver != NOBODY;
        if (arp || ping || aggregate) mac.apply();
        else mark_to_drop(standard);
        if (arp) {
            answer_arp();
        } else if (ping) {
            swap_ip();
            answer_ping();
        } else if (aggregate) {
            swap_ip();
            answer_worker();
            if (meta.receiver == ALL_MEMBERS) standard.mcast_grp = meta.audience;
            else if (meta.receiver == THE_PARENT) ask_parent();
        }
    }
}

// Forwarding by destination; unknown ones and broadcasts go to all other ports.
control Layer2(in headers_t headers, inout standard_metadata_t standard) {
    action forward(port_t port) { standard.egress_spec = port; }
    action flood() { standard.mcast_grp = FLOOD_GROUP; }
    table stations {
        key = { headers.ethernet.destination: exact; }
        actions = { forward; flood; }
        default_action = flood();
        size = L2_ENTRIES;
    }
    apply { stations.apply(); }
}

// The copy of a result for one member, and no flooded packet back to where it came from.
control Copies(inout headers_t headers, in metadata_t meta, inout standard_metadata_t standard) {
    action member(bit<48> mac, bit<32> ip, bit<16> port) {
        headers.ethernet.destination = mac;
        headers.ipv4.destination = ip;
        headers.udp.destination = port;
    }
    table members {
        key = {
            meta.audience: exact;
            standard.egress_rid: exact;
        }
        actions = { member; NoAction; }
        default_action = NoAction();
        size = MEMBERS;
    }

    apply {
        if (meta.receiver == ALL_MEMBERS) {
            members.apply();
        } else if (standard.mcast_grp == FLOOD_GROUP && standard.egress_port == standard.ingress_port) {
            mark_to_drop(standard);
        }
    }
}
