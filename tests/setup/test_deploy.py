"""The files of examples/deploy/, as far as they can be run without a cluster."""

import os
import re
import shlex
import shutil
import socket
import subprocess
import sys

import lab
import pytest
from lab import ROOT

DEPLOY = ROOT / "examples/deploy"
PATIENCE = 300
# What Slurm does: a task on each of two hosts, here both this one.
SLURM = {
    "scontrol": "#!/bin/sh\n[ \"$*\" = 'show hostnames node[1-2]' ] && printf '127.0.0.1\\nnode2\\n'\n",
    "srun": '#!/bin/bash\nSLURM_NODEID=1 "$@" & SLURM_NODEID=0 "$@"; first=$?; wait $! && exit $first\n',
}


def free_port():
    with socket.socket() as made:
        made.bind(("127.0.0.1", 0))
        return made.getsockname()[1]


def environment(folder, **more):
    """Where `torchrun` is that of this Python, and the backend the one under test."""
    program = folder / "torchrun"
    program.write_text(f'#!/bin/sh\nexec {shlex.quote(sys.executable)} -m torch.distributed.run "$@"\n')
    for name, text in SLURM.items():
        (folder / name).write_text(text)
    for path in folder.iterdir():
        path.chmod(0o755)
    return {**os.environ, "PATH": f"{folder}:{os.environ['PATH']}", **more}


def trained(texts):
    return all(text.count("weights, to become all ones") == 1 for text in texts)


def test_the_batch_script_trains(tmp_path):
    made = environment(tmp_path, SLURM_JOB_NODELIST="node[1-2]", SLURM_JOB_NUM_NODES="2", SLURM_CPUS_PER_TASK="2",
                       SLURM_JOB_ID=str(free_port() % 10000), RANKS="2")  # fmt: skip
    done = subprocess.run(["bash", DEPLOY / "job.sbatch", ROOT / "examples/ddp_minimal.py"], env=made, text=True,
                          capture_output=True, timeout=PATIENCE)  # fmt: skip
    assert done.returncode == 0, done.stdout + done.stderr
    assert "weights, to become all ones" in done.stdout
    heads = re.findall(r"^#SBATCH --([a-z-]+)=", (DEPLOY / "job.sbatch").read_text(), re.M)
    assert {"nodes", "ntasks-per-node", "cpus-per-task"} <= set(heads)


def test_the_job_for_kubernetes_trains(tmp_path):
    yaml = pytest.importorskip("yaml")
    service, job = yaml.safe_load_all((DEPLOY / "job.yaml").read_text())
    assert (service["apiVersion"], service["kind"]) == ("v1", "Service")
    assert (job["apiVersion"], job["kind"]) == ("batch/v1", "Job")
    # Rank 0's name is one that the service gives to a pod of the job.
    pod, name = job["spec"]["template"]["spec"], job["metadata"]["name"]
    assert job["spec"]["completionMode"] == "Indexed" and job["spec"]["completions"] == job["spec"]["parallelism"] == 2
    assert pod["subdomain"] == service["metadata"]["name"] and service["spec"]["clusterIP"] == "None"
    assert service["spec"]["selector"] == {"job-name": name}
    (container,) = pod["containers"]
    variables = {each["name"]: each["value"] for each in container["env"]}
    assert variables["MASTER_ADDR"] == f"{name}-0.{pod['subdomain']}"
    # The command of both pods, on this host.
    made = environment(tmp_path, **variables)
    made |= {"MASTER_ADDR": "127.0.0.1", "MASTER_PORT": str(free_port()), "RANKS": "1"}
    command = [*container["command"], *(text.replace("/examples/", f"{ROOT}/examples/") for text in container["args"])]
    pods = [
        subprocess.Popen(command, env={**made, "JOB_COMPLETION_INDEX": index}, text=True,
                         stdout=subprocess.PIPE, stderr=subprocess.STDOUT)
        for index in "01"
    ]  # fmt: skip
    try:
        texts = [each.communicate(timeout=PATIENCE)[0] for each in pods]
    finally:
        for each in pods:
            each.kill()
    assert [each.returncode for each in pods] == [0, 0] and "weights, to become all ones" in texts[0], texts


def instructions():
    """[(instruction, arguments)]"""
    text = re.sub(r"\\\n", " ", (DEPLOY / "Dockerfile").read_text())
    lines = [line.split(None, 1) for line in text.splitlines() if line.strip() and not line.startswith("#")]
    return [(line[0], line[1]) for line in lines]


def test_the_image_has_what_the_build_needs(tmp_path):
    """What is copied is enough to configure; packages and PyTorch are those of the quickstart."""
    page, setup = (ROOT / "docs/quickstart.md").read_text(), (ROOT / ".ci/setup.sh").read_text()
    wanted = re.search(r"^sudo apt-get install ((.*\\\n)*.*)$", page, re.M)[1].replace("\\\n", "").split()
    run = [arguments for instruction, arguments in instructions() if instruction == "RUN"]
    assert set(wanted) <= set(run[0].split())
    (version,) = [arguments.partition("=")[2] for instruction, arguments in instructions() if instruction == "ARG"]
    assert re.search(r"pip\) version=(\S+)", setup)[1] == version
    for arguments in [arguments.split() for instruction, arguments in instructions() if instruction == "COPY"]:
        for source in arguments[:-1] if not arguments[0].startswith("--from") else ():
            assert (ROOT / source).exists(), source
            to = tmp_path / source
            (shutil.copytree if (ROOT / source).is_dir() else shutil.copy)(ROOT / source, to)
    configure = subprocess.run(
        ["cmake", "-S", tmp_path, "-B", tmp_path / "made", "-G", "Ninja", f"-DPython3_EXECUTABLE={sys.executable}",
         *"-DSWITCHML_BUILD_TORCH=ON -DSWITCHML_BUILD_TESTS=OFF -DSWITCHML_BUILD_BENCHMARKS=OFF".split()],
        text=True, stdout=subprocess.PIPE, stderr=subprocess.STDOUT,
    )  # fmt: skip
    assert configure.returncode == 0, configure.stdout


def test_the_unit_starts_the_switch(tmp_path):
    text = (DEPLOY / "switchml-switchd.service").read_text()
    (line,) = re.findall(r"^ExecStart=(.*)$", text, re.M)
    program, *arguments = line.split()
    assert program == "/usr/local/bin/switchml-switchd", "where docs/cpp.md installs it"
    built = lab.program("switchml-switchd")
    if built is None:
        pytest.skip("switchml-switchd is not built")
    arguments[arguments.index("--listen") + 1] = "127.0.0.1:0"
    with subprocess.Popen([built, *arguments], stdout=subprocess.PIPE, text=True) as switch:
        assert switch.stdout.readline().startswith("listening on 127.0.0.1:")
        switch.terminate()
    assert switch.returncode == 0
    if shutil.which("systemd-analyze"):
        unit = tmp_path / "switchml-switchd.service"
        unit.write_text(text.replace(program, built))
        done = subprocess.run(["systemd-analyze", "verify", unit], text=True, capture_output=True, timeout=60)
        assert done.returncode == 0 and "switchml" not in done.stderr, done.stderr


@pytest.mark.parametrize("script", sorted([*(ROOT / ".ci").glob("*.sh"), ROOT / ".ci/run", DEPLOY / "job.sbatch"]))
def test_scripts_are_shell(script):
    done = subprocess.run(["bash", "-n", script], text=True, capture_output=True)
    assert done.returncode == 0, done.stderr
