"""Failures in the words of docs/agent.md: one code and what the node said."""

from __future__ import annotations

import errno

NVML_CODES = {
    2: "invalid",
    3: "not_supported",
    4: "no_permission",
    6: "not_found",
    9: "no_driver",
    10: "timeout",
    12: "no_library",
    13: "not_supported",
    15: "gpu_is_lost",
    16: "reset_required",
    18: "driver_mismatch",
    19: "in_use",
    23: "insufficient_resources",
}
"""NVML's return values (nvml.h, nvmlReturn_t) that have a word of ours; the others are `unexpected`."""

ERRNO_CODES = {
    errno.ENOSPC: "disk_full",
    errno.EDQUOT: "disk_full",
    errno.EACCES: "no_permission",
    errno.EPERM: "no_permission",
    errno.EROFS: "no_permission",
    errno.ENOENT: "not_found",
}


class Failure(Exception):
    """An operation or a probe has no answer; `code` is a word of docs/agent.md, `text` what the node said."""

    def __init__(self, code: str, text: str) -> None:
        super().__init__(text)
        self.code = code
        self.text = text

    def to_json(self) -> dict[str, object]:
        """The `error` object of an answer."""
        return {"code": self.code, "text": self.text}


def explain(error: BaseException) -> Failure:
    """Any exception as a Failure. NVML's are known by their class name, since the module differs in a simulation."""
    if isinstance(error, Failure):
        return error
    text = str(error) or type(error).__name__
    if any(kind.__name__ == "NVMLError" for kind in type(error).__mro__):
        return Failure(NVML_CODES.get(getattr(error, "value", 0), "unexpected"), text)
    if isinstance(error, OSError):
        return Failure(ERRNO_CODES.get(error.errno or 0, "unexpected"), text)
    return Failure("unexpected", "{}: {}".format(type(error).__name__, text))
