"""What blocks of different data cost towards a switch that adds integers: bytes of an element, and what sums lose.

    python benchmarks/widths --json out/widths.json
    python benchmarks/widths --ranks 2 --types bfloat16 --bits auto --data normal,gradients

Ranks are processes of this host; the switch, in software, is in rank 0. Bytes are those of the frames that the last
rank sends, exponents and headers of frames included. "Of a word" is that over what a word for each element and one for
each 256 take, as before there were widths. Error is the largest one of a sum over what docs/collectives.md promises.
Vanished are elements that one rank alone has, of those whose sum is 0; lost is the largest part that one loses, in
units of 2^-N. N is what --bits says, and 0 for auto.
"""

import argparse
import pathlib
import sys

HERE = pathlib.Path(__file__).resolve().parent
sys.path.insert(0, str(HERE.parent / "common"))
import options  # noqa: E402
import places  # noqa: E402
import report  # noqa: E402
import repository  # noqa: E402
import star  # noqa: E402

DATA = ("normal", "laplace", "student", "lognormal", "gradients")
TYPES = ("bfloat16", "float16", "float32")
PAYLOAD, HEADER, WORD = 1408, 20, 4


def one_of(names):
    return lambda text: text if text in names else options.refuse(text, ", ".join(names))


def bits(text):
    return text if text == "auto" else options.number(0, 24, int)(text)


def parse():
    parser = argparse.ArgumentParser(
        prog="benchmarks/widths", description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("--ranks", type=options.list_of(options.rank_count), default=[2, 4, 8], help="default: 2,4,8")
    parser.add_argument("--types", type=options.list_of(one_of(TYPES)), default=list(TYPES), help="default: all three")
    parser.add_argument("--data", type=options.list_of(one_of(DATA)), default=list(DATA), help="default: all of them")
    parser.add_argument(
        "--bits", type=options.list_of(bits), default=["auto", 8, 24], help="significant bits; default: auto,8,24"
    )
    parser.add_argument("--elements", type=options.number(1, 1 << 24, int), default=1 << 17, help="default: 131072")
    parser.add_argument("--json", type=pathlib.Path, help="write all figures here")
    return parser.parse_args()


def of_a_word():
    """Bytes of an element that has a word, of frames that are full."""
    exponents = 1 / 256 + 1 / 4096  # and flags
    return WORD * (1 + exponents) * (1 + HEADER / PAYLOAD)


def run(ranks, arguments):
    settings = {
        "SWITCHML_PRECISION": "integer",
        "SWITCHML_TRANSPORT": "udp",
        "SWITCHML_PAYLOAD": str(PAYLOAD),
        "OMP_NUM_THREADS": "1",
    }
    rows = []
    with places.one_host(ranks) as place:
        job = star.Job(place, program=HERE / "worker.py", **settings)
        for kept in arguments.bits:
            job.run(places.PATIENCE, "open", str(kept))
            for kind in arguments.types:
                for data in arguments.data:
                    found = job.run(places.PATIENCE, "measure", data, kind, arguments.elements)[-1]
                    rows.append({"data": data, "type": kind, "bits": kept, "of_a_word": of_a_word(), **found})
        job.end()
    return {"ranks": ranks, "elements": arguments.elements, "rows": rows}


def show(measured):
    print(f"\n{measured['ranks']} ranks, {measured['elements']} elements")
    cells = [
        [
            row["type"],
            row["data"],
            str(row["bits"]),
            f"{row['bytes']:.2f}",
            f"{row['bytes'] / row['of_a_word']:.3f}",
            f"{row['error']:.2f}",
            str(row["vanished"]),
            f"{row['lost']:.3f}",
        ]
        for row in measured["rows"]
    ]
    heads = ["type", "data", "bits", "bytes", "of a word", "error / bound", "vanished", "lost"]
    report.print_columns(heads, cells)
    sys.stdout.flush()


def main():
    arguments = parse()
    content = {**repository.circumstances("widths"), "runs": []}
    for ranks in arguments.ranks:
        content["runs"].append(run(ranks, arguments))
        show(content["runs"][-1])
    if arguments.json:
        repository.write(arguments.json, content)
    return 0


if __name__ == "__main__":
    places.run(main)
