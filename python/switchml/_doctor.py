"""Whether this host, or all hosts of a job, can do what switchml needs; each finding with its remedy.

    python -m switchml doctor                                            # this host alone
    torchrun --nnodes 2 --nproc-per-node 1 --master-addr HOST --node-rank N --no-python python -m switchml doctor

Under a launcher (RANK, WORLD_SIZE, MASTER_ADDR and MASTER_PORT in the environment) each rank looks at its host, all
open a group and make a call of every kind, and try packets and connections to each other. Rank 0 prints what all have
found. The status is 1 if something fails.
"""

import contextlib
import datetime
import fcntl
import json
import os
import pathlib
import resource
import socket
import struct
import sys
import threading
import time

import torch
import torch.distributed as dist

import switchml
from switchml import _arguments, _info

OK, WARN, FAIL = "ok", "warn", "FAIL"
SOCKET_BYTES = 32 << 20  # what the socket of an embedded switch asks for
PATIENCE = 60.0  # seconds that ranks wait for each other
TRIES, ANSWER = 5, 0.4  # probes of a path, and seconds for an answer to each
SIZES = (8972, 1472, 1372, 548)  # bytes of UDP payload that an MTU of 9000, 1500, 1400 and 576 carries
SKEW = 1.0  # seconds between clocks that make logs hard to compare


def add_options(parser):
    parser.add_argument(
        "--timeout",
        type=_arguments.seconds,
        default=PATIENCE,
        help=f"seconds to wait for other ranks; default: {PATIENCE:.0f}",
    )


def finding(level, what, remedy=""):
    return {"level": level, "what": what, "remedy": remedy}


# ---- this host ----


def check_build():
    """Of the build and the settings, which no group opens without."""
    try:
        wrong = _info.wrong_setting()
        if wrong:
            return [finding(FAIL, wrong, "correct the variable")]
        _info.session_of_one()
    except ImportError as error:
        what, _, remedy = str(error).partition("): ")
        return [finding(FAIL, f"{what})", remedy)]
    except Exception as error:
        return [finding(FAIL, f"a group of one does not open: {error}", "install switchml for this PyTorch again")]
    named = [variable for variable, _, source, _ in _info.settings_in_force() if source == "environment"]
    return [
        finding(OK, f"switchml {switchml.__version__} for PyTorch {switchml._BUILT_FOR}"),
        finding(OK, "settings: " + (", ".join(named) if named else "all defaults")),
    ]


def check_switch():
    """Where no other ranks are there to ask the switch with."""
    wrong = _info.silent_switch()
    if wrong:
        return [finding(FAIL, wrong, "correct SWITCHML_SWITCH, or start switchml-switchd there and let UDP through")]
    named = os.environ.get("SWITCHML_SWITCH")
    return [finding(OK, f"the switch {named} adds for two ranks here")] if named else []


def check_memory():
    """Ranks of a host share sealed memory without a name."""
    try:
        handle = os.memfd_create("switchml-doctor", os.MFD_ALLOW_SEALING)
    except OSError as error:
        return finding(
            FAIL, f"memfd_create: {error}", "allow it (seccomp profile of the container); or SWITCHML_TRANSPORT=udp"
        )
    with contextlib.closing(os.fdopen(handle, "wb")) as file:
        try:
            file.truncate(1 << 20)
            fcntl.fcntl(handle, fcntl.F_ADD_SEALS, fcntl.F_SEAL_SHRINK | fcntl.F_SEAL_GROW)
        except OSError as error:
            return finding(FAIL, f"sealing memory: {error}", "use a kernel with memfd seals; or SWITCHML_TRANSPORT=udp")
    limit = resource.getrlimit(resource.RLIMIT_AS)[0]
    if limit != resource.RLIM_INFINITY:
        return finding(
            WARN, f"memory of a process is limited to {limit >> 20} MiB", "ulimit -v unlimited, or SWITCHML_ARENA=0"
        )
    return finding(OK, "ranks of this host can share memory")


def check_sockets():
    limit = pathlib.Path("/proc/sys/net/core/rmem_max")
    if not limit.exists():
        return finding(WARN, "/proc/sys/net/core/rmem_max cannot be read", "")
    allowed = int(limit.read_text())
    with socket.socket(socket.AF_INET, socket.SOCK_DGRAM) as made:
        with contextlib.suppress(OSError):
            made.setsockopt(socket.SOL_SOCKET, 33, SOCKET_BYTES)  # SO_RCVBUFFORCE, with CAP_NET_ADMIN
        granted = max(allowed, made.getsockopt(socket.SOL_SOCKET, socket.SO_RCVBUF) // 2)
    if granted < SOCKET_BYTES:
        return finding(
            WARN,
            f"sockets queue {granted >> 10} KiB at most, of {SOCKET_BYTES >> 10} KiB that a switch here asks for",
            f"sysctl net.core.rmem_max={SOCKET_BYTES} (or CAP_NET_ADMIN): more slots, more throughput",
        )
    return finding(OK, f"sockets queue {granted >> 20} MiB")


def check_processors():
    here = len(os.sched_getaffinity(0))
    ranks = _arguments.of_launcher("LOCAL_WORLD_SIZE", 1, _arguments.MOST_RANKS, "1")
    if ranks > here:
        return finding(WARN, f"{ranks} ranks on {here} processors: waiting ranks sleep instead of busy-polling",
                       "fewer ranks on this host, or more processors for the job")  # fmt: skip
    return finding(OK, f"{here} processors for {ranks} ranks of this host")


def of_this_host(alone):
    found = check_build()
    if alone and found[-1]["level"] == OK:
        found += check_switch()
    return [*found, check_memory(), check_sockets(), check_processors()]


# ---- all hosts ----


def lost(what, error):
    reason = str(error).partition("\n")[0]
    return finding(FAIL, f"{what}: {reason}", "is that rank there? If so, the store's TCP stalls: check the path's MTU")


class Job:
    """The ranks, and the store through which they tell each other what they have found."""

    def __init__(self, launched, patience):
        (self.rank, self.size, address, port), self.patience = launched, patience
        # torchrun serves the store at this address itself, and says so.
        served = os.environ.get("TORCHELASTIC_USE_AGENT_STORE") == "True"
        store = dist.TCPStore(address, port, self.size, self.rank == 0 and not served,
                              datetime.timedelta(seconds=patience))  # fmt: skip
        self.store = dist.PrefixStore("switchml-doctor", store)
        self.missed = []  # ranks whose findings did not come

    def share(self, topic, value):
        """What each rank says on a topic, by rank."""
        self.store.set(f"{topic}/{self.rank}", json.dumps(value))
        return [json.loads(self.store.get(f"{topic}/{rank}")) for rank in range(self.size)]

    def findings_of_all(self, own):
        """By rank. Those that do not come are a finding themselves; this rank's own need no store."""
        everything, patience = [], self.patience
        with contextlib.suppress(RuntimeError):  # a store that fails here fails below, too
            self.store.set(f"findings/{self.rank}", json.dumps(own))
        for rank in range(self.size):
            try:
                everything.append(own if rank == self.rank else self.findings_of(rank, patience))
            except RuntimeError as error:
                everything.append([lost(f"the findings of rank {rank} did not come", error)])
                patience = min(1.0, patience)  # the others had the same time
                self.missed.append(rank)
        return everything

    def told(self):
        """The ranks whose findings this one prints: it may be the only one that has its own."""
        if self.rank == 0:
            return range(self.size)
        return sorted([self.rank, *self.missed]) if self.missed else []

    def findings_of(self, rank, patience):
        self.store.wait([f"findings/{rank}"], datetime.timedelta(seconds=patience))
        return json.loads(self.store.get(f"findings/{rank}"))

    def part(self):
        """The store ends with rank 0's process, so that one is the last."""
        with contextlib.suppress(RuntimeError):  # all is said: who does not answer now is not waited for
            self.store.set(f"end/{self.rank}", "")
            if self.rank == 0:
                self.store.wait([f"end/{rank}" for rank in range(self.size) if rank not in self.missed])


def own_address():
    """The IPv4 address of the interface that is named, or the one that a packet to the master would carry."""
    if interface := os.environ.get("SWITCHML_INTERFACE", ""):
        with socket.socket(socket.AF_INET, socket.SOCK_DGRAM) as asked:
            packed = fcntl.ioctl(asked, 0x8915, struct.pack("256s", interface.encode()[:15]))  # SIOCGIFADDR
        return socket.inet_ntoa(packed[20:24])
    family, kind, _, _, master = socket.getaddrinfo(os.environ["MASTER_ADDR"], 9, type=socket.SOCK_DGRAM)[0]
    with socket.socket(family, kind) as routed:
        routed.connect(master)
        return socket.getnameinfo(routed.getsockname(), socket.NI_NUMERICHOST)[0]


def family_of(address):
    return socket.AF_INET6 if ":" in address else socket.AF_INET


class Responder:
    """Sends back every datagram, and takes connections, until all ranks are done."""

    def __init__(self, address):
        self.datagrams = socket.socket(family_of(address), socket.SOCK_DGRAM)
        self.datagrams.bind((address, 0))
        self.connections = socket.create_server((address, 0), family=family_of(address))
        self.place = [address, self.datagrams.getsockname()[1], self.connections.getsockname()[1]]

    def serve(self, is_over):
        self.datagrams.settimeout(0.05)
        while not is_over():
            with contextlib.suppress(OSError):
                packet, peer = self.datagrams.recvfrom(1 << 16)
                self.datagrams.sendto(packet, peer)

    def close(self):
        self.datagrams.close()
        self.connections.close()


def largest_datagram(address, port):
    """The largest of SIZES that goes there and back unfragmented; 0: none does."""
    family = family_of(address)
    with socket.socket(family, socket.SOCK_DGRAM) as probe:
        # IP_MTU_DISCOVER or IPV6_MTU_DISCOVER: never cut up.
        probe.setsockopt(*((socket.IPPROTO_IP, 10, 2) if family == socket.AF_INET else (socket.IPPROTO_IPV6, 23, 2)))
        probe.settimeout(ANSWER)
        with contextlib.suppress(OSError):  # no route: to send fails too
            probe.connect((address, port))
        if not comes_back(probe, SIZES[-1]):
            return 0
        return next(size for size in SIZES if size == SIZES[-1] or comes_back(probe, size))


def comes_back(probe, size):
    for _ in range(TRIES):
        try:
            probe.send(bytes(size))
            if len(probe.recv(1 << 16)) == size:
                return True
        except TimeoutError:
            continue
        except OSError:  # larger than this host's link, or refused
            break
    return False


def takes_connections(address, port):
    try:
        socket.create_connection((address, port), timeout=TRIES * ANSWER).close()
        return True
    except OSError:
        return False


def check_path(rank, place):
    address, datagrams, connections = place
    size, connected = largest_datagram(address, datagrams), takes_connections(address, connections)
    to = f"rank {rank} at {address}"
    if size == 0 and not connected:
        return finding(
            FAIL,
            f"{to}: neither UDP nor TCP arrives",
            "open the hosts' ephemeral ports to each other; name the interface: SWITCHML_INTERFACE",
        )
    if size == 0:
        takes_tcp = os.environ.get("SWITCHML_TRANSPORT", "auto") in ("auto", "tcp")
        return finding(
            WARN if takes_tcp else FAIL,
            f"{to}: TCP arrives, UDP does not",
            "open UDP between the hosts, or SWITCHML_TRANSPORT=tcp, which does not try it",
        )
    if not connected:
        return finding(FAIL, f"{to}: UDP arrives, TCP does not", "open the hosts' ephemeral TCP ports to each other")
    if size < SIZES[1]:
        return finding(
            WARN, f"{to}: datagrams of {size} bytes at most arrive unfragmented", "raise the path's MTU to 1500 or more"
        )
    return finding(OK, f"{to}: UDP of {size} bytes, and TCP")


def check_paths(job, address):
    """From this address, or if it is empty from one that no group has agreed on, to one rank of each other host; ranks
    of one host share memory."""
    try:
        address = address or own_address()
        responder = Responder(address)
    except OSError as error:
        job.share("place", None)
        job.share("tried", True)
        return [
            finding(FAIL, f"this host's address: {error}", "SWITCHML_INTERFACE must name an interface with an address")
        ]
    over = threading.Event()
    thread = threading.Thread(target=responder.serve, args=(over.is_set,), daemon=True)
    thread.start()
    try:
        places = job.share("place", responder.place)
        firsts = {place[0]: rank for rank, place in reversed(list(enumerate(places))) if place}
        found = [
            check_path(rank, places[rank])
            for host, rank in sorted(firsts.items(), key=lambda item: item[1])
            if host != address
        ]
        job.share("tried", True)
        return found
    finally:
        over.set()
        thread.join()
        responder.close()


def check_clocks(job):
    job.share("clock/ready", True)
    times = job.share("clock", time.time())
    skew = max(times) - min(times)
    if skew > SKEW:
        return finding(
            WARN, f"clocks of the hosts differ by up to {skew:.1f} s", "NTP or PTP, so that logs can be compared"
        )
    return finding(OK, f"clocks of all ranks within {skew:.2f} s")


def check_versions(job):
    versions = job.share("version", [switchml.__version__, torch.__version__])
    if len(set(map(tuple, versions))) > 1:
        return finding(FAIL, f"versions differ, by rank: {versions}", "install the same versions on all hosts")
    return finding(OK, f"all ranks have switchml {switchml.__version__} and PyTorch {torch.__version__}")


def pieces(of):
    """A rank's pieces for all ranks, or all ranks' for one: where they come from is in them."""
    return [torch.full((8,), 100.0 * of + rank) for rank in range(dist.get_world_size())]


def send_around():
    """Each rank to the next one."""
    rank, size = dist.get_rank(), dist.get_world_size()
    got = torch.empty(8)
    sent = dist.isend(torch.full((8,), float(rank)), (rank + 1) % size)
    dist.recv(got, (rank - 1) % size)
    sent.wait()
    return [got], [torch.full((8,), float((rank - 1) % size))]


def one_call_of_each_kind():
    """By name: what it gives, and what it should, both as lists."""
    rank, size = dist.get_rank(), dist.get_world_size()
    ranks = range(size)

    def all_reduce():
        dist.all_reduce(tensor := torch.full((1 << 18,), float(rank + 1)))
        return [tensor], [torch.full((1 << 18,), size * (size + 1) / 2)]

    def all_reduce_sparse():
        tensor = torch.sparse_coo_tensor([[rank]], [1.0], (size,))
        dist.all_reduce(tensor)
        return [tensor.to_dense()], [torch.ones(size)]

    def broadcast():
        dist.broadcast(tensor := torch.full((8,), float(rank)), size - 1)
        return [tensor], [torch.full((8,), float(size - 1))]

    def all_gather():
        dist.all_gather(got := pieces(-1), pieces(rank)[0])
        return got, [pieces(other)[0] for other in ranks]

    def reduce_scatter():
        dist.reduce_scatter(got := torch.empty(8), pieces(rank))
        return [got], [sum(pieces(other)[rank] for other in ranks)]

    def gather():
        dist.gather(pieces(rank)[0], got := pieces(-1) if rank == 0 else None, 0)
        return (got, [pieces(other)[0] for other in ranks]) if rank == 0 else ([], [])

    def scatter():
        dist.scatter(got := torch.empty(8), pieces(7) if rank == 0 else None, 0)
        return [got], [pieces(7)[rank]]

    def all_to_all():
        got = torch.empty(8 * size)
        dist.all_to_all_single(got, torch.cat(pieces(rank)))
        return [got], [torch.cat([pieces(other)[rank] for other in ranks])]

    def barrier():
        dist.barrier()
        return [], []

    calls = (all_reduce, all_reduce_sparse, broadcast, all_gather, reduce_scatter, gather, scatter, all_to_all, barrier)
    return {"send and recv": send_around, **{call.__name__: call for call in calls}}


def wrong_calls():
    """What is wrong with a call of each kind in the default group; empty if all are right."""
    for name, call in one_call_of_each_kind().items():
        try:
            got, expected = call()
        except (RuntimeError, ValueError) as error:
            return f"{name}: {error}"
        if not all(map(torch.equal, got, expected)):
            return f"{name}: a wrong result"
    return ""


def check_group(job):
    """And the address at which the others reach this host, if a group opens."""
    try:
        dist.init_process_group(
            "switchml",
            store=dist.PrefixStore("group", job.store),
            rank=job.rank,
            world_size=job.size,
            timeout=datetime.timedelta(seconds=0.75 * job.patience),  # others still wait for what this one finds
        )
    except Exception as error:
        return failed_group(error), ""
    session, wrong = switchml.stats()["session"], wrong_calls()
    try:
        dist.destroy_process_group()
    except RuntimeError as error:
        wrong = wrong or str(error)
    if wrong:
        return failed_group(wrong), session["address"]
    where = session["switch"] or "no switch"
    return (
        finding(
            OK,
            f"a group of all ranks adds, and makes every other call: transport {session['transport']}, "
            f"precision {session['precision']}, {where}",
        ),
        session["address"],
    )


def failed_group(why):
    remedy = "the message names rank and reason; docs/troubleshooting.md"
    return finding(FAIL, f"a group of all ranks: {why}", remedy)


def of_all_hosts(job):
    """As far as the store lets the ranks talk."""
    found = []
    try:
        found.append(check_versions(job))
        found.append(check_clocks(job))
        group, address = check_group(job)
        found += [*check_paths(job, address), group]
    except RuntimeError as error:
        found.append(lost("what another rank says did not come", error))
    return found


# ---- the report ----


def show(who, findings):
    for each in findings:
        print(f"{each['level']:<5} {who}{each['what']}")
        if each["remedy"]:
            print(f"      -> {each['remedy']}")


def has_failed(findings):
    return any(each["level"] == FAIL for each in findings)


def run_on_all(options, launched, findings):
    try:
        job = Job(launched, options.timeout)
    except RuntimeError as error:
        show("", [*findings, lost("this rank does not reach the store of rank 0", error)])
        return 1
    everything = job.findings_of_all(findings + of_all_hosts(job))
    if job.rank == 0:
        print(f"{job.size} ranks, rank 0 on {socket.gethostname()}")
    for rank in job.told():
        show(f"rank {rank}: ", everything[rank])
    sys.stdout.flush()  # before others are waited for
    job.part()
    return int(any(map(has_failed, everything)))


def run(options):
    launched = _arguments.launched() if "RANK" in os.environ else None
    findings = of_this_host(alone=launched is None)
    if launched:
        return run_on_all(options, launched, findings)
    show("", findings)
    return int(has_failed(findings))
