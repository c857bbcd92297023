"""What ranks tell Prometheus: read by Debian's Prometheus and node_exporter, where they are installed."""

import contextlib
import ctypes
import importlib
import json
import os
import pathlib
import re
import shutil
import socket
import subprocess
import time
import urllib.error
import urllib.parse
import urllib.request

import pytest
import torch
import torch.distributed as dist

import harness

DEPLOY = pathlib.Path(__file__).resolve().parents[2] / "examples/deploy"
CONTROLLER = DEPLOY.parents[1] / "backend/controllerd/metrics.cc"
PROGRAMS = f"{os.environ['PATH']}:{DEPLOY.parents[1] / 'build-prometheus'}"  # where .ci/setup.sh unpacks them
PATIENCE = 60.0  # seconds, for what other programs do


def installed(*programs):
    missing = [program for program in programs if not shutil.which(program, path=PROGRAMS)]
    return pytest.mark.skipif(bool(missing), reason=f"not there: {', '.join(missing)} (make setup unpacks Debian's)")


with_prometheus = installed("prometheus", "promtool")


def fetched(address, path="/metrics"):
    with urllib.request.urlopen(f"http://{address}{path}", timeout=20) as answer:
        return answer.read().decode()


def values(text):
    """{(name, labels): value}, with labels as they are written."""
    samples = re.findall(r"^(\w+)(?:\{(.*)\})? (\S+)$", text, re.M)
    return {(name, labels): float(value) for name, labels, value in samples}


def stats():
    return importlib.import_module("switchml").stats()


def place():
    return stats()["session"]["metrics"]


def rank_reads_its_own():
    for size in (10, 20_000):
        dist.all_reduce(torch.ones(size))
    dist.broadcast(torch.ones(3), 0)
    before = stats()
    return before, fetched(place()), stats()


@pytest.mark.parametrize("transport", ["auto", "udp"])
def test_a_port_tells_what_stats_tells(transport):
    environment = {"SWITCHML_TRANSPORT": transport, "SWITCHML_METRICS": "127.0.0.1:0"}
    with harness.fresh_pool(2, environment=environment, with_gloo=False) as own:
        found = own.run(rank_reads_its_own)
    for rank, (before, text, after) in enumerate(found):
        read, labels = values(text), f'group="{before["group"]}",rank="{rank}"'
        single = ("calls_", "arena", "pinned", "memory_bytes", "without_switch", "size", "rank")
        counters = [name for name, value in before.items() if isinstance(value, int) and not name.startswith(single)]
        assert len(counters) > 20
        for name in counters:  # a rank that hosts a switch may still get frames
            assert before[name] <= read[f"switchml_rank_{name}_total", labels] <= after[name], name
        for name, value in before.get("switch", {}).items():
            if name != "memory_bytes":
                assert value <= read[f"switchml_switch_{name}_total", labels] <= after["switch"][name], name
        for name in ("memory_bytes", "arena_bytes", "arena_limit_bytes", "pinned_limit_bytes", "without_switch"):
            assert read[f"switchml_rank_{name}", labels] == before[name]
        for call, ways in before["calls"].items():
            for way, count in ways.items():
                assert read["switchml_rank_calls_total", f'{labels},call="{call}",way="{way}"'] == count
        collectives = sum(count for ways in before["calls"].values() for count in ways.values())
        assert read["switchml_rank_collectives_enqueued_total", labels] == collectives
        assert read["switchml_rank_collectives_completed_total", labels] == collectives
        assert read["switchml_rank_oldest_call_seconds", labels] == 0
        assert read["switchml_rank_failed", labels] == 0
        assert read["switchml_rank_group_size", labels] == 2


@with_prometheus
def test_the_format_is_what_prometheus_asks_for():
    environment = {"SWITCHML_TRANSPORT": "udp", "SWITCHML_METRICS": "127.0.0.1:0"}
    with harness.fresh_pool(2, environment=environment, with_gloo=False) as own:
        text = own.run(rank_reads_its_own)[0][1]
    promtool = shutil.which("promtool", path=PROGRAMS)
    checked = subprocess.run([promtool, "check", "metrics"], input=text, capture_output=True, text=True, timeout=60)
    assert (checked.returncode, checked.stdout, checked.stderr) == (0, "", "")


def rank_with_groups():
    pair, *alone = [dist.new_group(ranks) for ranks in ([0, 1], [0], [1])]
    dist.all_reduce(torch.ones(4), group=pair)
    groups = {labels for name, labels in values(fetched(place())) if name == "switchml_rank_group_size"}
    dist.destroy_process_group(pair)
    dist.barrier()
    del pair, alone
    after = {labels for name, labels in values(fetched(place())) if name == "switchml_rank_group_size"}
    return len(groups), len(after)


def test_each_group_is_told_while_it_is_open():
    with harness.fresh_pool(2, environment={"SWITCHML_METRICS": "127.0.0.1:0"}, with_gloo=False) as own:
        assert own.run(rank_with_groups) == [(2, 1)] * 2


def rank_holds_the_interpreter(reading_end, writing_end):
    """Rank 0 waits with Python's global lock until rank 1 has read its metrics."""
    store = dist.distributed_c10d._get_default_store()
    if dist.get_rank() == 0:
        store.set("place", place())
        byte = ctypes.create_string_buffer(1)
        return ctypes.PyDLL(None).read(reading_end, byte, 1)  # PyDLL keeps the lock
    try:
        return "switchml_rank_group_size" in fetched(store.get("place").decode())
    finally:
        os.write(writing_end, b"x")


def test_a_rank_that_holds_the_interpreters_lock_answers():
    ends = os.pipe()
    with harness.fresh_pool(2, environment={"SWITCHML_METRICS": "127.0.0.1:0"}, with_gloo=False) as own:
        assert own.run(rank_holds_the_interpreter, *ends) == [1, True]
    for end in ends:
        os.close(end)


def test_of_old_files_only_those_of_dead_processes_go(tmp_path):
    dead = [tmp_path / "switchml_4711-0123abcd.prom", tmp_path / "switchml_4711-0123abcd.tmp"]
    foreign = [
        tmp_path / f"switchml_{name}"
        for name in ("results.csv", "alerts.prom", "4711-0123abcd.prom.bak", "4711-0123abc.prom", "04711-0123abcd.prom")
    ]
    for path in (*dead, *foreign):
        path.touch()
        os.utime(path, (0, 0))
    with harness.fresh_pool(2, environment={"SWITCHML_METRICS": str(tmp_path)}, with_gloo=False) as own:
        own.run(rank_adds)
    assert not any(path.exists() for path in dead) and all(path.exists() for path in foreign)


def test_files_are_there_until_the_ranks_end(tmp_path):
    own = harness.Pool(2, environment={"SWITCHML_METRICS": str(tmp_path)}, with_gloo=False)
    try:
        places = own.run(place)
        assert sorted(map(str, tmp_path.glob("*.prom"))) == sorted(places)
        for rank, path in enumerate(map(pathlib.Path, places)):
            sizes = [labels for name, labels in values(path.read_text()) if name == "switchml_rank_group_size"]
            assert len(sizes) == 1 and f'rank="{rank}"' in sizes[0] and 'process="' in sizes[0]
        own.close()
    finally:
        own.abandon()
    assert list(tmp_path.iterdir()) == []


def rank_adds():
    mine = torch.ones(7)
    dist.all_reduce(mine)
    return mine.tolist(), place()


def test_a_job_goes_on_without_metrics_that_cannot_be_had(tmp_path):
    with harness.fresh_pool(2, environment={"SWITCHML_METRICS": str(tmp_path / "none")}, with_gloo=False) as own:
        assert own.run(rank_adds) == [([2.0] * 7, "")] * 2
        assert "no metrics: SWITCHML_METRICS=" in own.log(0)


# ---- with the programs that read them ----


@contextlib.contextmanager
def running(program, *options):
    command = [shutil.which(program, path=PROGRAMS), *options]
    with subprocess.Popen(command, stdout=subprocess.DEVNULL, stderr=subprocess.PIPE, text=True) as process:
        try:
            yield process
        finally:
            process.kill()


def until(what, process=None):
    """What `what()` gives, once that is true; others' programs need a while to start, and to read."""
    deadline = time.monotonic() + PATIENCE
    while True:
        with contextlib.suppress(urllib.error.URLError, ConnectionError):
            if found := what():
                return found
        assert process is None or process.poll() is None, process.stderr.read()
        assert time.monotonic() < deadline, "nothing came"
        time.sleep(0.05)


def local_address():
    return f"127.0.0.1:{harness.free_port(socket.SOCK_STREAM)}"


@contextlib.contextmanager
def prometheus(folder, places):
    """A Prometheus that reads those places all the time, by the example's configuration: its address."""
    targets = re.compile(r"targets: \[.*\]")
    example = (DEPLOY / "prometheus.yml").read_text()
    assert len(targets.findall(example)) == 1
    (folder / "prometheus.yml").write_text(
        "global: {scrape_interval: 200ms}\n" + targets.sub(f"targets: [{', '.join(places)}]", example)
    )
    address = local_address()
    options = [f"--config.file={folder}/prometheus.yml", f"--storage.tsdb.path={folder}/data"]
    with running("prometheus", *options, f"--web.listen-address={address}", "--log.level=error") as process:
        until(lambda: fetched(address, "/-/ready"), process)
        yield address


def asked(address, expression):
    """The result of an expression: a list of series."""
    try:
        answer = json.loads(fetched(address, f"/api/v1/query?{urllib.parse.urlencode({'query': expression})}"))
    except urllib.error.HTTPError as error:
        raise AssertionError(f"{expression}: {error.read().decode()}") from error
    return answer["data"]["result"]


def dashboard():
    return json.loads((DEPLOY / "grafana-dashboard.json").read_text())


def targets():
    return [target for panel in dashboard()["panels"] for target in panel.get("targets", [])]


def expressions():
    """Of all panels, as Grafana asks them where everything is chosen."""
    for target in targets():
        text = target["expr"].replace("$__rate_interval", "5s").replace("$job", ".*").replace("$group", ".*")
        assert "$" not in text
        yield text


def names_in(expression):
    return set(re.findall(r"\bswitchml_\w+", expression))


def rank_makes_calls():
    for _ in range(20):
        dist.all_reduce(torch.ones(50_000))
    switchml = importlib.import_module("switchml")
    kept = switchml.empty(100)
    del kept


@with_prometheus
def test_prometheus_has_what_the_dashboard_shows(tmp_path):
    asks = list(expressions())
    controllers = set(re.findall(r'"(switchml_(?:controller|session|switch)_\w+)"', CONTROLLER.read_text()))
    events = {f"switchml_controller_{name}_total" for name in re.findall(r'add\("(\w+)"', CONTROLLER.read_text())}
    ranks = [text for text in asks if not names_in(text) <= controllers | events]
    assert len(asks) - len(ranks) == 8
    environment = {"SWITCHML_TRANSPORT": "udp", "SWITCHML_METRICS": "127.0.0.1:0"}
    with harness.fresh_pool(2, environment=environment, with_gloo=False) as own:
        with prometheus(tmp_path, own.run(place)) as address:
            for text in asks:
                asked(address, text)  # an error where it is none of PromQL

            def has_all():
                own.run(rank_makes_calls)
                return all(asked(address, text) for text in ranks if "arena" not in text)

            until(has_all)


def rank_waits_for_rank_1(address):
    """Rank 1 does not come until Prometheus says that it is late."""
    store = dist.distributed_c10d._get_default_store()
    if dist.get_rank() == 1:
        store.get("seen")
        dist.all_reduce(torch.ones(5))
        return None
    behind, oldest = [text for text in expressions() if "group_right" in text or "oldest_call" in text]
    work = dist.all_reduce(torch.ones(5), async_op=True)

    def by_rank(text):
        return {series["metric"]["rank"]: float(series["value"][1]) for series in asked(address, text)}

    try:
        late = until(lambda: (found := by_rank(behind)).get("1") == 1 and found)
        ages = until(lambda: (found := by_rank(oldest)).get("0", 0) > 0 and found)
    finally:
        store.set("seen", "1")
    work.wait()
    return late, ages["1"]


@with_prometheus
def test_the_dashboard_names_a_late_rank(tmp_path):
    environment = {"SWITCHML_TRANSPORT": "auto", "SWITCHML_METRICS": "127.0.0.1:0"}
    with harness.fresh_pool(2, environment=environment, with_gloo=False) as own:
        with prometheus(tmp_path, own.run(place)) as address:
            late, age_of_the_late = own.run(rank_waits_for_rank_1, address)[0]
            [arena] = [text for text in expressions() if "arena" in text]
            until(lambda: asked(address, arena))
    assert late == {"0": 0, "1": 1}
    assert age_of_the_late == 0


@installed("prometheus-node-exporter")
def test_node_exporter_reads_the_files(tmp_path):
    address = local_address()
    options = ["--collector.disable-defaults", "--collector.textfile", f"--collector.textfile.directory={tmp_path}"]
    with harness.fresh_pool(2, environment={"SWITCHML_METRICS": str(tmp_path)}, with_gloo=False):
        with running("prometheus-node-exporter", *options, f"--web.listen-address={address}") as process:
            read = values(until(lambda: fetched(address), process))
    assert read["node_textfile_scrape_error", ""] == 0
    found = {re.search(r'rank="(\d)"', labels)[1] for name, labels in read if name == "switchml_rank_group_size"}
    assert found == {"0", "1"}


def test_the_dashboard_is_one_of_grafana():
    board = dashboard()
    panels = [panel for panel in board["panels"] if panel["type"] != "row"]
    assert board["schemaVersion"] and board["title"] == "switchml"
    ids = [panel["id"] for panel in board["panels"]]
    assert len(set(ids)) == len(ids)
    cells = [
        (x, y)
        for place in (panel["gridPos"] for panel in board["panels"])
        for x in range(place["x"], place["x"] + place["w"])
        for y in range(place["y"], place["y"] + place["h"])
    ]
    assert len(set(cells)) == len(cells) and max(x for x, _ in cells) < 24
    assert all(panel["title"] and panel["targets"] for panel in panels)
    variables = {variable["name"] for variable in board["templating"]["list"]}
    assert set(re.findall(r"\$\{?(\w+)", json.dumps(board))) - {"__rate_interval", "__all"} == variables
