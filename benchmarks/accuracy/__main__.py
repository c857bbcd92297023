"""What depth costs in accuracy, and what narrow gradients do: errors of sums in trees of 1 to 4 levels against the
exact sum, and training curves.

    python benchmarks/accuracy --json out/accuracy.json --figures out    # 20 minutes of one core
    python benchmarks/accuracy --parts sums --workers 2,128 --types bfloat16
    python benchmarks/accuracy --from out/accuracy.json --figures docs/figures    # no measurement

Workers and switches are simulated in one process; what adds is the arithmetic that ships, in a library of the build.
"1 level" to "4 levels": software switches, each of which adds exactly and rounds once. One level is also what
SWITCHML_PRECISION=exact gives at any depth. "ring": rounded n - 1 times. "integer": a switch that adds integers, whose
words are compared at all depths. Sums of one level must be those of an independent exact sum, and integers within their
bound, or the program fails.
"""

import argparse
import pathlib
import sys

HERE = pathlib.Path(__file__).resolve().parent
sys.path[:0] = [str(HERE), str(HERE.parent / "common")]
import arithmetic  # noqa: E402
import drawing  # noqa: E402
import narrowed  # noqa: E402
import options  # noqa: E402
import pictures  # noqa: E402
import repository  # noqa: E402
import sums  # noqa: E402

PARTS = ("sums", "training", "narrow")
NETWORKS = ("images", "text")


def one_of(names):
    return options.list_of(lambda text: text if text in names else options.refuse(text, ", ".join(names)))


def numbers(low, high):
    return options.list_of(options.number(low, high, int))


def training_workers(text):
    workers = options.number(2, 64, int)(text)
    return workers if 64 % workers == 0 else options.refuse(text, "2, 4, 8, 16, 32 or 64, which divide a batch")


def parse():
    parser = argparse.ArgumentParser(
        prog="benchmarks/accuracy", description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    types, kinds = list(arithmetic.FORMATS), list(sums.DISTRIBUTIONS)
    for name, kind, preset, text in (
        ("parts", one_of(PARTS), list(PARTS), "what to measure"),
        ("types", one_of(types), types, "of elements"),
        ("levels", numbers(1, 8), [1, 2, 3, 4], "of the tree; trainings have those up to 3"),
        ("workers", numbers(2, 1024), [2, 8, 32, 128, 1024], "of sums"),
        ("distributions", one_of(kinds), kinds, "of elements: " + ", ".join(kinds)),
        ("networks", one_of(NETWORKS), list(NETWORKS), "that are trained"),
    ):
        parser.add_argument(
            f"--{name}", type=kind, default=preset, help=f"{text}; default: {','.join(map(str, preset))}"
        )
    parser.add_argument("--elements", type=options.number(1, 1 << 20, int), default=4096, help="default: 4096")
    parser.add_argument("--steps", type=options.number(1, 100000, int), default=200, help="of trainings; default: 200")
    parser.add_argument("--training-workers", type=training_workers, default=8, help="default: 8")
    parser.add_argument("--seed", type=options.number(0, 1 << 31, int), default=1, help="default: 1")
    parser.add_argument("--json", type=pathlib.Path, help="write all figures here")
    parser.add_argument(
        "--figures", type=pathlib.Path, help="draw accuracy.svg, training.svg and narrow.svg into this folder"
    )
    parser.add_argument("--from", dest="source", type=pathlib.Path, help="a file of --json: measure nothing")
    return parser.parse_args()


def measure(arguments):
    content = repository.circumstances("accuracy")
    ours = arithmetic.Arithmetic()
    if "sums" in arguments.parts:
        content["sums"] = sums.run(ours, arguments)
    if "training" in arguments.parts:
        import training

        content["training"] = training.run(ours, arguments)
    if "narrow" in arguments.parts:
        content["narrow"] = narrowed.run(ours, arguments)
    return content


def main():
    arguments = parse()
    if arguments.figures:
        pyplot = drawing.need_matplotlib()
    try:
        content = repository.read(arguments.source, "accuracy", "--from") if arguments.source else measure(arguments)
    except ValueError as error:
        sys.exit(f"error: {error}")
    if content.get("sums"):
        sums.print_rows(content["sums"])
    if content.get("training"):
        import training

        training.print_rows(content["training"])
    if content.get("narrow"):
        narrowed.print_rows(content["narrow"])
    if arguments.json:
        repository.write(arguments.json, content)
    if arguments.figures:
        pictures.draw(pyplot, content, arguments.figures)
    return 0


if __name__ == "__main__":
    sys.exit(main())
