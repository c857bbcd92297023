// What becomes of a packet after a pass: its reason, the next pass, or an answer.

// What came of a pass that takes words in. The first gives the packet its reason. Whoever completes the last of the segments
// sends the result; a repetition of a use that all of them have complete is answered.
control NextStep(inout headers_t headers, inout metadata_t meta) {
    action drop_because(bit<REASON_BITS> reason) { meta.reason = reason; }
    action drop_as_checked() { meta.reason = meta.class; }
    action accept(bit<REASON_BITS> reason, bit<8> receiver) {
        meta.reason = reason;
        meta.next = NEXT_AROUND;
        headers.bridge.receiver = receiver;
    }
    action pass_on(bit<REASON_BITS> reason, bit<8> next) {
        meta.reason = reason;
        meta.next = next;
    }
    table verdicts {
        key = {
            meta.class: ternary;
            meta.handed_over: ternary;
            meta.consistent: ternary;
            meta.live: ternary;
            meta.leaf: ternary;
            meta.from_parent: ternary;
            meta.member: ternary;
            meta.speaker: ternary;
            meta.mapped: ternary;
            meta.same_shard: ternary;
            meta.elsewhere: ternary;
            meta.sequence: ternary;
            meta.duplicate: ternary;
            meta.complete: ternary;
            headers.bridge.receiver: ternary;
        }
        actions = { drop_because; drop_as_checked; accept; pass_on; }
        const entries = {
            (IS_LATER, _, _, _, _, _, _, _, _, _, _, SEQUENCE_STALE, _, _, _): drop_because(REASON_NONE);
            (IS_LATER, _, _, _, _, _, _, _, _, _, _, _, _, 0, _): accept(REASON_NONE, NOBODY);
            (IS_LATER, _, _, _, _, _, _, _, _, _, _, _, 0, _, THE_SENDER): accept(REASON_NONE, ALL_MEMBERS);
            (IS_LATER, _, _, _, _, _, _, _, _, _, _, _, _, _, _): pass_on(REASON_NONE, NEXT_AROUND);
            (IS_REQUEST, 1, _, _, _, _, _, _, _, _, _, _, _, _, _): pass_on(REASON_CONTROL_REQUESTS, NEXT_CONTROL);
            (IS_REQUEST, _, _, _, _, _, _, _, _, _, _, _, _, _, _): drop_because(REASON_DROPPED_KIND);
            (IS_CONTRIBUTION, _, 0, _, _, _, _, _, _, _, _, _, _, _, _): drop_because(REASON_DROPPED_SHORT);
            (IS_RESULT, _, 0, _, _, _, _, _, _, _, _, _, _, _, _): drop_because(REASON_DROPPED_SHORT);
            (IS_CONTRIBUTION, _, _, 0, _, _, _, _, _, _, _, _, _, _, _): drop_because(REASON_DROPPED_SESSION);  // [DROP-7]
            (IS_RESULT, _, _, 0, _, _, _, _, _, _, _, _, _, _, _): drop_because(REASON_DROPPED_SESSION);
            (IS_RESULT, _, _, _, 0, _, _, _, _, _, _, _, _, _, _): drop_because(REASON_DROPPED_KIND);  // [TREE-8]
            (IS_RESULT, _, _, _, _, 0, _, _, _, _, _, _, _, _, _): drop_because(REASON_DROPPED_SOURCE);  // [TREE-8]
            (IS_RESULT, _, _, _, _, _, _, _, 0, _, _, _, _, _, _): drop_because(REASON_DROPPED_SLOT);
            (IS_RESULT, _, _, _, _, _, _, _, _, _, _, _, _, _, _): pass_on(REASON_RESULTS_PASSED_DOWN, NEXT_PASS_DOWN);
            (IS_CONTRIBUTION, _, _, _, _, _, 0, _, _, _, _, _, _, _, _): drop_because(REASON_DROPPED_WORKER);  // [DROP-9]
            (IS_CONTRIBUTION, _, _, _, _, _, _, 0, _, _, _, _, _, _, _): drop_because(REASON_DROPPED_SOURCE);  // [DROP-10]
            (IS_CONTRIBUTION, _, _, _, _, _, _, _, 0, _, _, _, _, _, _): drop_because(REASON_DROPPED_SLOT);  // [DROP-8]
            (IS_CONTRIBUTION, _, _, _, _, _, _, _, _, 0, _, _, _, _, _): drop_because(REASON_DROPPED_SLOT);  // [DROP-10]
            (IS_CONTRIBUTION, _, _, _, _, _, _, _, _, _, 1, _, _, _, _): pass_on(REASON_NONE, NEXT_ELSEWHERE);
            // [SLOT-9]
            (IS_CONTRIBUTION, _, _, _, _, _, _, _, _, _, _, SEQUENCE_STALE, _, _, _): drop_because(REASON_DROPPED_STALE);
            // [SLOT-7]
            (IS_CONTRIBUTION, _, _, _, _, _, _, _, _, _, _, _, 1, 0, _): accept(REASON_DUPLICATES_DROPPED, NOBODY);
            // [SLOT-8]
            (IS_CONTRIBUTION, _, _, _, _, _, _, _, _, _, _, _, 1, 1, _): accept(REASON_DUPLICATES_ANSWERED, THE_SENDER);
            (IS_CONTRIBUTION, _, _, _, _, _, _, _, _, _, _, SEQUENCE_NEW, _, 1, _): accept(REASON_STARTED_AND_COMPLETED, ALL_MEMBERS);
            (IS_CONTRIBUTION, _, _, _, _, _, _, _, _, _, _, SEQUENCE_NEW, _, _, _): accept(REASON_USES_STARTED, NOBODY);
            // [SLOT-12]
            (IS_CONTRIBUTION, _, _, _, _, _, _, _, _, _, _, _, _, 1, _): accept(REASON_USES_COMPLETED, ALL_MEMBERS);
            (IS_CONTRIBUTION, _, _, _, _, _, _, _, _, _, _, _, _, _, _): accept(REASON_CONTRIBUTIONS_ADDED, NOBODY);
        }
        const default_action = drop_as_checked();
        size = 32;
    }
    apply { verdicts.apply(); }
}

// The passes of a packet: SEGMENTS that take words in, the last of which gives out the upper half of its segment; then, if
// somebody is to get the aggregate, one for each other half, from the last to the first, in front of what there is. A packet
// without words passes SEGMENTS times too.
control Passes(inout headers_t headers, inout metadata_t meta) {
    action end() { meta.next = NEXT_DROP; }
    action answer() { meta.next = NEXT_ANSWER; }
    action answer_with_lower() {
        meta.next = NEXT_ANSWER;
        headers.lower.setValid();
        headers.upper.setInvalid();
    }
    // Not `step`: the model's harness would take the parameter for the key.
    action give_upper(bit<8> following) {  // and read the lower half of the same segment
        meta.next = NEXT_AROUND;
        headers.bridge.step = following;
        headers.bridge.act = ACT_READ_LOWER;
        headers.lower.setInvalid();
        headers.upper.setValid();
    }
#if SEGMENTS > 1
    action give_lower(bit<8> following) {
        meta.next = NEXT_AROUND;
        headers.bridge.step = following;
        headers.bridge.act = ACT_READ_UPPER;
        headers.lower.setValid();
        headers.upper.setInvalid();
    }
    action consume(bit<8> following) {
        meta.next = NEXT_AROUND;
        headers.bridge.step = following;
        headers.lower.setInvalid();
        headers.upper.setInvalid();
    }
#if ROCE
    action give_upper_and_check(bit<8> following) {
        give_upper(following);
        headers.invariant_check.setValid();
        headers.invariant_check.crc = 0;
    }
#define GIVE_UPPER_AND_CHECK give_upper_and_check;
#define BY_CARRIER headers.base_transport.isValid(): ternary;
#define ANY_CARRIER , _
#else
#define GIVE_UPPER_AND_CHECK
#define BY_CARRIER
#define ANY_CARRIER
#endif
#endif
    table steps {
        key = {
            meta.form: ternary;
            headers.bridge.step: ternary;
            headers.bridge.receiver: ternary;
#if SEGMENTS > 1
            BY_CARRIER
#endif
        }
#if SEGMENTS == 1
        actions = { end; answer; answer_with_lower; give_upper; }
        const entries = {
            (FORM_BARE, _, NOBODY): end();
            (FORM_BARE, _, _): answer();
            (_, 0, NOBODY): end();
            (_, 0, _): give_upper(1);
        }
#else
        actions = { end; answer; answer_with_lower; give_upper; give_lower; GIVE_UPPER_AND_CHECK consume; }
        const entries = {
            (FORM_BARE, _, _ ANY_CARRIER): consume(BARE_STEP + 1);
            (_, BARE_STEP + 1, _ ANY_CARRIER): consume(BARE_STEP + 2);
            (_, BARE_STEP + 2, _ ANY_CARRIER): consume(BARE_STEP + 3);
            (_, BARE_STEP + 3, NOBODY ANY_CARRIER): end();
            (_, BARE_STEP + 3, _ ANY_CARRIER): answer();
#if ROCE
            (_, 0, _, false): consume(PLAIN_STEP + 1);
            (_, PLAIN_STEP + 1, _, _): consume(PLAIN_STEP + 2);
            (_, PLAIN_STEP + 2, _, _): consume(PLAIN_STEP + 3);
            (_, PLAIN_STEP + 3, NOBODY, _): end();
            (_, PLAIN_STEP + 3, _, _): give_upper_and_check(4);
#endif
            (_, 0, _ ANY_CARRIER): consume(1);
            (_, 1, _ ANY_CARRIER): consume(2);
            (_, 2, _ ANY_CARRIER): consume(3);
            (_, 3, NOBODY ANY_CARRIER): end();
            (_, 3, _ ANY_CARRIER): give_upper(4);
            (_, 4, _ ANY_CARRIER): give_lower(5);
            (_, 5, _ ANY_CARRIER): give_upper(6);
            (_, 6, _ ANY_CARRIER): give_lower(7);
            (_, 7, _ ANY_CARRIER): give_upper(8);
            (_, 8, _ ANY_CARRIER): give_lower(9);
            (_, 9, _ ANY_CARRIER): give_upper(10);
        }
#endif
        const default_action = answer_with_lower();
        size = 24;
    }
    apply { steps.apply(); }
}

// Where the next pass takes place: the pipe that holds its segment. By slot too, so that several ports can share the load:
// all packets of a slot must go the same way, or they would overtake each other.
control Around(inout headers_t headers, inout metadata_t meta, inout ingress_intrinsic_metadata_for_tm_t for_tm,
               inout ingress_intrinsic_metadata_for_deparser_t for_deparser) {
    action go(PortId_t port, bit<8> segment) {
        headers.bridge.egress = EGRESS_AROUND;
        headers.bridge.segment = segment;
        for_tm.ucast_egress_port = port;
    }
    action nowhere() { for_deparser.drop_ctl = 1; }
    table loops {
        key = {
            headers.switchml.job: exact;
            headers.bridge.step: ternary;  // without BARE_STEP
            headers.switchml.slot: ternary;
        }
        actions = { go; nowhere; }
        const default_action = nowhere();
        size = LOOPS;
    }
    apply { loops.apply(); }
}
