"""Which stage of an all-reduce a function belongs to. The first rule that fits decides."""

import re

EXPONENTS, QUANTIZE, WITNESS, PACKET = "exponents", "quantize", "witness", "header, parsing"
STREAM, TIMERS, DEQUANTIZE = "slots and stream", "timers", "dequantize"
SEND, RECEIVE = "transport, send", "transport, receive"
ADD, RULES = "switch: add words", "switch: session, slot, sequence"
COPY, REDUCE, RESULT, BOARD = "copy into the frame", "reduce", "copy of results", "board, futex"
CHECKSUM, KEEP, CARD = "checksum", "switch: keep contributions", "card"

# (the function's name without parameters and templates, its file): each a pattern, empty: any. None: its callers'
# stage.
RULES_OF = [
    # what stands for a card and its driver
    ("", r"tests/rdma/", CARD),
    (
        r"_scale$|magnitude_bits|(float|integer)_row|::kernels$|(scalar|avx2|avx512|neon)_kernels|element_bytes|operator$|_FUN$",
        "",
        None,
    ),
    # the kernels, and what calls them for each block
    (r"shm::fill_frame|ExactCodec::encode", "", COPY),
    (r"XXH|wire::checksum|wire::seal_exact|wire::exact_intact", "", CHECKSUM),
    (r"ExactAggregator::keep", "", KEEP),
    (r"(Exact|FixedPoint)::|exact_sum|sum_exactly|reduce_(chunk|elements|words|frames|block)|reduce$", "", REDUCE),
    (r"(Simd|switchml)::stream|TensorChunks::take|ExactCodec::decode", "", RESULT),
    (r"(Simd|switchml)::range|Codec::(encode|decode|plausible)_call", "", EXPONENTS),
    (r"(Simd|switchml)::quantize|Codec::encode_", "", QUANTIZE),
    (r"(Simd|switchml)::dequantize|Codec::decode_", "", DEQUANTIZE),
    (r"(Simd|switchml)::dot|siphash|Witness|exponents_hash|IntegerFormat::judge|nowhere_below|on_damaged", "", WITNESS),
    (r"(Simd|switchml)::(add|store|load|max)|IntegerAggregator::(add|complete)", "", ADD),
    (r"::(take_over|merge|(add|max)_words)$", r"/integer_aggregator", ADD),
    # a chunk's way
    (r"Format::(seal|parse|encode|frame_of)|Shard::on_(frame|data)|switchml::wire::", "", PACKET),
    (r"Shard::(expire|check_)|Retransmitter|SwitchLiveness|TimerWheel|RttEstimator", "", TIMERS),
    (r"Shard::(flush|transmit)|UdpSender|Hub::deliver|BatchingSink|Transport::send", "", SEND),
    (r"RdmaTransport::(message_of|find|take_buffer|has_room|add|reach|check|is_)", "", SEND),
    (r"rdma::(Pair|SendBuffers|RegisteredMemory|TensorRegions)", "", SEND),
    (
        r"Shard::receive|UdpReceiver|Transport::(receive|release|lend|post_receives|has_arrived)|LocalAddresses",
        "",
        RECEIVE,
    ),
    (r"switchml::shm::", "", BOARD),
    (r"switchml::softswitch::|(Exact|Integer)Aggregator::|SlotStore|WorkerSet", "", RULES),
    (r"SwitchPath::switch_turn", "", RECEIVE),  # the in-process transport's receive() is inlined there
    (r"switchml::profile::|switchml_profile_", "", None),
    ("", r"backend/(engine|format|exact|integer|slots)/", STREAM),
    (
        r"^switchml::(Shard|SlotPool|ChunkPlan|SuperblockRing|\w*Codec|\w*Format|\w*Task|TaskQueue|Lanes|SharedCollective)::",
        "",
        STREAM,
    ),
]
COMPILED = [(re.compile(name), re.compile(file), stage) for name, file, stage in RULES_OF]


def bare(name):
    """`void a::(anonymous namespace)::B<c>::d<e>(int)` as `a::B::d`: without result, parameters, templates."""
    kept, depth = [], 0
    for letter in name.replace("(anonymous namespace)::", "").replace("operator()", "operator"):
        if letter == "(" and depth == 0 and kept:
            break
        if letter in "<(":
            depth += 1
        elif letter in ">)":
            depth = max(0, depth - 1)
        elif depth == 0:
            kept.append(letter)
    return "".join(kept).strip().split(" ")[-1]


def stage_of(name, file):
    """None: what is nobody's own, like memcpy; its callers take it."""
    short = bare(name)
    for names, files, stage in COMPILED:
        if names.search(short) and files.search(file):
            return stage
    return None
