"""Every block of code of README, docs/ and READMEs of folders, in order: its first words, and what becomes of it.

What becomes of a block: the name of a function of test_pages.py that runs it, or a sentence that says why it is not run
there: what else runs it, or what it is. A block that is not here, or is elsewhere than here, fails the tests.
"""

DRAWING, OUTPUT = "is a drawing", "is what a program prints"
INSTALLS = "installs packages: .ci/setup.sh has the same, and test_wheel.py makes the wheel"
LONG = "takes minutes: CI runs make test, and tests/benchmarks runs the tools on made-up figures"
TESTS = "runs other tests, which CI runs too"
DEVICE = "needs a device that CI has not"
QUICKSTART = "tests/netlab/test_quickstart.py runs it, on hosts with these addresses"
MODEL = "tests/switch_p4 runs it, where the compilers of P4 are"

BLOCKS = {
    "README.md": [
        ("a ring:", DRAWING),
        ("sudo apt-get install", INSTALLS),
        ("import torch", "is in docs/quickstart.md too: test_readme_has_what_the_quickstart_has"),
    ],
    "docs/architecture.md": [
        ("RANK, the caller's thread", DRAWING),
        ("THE CALLER'S THREAD", DRAWING),
        ("RANKS, each in its process", DRAWING),
        ("EACH RANK", DRAWING),
        ("| board:", DRAWING),
        ("1 each rank copies", DRAWING),
    ],
    "docs/collectives.md": [
        ("import torch", "tests/python/test_narrow_sums.py does it"),
        ("backend = switchml.ProcessGroup(", "tests/python/test_groups.py does it"),
    ],
    "docs/contributing.md": [
        ("make setup", "is the first step of make test"),
        ("ninja -C build unit_base", TESTS),
        ("ninja -C build unit_base unit_engine", TESTS),
        ("ninja -C build unit_softswitch", TESTS),
        ("ninja -C build unit_base unit_session", TESTS),
        ("def rank_barriers():", "quotes:tests/python/test_barriers.py"),
        (".venv/bin/python -m pytest", TESTS),
    ],
    "docs/controller.md": [
        ("rank 0 --Open", DRAWING),
        ("switchml-switchd --listen", "tests/python/test_controller.py starts both, and ranks"),
        ("cmake -S .", INSTALLS),
        ("switch spine at", OUTPUT),
        ("limits:", "topology_file"),
        ("fabric.yaml:12:", "topology_mistake"),
        ("tokens:", "tokens_file"),
        ("openssl req", "certificates"),
        ('switch "leaf2" has', OUTPUT),
    ],
    "docs/cpp.md": [
        ("sudo apt-get install", "tests/install runs it with a build that is there"),
        ("cmake_minimum_required", "quotes:tests/install/CMakeLists.txt"),
        ("bool run(int rank", "quotes:tests/install/main.cc"),
        ("cmake -S . -B build", "tests/install runs it"),
    ],
    "docs/encryption.md": [("(umask 077;", "switch_with_a_key")],
    "docs/failures.md": [
        ("try:", "tests/python/test_membership.py does it, with a rank that has died"),
        ("dist._reconfigure(", "tests/python/test_membership.py does it"),
        ("from switchml.torchft import", "examples/with_torchft.py does it, in tests/clients/test_torchft.py"),
        ("torchft_lighthouse --min_replicas", "tests/clients/test_torchft.py does it, with a lighthouse of its own"),
    ],
    "docs/metrics.md": [
        ("SWITCHML_METRICS=127.0.0.1:9400 torchrun", "tests/python/test_rank_metrics.py reads ranks at their ports"),
        ("SWITCHML_METRICS=/var/lib", "tests/python/test_rank_metrics.py reads files through node_exporter"),
    ],
    "docs/operations.md": [
        ("from switchml import hooks", "tests/python/test_hooks.py does it"),
        ("from switchml import fsdp", "tests/python/test_narrow_fsdp.py does it"),
        ("sysctl net.core", "changes the machine"),
        ("switchml-switchd --listen", "switch_with_options"),
        ("$ python -m switchml status", "tests/python/test_status.py does it"),
        ("$ python -m switchml status --bars", "tests/python/test_status.py does it"),
    ],
    "docs/performance.md": [('make bench ARGS="--parts figures"', LONG)],
    "docs/planning.md": [
        ("SWITCHML_PYTHON_ONLY=1 pip install", "plan_of_own_files"),
        ("switchml-plan examples/planning", "plan_of_the_example"),
        ("planned: the least rate", "output_of_the_example"),
        ("links:", "is a part of a file: tests/planner/test_planner_files.py reads such keys"),
        ("jobs:", "jobs_file"),
        ("jobs.yaml:5: job", "jobs_mistake"),
        ("switchml-plan topology.yaml --jobs jobs.yaml --controller", "tests/planner/test_planner_watch.py does it"),
        ("from switchml import planner", "planner_in_python"),
    ],
    "docs/protocol.md": [("0 ", DRAWING), ("grep -rnw SLOT-5", "as_it_is")],
    "docs/protocol-control.md": [(first, DRAWING) for first in ("+-", "+-", "Ethernet |", "+-")],
    "docs/protocol-exact.md": [("0 ", DRAWING), ("+---", DRAWING)],
    "docs/protocol-seal.md": [("0 ", DRAWING)],
    "docs/quickstart.md": [
        ("sudo apt-get install", INSTALLS),
        ("make demo", "tests/setup/test_demo.py has its parts, and test_wheel.py makes the wheel"),
        ("pip install torch==2.13.0", INSTALLS),
        ("make demo", "takes minutes: the environment that it makes is that of these tests"),
        ("import torch", "script"),
        (". .venv/bin/activate", "job_on_this_host"),
        ("export MASTER_ADDR", QUICKSTART),
        ("export SWITCHML_INTERFACE", QUICKSTART),
        ("sudo sysctl", "changes the machine"),
        ("torchrun --nnodes 2 --nproc_per_node 1", QUICKSTART),
        ("torchrun --nnodes 2 --nproc_per_node 4", QUICKSTART),
        ("torchrun --nnodes 2 --nproc_per_node 4", QUICKSTART),
        ("RANK=0 WORLD_SIZE=2", "ranks_by_hand"),
        ("import switchml", "script"),
        ("$ switchml-switchd --listen", QUICKSTART),
        ("export SWITCHML_SWITCH", QUICKSTART),
        ("sbatch examples/deploy/job.sbatch", "test_deploy.py runs it with a Slurm of two lines"),
        ("docker build", "test_deploy.py checks both files"),
    ],
    "docs/rdma.md": [("rdma link show", DEVICE)],
    "docs/serving.md": [
        ("VLLM_PLUGINS=switchml vllm serve", "make test-clients has vLLM, and starts it from Python"),
        ("export VLLM_PLUGINS", "make test-clients runs two ranks so, on hosts of a lab"),
        ("deepspeed.ops.__compatible_ops__", "make test-clients does it, in benchmarks/serving/deepspeed_tokens.py"),
        ("import switchml.ray_groups", "make test-clients does it, in tests/clients/test_ray.py"),
        ("make test-clients", "installs 4 GB"),
    ],
    "docs/settings.md": [("dist.init_process_group(", "options_of_a_group"), ("SWITCHML_FAULTS=", "faults")],
    "docs/switch.md": [("mkdir -p OUT", MODEL), ("make test-p4", TESTS), ("ip link add cpu", MODEL)],
    "docs/testing.md": [
        ("ninja -C build unit_slots", TESTS),
        (".venv/bin/python -m pytest tests/python/test_torch_source_suites.py", "needs a checkout of PyTorch"),
        (".venv/bin/python -m pytest tests/netlab", TESTS),
        (".venv/bin/python -m pytest tests/rdma", TESTS),
        ("FUZZ_SECONDS=600 make fuzz", TESTS),
        ("build/tests/fuzz/replay", TESTS),
        (".venv/bin/python -m pytest tests/planner", TESTS),
    ],
    "docs/troubleshooting.md": [
        ("torchrun --nnodes 2", QUICKSTART),
        ("folder.joinpath(", "tests/python/test_flight_recorder.py does it"),
        ("$ torchfrtrace", "tests/python/test_flight_recorder.py does it"),
    ],
    "docs/tofino.md": [
        ("mkdir -p OUT", MODEL),
        ("switchml-tofino-agent", DEVICE),
        ('{"chip_list"', DEVICE),
        ("bfrt.tf1.tm.port", DEVICE),
        ("python3 tests/vectors --target tofino", MODEL),
    ],
    "docs/transports.md": [
        ("WORKER, while it joins", DRAWING),
        ("ninja -C build unit_transport", TESTS),
        ("TEST_F(Rdma,", "quotes:tests/unit/transport/rdma/rdma_failures_test.cc"),
        ("build/tests/unit/unit_transport", TESTS),
        ("LD_LIBRARY_PATH=build/tests/rdma", "tests/unit/transport/rdma loads the same library"),
    ],
    "tests/model/README.md": [(".venv/bin/python -m pytest tests/model", TESTS)],
    "tests/sim/README.md": [("ninja -C build switchml_sim", TESTS)],
    "tests/vectors/README.md": [
        ("ninja -C build softswitch_target", TESTS),
        ("python3 tests/vectors/generate.py", TESTS),
    ],
}
