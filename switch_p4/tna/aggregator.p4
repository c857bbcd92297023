// The registers of words: a pair each, one word of the lower half and one of the upper. A register gives out one word a
// pass: the upper when it takes words in, so that the lower ones need another pass. A packet without words counts as one of
// zeros: a use that it begins must hold nothing of what was there before, which may be another job's.

// Which of its operations every register does in this pass.
control Operation(inout headers_t headers, inout metadata_t meta) {
    action take(bit<8> act) { meta.act = act; }
    action as_told() { meta.act = headers.bridge.act; }
#define ZERO_PAIR(i, low, high) headers.lower.w##low = 0; headers.upper.w##high = 0;
    action with_zeros(bit<8> act) {
        meta.act = act;
        FOR_EACH_PAIR(ZERO_PAIR)
    }
    table operations {
        key = {
            meta.form: ternary;
            meta.live: ternary;
            meta.mapped: ternary;
            headers.bridge.act: ternary;
            meta.sequence: ternary;
            meta.lower_bits: ternary;
            meta.upper_bits: ternary;
            headers.switchml.flags: ternary;
        }
        actions = { take; as_told; with_zeros; NoAction; }
        const entries = {
            (FORM_READING, 1, 1, ACT_READ_UPPER, _, _, _, _): with_zeros(ACT_SUM);
            (FORM_READING, 1, 1, _, _, _, _, _): as_told();
            (WHOLE_OR_LATER, _, _, _, SEQUENCE_NEW, _, _, _): take(ACT_NEW);
            (WHOLE_OR_LATER, _, _, _, SEQUENCE_SAME, 0, 0, 0 &&& 1): take(ACT_SUM);
            (WHOLE_OR_LATER, _, _, _, SEQUENCE_SAME, 0, 0, _): take(ACT_MAX);
            (WHOLE_OR_LATER, _, _, _, SEQUENCE_SAME, _, _, _): with_zeros(ACT_SUM);
            (BARE_OR_LATER, _, _, _, SEQUENCE_NEW, _, _, _): with_zeros(ACT_NEW);
            (BARE_OR_LATER, _, _, _, SEQUENCE_SAME, 0, 0, 1 &&& 1): with_zeros(ACT_MAX);
        }
        const default_action = NoAction();
        size = 8;
    }
    apply { operations.apply(); }
}

#define PAIR_REGISTER(i, low, high)                                                                       \
    Register<pair_t, index_t>(SLOT_VERSIONS) pair##i;                                                     \
    RegisterAction<pair_t, index_t, bit<32>>(pair##i) new##i = {                                          \
        void apply(inout pair_t held, out bit<32> now) {                                                  \
            held.lower = headers.lower.w##low;                                                            \
            held.upper = headers.upper.w##high;                                                           \
            now = held.upper;                                                                             \
        }                                                                                                 \
    };                                                                                                    \
    RegisterAction<pair_t, index_t, bit<32>>(pair##i) sum##i = {                                          \
        void apply(inout pair_t held, out bit<32> now) {                                                  \
            held.lower = held.lower + headers.lower.w##low;                                               \
            held.upper = held.upper + headers.upper.w##high;                                              \
            now = held.upper;                                                                             \
        }                                                                                                 \
    };                                                                                                    \
    RegisterAction<pair_t, index_t, bit<32>>(pair##i) max##i = {                                          \
        void apply(inout pair_t held, out bit<32> now) {                                                  \
            held.lower = (bit<32>)max((int<32>)held.lower, (int<32>)headers.lower.w##low);                \
            held.upper = (bit<32>)max((int<32>)held.upper, (int<32>)headers.upper.w##high);               \
            now = held.upper;                                                                             \
        }                                                                                                 \
    };                                                                                                    \
    RegisterAction<pair_t, index_t, bit<32>>(pair##i) read##i = {                                         \
        void apply(inout pair_t held, out bit<32> now) { now = held.lower; }                              \
    };                                                                                                    \
    action do_new##i() { headers.upper.w##high = new##i.execute(INDEX); }                                 \
    action do_sum##i() { headers.upper.w##high = sum##i.execute(INDEX); }                                 \
    action do_max##i() { headers.upper.w##high = max##i.execute(INDEX); }                                 \
    action do_read##i() { headers.lower.w##low = read##i.execute(INDEX); }                                \
    table words##i {                                                                                      \
        key = { meta.act: exact; }                                                                        \
        actions = { do_new##i; do_sum##i; do_max##i; do_read##i; NoAction; }                              \
        const entries = {                                                                                 \
            ACT_NEW: do_new##i();                                                                         \
            ACT_SUM: do_sum##i();                                                                         \
            ACT_MAX: do_max##i();                                                                         \
            ACT_READ_LOWER: do_read##i();                                                                 \
        }                                                                                                 \
        const default_action = NoAction();                                                                \
        size = 4;                                                                                         \
    }

control Aggregator(inout headers_t headers, inout metadata_t meta) {
    FOR_EACH_PAIR(PAIR_REGISTER)
#define AGGREGATE_PAIR(i, low, high) words##i.apply();
    apply { FOR_EACH_PAIR(AGGREGATE_PAIR) }
}
