// The stages of aggregation, under the names of the software switch's: Checks, Session, SlotIndex, SequenceCheck, Bitmap,
// Exponent, Witness, Aggregator, NextStep; PassDown instead of the last six for a parent's result. Each reads what earlier
// ones left in the metadata; a reason that is set ends the packet's way. [DROP-11]

// A packet that is a contribution, or a parent's result, at all.
control Checks(in headers_t headers, inout metadata_t meta, in standard_metadata_t standard) {
    apply {
        meta.from_parent = headers.switchml.kind == KIND_RESULT && headers.switchml.worker == ALL_WORKERS;  // [PKT-7]
        // Shorter than a header, or than its own lengths say.
        if (meta.too_short == 1 || standard.parser_error != error.NoError) {
            meta.reason = REASON_DROPPED_SHORT;  // [DROP-1]
        } else if (meta.foreign_roce) {
            meta.reason = REASON_DROPPED_KIND;  // [RDMA-12]
        } else if (headers.switchml.version != SWITCHML_VERSION) {
            meta.reason = REASON_DROPPED_VERSION;  // [DROP-2]
        } else if (headers.switchml.kind != KIND_CONTRIBUTION && !meta.from_parent) {
            meta.reason = REASON_DROPPED_KIND;  // [PKT-2, DROP-3]
        } else if (meta.odd_length == 1) {
            meta.reason = REASON_DROPPED_LENGTH;  // [DROP-4]
        } else if (headers.switchml.flags & OPERATION_MASK > OPERATION_MAX) {
            meta.reason = REASON_DROPPED_OPERATION;  // [DROP-5]
        } else if (headers.switchml.seq == 0) {
            meta.reason = REASON_DROPPED_SEQ;  // [DROP-6]
        }
        meta.operation = headers.switchml.flags & OPERATION_MASK;  // [PKT-3]
    }
}

// Job and epoch, then worker and where it sends from; of a result, whether it is the parent's.
control Session(in headers_t headers, inout metadata_t meta) {
    action found(bit<MAX_WORKERS> all_workers) {
        meta.all_workers = all_workers;
        meta.counted_job = headers.switchml.job;
    }
    action unknown_session() { meta.reason = REASON_DROPPED_SESSION; }  // [DROP-7]
    table sessions {
        key = {
            headers.switchml.job: exact;
            headers.switchml.epoch: exact;
        }
        actions = { found; unknown_session; }
        default_action = unknown_session();
        size = SESSIONS;
    }

    // Of a leaf: where its aggregates go, and the number that it has there.
    action leaf(bit<8> worker, bit<48> mac, bit<32> ip, port_t port) {
        meta.leaf = true;
        meta.own_number = worker;
        meta.parent_mac = mac;
        meta.parent_ip = ip;
        meta.parent_port = port;
    }
    table uplinks {
        key = { headers.switchml.job: exact; }
        actions = { leaf; NoAction; }
        default_action = NoAction();
        size = SESSIONS;
    }

    action member(bit<MAX_WORKERS> worker_bit) { meta.worker_bit = worker_bit; }
    action unknown_worker() { meta.reason = REASON_DROPPED_WORKER; }  // [DROP-9]
    table workers {
        key = {
            headers.switchml.job: exact;
            headers.switchml.worker: exact;
        }
        actions = { member; unknown_worker; }
        default_action = unknown_worker();
        size = MEMBERS;
    }

    // The address from which a worker's shard joined; a child switch has ANY_SHARD. [TREE-9]
    action speaks(bit<8> shard) { meta.member_shard = shard; }
    action stranger() { meta.reason = REASON_DROPPED_SOURCE; }  // [DROP-10]
    table sources {
        key = {
            headers.switchml.job: exact;
            headers.switchml.worker: exact;
            headers.ipv4.source: exact;
            headers.udp.source: exact;
        }
        actions = { speaks; stranger; }
        default_action = stranger();
        size = MEMBERS;
    }

    // The same of a member that has a queue pair: the number of the switch's end belongs to one member and shard, whatever
    // UDP port its card sends from. [RDMA-13]
    table pairs {
        key = {
            headers.switchml.job: exact;
            headers.switchml.worker: exact;
            headers.ipv4.source: exact;
            headers.base_transport.queue_pair: exact;
        }
        actions = { speaks; stranger; }
        default_action = stranger();
        size = MEMBERS;
    }

    apply {
        sessions.apply();
        if (meta.reason == REASON_NONE) {
            uplinks.apply();
            if (meta.from_parent) {
                meta.member_shard = ANY_SHARD;
                if (!meta.leaf) {
                    meta.reason = REASON_DROPPED_KIND;  // [TREE-8]
                } else if (headers.ipv4.source != meta.parent_ip || headers.udp.source != SWITCHML_PORT || meta.over_roce) {
                    meta.reason = REASON_DROPPED_SOURCE;  // [TREE-8]
                }
            } else {
                workers.apply();
                if (meta.reason == REASON_NONE) {
                    if (meta.over_roce) pairs.apply();
                    else sources.apply();
                }
            }
        }
    }
}

// From the job's slot number to the registers' index: a job cannot name what is not its own. [BASE-4]
control SlotIndex(in headers_t headers, inout metadata_t meta) {
    bit<32> page_begin = 0;
    bit<8> slots_in_page = 0;

    action page(bit<32> begin, bit<8> slots, bit<8> shard, bit<16> audience) {
        page_begin = begin;
        slots_in_page = slots;
        meta.shard = shard;
        meta.audience = audience;
    }
    action outside() { meta.reason = REASON_DROPPED_SLOT; }  // [DROP-8]
    table pages {
        key = {
            headers.switchml.job: exact;
            headers.switchml.slot[15:PAGE_BITS]: exact @name("page");
        }
        actions = { page; outside; }
        default_action = outside();
        size = PAGES;
    }

    apply {
        pages.apply();
        if (meta.reason == REASON_NONE) {
            bit<8> within = (bit<8>)(headers.switchml.slot & (PAGE_SLOTS - 1));
            bool foreign_shard = meta.member_shard != meta.shard && meta.member_shard != ANY_SHARD;  // [DROP-10]
            if (within >= slots_in_page || foreign_shard) {
                meta.reason = REASON_DROPPED_SLOT;
            }
            meta.index = (page_begin + (bit<32>)within) << 1 | (bit<32>)headers.switchml.seq[0:0];  // [SLOT-3]
        }
    }
}

// NEW, SAME or STALE: the sequence number against the one that the version holds. [SLOT-4]
control SequenceCheck(in headers_t headers, inout metadata_t meta) {
    register<bit<32>>(SLOT_VERSIONS) epochs;
    register<bit<32>>(SLOT_VERSIONS) seqs;

    apply {
        bit<32> epoch;
        bit<32> seen;
        epochs.read(epoch, meta.index);
        seqs.read(seen, meta.index);
        if (epoch != headers.switchml.epoch) seen = 0;
        bit<32> ahead = headers.switchml.seq - seen;
        if (seen == headers.switchml.seq) {
            meta.sequence = SEQUENCE_SAME;  // [SLOT-6]
        } else if (seen != 0 && ahead[31:31] == 1) {  // [SLOT-10]
            meta.sequence = SEQUENCE_STALE;
            meta.reason = REASON_DROPPED_STALE;  // [SLOT-9]
        } else {
            meta.sequence = SEQUENCE_NEW;  // [SLOT-5]
            epochs.write(meta.index, headers.switchml.epoch);
            seqs.write(meta.index, headers.switchml.seq);
        }
    }
}

// Who has contributed to this use. In halves, because bmv2 shows registers to the outside as signed 64-bit numbers.
control Bitmap(inout metadata_t meta) {
    register<bit<32>>(SLOT_VERSIONS) contributed_low;
    register<bit<32>>(SLOT_VERSIONS) contributed_high;

    apply {
        bit<32> low;
        bit<32> high;
        contributed_low.read(low, meta.index);
        contributed_high.read(high, meta.index);
        bit<MAX_WORKERS> bits = high ++ low;
        if (meta.sequence == SEQUENCE_NEW) bits = 0;  // [SLOT-11]
        meta.duplicate = bits & meta.worker_bit != 0 ? 1w1 : 1w0;
        bits = bits | meta.worker_bit;
        contributed_low.write(meta.index, bits[31:0]);
        contributed_high.write(meta.index, bits[63:32]);
        meta.complete = bits == meta.all_workers ? 1w1 : 1w0;  // [SLOT-12]
    }
}

control Exponent(inout headers_t headers, in metadata_t meta) {  // [PKT-10]
    register<bit<16>>(SLOT_VERSIONS) largest;

    apply {
        bit<16> held;
        largest.read(held, meta.index);
        if (meta.duplicate == 1 || (meta.sequence == SEQUENCE_SAME && held > headers.switchml.exponent)) {
            headers.switchml.exponent = held;
        }
        largest.write(meta.index, headers.switchml.exponent);
    }
}

control Witness(inout headers_t headers, in metadata_t meta) {  // [PKT-12]
    register<bit<32>>(SLOT_VERSIONS) sums;

    apply {
        bit<32> held;
        sums.read(held, meta.index);
        if (meta.duplicate == 1) {
            headers.switchml.witness = held;
        } else if (meta.sequence == SEQUENCE_SAME) {
            headers.switchml.witness = headers.switchml.witness + held;
        }
        sums.write(meta.index, headers.switchml.witness);
    }
}

// One register per word. The packet leaves with the aggregate in it, whatever becomes of it. One operation for all words,
// because bmv2 decides slowly and computes quickly. A packet without words counts as one of zeros and leaves without words: a
// use that it begins must hold nothing of what was there before, which may be another job's. [PKT-13, LEN-1, SLOT-11]
control Aggregator(inout headers_t headers, in metadata_t meta) {
#define WORD_REGISTER(i) register<bit<32>>(SLOT_VERSIONS) word##i;
    FOR_EACH_WORD(WORD_REGISTER)
    bit<32> held;

#define ZERO_WORD(i) headers.words.w##i = 0;
    action all_zeros() {
        headers.words.setValid();
        FOR_EACH_WORD(ZERO_WORD)
    }

#define TAKE_OVER_WORD(i) word##i.write(meta.index, headers.words.w##i);
    action take_over() { FOR_EACH_WORD(TAKE_OVER_WORD) }

#define ADD_WORD(i)                                       \
    word##i.read(held, meta.index);                       \
    headers.words.w##i = headers.words.w##i + held;       \
    word##i.write(meta.index, headers.words.w##i);
    action add() { FOR_EACH_WORD(ADD_WORD) }

#define COMPARE_WORD(i)                                                                                      \
    word##i.read(held, meta.index);                                                                          \
    headers.words.w##i = (int<32>)held > (int<32>)headers.words.w##i ? held : headers.words.w##i;            \
    word##i.write(meta.index, headers.words.w##i);
    action maximum() { FOR_EACH_WORD(COMPARE_WORD) }

#define READ_WORD(i) word##i.read(headers.words.w##i, meta.index);
    action stored() { FOR_EACH_WORD(READ_WORD) }

    apply {
        bool bare = !headers.words.isValid();
        if (bare) all_zeros();
        if (meta.duplicate == 1) stored();
        else if (meta.sequence == SEQUENCE_NEW) take_over();
        else if (meta.operation == OPERATION_SUM) add();
        else maximum();
        if (bare) headers.words.setInvalid();  // [LEN-5, LOSS-2]
    }
}

// What happens next: nothing, an answer to one, or the aggregate to all or to the parent. Gives the packet its reason.
control NextStep(inout headers_t headers, inout metadata_t meta) {
    action is_result() {
        meta.replica = (bit<16>)headers.switchml.worker + 1;
        headers.switchml.kind = KIND_RESULT;
        headers.switchml.worker = ALL_WORKERS;  // [PKT-7]
        headers.switchml.flags = meta.operation;  // [PKT-4, PKT-5]
    }

    // [TREE-4, TREE-5, TREE-6]
    action is_contribution() {
        meta.receiver = THE_PARENT;
        headers.switchml.worker = meta.own_number;
        headers.switchml.flags = meta.operation | (bit<8>)meta.duplicate << REPEAT_BIT;
    }

    apply {
        if (meta.duplicate == 1) {
            meta.receiver = meta.complete == 1 ? THE_SENDER : NOBODY;  // [SLOT-7, SLOT-8]
            meta.reason = meta.complete == 1 ? REASON_DUPLICATES_ANSWERED : REASON_DUPLICATES_DROPPED;
        } else if (meta.complete == 1) {
            meta.receiver = ALL_MEMBERS;  // [SLOT-12]
            meta.reason = meta.sequence == SEQUENCE_NEW ? REASON_STARTED_AND_COMPLETED : REASON_USES_COMPLETED;
        } else {
            meta.reason = meta.sequence == SEQUENCE_NEW ? REASON_USES_STARTED : REASON_CONTRIBUTIONS_ADDED;
        }
        if (meta.complete == 1) {
            if (meta.leaf) is_contribution();
            else is_result();
        }
    }
}

// [TREE-7]
control PassDown(inout metadata_t meta) {
    apply {
        meta.receiver = ALL_MEMBERS;
        meta.reason = REASON_RESULTS_PASSED_DOWN;
    }
}
