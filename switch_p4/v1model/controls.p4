// The stages of aggregation, under the names of the software switch's: Checks, Session, SlotIndex, SequenceCheck, Bitmap,
// Exponent, Witness, Aggregator, NextStep. Each reads what earlier ones left in the metadata; a reason that is set ends the
// packet's way.

// A packet that is a contribution at all.
control Checks(in headers_t headers, inout metadata_t meta, in standard_metadata_t standard) {
    apply {
        // Shorter than a header, or than its own lengths say.
        if (meta.too_short == 1 || standard.parser_error != error.NoError) {
            meta.reason = REASON_DROPPED_SHORT;
        } else if (headers.switchml.version != SWITCHML_VERSION) {
            meta.reason = REASON_DROPPED_VERSION;
        } else if (headers.switchml.kind != KIND_CONTRIBUTION) {
            meta.reason = REASON_DROPPED_KIND;
        } else if (meta.odd_length == 1) {
            meta.reason = REASON_DROPPED_LENGTH;
        } else if (headers.switchml.flags & OPERATION_MASK > OPERATION_MAX) {
            meta.reason = REASON_DROPPED_OPERATION;
        } else if (headers.switchml.seq == 0) {
            meta.reason = REASON_DROPPED_SEQ;
        }
        meta.operation = headers.switchml.flags & OPERATION_MASK;
    }
}

// Job and epoch, then worker and where it sends from.
control Session(in headers_t headers, inout metadata_t meta) {
    action found(bit<MAX_WORKERS> all_workers) {
        meta.all_workers = all_workers;
        meta.counted_job = headers.switchml.job;
    }
    action unknown_session() { meta.reason = REASON_DROPPED_SESSION; }
    table sessions {
        key = {
            headers.switchml.job: exact;
            headers.switchml.epoch: exact;
        }
        actions = { found; unknown_session; }
        default_action = unknown_session();
        size = SESSIONS;
    }

    action member(bit<MAX_WORKERS> worker_bit) { meta.worker_bit = worker_bit; }
    action unknown_worker() { meta.reason = REASON_DROPPED_WORKER; }
    table workers {
        key = {
            headers.switchml.job: exact;
            headers.switchml.worker: exact;
        }
        actions = { member; unknown_worker; }
        default_action = unknown_worker();
        size = MEMBERS;
    }

    // The address from which a worker's shard joined.
    action speaks(bit<8> shard) { meta.member_shard = shard; }
    action stranger() { meta.reason = REASON_DROPPED_SOURCE; }
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

    apply {
        sessions.apply();
        if (meta.reason == REASON_NONE) workers.apply();
        if (meta.reason == REASON_NONE) sources.apply();
    }
}

// From the job's slot number to the registers' index: a job cannot name what is not its own.
control SlotIndex(in headers_t headers, inout metadata_t meta) {
    bit<32> page_begin = 0;
    bit<8> slots_in_page = 0;

    action page(bit<32> begin, bit<8> slots, bit<8> shard, bit<16> audience) {
        page_begin = begin;
        slots_in_page = slots;
        meta.shard = shard;
        meta.audience = audience;
    }
    action outside() { meta.reason = REASON_DROPPED_SLOT; }
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
            if (within >= slots_in_page || meta.shard != meta.member_shard) {
                meta.reason = REASON_DROPPED_SLOT;
            }
            meta.index = (page_begin + (bit<32>)within) << 1 | (bit<32>)headers.switchml.seq[0:0];
        }
    }
}

// NEW, SAME or STALE: the sequence number against the one that the version holds.
control SequenceCheck(in headers_t headers, inout metadata_t meta) {
    register<bit<64>>(SLOT_VERSIONS) pairs;  // epoch, seq

    apply {
        bit<64> pair;
        pairs.read(pair, meta.index);
        bit<32> seen = pair[63:32] == headers.switchml.epoch ? pair[31:0] : 32w0;
        bit<32> ahead = headers.switchml.seq - seen;
        if (seen == headers.switchml.seq) {
            meta.sequence = SEQUENCE_SAME;
        } else if (seen != 0 && ahead[31:31] == 1) {
            meta.sequence = SEQUENCE_STALE;
            meta.reason = REASON_DROPPED_STALE;
        } else {
            meta.sequence = SEQUENCE_NEW;
            pairs.write(meta.index, headers.switchml.epoch ++ headers.switchml.seq);
        }
    }
}

// Who has contributed to this use.
control Bitmap(inout metadata_t meta) {
    register<bit<MAX_WORKERS>>(SLOT_VERSIONS) contributed;

    apply {
        bit<MAX_WORKERS> bits;
        contributed.read(bits, meta.index);
        if (meta.sequence == SEQUENCE_NEW) bits = 0;
        meta.duplicate = bits & meta.worker_bit != 0 ? 1w1 : 1w0;
        bits = bits | meta.worker_bit;
        contributed.write(meta.index, bits);
        meta.complete = bits == meta.all_workers ? 1w1 : 1w0;
    }
}

control Exponent(inout headers_t headers, in metadata_t meta) {
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

control Witness(inout headers_t headers, in metadata_t meta) {
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

// One register per word. The packet leaves with the aggregate in it, whatever becomes of it.
control Aggregator(inout headers_t headers, in metadata_t meta) {
#define WORD_REGISTER(i) register<bit<32>>(SLOT_VERSIONS) word##i;
    FOR_EACH_WORD(WORD_REGISTER)

    apply {
        bit<32> held;
#define AGGREGATE_WORD(i)                                                             \
    word##i.read(held, meta.index);                                                   \
    if (meta.duplicate == 1) {                                                        \
        headers.words.w##i = held;                                                    \
    } else if (meta.sequence == SEQUENCE_SAME) {                                      \
        if (meta.operation == OPERATION_SUM) {                                        \
            headers.words.w##i = headers.words.w##i + held;                           \
        } else if ((int<32>)held > (int<32>)headers.words.w##i) {                     \
            headers.words.w##i = held;                                                \
        }                                                                             \
    }                                                                                 \
    word##i.write(meta.index, headers.words.w##i);
        FOR_EACH_WORD(AGGREGATE_WORD)
    }
}

// What happens next: nothing, an answer to one, or the result to all. Gives the packet its reason.
control NextStep(inout headers_t headers, inout metadata_t meta) {
    apply {
        if (meta.duplicate == 1) {
            meta.answer_one = meta.complete;
            meta.reason = meta.complete == 1 ? REASON_DUPLICATES_ANSWERED : REASON_DUPLICATES_DROPPED;
        } else if (meta.complete == 1) {
            meta.answer_all = 1;
            meta.reason = meta.sequence == SEQUENCE_NEW ? REASON_STARTED_AND_COMPLETED : REASON_USES_COMPLETED;
        } else {
            meta.reason = meta.sequence == SEQUENCE_NEW ? REASON_USES_STARTED : REASON_CONTRIBUTIONS_ADDED;
        }
        headers.switchml.kind = KIND_RESULT;
        headers.switchml.worker = 255;
        headers.switchml.flags = meta.operation;
    }
}
