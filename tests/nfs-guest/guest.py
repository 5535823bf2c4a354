"""What is played in the machine of run.sh: two NFS servers of the kernel (each in a network namespace, at the other end of a veth), two agents of
this one machine (n1 with the built-in scrubber, n2 with processes), and pods with volumes of the servers."""

import json
import os
import re
import shutil
import signal
import subprocess
import sys
import time
import traceback
import urllib.error
import urllib.request

URL = "http://127.0.0.1:8080"
ORLOP = "/usr/local/bin/orlop"
V1 = "/api/v1"
PODS = f"{V1}/namespaces/default/pods"
CLAIMS = f"{V1}/namespaces/default/persistentvolumeclaims"
VOLUMES = f"{V1}/persistentvolumes"
EVENTS = f"{V1}/namespaces/default/events"
DEADLINE = "Pod was active on the node longer than the specified deadline"
BEGUN = time.monotonic()


def say(text):
    print(f"== {time.monotonic() - BEGUN:6.1f} s  {text}", flush=True)


def api(method, path, body=None, kind="application/json"):
    data = None if body is None else json.dumps(body).encode()
    request = urllib.request.Request(URL + path, data, {"content-type": kind}, method=method)
    try:
        with urllib.request.urlopen(request, timeout=60) as answer:
            return json.load(answer)
    except urllib.error.HTTPError as error:
        if error.code == 404:
            return None
        raise RuntimeError(f"{method} {path}: {error.read().decode()}") from error


def patch(path, body):
    return api("PATCH", path, body, "application/merge-patch+json")


def until(what, ask, patience=180):
    """Asks until the answer is true. The error at the deadline contains the last answer."""
    begun, last = time.monotonic(), None
    while time.monotonic() - begun < patience:
        try:
            last = ask()
        except Exception as error:  # the server may not be there yet
            last = None
            seen = error
        else:
            seen = last
        if last:
            return last
        time.sleep(0.2)
    raise AssertionError(f"waited {patience} s for: {what}; seen last: {seen}")


def shell(command, check=True):
    done = subprocess.run(["sh", "-ec", command], capture_output=True, text=True)
    if check and done.returncode:
        raise AssertionError(f"{command}: {done.returncode}: {done.stdout}{done.stderr}")
    return done


# === servers ===


class Nas:
    """A server in a network namespace. What it exports is /exports/NAME/data there, a tmpfs; `fresh` makes that another file system."""

    def __init__(self, name, net):
        self.name, self.address = name, f"{net}.2"
        self.data = f"/exports/{name}/data"
        os.makedirs(self.data)
        shell(
            f"ip netns add {name}; ip link add v{name} type veth peer name eth0 netns {name};"
            f"ip addr add {net}.1/24 dev v{name}; ip link set v{name} up;"
            f"ip -n {name} addr add {self.address}/24 dev eth0; ip -n {name} link set eth0 up; ip -n {name} link set lo up"
        )
        # A mount namespace for the files of the server, of a process that does nothing.
        self.holder = subprocess.Popen(["ip", "netns", "exec", name, "sleep", "1000000"])
        until("the namespace", lambda: os.readlink(f"/proc/{self.holder.pid}/exe").endswith(("sleep", "coreutils", "busybox")))
        os.makedirs(f"/srv/{name}", exist_ok=True)
        self.run(
            f"mount --make-rprivate /; mount -t tmpfs tmpfs /var/lib/nfs; mkdir -p /var/lib/nfs/v4recovery /var/lib/nfs/rpc_pipefs;"
            f"touch /var/lib/nfs/etab /var/lib/nfs/rmtab; mount -t tmpfs tmpfs /run;"
            f"mount -t nfsd nfsd /proc/fs/nfsd; mount -t tmpfs tmpfs {self.data};"
            "echo 10 >/proc/fs/nfsd/nfsv4leasetime; echo 10 >/proc/fs/nfsd/nfsv4gracetime; rpcbind -w || rpcbind;"
            f"mkdir -p {self.data}/v1"
        )
        self.start()

    def run(self, command, check=True):
        return shell(f"nsenter -t {self.holder.pid} -m -n sh -ec '{command}'", check)

    def start(self):
        with open(f"/exports/{self.name}/exports", "w") as file:
            file.write(f"{self.data} *(rw,no_root_squash,insecure,no_subtree_check,fsid=1)\n")
        self.run(
            f"mount --bind /exports/{self.name}/exports /etc/exports; exportfs -ra;"
            "rpc.nfsd 4; test -e /run/mountd || rpc.mountd; touch /run/mountd"
        )

    def stop(self):
        self.run("rpc.nfsd 0; exportfs -ua")

    def fresh(self):
        self.run(f"umount {self.data}; mount -t tmpfs tmpfs {self.data}; mkdir -p {self.data}/v1")

    def link(self, state):
        shell(f"ip link set v{self.name} {state}")

    def files(self):
        return self.run(f"cd {self.data}; find . -mindepth 1").stdout.split()

    def read(self, name):
        return self.run(f"cat {self.data}/{name}").stdout


# === the plane ===


class Agent:
    def __init__(self, name, runtime):
        self.name, self.root = name, f"/nodes/{name}"
        self.args = [ORLOP, "node", f"--name={name}", f"--server={URL}", f"--root-dir={self.root}", f"--runtime={runtime}", "--port=0"]
        self.start()

    def start(self):
        self.log = open(f"/tmp/{self.name}.log", "ab")
        self.process = subprocess.Popen(self.args, stdout=self.log, stderr=self.log)

    def restart(self):
        self.process.send_signal(signal.SIGKILL)
        self.process.wait()
        self.start()

    def is_ready(self):
        if self.process.poll() is not None:
            raise SystemExit(f"the agent {self.name} has ended")
        node = api("GET", f"{V1}/nodes/{self.name}")
        conditions = {one["type"]: one["status"] for one in node["status"].get("conditions", [])}
        return conditions.get("Ready") == "True" and not node["spec"].get("taints")

    def takes(self, takes):
        patch(f"{V1}/nodes/{self.name}", {"spec": {"unschedulable": not takes}})
        until("its taint", lambda: bool((api("GET", f"{V1}/nodes/{self.name}")["spec"]).get("taints")) != takes)

    def path(self, pod, volume):
        uid = api("GET", f"{PODS}/{pod}")["metadata"]["uid"]
        return f"{self.root}/pods/{uid}/volumes/kubernetes.io~nfs/{volume}"

    def mounts(self):
        with open("/proc/self/mountinfo") as table:
            lines = [line.split(" - ") for line in table]
        found = [(left.split()[4], *right.split()[:2], left.split()[5]) for left, right in lines]
        return [mount for mount in found if mount[0].startswith(self.root)]

    def pods_left(self):
        return os.listdir(f"{self.root}/pods") if os.path.isdir(f"{self.root}/pods") else []


def volume(name, nas, path="", **more):
    spec = {"capacity": {"storage": "1Gi"}, "accessModes": ["ReadWriteMany"], "storageClassName": "",
            "persistentVolumeReclaimPolicy": "Retain", "nfs": {"server": nas.address, "path": nas.data + path}}
    api("POST", VOLUMES, {"metadata": {"name": name}, "spec": {**spec, **more}})
    claim(name)


def claim(name):
    api("POST", CLAIMS, {"metadata": {"name": name}, "spec": {"accessModes": ["ReadWriteMany"], "storageClassName": "",
        "volumeName": name, "resources": {"requests": {"storage": "1Gi"}}}})
    until(f"claim {name} bound", lambda: api("GET", f"{CLAIMS}/{name}")["status"].get("phase") == "Bound")


def pod(name, agent, claim, read_only=False):
    source = {"persistentVolumeClaim": {"claimName": claim, "readOnly": read_only}} if claim else {"emptyDir": {}}
    api("POST", PODS, {"metadata": {"name": name}, "spec": {"nodeName": agent.name, "automountServiceAccountToken": False,
        "terminationGracePeriodSeconds": 1, "volumes": [{"name": "v", **source}],
        "containers": [{"name": "c", "image": "i", "volumeMounts": [{"name": "v", "mountPath": "/v"}]}]}})


def phase(path):
    found = api("GET", path)
    return found and found["status"].get("phase")


def runs(name, patience=180):
    begun = time.monotonic()
    until(f"{name} runs", lambda: phase(f"{PODS}/{name}") == "Running", patience)
    return time.monotonic() - begun


def gone(path, patience=180):
    begun = time.monotonic()
    until(f"{path} gone", lambda: api("GET", path) is None, patience)
    return time.monotonic() - begun


def events(about, reason):
    found = api("GET", EVENTS)["items"]
    return [one["message"] for one in found if one["involvedObject"]["name"] == about and one["reason"] == reason]


def expect(is_so, what):
    if not is_so:
        raise AssertionError(what)


# === what is played ===


def mounting(a, b, n1, n2):
    """Mounted, written, read-only beside it, unmounted."""
    volume("pv-1", a)
    pod("writer", n1, "pv-1")
    took = runs("writer")
    path = n1.path("writer", "pv-1")
    mount = next(mount for mount in n1.mounts() if mount[0] == path)
    expect(mount[1].startswith("nfs") and mount[2] == f"{a.address}:{a.data}", mount)
    with open(f"{n1.root}/by-name/default/writer/v/file", "w") as file:
        file.write("by the pod")
    expect(a.read("file") == "by the pod", a.files())
    pod("reader", n1, "pv-1", read_only=True)
    runs("reader")
    reader = n1.path("reader", "pv-1")
    with open(f"{reader}/file") as file:
        expect(file.read() == "by the pod", "the other pod sees it")
    try:
        open(f"{reader}/other", "w")
        raise AssertionError("a read-only volume was written to")
    except OSError as error:
        expect(error.errno == 30, error)
    with open(f"{path}/third", "w") as file:
        file.write("still writable")
    for name in ["writer", "reader"]:
        api("DELETE", f"{PODS}/{name}")
        gone(f"{PODS}/{name}")
    until("nothing is left", lambda: not n1.mounts() and not n1.pods_left())
    expect(sorted(a.files()) == ["./file", "./third", "./v1"], a.files())
    return f"{mount[1]} {mount[2]}, running after {took:.1f} s"


def version_3(a, b, n1, n2):
    """Mount options reach mount.nfs."""
    volume("pv-3", b, mountOptions=["nfsvers=3", "nolock", "proto=tcp", "hard"])
    pod("old", n1, "pv-3")
    runs("old")
    mount = next(mount for mount in n1.mounts() if mount[0] == n1.path("old", "pv-3"))
    expect(mount[1] == "nfs", mount)
    api("DELETE", f"{PODS}/old")
    gone(f"{PODS}/old")
    until("nothing is left", lambda: not n1.mounts())
    return f"{mount[1]} with nfsvers=3"


def words(a, b, n1, n2):
    """What mount.nfs says comes to the pod: a name that is none, an export that is none."""
    for name, address, path, wanted in [
        ("pv-name", "172.16.51.58.1", "/", "mount.nfs: Failed to resolve server 172.16.51.58.1: Name or service not known"),
        ("pv-path", a.address, "/nowhere", f"mount.nfs: mounting {a.address}:/nowhere failed, reason given by server: No such file or directory"),
    ]:
        volume(name, a, nfs={"server": address, "path": path})
        pod(name, n1, name)
        text = until("FailedMount", lambda: events(name, "FailedMount"))[0]
        expect(text.startswith(f'MountVolume.SetUp failed for volume "{name}" : '), text)
        expect(wanted in text, text)
        api("DELETE", f"{PODS}/{name}")
        gone(f"{PODS}/{name}")
    until("nothing is left", lambda: not n1.mounts() and not n1.pods_left())
    return "as upstream has it"


def hanging(a, b, n1, n2):
    """A server that says nothing any more holds up its own pods, and they go when they are deleted all the same."""
    volume("pv-a", a)
    volume("pv-b", b)
    pod("on-a", n1, "pv-a")
    runs("on-a")
    a.link("down")
    deleted = time.monotonic()
    api("DELETE", f"{PODS}/on-a")
    pod("on-a-too", n1, "pv-a")
    pod("on-b", n1, "pv-b")
    pod("on-nothing", n1, None)
    well = runs("on-nothing", 60), runs("on-b", 60)
    expect(phase(f"{PODS}/on-a-too") == "Pending", "it waits for its server")
    b_path = n1.path("on-b", "pv-b")
    open(f"{b_path}/file", "w").close()
    api("DELETE", f"{PODS}/on-b")
    b_gone = gone(f"{PODS}/on-b", 60)
    gone(f"{PODS}/on-a", 300)
    a_gone = time.monotonic() - deleted
    expect(not [mount for mount in n1.mounts() if mount[0].endswith("/pv-a")], n1.mounts())
    node = api("GET", f"{V1}/nodes/n1")
    ready = {one["type"]: one["status"] for one in node["status"]["conditions"]}["Ready"]
    expect(ready == "True", "the node is well")
    expect(phase(f"{PODS}/on-a-too") == "Pending", "it still waits")
    a.link("up")
    back = runs("on-a-too", 300)
    for name in ["on-a-too", "on-nothing"]:
        api("DELETE", f"{PODS}/{name}")
        gone(f"{PODS}/{name}")
    until("nothing is left", lambda: not n1.mounts() and not n1.pods_left())
    return (f"others ran after {max(well):.1f} s and went in {b_gone:.1f} s; its own pod was gone {a_gone:.1f} s after its deletion (or before), without the server; "
            f"the waiting one ran {back:.1f} s after the server was back")


def stale(a, b, n1, n2):
    """The server comes back with another file system: what was mounted is of no use, and is mounted anew."""
    # Not the export itself, whose handle is the same on every file system.
    volume("pv-stale", a, "/v1")
    pod("stays", n1, "pv-stale")
    runs("stays")
    path = n1.path("stays", "pv-stale")
    open(f"{path}/old", "w").close()
    a.stop()
    a.fresh()
    a.run(f"touch {a.data}/v1/new")
    a.start()
    try:
        seen = sorted(os.listdir(path))
    except OSError as error:
        seen = error.strerror
    n1.restart()
    until("the new file system is there", lambda: "new" in os.listdir(path))
    expect("old" not in os.listdir(path), os.listdir(path))
    expect(len([mount for mount in n1.mounts() if mount[0] == path]) == 1, n1.mounts())
    open(f"{path}/written", "w").close()
    expect("./v1/written" in a.files(), a.files())
    api("DELETE", f"{PODS}/stays")
    gone(f"{PODS}/stays")
    until("nothing is left", lambda: not n1.mounts() and not n1.pods_left())
    expect(seen == "Stale file handle", seen)
    return f"what the pod had was a {seen.lower()}, until the agent looked at it again"


def fill(nas):
    nas.run(f"cd {nas.data}/v1; find . -mindepth 1 -delete; mkdir -p a/b .hidden; touch file .file a/b/.file .hidden/file; ln -s /etc link; echo kept >../kept")
    expect(len([name for name in nas.files() if name.startswith("./v1/")]) == 8, nas.files())


def recycled(a, agent, other, name):
    other.takes(False)
    try:
        fill(a)
        volume(name, a, "/v1", persistentVolumeReclaimPolicy="Recycle")
        begun = time.monotonic()
        api("DELETE", f"{CLAIMS}/{name}")
        until("Available", lambda: phase(f"{VOLUMES}/{name}") == "Available")
        took = time.monotonic() - begun
        expect(not [one for one in a.files() if one.startswith("./v1/")], a.files())
        expect("./kept" in a.files() and "./v1" in a.files(), a.files())
        expect("Volume recycled" in events(name, "VolumeRecycled"), events(name, "VolumeRecycled"))
        gone(f"{PODS}/recycler-for-{name}")
        claim(name)
        until("nothing is left", lambda: not agent.mounts() and not agent.pods_left())
        return f"empty and Available after {took:.1f} s, bound anew"
    finally:
        other.takes(True)


def scrubbed(a, b, n1, n2):
    """Policy Recycle, emptied by the agent itself."""
    return recycled(a, n1, n2, "pv-scrub")


def scripted(a, b, n1, n2):
    """Policy Recycle, emptied by the pod's script."""
    return recycled(a, n2, n1, "pv-script")


def late(a, b, n1, n2):
    """Policy Recycle, and the server is away: the volume fails when the time of its pod is over, and is emptied when the server is back."""
    n2.takes(False)
    try:
        fill(a)
        volume("pv-late", a, "/v1", persistentVolumeReclaimPolicy="Recycle")
        a.link("down")
        api("DELETE", f"{CLAIMS}/pv-late")
        until("Failed", lambda: phase(f"{VOLUMES}/pv-late") == "Failed")
        text = api("GET", f"{VOLUMES}/pv-late")["status"]["message"]
        expect(text == f"Recycle failed: failed to recycle volume: {DEADLINE}", text)
        expect(text in events("pv-late", "VolumeFailedRecycle"), events("pv-late", "VolumeFailedRecycle"))
        a.link("up")
        begun = time.monotonic()
        until("Available", lambda: phase(f"{VOLUMES}/pv-late") == "Available", 400)
        expect(not [one for one in a.files() if one.startswith("./v1/")], a.files())
        until("nothing is left", lambda: not n1.mounts() and not n1.pods_left(), 400)
        return f"Failed ({text}), Available {time.monotonic() - begun:.1f} s after the server was back"
    finally:
        a.link("up")
        n2.takes(True)


PARTS = [mounting, version_3, words, scrubbed, scripted, stale, hanging, late]


def logs():
    for name in ["server", "n1", "n2"]:
        print(shell(f"tail -n 40 /tmp/{name}.log", check=False).stdout, flush=True)
    print(shell("dmesg | tail -n 20", check=False).stdout, flush=True)


def main():
    with open("/proc/cmdline") as line:
        only = re.search(r"only=(\S+)", line.read()).group(1).split(",")
    a, b = Nas("a", "10.0.0"), Nas("b", "10.1.0")
    say("two servers")
    log = open("/tmp/server.log", "ab")
    subprocess.Popen([ORLOP, "serve", "--listen=127.0.0.1:8080", "--data-dir=/tmp/data", "--pvclaimbinder-sync-period=5s",
        "--pv-recycler-minimum-timeout-nfs=20", "--pv-recycler-increment-timeout-nfs=0"], stdout=log, stderr=log)
    until("the API", lambda: api("GET", f"{V1}/nodes"))
    n1, n2 = Agent("n1", "none"), Agent("n2", "process")
    for agent in [n1, n2]:
        until(f"{agent.name} is ready", agent.is_ready)
    say("a server and two nodes")
    failed, played = [], 0
    for part in PARTS:
        if only != ["all"] and part.__name__ not in only:
            continue
        played += 1
        try:
            say(f"well    {part.__name__}: {part(a, b, n1, n2)}")
        except Exception:
            failed.append(part.__name__)
            say(f"FAILED  {part.__name__}: {part.__doc__}")
            traceback.print_exc()
            print(n1.mounts(), n2.mounts(), flush=True)
            a.link("up")
    if failed:
        logs()
    say(f"{played} parts")
    print(f"== VERDICT: {'FAILED: ' + ', '.join(failed) if failed else 'well'}", flush=True)


try:
    main()
except BaseException:
    traceback.print_exc()
    logs()
    print("== VERDICT: FAILED: it could not be played", flush=True)
    sys.exit(1)
