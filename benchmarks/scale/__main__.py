"""An all-reduce of thousands of workers, simulated: how long it takes by way, with losses, a dead switch, other jobs.

    python benchmarks/scale --json out/scale.json --figures out
    python benchmarks/scale --parts sizes --workers 10240 --ways tree    # what ships, with 10,240 workers
    python benchmarks/scale --from out/scale.json --figures docs/figures    # no simulation

"tree": the shards and switches that ship, on trees of switches; their packets take modelled links. Each result of each
worker is compared with the exact sum, or the program fails. The other ways are modelled only. Time is virtual, so that
figures do not depend on this machine. benchmarks/results/*-scale.md says what is modelled.
"""

import argparse
import pathlib
import sys

HERE = pathlib.Path(__file__).resolve().parent
sys.path[:0] = [str(HERE), str(HERE.parent / "common")]
import drawing  # noqa: E402
import options  # noqa: E402
import repository  # noqa: E402
import scale_pictures  # noqa: E402
import scale_runs  # noqa: E402


def one_of(names):
    known = {str(name): name for name in names}
    return options.list_of(lambda text: known[text] if text in known else options.refuse(text, ", ".join(known)))


def parse():
    parser = argparse.ArgumentParser(
        prog="benchmarks/scale", description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    for name, known, text in (
        ("parts", scale_runs.PARTS, "what to simulate"),
        ("ways", scale_runs.WAYS, "by which tensors are added"),
        ("workers", scale_runs.FABRICS, "of jobs; losses and more have those up to 1024"),
    ):
        every = ",".join(map(str, known))
        parser.add_argument(f"--{name}", type=one_of(known), default=list(known), help=f"{text}; default: {every}")
    parser.add_argument("--kib", type=options.number(1, 1 << 20, int), default=16384, help="of tensors; default: 16384")
    parser.add_argument("--seed", type=options.number(0, 1 << 30, int), default=1, help="default: 1")
    parser.add_argument("--json", type=pathlib.Path, help="write all figures here")
    parser.add_argument("--figures", type=pathlib.Path, help="draw scale.svg into this folder")
    parser.add_argument("--from", dest="source", type=pathlib.Path, help="a file of --json: simulate nothing")
    return parser.parse_args()


def main():
    arguments = parse()
    if arguments.figures:
        pyplot = drawing.need_matplotlib()
    scale_runs.print_header()
    if arguments.source:
        content = repository.read(arguments.source, "scale", "--from")
        for row in content["runs"]:
            scale_runs.print_run(row)
    else:
        content = repository.circumstances("scale")
        try:
            content["runs"] = scale_runs.run(arguments)
        except ValueError as error:
            sys.exit(f"error: {error}")
    if arguments.json:
        repository.write(arguments.json, content)
    if arguments.figures:
        scale_pictures.draw(pyplot, content, arguments.figures)
    return 0


if __name__ == "__main__":
    sys.exit(main())
