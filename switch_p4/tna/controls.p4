// The stages of aggregation, under the names of the software switch's: Checks, Session, SlotIndex, SequenceCheck, Bitmap,
// Exponent, Witness, Aggregator, NextStep. What rules a packet out is looked up in stage 0 all at once, a byte of metadata
// each, because every step before the registers of words costs a stage, and so eight words.

// A packet that is a contribution, or a parent's result, or a request at all.
control Checks(in headers_t headers, inout metadata_t meta) {
    action is(bit<REASON_BITS> class) { meta.class = class; }
    table kinds {
        key = {
            meta.form: ternary;
            meta.bad_checksum: ternary;
            headers.switchml.version: ternary;
            headers.switchml.kind: ternary;
            headers.switchml.flags: ternary;
            headers.switchml.worker: ternary;
            headers.switchml.seq: ternary;
        }
        actions = { is; }
        const entries = {
            (FORM_LATER &&& FORM_LATER, _, _, _, _, _, _): is(IS_LATER);
            (FORM_SHORT, _, _, _, _, _, _): is(REASON_DROPPED_SHORT);  // [DROP-1]
            (_, 1, _, _, _, _, _): is(REASON_DROPPED_SHORT);
#if ROCE
            (FORM_FOREIGN, _, _, _, _, _, _): is(REASON_DROPPED_KIND);  // [RDMA-12]
#endif
            (FORM_REQUEST, _, _, _, _, _, _): is(IS_REQUEST);
            (FORM_ODD, _, SWITCHML_VERSION, KIND_CONTRIBUTION, _, _, _): is(REASON_DROPPED_LENGTH);  // [DROP-4]
            (FORM_ODD, _, SWITCHML_VERSION, KIND_RESULT, _, ALL_WORKERS, _): is(REASON_DROPPED_LENGTH);
            // [PKT-3, DROP-5]
            (_, _, SWITCHML_VERSION, KIND_CONTRIBUTION, 2 &&& 2, _, _): is(REASON_DROPPED_OPERATION);
            (_, _, SWITCHML_VERSION, KIND_RESULT, 2 &&& 2, ALL_WORKERS, _): is(REASON_DROPPED_OPERATION);
            (_, _, SWITCHML_VERSION, KIND_CONTRIBUTION, _, _, 0): is(REASON_DROPPED_SEQ);  // [DROP-6]
            (_, _, SWITCHML_VERSION, KIND_RESULT, _, ALL_WORKERS, 0): is(REASON_DROPPED_SEQ);
            (_, _, SWITCHML_VERSION, KIND_CONTRIBUTION, _, _, _): is(IS_CONTRIBUTION);
            (_, _, SWITCHML_VERSION, KIND_RESULT, _, ALL_WORKERS, _): is(IS_RESULT);  // [PKT-7]
            (_, _, SWITCHML_VERSION, _, _, _, _): is(REASON_DROPPED_KIND);  // [PKT-2, DROP-3]
        }
        const default_action = is(REASON_DROPPED_VERSION);  // [DROP-2]
        size = 16;
    }

    // A datagram is as long as UDP says; IPv4 must agree. [BASE-2]
    action agree() { meta.consistent = 1; }
    table lengths {
        key = {
            headers.ipv4.bytes: exact;
            headers.udp.bytes: exact;
        }
        actions = { agree; NoAction; }
        const entries = {
            (20 + BARE_BYTES, BARE_BYTES): agree();
            (20 + WHOLE_BYTES, WHOLE_BYTES): agree();
#if ROCE
            (20 + BARE_BYTES + ROCE_BYTES, BARE_BYTES + ROCE_BYTES): agree();
            (20 + WHOLE_BYTES + ROCE_BYTES, WHOLE_BYTES + ROCE_BYTES): agree();
#endif
        }
        const default_action = NoAction();
        size = 4;
    }

    apply {
        kinds.apply();
        lengths.apply();
    }
}

// Job and epoch, worker and where it sends from; and the parent, if there is one.
control Session(in headers_t headers, inout metadata_t meta) {
    action found(bit<8> workers) {
        meta.live = 1;
        meta.workers = workers;
        meta.counted_job = headers.switchml.job;
    }
    table sessions {
        key = {
            headers.switchml.job: exact;
            headers.switchml.epoch: exact;
        }
        actions = { found; NoAction; }
        const default_action = NoAction();
        size = SESSIONS;
    }

    // Of a leaf: where its aggregates go, and the number that it has there.
    action leaf(bit<8> worker, bit<48> mac, bit<32> ip, PortId_t port) {
        meta.leaf = 1;
        meta.own_number = worker;
        meta.parent_mac = mac;
        meta.parent_ip = ip;
        meta.parent_port = port;
    }
    table uplinks {
        key = { headers.switchml.job: exact; }
        actions = { leaf; NoAction; }
        const default_action = NoAction();
        size = SESSIONS;
    }

    action member(bit<32> lower, bit<32> upper) {
        meta.member = 1;
        meta.lower_bits = lower;
        meta.upper_bits = upper;
    }
    table workers {
        key = {
            headers.switchml.job: exact;
            headers.switchml.worker: exact;
        }
        actions = { member; NoAction; }
        const default_action = NoAction();
        size = MEMBERS;
    }

    // The address from which a worker's shard joined; a child switch has ANY_SHARD. [TREE-9]
    action speaks(bit<8> shard) {
        meta.speaker = 1;
        meta.member_shard = shard;
    }
#if ROCE
    // Of a member that has a queue pair, the number of the switch's end of it, whatever UDP port its card sends from.
    // [RDMA-13]
#define ORIGIN meta.origin_high: exact @name("origin_high"); meta.origin: exact @name("origin");
#define IS_DATAGRAM !headers.base_transport.isValid()
#else
#define ORIGIN headers.udp.source: exact;
#define IS_DATAGRAM true
#endif
    table sources {
        key = {
            headers.switchml.job: exact;
            headers.switchml.worker: exact;
            headers.ipv4.source: exact;
            ORIGIN
        }
        actions = { speaks; NoAction; }
        const default_action = NoAction();
        size = MEMBERS;
    }

    apply {
        sessions.apply();
        uplinks.apply();
        workers.apply();
        sources.apply();
        if (IS_DATAGRAM && headers.udp.source == SWITCHML_PORT) {
            if (headers.ipv4.source == meta.parent_ip) meta.from_parent = 1;  // [TREE-8]
        }
    }
}

// From the job's slot number to a page of the registers of a segment: a job cannot name what is not its own. [BASE-4]
control SlotIndex(inout headers_t headers, inout metadata_t meta, in ingress_intrinsic_metadata_t intrinsic) {
    action page(bit<8> number, bit<8> shard, bit<16> audience) {
        meta.mapped = 1;
        meta.page = number;
        meta.shard = shard;
        headers.bridge.audience = audience;
    }
    table pages {
        key = {
            headers.switchml.job: exact;
            headers.bridge.segment: exact;
            headers.switchml.slot: ternary;
        }
        actions = { page; NoAction; }
        const default_action = NoAction();
        size = PAGE_ENTRIES;
    }

    // On a chip of several pipes each job has one for step 0. By port, so that the way there can be as wide as the ports are.
    action away(PortId_t port) {
        meta.elsewhere = 1;
        meta.way = port;
    }
    table homes {
        key = {
            headers.switchml.job: exact;
            intrinsic.ingress_port: ternary;
        }
        actions = { away; NoAction; }
        const default_action = NoAction();
        size = HOMES;
    }

    apply {
        pages.apply();
        homes.apply();
    }
}

// Who has contributed to this use, in halves of 32: whether this worker had.
#define BITMAP_HALF(name, field)                                                       \
    Register<bit<32>, index_t>(SLOT_VERSIONS) name;                                    \
    RegisterAction<bit<32>, index_t, bit<32>>(name) name##_begin = {                   \
        void apply(inout bit<32> bits, out bit<32> was) {                              \
            was = 0;                                                                   \
            bits = field;                                                              \
        }                                                                              \
    };                                                                                 \
    RegisterAction<bit<32>, index_t, bit<32>>(name) name##_join = {                    \
        void apply(inout bit<32> bits, out bit<32> was) {                              \
            was = bits & field;                                                        \
            bits = bits | field;                                                       \
        }                                                                              \
    };                                                                                 \
    action begin_##name() { field = name##_begin.execute(INDEX); }                     \
    action join_##name() { field = name##_join.execute(INDEX); }

control Bitmap(in headers_t headers, inout metadata_t meta) {
    BITMAP_HALF(contributed_low, meta.lower_bits)
    BITMAP_HALF(contributed_high, meta.upper_bits)

    apply {
        if (meta.seen == 0) {
            begin_contributed_low();
            begin_contributed_high();
            meta.sequence = SEQUENCE_NEW;  // [SLOT-5]
        } else if (meta.seen == headers.switchml.seq) {
            join_contributed_low();
            join_contributed_high();
            meta.sequence = SEQUENCE_SAME;  // [SLOT-6]
        }
    }
}

// NEW, SAME or STALE: the sequence number against the one that the version holds. [SLOT-4]
// Each segment has its own of this, of the bitmap and of the count: a packet that is lost between two passes, or ends before
// its own lengths say, is one that the segments behind have not seen; its repetition is taken in there.
control SequenceCheck(in headers_t headers, inout metadata_t meta) {
    Register<pair_t, index_t>(SLOT_VERSIONS) pairs;  // seq, epoch
    // The seq that is held, or 0 if the packet is of another epoch or newer, in which case it takes over.
    RegisterAction<pair_t, index_t, bit<32>>(pairs) compare = {
        void apply(inout pair_t held, out bit<32> seen) {
            // [SLOT-10]
            if (held.upper == headers.switchml.epoch && (int<32>)(headers.switchml.seq - held.lower) <= 0) {
                seen = held.lower;
            } else {
                seen = 0;
                held.lower = headers.switchml.seq;
                held.upper = headers.switchml.epoch;
            }
        }
    };
    action check() { meta.seen = compare.execute(INDEX); }
    table admission {
        key = {
            meta.class: ternary;
            meta.to_switch: ternary;
            meta.consistent: ternary;
            meta.live: ternary;
            meta.member: ternary;
            meta.speaker: ternary;
            meta.mapped: ternary;
            meta.elsewhere: ternary;
        }
        actions = { check; NoAction; }
        const entries = {
            (IS_CONTRIBUTION, 1, 1, 1, 1, 1, 1, 0): check();  // [DROP-11]
            (IS_LATER, _, _, 1, 1, _, 1, _): check();
        }
        const default_action = NoAction();
        size = 2;
    }

    Bitmap() bitmap;

    apply {
        if (meta.member_shard == meta.shard || meta.member_shard == ANY_SHARD) {
            meta.same_shard = 1;
            if (admission.apply().hit) bitmap.apply(headers, meta);
        }
    }
}

// The keys by which Exponent, Witness and the count tell a first, another and a repeated contribution.
#define CONTRIBUTION_KEYS          \
    meta.sequence: ternary;        \
    meta.lower_bits: ternary;      \
    meta.upper_bits: ternary;
#define BY_CONTRIBUTION(first, other, repeated)        \
    const entries = {                                  \
        (SEQUENCE_NEW, _, _): first();                 \
        (SEQUENCE_SAME, 0, 0): other();                \
        (SEQUENCE_SAME, _, _): repeated();             \
    }                                                  \
    const default_action = NoAction();                 \
    size = 3;

control Exponent(inout headers_t headers, in metadata_t meta) {  // [PKT-10]
    Register<bit<16>, index_t>(SLOT_VERSIONS) largest;
    RegisterAction<bit<16>, index_t, bit<16>>(largest) begin_largest = {
        void apply(inout bit<16> held, out bit<16> now) {
            held = headers.switchml.exponent;
            now = held;
        }
    };
    RegisterAction<bit<16>, index_t, bit<16>>(largest) join_largest = {
        void apply(inout bit<16> held, out bit<16> now) {
            held = max(held, headers.switchml.exponent);
            now = held;
        }
    };
    RegisterAction<bit<16>, index_t, bit<16>>(largest) read_largest = {
        void apply(inout bit<16> held, out bit<16> now) { now = held; }
    };
    action first() { headers.switchml.exponent = begin_largest.execute(INDEX); }
    action other() { headers.switchml.exponent = join_largest.execute(INDEX); }
    action repeated() { headers.switchml.exponent = read_largest.execute(INDEX); }
    table exponents {
        key = { CONTRIBUTION_KEYS }
        actions = { first; other; repeated; NoAction; }
        BY_CONTRIBUTION(first, other, repeated)
    }
    apply { exponents.apply(); }
}

control Witness(inout headers_t headers, in metadata_t meta) {  // [PKT-12]
    Register<bit<32>, index_t>(SLOT_VERSIONS) sums;
    RegisterAction<bit<32>, index_t, bit<32>>(sums) begin_sum = {
        void apply(inout bit<32> held, out bit<32> now) {
            held = headers.switchml.witness;
            now = held;
        }
    };
    RegisterAction<bit<32>, index_t, bit<32>>(sums) join_sum = {
        void apply(inout bit<32> held, out bit<32> now) {
            held = held + headers.switchml.witness;
            now = held;
        }
    };
    RegisterAction<bit<32>, index_t, bit<32>>(sums) read_sum = {
        void apply(inout bit<32> held, out bit<32> now) { now = held; }
    };
    action first() { headers.switchml.witness = begin_sum.execute(INDEX); }
    action other() { headers.switchml.witness = join_sum.execute(INDEX); }
    action repeated() { headers.switchml.witness = read_sum.execute(INDEX); }
    table witnesses {
        key = { CONTRIBUTION_KEYS }
        actions = { first; other; repeated; NoAction; }
        BY_CONTRIBUTION(first, other, repeated)
    }
    apply { witnesses.apply(); }
}

// A use is complete when it has as many contributions as the session has workers: one compare instead of 64 bits against 64.
// [SLOT-12]
control Completion(in headers_t headers, inout metadata_t meta) {
    Register<bit<8>, index_t>(SLOT_VERSIONS) counts;
    RegisterAction<bit<8>, index_t, bit<8>>(counts) begin_count = {
        void apply(inout bit<8> held, out bit<8> now) {
            held = 1;
            now = held;
        }
    };
    RegisterAction<bit<8>, index_t, bit<8>>(counts) join_count = {
        void apply(inout bit<8> held, out bit<8> now) {
            held = held + 1;
            now = held;
        }
    };
    RegisterAction<bit<8>, index_t, bit<8>>(counts) read_count = {
        void apply(inout bit<8> held, out bit<8> now) { now = held; }
    };
    action first() { meta.count = begin_count.execute(INDEX); }
    action other() { meta.count = join_count.execute(INDEX); }
    action repeated() {
        meta.count = read_count.execute(INDEX);
        meta.duplicate = 1;
    }
    table contributions {
        key = { CONTRIBUTION_KEYS }
        actions = { first; other; repeated; NoAction; }
        BY_CONTRIBUTION(first, other, repeated)
    }
    apply {
        contributions.apply();
        if (meta.count == meta.workers) meta.complete = 1;
    }
}
