"""A filesystem in memory that sleeps before every answer, spoken straight over /dev/fuse.

It needs root and /dev/fuse, and no package: `python slowfs.py FOLDER SECONDS` mounts it on FOLDER
and prints "ready". A file named `eio` fails reads past 4 KiB, `short` gives at most 100 bytes a
read, `enospc` takes no writes, `badsync` fails every fsync. SIGTERM ends and unmounts it.
"""

import ctypes
import errno
import os
import signal
import stat
import struct
import sys
import threading
import time

LOOKUP, FORGET, GETATTR, SETATTR, UNLINK, OPEN, READ, WRITE, STATFS = 1, 2, 3, 4, 10, 14, 15, 16, 17
RELEASE, FSYNC, FLUSH, INIT, OPENDIR, RELEASEDIR, CREATE = 18, 20, 25, 26, 27, 29, 35
INTERRUPT, BATCH_FORGET = 36, 42
NO_ANSWER = (FORGET, BATCH_FORGET, INTERRUPT)
DIRECT_IO = 1
SIZE_IS_SET = 8
ROOT = 1


class Refused(Exception):
    pass


class Files:
    """Answers requests; node numbers are 2 + the place in `names`."""

    def __init__(self, delay):
        self.delay = delay
        self.lock = threading.Lock()
        self.names, self.content = [], []
        for name in (b"slow", b"eio", b"short", b"enospc", b"badsync"):
            self.make(name, bytearray(b"abcdefgh" * 8192))

    def make(self, name, content):
        self.names.append(name)
        self.content.append(content)
        return len(self.names) + 1

    def attributes(self, node):
        if node == ROOT:
            size, mode = 0, stat.S_IFDIR | 0o755
        else:
            size, mode = len(self.content[node - 2]), stat.S_IFREG | 0o644
        times, owner = [0] * 6, [0, 0]
        fields = [node, size, (size + 511) // 512, *times, mode, 1, *owner, 0, 4096, 0]
        return struct.pack("<6Q10I", *fields)

    def entry(self, node):
        return struct.pack("<QQQQII", node, 0, 0, 0, 0, 0) + self.attributes(node)

    def name_of(self, node):
        return self.names[node - 2] if node != ROOT else b""

    def answer(self, opcode, node, body):
        if opcode == INIT:
            return struct.pack("<IIIIHHIIHHI28x", 7, 31, 65536, 0, 64, 48, 131072, 1, 32, 0, 0)
        time.sleep(self.delay)
        with self.lock:
            return self.served(opcode, node, body)

    def served(self, opcode, node, body):
        if opcode == LOOKUP:
            name = body.split(b"\0")[0]
            if name not in self.names:
                raise Refused(errno.ENOENT)
            return self.entry(self.names.index(name) + 2)
        if opcode == CREATE:
            node = self.make(body[16:].split(b"\0")[0], bytearray())
            return self.entry(node) + struct.pack("<QII", 0, DIRECT_IO, 0)
        if opcode == UNLINK:
            self.names[self.names.index(body.split(b"\0")[0])] = b""
            return b""
        if opcode in (OPEN, OPENDIR):
            return struct.pack("<QII", 0, DIRECT_IO, 0)
        if opcode == GETATTR:
            return struct.pack("<QII", 0, 0, 0) + self.attributes(node)
        if opcode == SETATTR:
            valid, size = struct.unpack_from("<I12xQ", body)
            if valid & SIZE_IS_SET:
                data = self.content[node - 2]
                del data[size:]
                data.extend(b"\0" * (size - len(data)))
            return struct.pack("<QII", 0, 0, 0) + self.attributes(node)
        if opcode == READ:
            return self.read(node, *struct.unpack_from("<8xQI", body))
        if opcode == WRITE:
            offset, size = struct.unpack_from("<8xQI", body)
            return self.write(node, offset, body[40 : 40 + size])
        if opcode == FSYNC and self.name_of(node) == b"badsync":
            raise Refused(errno.EIO)
        if opcode == STATFS:
            return struct.pack("<QQQQQIIII24x", 1000, 500, 500, 100, 50, 4096, 255, 4096, 0)
        if opcode in (RELEASE, RELEASEDIR, FLUSH, FSYNC):
            return b""
        raise Refused(errno.ENOSYS)

    def read(self, node, offset, size):
        name = self.name_of(node)
        if name == b"eio" and offset + size > 4096:
            raise Refused(errno.EIO)
        if name == b"short":
            size = min(size, 100)
        return bytes(self.content[node - 2][offset : offset + size])

    def write(self, node, offset, data):
        if self.name_of(node) == b"enospc":
            raise Refused(errno.ENOSPC)
        content = self.content[node - 2]
        content.extend(b"\0" * (offset - len(content)))
        content[offset : offset + len(data)] = data
        return struct.pack("<II", len(data), 0)


def serve(device, files, message):
    _, opcode, unique, node = struct.unpack_from("<IIQQ", message)
    if opcode in NO_ANSWER:
        return
    error, body = 0, b""
    try:
        body = files.answer(opcode, node, message[40:])
    except Refused as refused:
        error = -refused.args[0]
    try:
        os.write(device, struct.pack("<IiQ", 16 + len(body), error, unique) + body)
    except OSError:
        pass  # the caller was interrupted, or the mount has gone


def mount(folder):
    device = os.open("/dev/fuse", os.O_RDWR | os.O_CLOEXEC)
    options = f"fd={device},rootmode=40000,user_id=0,group_id=0,allow_other"
    libc = ctypes.CDLL(None, use_errno=True)
    if libc.mount(b"slowfs", os.fsencode(folder), b"fuse", 0, options.encode()) != 0:
        error = ctypes.get_errno()
        raise OSError(error, os.strerror(error), folder)
    return device, libc


def main(folder, delay):
    device, libc = mount(folder)
    files = Files(delay)

    def end(*_):
        libc.umount2(os.fsencode(folder), 2)
        os._exit(0)

    signal.signal(signal.SIGTERM, end)
    print("ready", flush=True)
    while True:
        try:
            message = os.read(device, 1 << 20)
        except OSError as error:
            if error.errno == errno.ENODEV:
                return
            continue
        threading.Thread(target=serve, args=(device, files, message), daemon=True).start()


if __name__ == "__main__":
    main(sys.argv[1], float(sys.argv[2]))
