"""The escape list: what a hostile script tries. Each raises what the kernel says, or comes back with "escaped"."""

from __future__ import annotations

import platform
from textwrap import dedent, indent
from typing import NamedTuple

LIBC = """
import ctypes, os
libc = ctypes.CDLL(None, use_errno=True)
def call(name, *arguments):
    result = getattr(libc, name)(*arguments)
    if result < 0:
        raise OSError(ctypes.get_errno(), name)
    return result
def system_call(x86, arm, *arguments):
    return call("syscall", x86 if os.uname().machine == "x86_64" else arm, *arguments)
"""


class Attempt(NamedTuple):
    number: int
    name: str
    body: str
    statuses: tuple[str, ...] = ("denied",)


def source(attempt: Attempt) -> str:
    body = dedent(attempt.body).strip()
    return f"{LIBC}\ndef main(secret, readable, writable, port, udp_port, abstract, host_pid):\n{indent(body, '    ')}\n    return 'escaped'\n"


def _opens(*paths: str) -> str:
    return "\n".join(f"open({path}, 'rb').read(1)" for path in paths)


FILES = [
    Attempt(1, "shadow", "open('/etc/shadow').read()"),
    Attempt(1, "a-file-that-anybody-on-the-host-can-read", "open(secret).read()"),
    Attempt(1, "home-of-root", "os.listdir('/root')"),
    Attempt(1, "homes", "os.listdir('/home')"),
    Attempt(1, "tmp-of-the-host", "open('/var/tmp/' + os.listdir('/var/tmp')[0])"),
    Attempt(2, "write-etc", "open('/etc/prowess', 'w')"),
    Attempt(2, "write-usr", "open('/usr/bin/prowess', 'w')"),
    Attempt(2, "write-home", "open('/home/prowess', 'w')"),
    Attempt(2, "write-what-may-be-read", "open(readable + '/canary.txt', 'a').write('x')"),
    Attempt(2, "new-file-where-it-may-read", "open(readable + '/new.txt', 'w')"),
    Attempt(2, "truncate-what-may-be-read", "os.truncate(readable + '/canary.txt', 0)"),
    Attempt(2, "remove-where-it-may-write", "os.unlink(writable + '/canary.txt')"),
    Attempt(
        2,
        "rename-over-where-it-may-write",
        "open(writable + '/a', 'w').close(); os.rename(writable + '/a', writable + '/canary.txt')",
    ),
    Attempt(3, "follow-a-link-out", "open(readable + '/link').read()"),
    Attempt(3, "make-a-link-out", "os.symlink('/etc', writable + '/etc'); os.listdir(writable + '/etc')"),
    Attempt(3, "through-a-link-in-tmp", "os.symlink('/etc/shadow', '/tmp/s'); open('/tmp/s').read()"),
    Attempt(4, "hard-link-out-of-readable", "os.link(readable + '/canary.txt', writable + '/linked')"),
    Attempt(4, "hard-link-of-the-system", "os.link('/usr/bin/env', '/tmp/env')"),
    Attempt(5, "dots", "open(readable + '/../secret/canary.txt').read()"),
    Attempt(5, "many-dots", "open('../' * 40 + 'etc/shadow').read()"),
    Attempt(6, "root-of-process-1", "open('/proc/1/root/etc/shadow').read()"),
    Attempt(6, "environment-of-process-1", "open('/proc/1/environ').read()"),
    Attempt(6, "memory-of-process-1", "open('/proc/1/mem', 'rb').read(1)"),
    Attempt(6, "descriptors-of-process-1", "os.listdir('/proc/1/fd')"),
    Attempt(6, "working-folder-of-process-1", "os.listdir('/proc/1/cwd/..')"),
    Attempt(7, "environment-of-a-process-of-the-host", "open(f'/proc/{host_pid}/environ').read()"),
    Attempt(23, "program-of-this-process", "open('/proc/self/exe', 'r+b')"),
    Attempt(24, "poison-the-library", "open(os.__file__, 'a').write('x')"),
    Attempt(24, "poison-its-cache", "open(os.path.dirname(os.__file__) + '/__pycache__/x.pyc', 'w')"),
    Attempt(24, "change-its-own-file", "open('/skill/attempt.py', 'a').write('x')"),
    Attempt(35, "chmod-readable", "os.chmod(readable + '/canary.txt', 0o777)"),
    Attempt(35, "chmod-system", "os.chmod('/usr/bin/env', 0o777)"),
    Attempt(35, "utime-readable", "os.utime(readable + '/canary.txt', (0, 0))"),
    Attempt(35, "xattr-readable", "os.setxattr(readable + '/canary.txt', 'user.x', b'x')"),
]

PROCESSES = [
    Attempt(11, "kill-process-1", "os.kill(1, 9)"),
    Attempt(15, "ptrace", "call('ptrace', 16, os.getppid(), 0, 0)"),
    Attempt(15, "read-memory-of-another", "system_call(310, 270, os.getppid(), 0, 0, 0, 0, 0)"),
    Attempt(15, "write-memory-of-another", "system_call(311, 271, os.getppid(), 0, 0, 0, 0, 0)"),
    Attempt(15, "pidfd", "os.pidfd_open(1)"),
    Attempt(15, "descriptor-of-another", "system_call(438, 438, 3, 0, 0)"),
    Attempt(16, "mount", "call('mount', b'none', b'/tmp', b'tmpfs', 0, None)"),
    Attempt(16, "remount-writable", "call('mount', None, b'/usr', None, 4096 | 32, None)"),
    Attempt(16, "unmount", "call('umount2', b'/tmp', 2)"),
    Attempt(16, "chroot", "os.chroot('/tmp')"),
    Attempt(16, "pivot", "system_call(155, 41, b'/tmp', b'/tmp')"),
    Attempt(16, "setns", "system_call(308, 268, 0, 0)"),
    Attempt(16, "new-mount-interface", "system_call(430, 430, b'tmpfs', 0)"),
    Attempt(17, "unshare-user", "call('unshare', 0x10000000)"),
    Attempt(17, "unshare-network", "call('unshare', 0x40000000)"),
    Attempt(17, "clone-user", "system_call(56, 220, 0x10000000 | 17, 0, 0, 0, 0)"),
    Attempt(17, "clone3", "buffer = ctypes.create_string_buffer(88); buffer[3] = b'\\x10'; system_call(435, 435, buffer, 88)", ("error", "denied")),
    Attempt(18, "open-by-handle", "system_call(304, 265, -100, ctypes.create_string_buffer(16), 0)"),
    Attempt(18, "name-to-handle", "system_call(303, 264, -100, b'/usr', ctypes.create_string_buffer(256), ctypes.create_string_buffer(8), 0)"),
    Attempt(19, "io-uring", "system_call(425, 425, 8, ctypes.create_string_buffer(120))"),
    Attempt(19, "bpf", "system_call(321, 280, 0, ctypes.create_string_buffer(120), 120)"),
    Attempt(19, "perf", "system_call(298, 241, ctypes.create_string_buffer(120), 0, -1, -1, 0)"),
    Attempt(19, "keyctl", "system_call(250, 219, 0, -3, 1)"),
    Attempt(19, "add-key", "system_call(248, 217, b'user', b'x', b'y', 1, -3)"),
    Attempt(19, "userfaultfd", "system_call(323, 282, 1)"),
    Attempt(19, "memfd", "os.memfd_create('x')"),
    Attempt(19, "personality", "call('personality', 0x0040000)"),
    Attempt(19, "system-v-shared-memory", "call('shmget', 0, 4096, 0o1600)"),
    Attempt(20, "make-a-device", "os.mknod('/tmp/null', 0o20666, os.makedev(1, 3))"),
    Attempt(20, "disk", "open('/dev/vda', 'rb')"),
    Attempt(20, "kernel-memory", "open('/dev/mem', 'rb')"),
    Attempt(20, "kernel-log", "open('/dev/kmsg', 'rb')"),
    Attempt(20, "terminal", "open('/dev/tty', 'rb')", ("denied", "error")),
    Attempt(20, "file-in-dev", "open('/dev/shm/x', 'wb')"),
    Attempt(21, "set-user-id-program", "os.execv('/usr/bin/su', ['su', '-c', 'id'])"),
    Attempt(21, "become-root", "os.setuid(0)", ("denied", "error")),
    Attempt(22, "core-pattern", "open('/proc/sys/kernel/core_pattern', 'w').write('|/tmp/x')"),
    Attempt(22, "uevent-helper", "open('/sys/kernel/uevent_helper', 'w').write('/tmp/x')"),
    Attempt(22, "control-group", "open('/sys/fs/cgroup/cgroup.procs', 'w').write('1')"),
    Attempt(22, "sysrq", "open('/proc/sysrq-trigger', 'w').write('h')"),
    Attempt(22, "adjust-own-oom-score", "open('/proc/self/oom_score_adj', 'w').write('-1000')"),
    Attempt(26, "exec", "os.execv('/usr/bin/id', ['id'])"),
    Attempt(26, "exec-by-fork", "import subprocess; subprocess.run(['/usr/bin/id'], check=True)"),
    Attempt(26, "exec-by-spawn", "os.waitpid(os.posix_spawn('/usr/bin/id', ['id'], {}), 0)"),
    Attempt(26, "exec-through-the-loader", "import glob; os.execv((glob.glob('/usr/lib*/ld-linux*') + glob.glob('/usr/lib/*/ld-linux*'))[0], ['ld', '/usr/bin/id'])"),
    Attempt(26, "exec-of-its-own", "import shutil; shutil.copy('/usr/bin/env', '/out/env'); os.chmod('/out/env', 0o755); os.execv('/out/env', ['env'])"),
    Attempt(26, "exec-by-descriptor", "os.execve(os.open('/usr/bin/id', os.O_RDONLY), ['id'], {})"),
    Attempt(27, "raise-a-limit", "import resource; resource.setrlimit(resource.RLIMIT_NPROC, (4096, 4096))"),
    Attempt(27, "raise-a-limit-of-another", "import resource; resource.prlimit(os.getppid(), resource.RLIMIT_NPROC, (1, 1))"),
    Attempt(33, "type-into-the-terminal", "import fcntl; fcntl.ioctl(1, 0x5412, b'x')"),
]  # fmt: skip

NETWORK = [
    Attempt(12, "tcp-to-loopback", "import socket; socket.create_connection(('127.0.0.1', port), 1)"),
    Attempt(12, "tcp-over-six", "import socket; socket.create_connection(('::1', port), 1)"),
    Attempt(12, "udp-to-loopback", "import socket; socket.socket(2, 2).sendto(b'x', ('127.0.0.1', udp_port))"),
    Attempt(12, "fast-open", "import socket; socket.socket(2, 1).sendto(b'x', 0x20000000, ('127.0.0.1', port))"),
    Attempt(12, "over-http", "import urllib.request; urllib.request.urlopen(f'http://127.0.0.1:{port}/', timeout=1)"),
    Attempt(12, "name-lookup", "import socket; socket.getaddrinfo('localhost.localdomain', 80)"),
    Attempt(13, "abstract-socket", "import socket; socket.socket(socket.AF_UNIX).connect('\\0' + abstract)"),
    Attempt(13, "socket-in-a-folder", "import socket; socket.socket(socket.AF_UNIX).connect(writable + '/socket')"),
    Attempt(14, "netlink", "import socket; socket.socket(16, 3, 0)"),
    Attempt(14, "packet", "import socket; socket.socket(17, 3, 0)"),
    Attempt(14, "raw", "import socket; socket.socket(2, 3, 1)"),
    Attempt(14, "vsock", "import socket; socket.socket(40, 1, 0).connect((2, 2024))"),
    Attempt(14, "algorithm", "import socket; socket.socket(38, 5, 0)"),
]

_FIVE_PROCESSES = """
    for _ in range(5):
        if os.fork() == 0:
            kept = bytearray(90_000_000)
            import time
            time.sleep(20)
            os._exit(0)
    import time
    time.sleep(20)
"""
RESOURCES = [
    Attempt(28, "heap", "kept = [bytearray(10_000_000) for _ in range(100)]", ("memory",)),
    Attempt(28, "shared", "import mmap; kept = [mmap.mmap(-1, 50_000_000) for _ in range(20)]; [page.write(b'x' * 50_000_000) for page in kept]", ("memory",)),
    Attempt(28, "several-processes", _FIVE_PROCESSES, ("memory",)),
    Attempt(28, "tmpfs", "[open(f'/tmp/{n}', 'wb').write(b'x' * 8_000_000) for n in range(100)]"),
    Attempt(29, "one-file", "with open('/out/x', 'wb') as file:\n    for _ in range(100): file.write(b'x' * 1_000_000)"),
    Attempt(29, "many-files", "[open(f'/out/{n}', 'wb').write(b'x' * 100_000) for n in range(1_000)]"),
    Attempt(29, "empty-files", "for n in range(10_000_000): os.close(os.open(f'/tmp/{n}', os.O_CREAT | os.O_WRONLY))"),
    Attempt(30, "forks", "for _ in range(100):\n    if os.fork() == 0:\n        import time; time.sleep(20); os._exit(0)"),
    Attempt(30, "threads", "import threading\nstop = threading.Event()\nfor _ in range(100): threading.Thread(target=stop.wait, daemon=True).start()"),
    Attempt(30, "forks-of-forks", "while True:\n    try: os.fork()\n    except OSError: pass", ("timeout", "denied")),
    Attempt(30, "no-end", "while True: pass", ("timeout",)),
    Attempt(30, "deaf-to-signals", "import signal\nfor number in range(1, 32):\n    try: signal.signal(number, signal.SIG_IGN)\n    except OSError: pass\nwhile True: pass", ("timeout",)),
]  # fmt: skip

_CHANNEL = "import prowess_skill\nchannel = prowess_skill._channel\n"
FORGED = [
    Attempt(36, "no-json", _CHANNEL + "os.write(channel, b'\\xff\\xfe\\n')\nimport time; time.sleep(5)"),
    Attempt(36, "no-object", _CHANNEL + "os.write(channel, b'[1]\\n')\nimport time; time.sleep(5)"),
    Attempt(36, "deep", _CHANNEL + "os.write(channel, b'[' * 100_000 + b'\\n')\nimport time; time.sleep(5)"),
    Attempt(36, "two-results", _CHANNEL + "os.write(channel, b'{\"result\": 1}\\n{\"result\": 2}\\n')\nimport time; time.sleep(5)"),
    Attempt(36, "result-with-more", _CHANNEL + "os.write(channel, b'{\"result\": 1, \"status\": 0}\\n')\nimport time; time.sleep(5)"),
    Attempt(36, "report-of-process-1", _CHANNEL + "os.write(channel, b'{\"reason\": \"exit\", \"status\": 0}\\n')\nimport time; time.sleep(5)"),
    Attempt(36, "wrong-number", _CHANNEL + "os.write(channel, b'{\"id\": 7, \"call\": \"tool\", \"name\": \"x\", \"arguments\": {}}\\n')\nimport time; time.sleep(5)"),
    Attempt(36, "number-that-is-a-boolean", _CHANNEL + "os.write(channel, b'{\"id\": true, \"call\": \"tool\", \"name\": \"x\", \"arguments\": {}}\\n')\nimport time; time.sleep(5)"),
    Attempt(36, "unknown-kind", _CHANNEL + "os.write(channel, b'{\"id\": 1, \"call\": \"root\", \"name\": \"x\", \"arguments\": {}}\\n')\nimport time; time.sleep(5)"),
    Attempt(36, "more-fields", _CHANNEL + "os.write(channel, b'{\"id\": 1, \"call\": \"tool\", \"name\": \"x\", \"arguments\": {}, \"user\": \"root\"}\\n')\nimport time; time.sleep(5)"),
    Attempt(36, "not-a-number", _CHANNEL + "os.write(channel, b'{\"result\": NaN}\\n')\nimport time; time.sleep(5)"),
    Attempt(36, "endless-line", _CHANNEL + "while True: os.write(channel, b'x' * 65536)", ("error",)),
]  # fmt: skip

ARCHITECTURE = {
    "x86_64": [
        Attempt(25, "x32", "libc.syscall(0x40000000 + 39)"),
        Attempt(
            25,
            "int-0x80",
            """
            import mmap
            page = mmap.mmap(-1, 4096, prot=7)
            page.write(b'\\xb8\\x14\\x00\\x00\\x00\\xcd\\x80\\xc3')
            ctypes.CFUNCTYPE(ctypes.c_int)(ctypes.addressof(ctypes.c_char.from_buffer(page)))()
            """,
            ("denied", "error"),  # a kernel without 32 bits ends it with SIGSEGV
        ),
    ]
}.get(platform.machine(), [])

ALL = [*FILES, *PROCESSES, *NETWORK, *RESOURCES, *FORGED, *ARCHITECTURE]
