"""Which backends Triton's images have, by release and kind of image."""

from __future__ import annotations

import re

BACKENDS = frozenset(
    {
        "python", "onnxruntime", "tensorrt", "pytorch", "tensorflow", "openvino", "dali", "fil", "identity", "repeat",
        "square", "vllm", "tensorrtllm", "ensemble", "armnn_tflite", "redis", "paddle", "huggingface",
    }
)  # fmt: skip
"""Backends that are built from a repository of triton-inference-server, or are widely used with it."""
_LAST = {"tensorflow": "25.02"}
"""The last release whose images have a backend."""
_FLAVOURS = {
    "vllm-python-py3": frozenset({"vllm", "python", "identity"}),
    "trtllm-python-py3": frozenset({"tensorrtllm", "python", "identity"}),
    "pyt-python-py3": frozenset({"pytorch", "python", "identity"}),
    "tf2-python-py3": frozenset({"tensorflow", "python", "identity"}),
    "py3-min": frozenset[str](),
}
"""Tag after the release → the backends of that image of NVIDIA's (customization_guide/compose.md, build.py)."""
_FULL = frozenset({"vllm", "tensorrtllm"})
"""Backends that the plain -py3 image does not have."""
_OFFICIAL = re.compile(r"^nvcr\.io/nvidia/tritonserver:\d\d\.\d\d-(?P<flavour>[\w-]+?)(?:@.*)?$")


def missing_in(image: str, release: str, backend: str) -> str | None:
    """Why one of NVIDIA's images does not have a backend; None where it has it, or where nobody knows.

    Only images of nvcr.io/nvidia are judged: others may hold anything under any tag.
    """
    match = _OFFICIAL.match(image)
    if match is None or backend not in BACKENDS:
        return None
    flavour = match["flavour"]
    if flavour in _FLAVOURS:
        here = _FLAVOURS[flavour]
        return None if backend in here else f"the image has {', '.join(sorted(here)) or 'no backend at all'}"
    if flavour != "py3":
        return None
    if (last := _LAST.get(backend)) and release > last:
        return f"{last} was the last release with it, and the image is {release}"
    if backend in _FULL:
        return f"it is in the image {release}-{'trtllm' if backend == 'tensorrtllm' else backend}-python-py3"
    return None
