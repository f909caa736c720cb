"""The program that holds CUDA shared memory inside a container. It is sent as text: standard library only, Python 3.6.

It copies the file argv[1] to the GPU, prints the handle by which another process maps it, waits until argv[1] + ".done"
is there (argv[2] seconds at most), copies the memory back to the file, and ends. The driver's functions and their types
are those of cuda.h; the device is the first that the container sees, as it is for its server.
"""

import base64
import ctypes
import os
import sys
import time

HANDLE_BYTES = 64
POLL = 0.02


def main(path: str, seconds: float) -> None:
    """Hold the content of a file on the GPU until the file PATH.done exists."""
    with open(path, "rb") as file:
        content = file.read()
    cuda = _driver()
    device, context, pointer = ctypes.c_int(), ctypes.c_void_p(), ctypes.c_uint64()
    _call(cuda, "cuInit", 0)
    _call(cuda, "cuDeviceGet", ctypes.byref(device), 0)
    _call(cuda, "cuDevicePrimaryCtxRetain", ctypes.byref(context), device)
    try:
        _call(cuda, "cuCtxSetCurrent", context)
        _call(cuda, "cuMemAlloc_v2", ctypes.byref(pointer), ctypes.c_size_t(len(content)))
        try:
            _lend(cuda, pointer, content, path, seconds)
        finally:
            _call(cuda, "cuMemFree_v2", pointer)
    finally:
        _call(cuda, "cuDevicePrimaryCtxRelease_v2", device)


def _driver() -> ctypes.CDLL:
    try:
        return ctypes.CDLL("libcuda.so.1")
    except OSError as fault:
        sys.exit("no CUDA driver: {}".format(fault))


def _call(cuda: ctypes.CDLL, name: str, *arguments: object) -> None:
    code = getattr(cuda, name)(*arguments)
    if code:
        text = ctypes.c_char_p()
        cuda.cuGetErrorName(code, ctypes.byref(text))
        sys.exit("{} failed: {} ({})".format(name, (text.value or b"unknown").decode(), code))


def _lend(cuda: ctypes.CDLL, pointer: ctypes.c_uint64, content: bytes, path: str, seconds: float) -> None:
    size = ctypes.c_size_t(len(content))
    handle = ctypes.create_string_buffer(HANDLE_BYTES)
    _call(cuda, "cuMemcpyHtoD_v2", pointer, content, size)
    _call(cuda, "cuCtxSynchronize")
    _call(cuda, "cuIpcGetMemHandle", handle, pointer)
    print(base64.b64encode(handle.raw).decode(), flush=True)
    deadline = time.monotonic() + seconds
    while not os.path.exists(path + ".done"):
        if time.monotonic() > deadline:
            sys.exit("no request to end within {} s".format(seconds))
        time.sleep(POLL)
    back = ctypes.create_string_buffer(len(content))
    _call(cuda, "cuMemcpyDtoH_v2", back, pointer, size)
    with open(path, "r+b") as file:
        file.write(back.raw)


if __name__ == "__main__":
    main(sys.argv[1], float(sys.argv[2]))
