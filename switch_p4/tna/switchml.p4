// The aggregator for Tofino 1 (TNA) and 2 (T2NA): the controls of v1model/ under the same names, within 12 stages. Beside
// aggregation it is an Ethernet switch that answers ARP and ping for its own address.
#include <core.p4>
#if __TARGET_TOFINO__ == 2
#include <t2na.p4>
#else
#include <tna.p4>
#endif

#include "sizes.p4"
#include "reasons.p4"
#include "wire.p4"  // generated, see docs/switch.md

// Every pipe has a port of this number for packets that go around.
#if __TARGET_TOFINO__ == 2
#define LOOP_PORT 6
#else
#define LOOP_PORT 68
#endif
#define LOOP_PORT_MASK 0x7f

// Of (slot, version) in every register. Put together where it is used: a field of its own would cost a stage.
typedef bit<15> index_t;
#define INDEX (meta.page[6:0] ++ headers.switchml.slot[PAGE_BITS - 1:0] ++ headers.switchml.seq[0:0])

#include "tna/headers.p4"
#include "tna/parser.p4"
#include "tna/controls.p4"
#include "tna/aggregator.p4"
#include "tna/passes.p4"
#include "tna/forwarding.p4"
#include "tna/egress.p4"

#if __TARGET_TOFINO__ == 2
// Whole containers, so that one gateway can compare them.
@pa_container_size("ingress", "meta.seen", 32)
@pa_container_size("ingress", "headers.switchml.seq", 32)
#endif
control SwitchIngress(inout headers_t headers, inout metadata_t meta, in ingress_intrinsic_metadata_t intrinsic,
                      in ingress_intrinsic_metadata_from_parser_t from_parser,
                      inout ingress_intrinsic_metadata_for_deparser_t for_deparser,
                      inout ingress_intrinsic_metadata_for_tm_t for_tm) {
    Checks() checks;
    Session() session;
    SlotIndex() slot_index;
    SequenceCheck() sequence_check;
    Operation() operation;
    Exponent() exponent;
    Witness() witness;
    Completion() completion;
    Aggregator() aggregator;
    NextStep() next_step;
    Passes() passes;
    Around() around;
    OwnAddress() own_address;
    ControlPort() control_port;
    Answers() answers;
    Layer2() layer2;
#if ROCE
    AsDatagram() as_datagram;
#endif
    Counter<bit<32>, bit<13>>(JOB_REASONS, CounterType_t.PACKETS) reasons;

    action leave_by_named_port() {
        for_tm.ucast_egress_port = (PortId_t)headers.control_header.port;
        headers.control_header.setInvalid();
    }
    action go_elsewhere() {
        headers.bridge.egress = EGRESS_AROUND;
        for_tm.ucast_egress_port = meta.way;
    }
    action count_reason() { reasons.count(meta.counted_job ++ meta.reason); }

    apply {
        own_address.apply(headers, meta);
        if (meta.form != FORM_NONE) {
            checks.apply(headers, meta);
            session.apply(headers, meta);
            slot_index.apply(headers, meta, intrinsic);
        }
        if (headers.control_header.isValid()) {
            // No port has such a number; so a host's own broadcasts through the interface go nowhere.
            if (headers.control_header.port[15:9] != 0 || headers.control_header.port == 511) for_deparser.drop_ctl = 1;
            else leave_by_named_port();
        } else if (meta.to_switch == 0 && headers.bridge.step == 0) {
            layer2.apply(headers, for_tm);
        } else {
            if (meta.class == IS_REQUEST) control_port.apply(headers, meta, for_tm, for_deparser);
            if (meta.form != FORM_READING) sequence_check.apply(headers, meta);
            operation.apply(headers, meta);
            if (headers.bridge.step == 0) {
                exponent.apply(headers, meta);
                witness.apply(headers, meta);
            }
            completion.apply(headers, meta);
            aggregator.apply(headers, meta);
            if (meta.form == FORM_READING) {
                if (meta.live == 1 && meta.mapped == 1) meta.next = NEXT_AROUND;
            } else if (meta.form != FORM_NONE) {
                next_step.apply(headers, meta);
            }
            if (meta.next == NEXT_AROUND) passes.apply(headers, meta);

            if (meta.next == NEXT_AROUND) {
                around.apply(headers, meta, for_tm, for_deparser);
            } else if (meta.next == NEXT_ELSEWHERE) {
                go_elsewhere();
            } else if (meta.next != NEXT_CONTROL) {
                answers.apply(headers, meta, for_tm, for_deparser);
            }
#if ROCE
            as_datagram.apply(headers, meta);
#endif
            if (meta.reason != REASON_NONE) count_reason();
        }
    }
}

Pipeline(SwitchIngressParser(), SwitchIngress(), SwitchIngressDeparser(), SwitchEgressParser(), SwitchEgress(),
         SwitchEgressDeparser()) pipe;
Switch(pipe) main;
