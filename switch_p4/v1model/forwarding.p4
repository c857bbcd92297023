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
        meta.for_aggregator = meta.to_switch && headers.udp.isValid()
            && (headers.udp.destination == SWITCHML_PORT || headers.udp.destination == ROCE_PORT);
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

// A result is made as a datagram, whatever the contribution came as.
control AsDatagram(inout headers_t headers, in metadata_t meta) {
    apply {
        if (meta.over_roce) {
            headers.ipv4.bytes = headers.ipv4.bytes - ROCE_BYTES;
            headers.udp.bytes = headers.udp.bytes - ROCE_BYTES;
            headers.udp.destination = SWITCHML_PORT;
            headers.base_transport.setInvalid();
            headers.extended_transport.setInvalid();
            headers.immediate.setInvalid();
            headers.invariant_check.setInvalid();
        }
    }
}

// The check that a card makes of a whole packet: CRC-32 with ones for what routers may change, and for a header that only
// InfiniBand has. It travels with its lowest byte first. [RDMA-14]
control InvariantCheck(inout headers_t headers) {
    bit<32> crc = 0;

#define UNCHANGED                                                                                                   \
    64w0xffffffffffffffff, headers.ipv4.version, headers.ipv4.header_words, 8w0xff, headers.ipv4.bytes,              \
    headers.ipv4.identification, headers.ipv4.flags, headers.ipv4.fragment, 8w0xff, headers.ipv4.protocol, 16w0xffff, \
    headers.ipv4.source, headers.ipv4.destination, headers.udp.source, headers.udp.destination, headers.udp.bytes,   \
    16w0xffff, headers.base_transport.opcode, headers.base_transport.solicited, headers.base_transport.migrated,     \
    headers.base_transport.pad, headers.base_transport.transport_version, headers.base_transport.partition, 8w0xff,  \
    headers.base_transport.queue_pair, headers.base_transport.acknowledge, headers.base_transport.reserved,          \
    headers.base_transport.psn, headers.extended_transport.address, headers.extended_transport.rkey,                 \
    headers.extended_transport.bytes, headers.immediate.slot, headers.immediate.seq_low, headers.switchml.version,   \
    headers.switchml.kind, headers.switchml.flags, headers.switchml.job, headers.switchml.worker,                    \
    headers.switchml.epoch, headers.switchml.slot, headers.switchml.exponent, headers.switchml.seq,                  \
    headers.switchml.witness
#define AND_WORD(i) , headers.words.w##i
    apply {
        headers.invariant_check.setValid();
        if (headers.words.isValid()) {
            hash(crc, HashAlgorithm.crc32, 32w0, { UNCHANGED FOR_EACH_WORD(AND_WORD) }, 33w0x100000000);
        } else {
            hash(crc, HashAlgorithm.crc32, 32w0, { UNCHANGED }, 33w0x100000000);
        }
        headers.invariant_check.crc = crc[7:0] ++ crc[15:8] ++ crc[23:16] ++ crc[31:24];
    }
}

// A result as the message that a worker's queue pair takes: RDMA WRITE ONLY WITH IMMEDIATE into the worker's place for the
// slot and version. [RDMA-10, RDMA-11]
control ToPair(inout headers_t headers, in bit<32> pair) {
    register<bit<32>>(MEMBERS) psns;  // of the next packet to each pair [RDMA-15]
    InvariantCheck() invariant_check;

    apply {
        bit<32> psn;
        psns.read(psn, pair);
        psns.write(pair, psn + 1);
        headers.base_transport.psn = psn[23:0];
        headers.base_transport.opcode = OPCODE_WRITE_ONLY_WITH_IMMEDIATE;
        headers.base_transport.solicited = 0;
        headers.base_transport.migrated = 0;
        headers.base_transport.pad = 0;
        headers.base_transport.transport_version = 0;
        headers.base_transport.partition = 0xffff;
        headers.base_transport.congestion = 0;
        headers.base_transport.acknowledge = 0;
        headers.base_transport.reserved = 0;
        headers.extended_transport.bytes = (bit<32>)(headers.udp.bytes - UDP_BYTES);
        headers.extended_transport.address[31:0] =
            (bit<32>)(headers.switchml.slot ++ headers.switchml.seq[0:0]) << PLACE_BITS;
        headers.immediate.setValid();
        headers.immediate.slot = headers.switchml.slot;
        headers.immediate.seq_low = headers.switchml.seq[15:0];
        headers.udp.source = 0xc000 | (bit<16>)headers.base_transport.queue_pair[13:0];  // one way for one pair
        headers.udp.destination = ROCE_PORT;
        headers.udp.bytes = headers.udp.bytes + ROCE_BYTES;
        headers.ipv4.bytes = headers.ipv4.bytes + ROCE_BYTES;
        invariant_check.apply(headers);
    }
}

// The copy of a result for one member, and no flooded packet back to where it came from.
control Copies(inout headers_t headers, in metadata_t meta, inout standard_metadata_t standard) {
    bit<16> replica = 0;
    bit<32> index = 0;
    ToPair() to_pair;

    action member(bit<48> mac, bit<32> ip, bit<16> port) {
        headers.ethernet.destination = mac;
        headers.ipv4.destination = ip;
        headers.udp.destination = port;
    }
    // Of a member with a queue pair: its end of it, and its memory. `own`: the pair's number in the registers here.
    action pair(bit<48> mac, bit<32> ip, bit<24> queue_pair, bit<32> address_high, bit<32> rkey, bit<32> own) {
        headers.ethernet.destination = mac;
        headers.ipv4.destination = ip;
        headers.base_transport.setValid();
        headers.base_transport.queue_pair = queue_pair;
        headers.extended_transport.setValid();
        headers.extended_transport.address = address_high ++ 32w0;
        headers.extended_transport.rkey = rkey;
        index = own;
    }
    table members {
        key = {
            meta.audience: exact;
            replica: exact @name("standard.egress_rid");
        }
        actions = { member; pair; NoAction; }
        default_action = NoAction();
        size = MEMBERS;
    }

    apply {
        if (meta.receiver == ALL_MEMBERS || meta.receiver == THE_SENDER) {
            replica = meta.receiver == ALL_MEMBERS ? standard.egress_rid : meta.replica;
            members.apply();
            if (headers.base_transport.isValid()) to_pair.apply(headers, index);
        } else if (standard.mcast_grp == FLOOD_GROUP && standard.egress_port == standard.ingress_port) {
            mark_to_drop(standard);
        }
    }
}
