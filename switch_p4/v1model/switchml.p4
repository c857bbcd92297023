// The aggregator for v1model (bmv2): the same stages and names as for Tofino, without its limits of stages and register
// operations. Beside aggregation it is an Ethernet switch that answers ARP and ping for its own address.
#include <core.p4>
#include <v1model.p4>

#include "sizes.p4"
#include "reasons.p4"
#include "wire.p4"  // generated, see docs/switch.md
#include "v1model/headers.p4"
#include "v1model/parser.p4"
#include "v1model/controls.p4"
#include "v1model/forwarding.p4"

control SwitchIngress(inout headers_t headers, inout metadata_t meta, inout standard_metadata_t standard) {
    Checks() checks;
    Session() session;
    SlotIndex() slot_index;
    SequenceCheck() sequence_check;
    Bitmap() bitmap;
    Exponent() exponent;
    Witness() witness;
    Aggregator() aggregator;
    NextStep() next_step;
    AsDatagram() as_datagram;
    PassDown() pass_down;
    OwnAddress() own_address;
    ControlPort() control_port;
    Answers() answers;
    Layer2() layer2;
    counter(JOB_REASONS, CounterType.packets) reasons;

    apply {
        own_address.apply(headers, meta);
        bool request = meta.for_aggregator && meta.request && standard.parser_error == error.NoError;
        if (request || headers.control_header.isValid()) control_port.apply(headers, meta, standard);
        if (meta.for_aggregator) {
            if (meta.reason == REASON_NONE) checks.apply(headers, meta, standard);
            if (meta.reason == REASON_NONE) session.apply(headers, meta);
            if (meta.reason == REASON_NONE) slot_index.apply(headers, meta);
            if (meta.reason == REASON_NONE && meta.from_parent) pass_down.apply(meta);
            if (meta.reason == REASON_NONE) sequence_check.apply(headers, meta);
            if (meta.reason == REASON_NONE) {
                bitmap.apply(meta);
                exponent.apply(headers, meta);
                witness.apply(headers, meta);
                aggregator.apply(headers, meta);
                next_step.apply(headers, meta);
            }
            as_datagram.apply(headers, meta);
            reasons.count((bit<32>)meta.counted_job << REASON_BITS | (bit<32>)meta.reason);
        }
        if (!meta.on_its_way) {
            if (meta.to_switch) answers.apply(headers, meta, standard);
            else layer2.apply(headers, standard);
        }
    }
}

control SwitchEgress(inout headers_t headers, inout metadata_t meta, inout standard_metadata_t standard) {
    Copies() copies;
    apply { copies.apply(headers, meta, standard); }
}

control NoVerify(inout headers_t headers, inout metadata_t meta) {
    apply {}
}

control Checksums(inout headers_t headers, inout metadata_t meta) {
    apply {
        update_checksum(meta.rewritten,
            { headers.ipv4.version, headers.ipv4.header_words, headers.ipv4.service, headers.ipv4.bytes,
              headers.ipv4.identification, headers.ipv4.flags, headers.ipv4.fragment, headers.ipv4.time_to_live,
              headers.ipv4.protocol, headers.ipv4.source, headers.ipv4.destination },
            headers.ipv4.checksum, HashAlgorithm.csum16);
    }
}

control SwitchDeparser(packet_out packet, in headers_t headers) {
    apply {
        packet.emit(headers.control_header);
        packet.emit(headers.ethernet);
        packet.emit(headers.arp);
        packet.emit(headers.ipv4);
        packet.emit(headers.icmp);
        packet.emit(headers.udp);
        packet.emit(headers.base_transport);
        packet.emit(headers.extended_transport);
        packet.emit(headers.immediate);
        packet.emit(headers.switchml);
        packet.emit(headers.words);
        packet.emit(headers.invariant_check);
    }
}

V1Switch(SwitchParser(), NoVerify(), SwitchIngress(), SwitchEgress(), Checksums(), SwitchDeparser()) main;
