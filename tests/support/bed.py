"""Real hosts on one machine: network namespaces with host names, addresses and sshds of their own, joined by a switch.

Each host is a network namespace and a UTS namespace (its host name), kept alive by its sshd. A bridge in one more
namespace is the switch. mpirun starts on the first host and reaches the others through ssh, as on a cluster; what
MPI sends between hosts crosses a link whose rate and counters are the kernel's, not ours.

The hosts share this machine's cores and its monotonic clock. Needs root, sshd, ip, tc, nsenter and unshare.
"""

from __future__ import annotations

import itertools
import json
import os
import shutil
import signal
import subprocess
import time
from collections.abc import Sequence
from contextlib import suppress
from pathlib import Path

from tests.support.commands import BIN, Finished, environment, is_open_mpi, mpi_hostfile
from tests.support.link import BURST_SECONDS, Counters, bytes_per_second

PACKAGES = {
    "sshd": "openssh-server",
    "ssh": "openssh-client",
    "ip": "iproute2",
    "tc": "iproute2",
    "nsenter": "util-linux",
    "unshare": "util-linux",
}
NETWORK = "10.77.0"
PORT = 2222
# MPICH's UCX tells machines apart by their kernel, which all hosts share: it would go through memory, not the link.
WIRED = {"UCX_TLS": "tcp,self", "UCX_NET_DEVICES": "eth0"}
# The link is to be the limit, not what else this machine does.
NICE = "-15"
TIME_LIMIT = 120
_numbers = itertools.count()


def why_not() -> str:
    """What is missing to build a bed here; empty if nothing is."""
    if os.geteuid():
        return "needs root, for network namespaces"
    missing = [f"{program} (Debian package {package})" for program, package in PACKAGES.items() if not find(program)]
    return "needs " + ", ".join(missing) if missing else ""


def find(program: str) -> str:
    """The path of a program, also where only root looks; empty if there is none."""
    return shutil.which(program, path=f"{os.environ['PATH']}:/usr/sbin:/sbin") or ""


def command(*words: str) -> str:
    """What a command prints; it must succeed."""
    done = subprocess.run([find(words[0]), *words[1:]], capture_output=True, text=True)
    if done.returncode:
        raise RuntimeError(f"{' '.join(words)}: {done.stderr.strip()}")
    return done.stdout


class Bed:
    """Hosts node1, node2, … and the links between them. A context: what it built is gone afterwards."""

    def __init__(self, hosts: int, folder: Path) -> None:
        self.folder = folder
        self.hosts = list(range(1, hosts + 1))
        self.stem = f"fedmpi-{os.getpid()}-{next(_numbers)}"
        self.switch = f"{self.stem}-switch"
        self.sshds: dict[int, subprocess.Popen[bytes]] = {}
        self.environment = environment(PRTE_MCA_plm_ssh_agent=str(folder / "agent"), **WIRED)

    def __enter__(self) -> Bed:
        try:
            self._write_keys()
            command("ip", "netns", "add", self.switch)
            command("ip", "-n", self.switch, "link", "add", "bridge0", "type", "bridge")
            command("ip", "-n", self.switch, "link", "set", "bridge0", "up")
            for host in self.hosts:
                self._add_host(host)
            for host in self.hosts:
                self._await_sshd(host)
        except BaseException:
            self.__exit__()
            raise
        return self

    def __exit__(self, *why: object) -> None:
        names = [self.namespace(host) for host in self.hosts]
        # Everything in our namespaces was started by us: sshds, and what a failed job may have left.
        for pid in self.processes():
            with suppress(ProcessLookupError):
                os.kill(pid, signal.SIGKILL)
        for sshd in self.sshds.values():
            sshd.wait()
        for name in [*names, self.switch]:
            with suppress(RuntimeError):
                command("ip", "netns", "del", name)
            shutil.rmtree(f"/etc/netns/{name}", ignore_errors=True)
        with suppress(OSError):
            os.rmdir("/etc/netns")

    def namespace(self, host: int) -> str:
        return f"{self.stem}-node{host}"

    def processes(self) -> list[int]:
        """All processes of the hosts."""
        found: list[int] = []
        for host in self.hosts:
            with suppress(RuntimeError):
                found += map(int, command("ip", "netns", "pids", self.namespace(host)).split())
        return found

    def hostfile(self, slots: Sequence[int]) -> Path:
        """A hostfile that gives so many ranks to each host."""
        path = self.folder / "hostfile"
        path.write_text(mpi_hostfile({f"node{host}": count for host, count in zip(self.hosts, slots, strict=True)}))
        return path

    def on(self, host: int, *words: str | Path, time_limit: float = TIME_LIMIT, **env: str) -> Finished:
        """Run a command on a host, in the bed's folder."""
        inside = ["nsenter", f"--target={self.sshds[host].pid}", "--net", "--uts", "--mount", f"--wd={self.folder}"]
        full = ["nice", "-n", NICE, *inside, *map(str, words)]
        settings = {**self.environment, **env}
        with subprocess.Popen(
            full, stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True, env=settings, start_new_session=True
        ) as process:
            try:
                out, err = process.communicate(timeout=time_limit)
            except BaseException:
                os.killpg(process.pid, signal.SIGKILL)
                raise
        return subprocess.CompletedProcess(full, process.returncode, out, err)

    def run(self, slots: Sequence[int], *words: str | Path, time_limit: float = TIME_LIMIT, **env: str) -> Finished:
        """Run a command under mpirun, with so many ranks on each host, from the first one."""
        launch = [BIN / "mpirun", "-n", str(sum(slots))]
        if is_open_mpi():
            # Each host would bind its first rank to core 0, not knowing that it shares that core with the other hosts.
            launch += ["--bind-to", "none", "--prefix", BIN.parent, "--hostfile", self.hostfile(slots)]
            launch += [word for name in env for word in ("-x", name)]
        else:
            launch += ["-launcher", "ssh", "-launcher-exec", self.folder / "agent", "-f", self.hostfile(slots)]
        return self.on(1, *launch, *words, time_limit=time_limit, **env)

    def fedmpi(self, slots: Sequence[int], *words: str | Path, **options: str) -> None:
        """Run fedmpi under mpirun; it must succeed."""
        done = self.run(slots, BIN / "fedmpi", *words, **options)
        assert done.returncode == 0, done.stderr

    def rate(self, rate: str) -> None:
        """Limit every link, in both directions, to a rate that tc understands, such as 200mbit."""
        burst = str(round(bytes_per_second(rate) * BURST_SECONDS))
        shape = ["tbf", "rate", rate, "burst", burst, "latency", "400ms"]
        for host in self.hosts:
            self._tc(self.namespace(host), "eth0", *shape)
            self._tc(self.switch, f"port{host}", *shape)

    def cut(self, host: int) -> None:
        """Pull a host's cable."""
        command("ip", "-n", self.switch, "link", "set", f"port{host}", "down")

    def restore(self, host: int) -> None:
        command("ip", "-n", self.switch, "link", "set", f"port{host}", "up")

    def sent(self, host: int) -> Counters:
        """What the kernel has counted on a host's interface so far."""
        shown = json.loads(command("ip", "-n", self.namespace(host), "-s", "-j", "link", "show", "dev", "eth0"))
        sent = shown[0]["stats64"]["tx"]
        names, values = (
            line.split()
            for line in Path(f"/proc/{self.sshds[host].pid}/net/snmp").read_text().splitlines()
            if line.startswith("Tcp:")
        )
        return Counters(sent["bytes"], sent["packets"], int(values[names.index("RetransSegs")]))

    def _tc(self, namespace: str, device: str, *shape: str) -> None:
        command("tc", "-n", namespace, "qdisc", "replace", "dev", device, "root", *shape)

    def _write_keys(self) -> None:
        for name in ["key", *(f"host{host}" for host in self.hosts)]:
            command("ssh-keygen", "-q", "-t", "ed25519", "-N", "", "-f", str(self.folder / name))
        options = "-o StrictHostKeyChecking=no -o UserKnownHostsFile=/dev/null -o LogLevel=ERROR -o BatchMode=yes"
        agent = self.folder / "agent"
        agent.write_text(f'#!/bin/sh\nexec ssh -F /dev/null -i {self.folder}/key -p {PORT} {options} "$@"\n')
        agent.chmod(0o755)

    def _add_host(self, host: int) -> None:
        name, port = self.namespace(host), f"port{host}"
        command("ip", "netns", "add", name)
        command("ip", "-n", name, "link", "set", "lo", "up")
        command(
            "ip", "link", "add", "eth0", "netns", name, "type", "veth", "peer", "name", port, "netns", self.switch
        )  # fmt: skip
        command("ip", "-n", name, "addr", "add", f"{NETWORK}.{host}/24", "dev", "eth0")
        # One packet at a time, as on a real wire: otherwise the counters see 64 KB with one header.
        command("ip", "-n", name, "link", "set", "eth0", "gso_max_segs", "1", "up")
        command("ip", "-n", self.switch, "link", "set", port, "master", "bridge0", "up")
        # `ip netns exec` shows these files to its command in place of /etc's.
        own_etc = Path("/etc/netns") / name
        own_etc.mkdir(parents=True)
        lines = ["127.0.0.1 localhost", *(f"{NETWORK}.{other} node{other}" for other in self.hosts)]
        (own_etc / "hosts").write_text("\n".join(lines) + "\n")
        self.sshds[host] = self._start_sshd(host)

    def _start_sshd(self, host: int) -> subprocess.Popen[bytes]:
        config = self.folder / f"sshd{host}.conf"
        settings = {
            "Port": PORT,
            "ListenAddress": f"{NETWORK}.{host}",
            "HostKey": self.folder / f"host{host}",
            "AuthorizedKeysFile": self.folder / "key.pub",
            "PermitRootLogin": "prohibit-password",
            "StrictModes": "no",
            "UsePAM": "no",
            "PidFile": "none",
        }
        config.write_text("".join(f"{name} {value}\n" for name, value in settings.items()))
        # sshd refuses to start without this directory, which the system makes only when its own sshd starts.
        Path("/run/sshd").mkdir(exist_ok=True)
        begin = f"hostname node{host}; exec {find('sshd')} -D -e -f {config}"
        inside = ["ip", "netns", "exec", self.namespace(host), "unshare", "--uts", "sh", "-c", begin]
        with (self.folder / f"sshd{host}.log").open("wb") as log:
            return subprocess.Popen(["nice", "-n", NICE, *inside], stderr=log, stdin=subprocess.DEVNULL)

    def _await_sshd(self, host: int) -> None:
        deadline = time.monotonic() + 20
        log = self.folder / f"sshd{host}.log"
        while "listening" not in log.read_text():
            if self.sshds[host].poll() is not None or time.monotonic() > deadline:
                raise RuntimeError(f"the sshd of node{host} did not start: {log.read_text()}")
            time.sleep(0.02)
