"""What a submission's process may use of the machine. Each limit is the kernel's, and no code inside can lift it.

| limit              | where                                                                            |
|--------------------|----------------------------------------------------------------------------------|
| time, memory, files | POSIX (macOS refuses some); on Windows the parent's limit of time holds alone      |
| system calls       | Linux on x86-64 and Arm: no new process or thread, no program, no socket, no signal, no shared memory |
"""

from __future__ import annotations

import ctypes
import platform
import signal
import struct
import sys

FILE_BYTES = 2**24  # the largest file that it may write
OVER = (
    "{file} was still running after {seconds:g} s{where}, and a right answer takes a few. Either a loop does not end, or it does "
    "far more than the task asks for."
)

# Linux: the machine's AUDIT_ARCH, and the numbers of the system calls that are answered with "not permitted".
REFUSED = {
    "x86_64": (0xC000003E, {
        "clone": 56, "fork": 57, "vfork": 58, "execve": 59, "execveat": 322, "clone3": 435,
        "socket": 41, "socketpair": 53, "connect": 42, "bind": 49, "io_uring_setup": 425,
        "kill": 62, "tkill": 200, "tgkill": 234, "rt_sigqueueinfo": 129, "rt_tgsigqueueinfo": 297, "pidfd_open": 434,
        "pidfd_send_signal": 424, "ptrace": 101, "process_vm_readv": 310, "process_vm_writev": 311,
        "mount": 165, "unshare": 272, "setns": 308, "bpf": 321, "userfaultfd": 323, "perf_event_open": 298, "keyctl": 250,
        "memfd_create": 319, "memfd_secret": 447, "shmget": 29, "shmat": 30, "msgget": 68, "mq_open": 240,
    }),
    "aarch64": (0xC00000B7, {
        "clone": 220, "execve": 221, "execveat": 281, "clone3": 435,
        "socket": 198, "socketpair": 199, "connect": 203, "bind": 200, "io_uring_setup": 425,
        "kill": 129, "tkill": 130, "tgkill": 131, "rt_sigqueueinfo": 138, "rt_tgsigqueueinfo": 240, "pidfd_open": 434,
        "pidfd_send_signal": 424, "ptrace": 117, "process_vm_readv": 270, "process_vm_writev": 271,
        "mount": 40, "unshare": 97, "setns": 268, "bpf": 280, "userfaultfd": 282, "perf_event_open": 241, "keyctl": 219,
        "memfd_create": 279, "memfd_secret": 447, "shmget": 194, "shmat": 196, "msgget": 186, "mq_open": 180,
    }),
}  # fmt: skip
# Instructions of the kernel's packet filter.
LOAD, IF_EQUAL, IF_AT_LEAST, RETURN = 0x20, 0x15, 0x35, 0x06
ALLOW, NOT_PERMITTED, KILL = 0x7FFF0000, 0x00050001, 0x80000000  # what it may return; 1 is EPERM
NO_NEW_PRIVILEGES, SECCOMP, FILTER = 38, 22, 2  # words of prctl


def limit(seconds: float, memory_bytes: int, over=None) -> None:
    """Set the limits of this process, for good, as far as the system has them.

    `over`, a handler of signals, is called when its time is over, a second before the system ends the process.
    """
    if sys.platform == "win32":
        return
    import resource

    amounts = {"CPU": int(seconds) + 1, "AS": memory_bytes, "FSIZE": FILE_BYTES, "CORE": 0}
    if over:
        signal.signal(signal.SIGXCPU, over)
    for name, amount in amounts.items():
        most = amount + 2 * (name == "CPU" and over is not None)
        try:
            resource.setrlimit(getattr(resource, f"RLIMIT_{name}"), (amount, most))
        except (AttributeError, ValueError, OSError):  # macOS refuses some
            continue
    if sys.platform == "linux" and platform.machine() in REFUSED:
        refuse_system_calls(*REFUSED[platform.machine()])


def refuse_system_calls(architecture: int, calls: dict) -> bool:
    """Let the kernel answer these system calls with EPERM from now on; whether it does."""
    numbers = list(calls.values())
    steps = [
        (LOAD, 0, 0, 4),  # the architecture of this call
        (IF_EQUAL, 1, 0, architecture),
        (RETURN, 0, 0, KILL),
        (LOAD, 0, 0, 0),  # its number
        (IF_AT_LEAST, len(numbers) + 1, 0, 0x40000000),  # x86-64's other set of numbers
        *((IF_EQUAL, len(numbers) - i, 0, number) for i, number in enumerate(numbers)),
        (RETURN, 0, 0, ALLOW),
        (RETURN, 0, 0, NOT_PERMITTED),
    ]
    code = ctypes.create_string_buffer(b"".join(struct.pack("=HBBI", *step) for step in steps))
    program = ctypes.create_string_buffer(struct.pack("@HP", len(steps), ctypes.addressof(code)))
    prctl = ctypes.CDLL(None, use_errno=True).prctl
    prctl.argtypes = [ctypes.c_int] + 4 * [ctypes.c_ulong]
    prctl(NO_NEW_PRIVILEGES, 1, 0, 0, 0)
    return prctl(SECCOMP, FILTER, ctypes.addressof(program), 0, 0) == 0
