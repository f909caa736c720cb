"""Nodes of the lab as people set them up by hand: slices cut with NVML, containers started with docker run."""

from __future__ import annotations

import json
import re
import time
import urllib.request
from concurrent.futures import ThreadPoolExecutor

from tests.lab.fixtures import Lab

CUT = """
import sys
import pynvml as n
n.nvmlInit()
for order in sys.argv[1:]:
    index, profile, start, size, *computes = map(int, order.split(":"))
    gpu = n.nvmlDeviceGetHandleByIndex(index)
    n.nvmlDeviceSetMigMode(gpu, 1)
    place = n.c_nvmlGpuInstancePlacement_t(start, size)
    instance = n.nvmlDeviceCreateGpuInstanceWithPlacement(gpu, profile, n.byref(place))
    for compute in computes:
        n.nvmlGpuInstanceCreateComputeInstance(instance, compute)
"""
HALF, SEVENTH, QUARTER = 9, 19, 14
"""Profiles: 3g, 1g, 2g."""
MODELS = 4
"""An ensemble and its parts, in the directory that both servers have."""
BEGIN = 'set -e; run() { docker run -d "$@" >/dev/null; }; P=lab/pause:1; mkdir -p /srv/web\n'
ON_A1 = r"""
docker network create backend >/dev/null
run --name web --restart unless-stopped -p 8088:80 -p 127.0.0.1:9443:443/udp -p 8443 -v /srv/web:/usr/share/html:ro \
    -v web-data:/data -v /var/cache/unnamed $P sleep 1d
run --name odd -e 'A=${x} and "quotes"' -e B=1:0 -e C=off -e D=24.10 -e E=a=b=c -e 'F= blank ' -e G= -e 'H=two
lines' -e DB_PASSWORD=hunter2 -e 'I=$HOME' --label 'team=ml: infra' --label 'note=${y}' --stop-timeout 1 $P sleep 1d
run --name limits --memory 256m --cpus 0.5 --shm-size 128m --ulimit nofile=1024:2048 --cap-add SYS_NICE \
    --cap-drop NET_RAW --security-opt no-new-privileges --pids-limit 100 --init --read-only \
    --tmpfs /tmp:size=16m,mode=1777 --sysctl net.core.somaxconn=512 --stop-timeout 3 $P sleep 1d
run --name who --user 1000:1000 --workdir /tmp --hostname box --group-add 44 --entrypoint sleep $P 86400
run --name health --health-cmd 'test -d /tmp' --health-interval 30s --health-timeout 5s --health-retries 2 \
    --log-driver json-file --log-opt max-size=10m --log-opt max-file=3 $P sleep 1d
run --name api --network backend --network-alias api-v1 --add-host db:10.0.0.5 --dns 1.1.1.1 --restart on-failure:5 \
    $P sleep 1d
run --name worker-0 --gpus '"device=$0"' --stop-timeout 1 $P sleep 1d
run --name worker-1 --gpus '"device=$1"' $P sleep 1d
run --name paused $P sleep 1d; docker pause paused >/dev/null
"""
ON_H1 = r"""
run --name every --gpus all --stop-timeout 1 $P sleep 1d
run --name by-index --gpus '"device=0:1"' $P sleep 1d
run --name by-variable -e NVIDIA_VISIBLE_DEVICES=all $P sleep 1d
run --name several --gpus '"device=0:0,0:2"' --device /dev/zero:/dev/z:r $P sleep 1d
run --name triton --gpus '"device=0:0"' -p 8000:8000 -v /srv/models:/models --shm-size 256m lab/tritonserver:24.10-py3 \
    tritonserver --model-repository=/models --model-control-mode=explicit --load-model=sentiment
run --name by-itself -p 8010:8000 -v /srv/models:/models lab/tritonserver:24.10-py3 \
    tritonserver --model-repository=/models
"""
ON_T1 = r"""
run --name web --restart unless-stopped -p 8088:80 -v web-data:/data $P sleep 1d
run --name whole --gpus '"device=0"' --ipc shareable $P sleep 1d
run --name on-host --network host --ipc host --pid host $P sleep 1d
run --name alone --network none $P sleep 1d
docker run --name ended $P true
run --name passing --rm $P sleep 1d
"""


def set_up(lab: Lab) -> None:
    """All three nodes, side by side."""
    with ThreadPoolExecutor(3) as pool:
        list(pool.map(lambda act: act(lab), (_gpu_a1, _gpu_h1, _gpu_t1)))


def identities(lab: Lab) -> dict[str, dict[str, str]]:
    """Node → container → its id."""
    listed = ["docker", "ps", "-a", "--no-trunc", "--format", "{{.Names}} {{.ID}}"]
    return {node: dict(map(str.split, lab.run(node, listed).stdout.splitlines())) for node in lab.hosts}


def loaded(lab: Lab, port: int) -> list[str]:
    """The models that a server on gpu-h1 has READY; none while it does not answer."""
    address = f"http://{lab.hosts['gpu-h1'].address}:{port}/v2/repository/index"
    try:
        with urllib.request.urlopen(urllib.request.Request(address, b"{}"), timeout=10) as answer:
            return sorted(each["name"] for each in json.load(answer) if each.get("state") == "READY")
    except OSError:
        return []


def _gpu_a1(lab: Lab) -> None:
    _cut(lab, "gpu-a1", f"0:{HALF}:0:4:2", f"0:{SEVENTH}:4:1:0", f"0:{SEVENTH}:5:1:0")
    uuids = re.findall(r"MIG-[0-9a-f-]+", lab.run("gpu-a1", ["nvidia-smi", "-L"]).stdout)[1:]
    script = ON_A1
    for number, uuid in enumerate(uuids):
        script = script.replace(f"device=${number}", f"device={uuid}")
    lab.run("gpu-a1", ["sh", "-c", BEGIN + script])


def _gpu_h1(lab: Lab) -> None:
    _cut(lab, "gpu-h1", f"0:{HALF}:4:4:0:1", f"0:{SEVENTH}:0:1:0", f"0:{QUARTER}:2:2:1")
    lab.run("gpu-h1", ["sh", "-c", BEGIN + ON_H1])
    deadline = time.monotonic() + 60
    while not all(len(loaded(lab, port)) == MODELS for port in (8000, 8010)):
        assert time.monotonic() < deadline, "the servers do not load their models"
        time.sleep(0.1)


def _gpu_t1(lab: Lab) -> None:
    lab.run("gpu-t1", ["sh", "-c", BEGIN + ON_T1])


def _cut(lab: Lab, node: str, *orders: str) -> None:
    """INDEX:PROFILE:START:SIZE[:COMPUTE…] each."""
    lab.run(node, ["python3", "-c", CUT, *orders])
