"""Numbers of system calls, for the filters: name → (x86-64, arm64); null where a machine has no such call.

From the kernel's own headers, ``arch/x86/entry/syscalls/syscall_64.tbl`` and ``include/uapi/asm-generic/unistd.h``.
"""

from __future__ import annotations

from typing import NamedTuple


class Machine(NamedTuple):
    """What the filters need to know of a kind of processor."""

    audit: int
    """``AUDIT_ARCH_…``: which calling convention a system call came by"""
    column: int
    """of the table"""


MACHINES = {"x86_64": Machine(0xC000003E, 0), "aarch64": Machine(0xC00000B7, 1)}

MOUNTS = {
    "mount": (165, 40),
    "umount2": (166, 39),
    "pivot_root": (155, 41),
    "chroot": (161, 51),
    "move_mount": (429, 429),
    "open_tree": (428, 428),
    "open_tree_attr": (467, 467),
    "fsopen": (430, 430),
    "fsconfig": (431, 431),
    "fsmount": (432, 432),
    "fspick": (433, 433),
    "mount_setattr": (442, 442),
    "statmount": (457, 457),
    "listmount": (458, 458),
    "unshare": (272, 97),
    "setns": (308, 268),
}
OTHER_PROCESSES = {
    "ptrace": (101, 117),
    "process_vm_readv": (310, 270),
    "process_vm_writev": (311, 271),
    "process_madvise": (440, 440),
    "process_mrelease": (448, 448),
    "kcmp": (312, 272),
    "pidfd_getfd": (438, 438),
    "move_pages": (279, 239),
    "migrate_pages": (256, 238),
}
KERNEL_SURFACE = {
    "bpf": (321, 280),
    "perf_event_open": (298, 241),
    "io_uring_setup": (425, 425),
    "io_uring_enter": (426, 426),
    "io_uring_register": (427, 427),
    "keyctl": (250, 219),
    "add_key": (248, 217),
    "request_key": (249, 218),
    "userfaultfd": (323, 282),
    "memfd_create": (319, 279),
    "memfd_secret": (447, 447),
    "personality": (135, 92),
    "mknod": (133, None),
    "mknodat": (259, 33),
    "name_to_handle_at": (303, 264),
    "open_by_handle_at": (304, 265),
    "fanotify_init": (300, 262),
    "fanotify_mark": (301, 263),
    "modify_ldt": (154, None),
    "lookup_dcookie": (212, 18),
    "uselib": (134, None),
    "ustat": (136, None),
    "sysfs": (139, None),
    "_sysctl": (156, None),
    "nfsservctl": (180, 42),
    "mbind": (237, 235),
    "set_mempolicy": (238, 237),
    "set_mempolicy_home_node": (450, 450),
    "lsm_set_self_attr": (460, 460),
}
ADMINISTRATION = {
    "init_module": (175, 105),
    "finit_module": (313, 273),
    "delete_module": (176, 106),
    "kexec_load": (246, 104),
    "kexec_file_load": (320, 294),
    "reboot": (169, 142),
    "swapon": (167, 224),
    "swapoff": (168, 225),
    "acct": (163, 89),
    "quotactl": (179, 60),
    "quotactl_fd": (443, 443),
    "syslog": (103, 116),
    "vhangup": (153, 58),
    "settimeofday": (164, 170),
    "clock_settime": (227, 112),
    "adjtimex": (159, 171),
    "clock_adjtime": (305, 266),
    "sethostname": (170, 161),
    "setdomainname": (171, 162),
    "iopl": (172, None),
    "ioperm": (173, None),
}
SHARED_MEMORY = {
    "shmget": (29, 194),
    "shmat": (30, 196),
    "shmctl": (31, 195),
    "msgget": (68, 186),
    "semget": (64, 190),
    "mq_open": (240, 180),
}
"""memory that no limit of a process counts"""
ATTRIBUTES = {
    "chmod": (90, None),
    "fchmod": (91, 52),
    "fchmodat": (268, 53),
    "fchmodat2": (452, 452),
    "chown": (92, None),
    "fchown": (93, 55),
    "lchown": (94, None),
    "fchownat": (260, 54),
    "utime": (132, None),
    "utimes": (235, None),
    "futimesat": (261, None),
    "utimensat": (280, 88),
    "setxattr": (188, 5),
    "lsetxattr": (189, 6),
    "fsetxattr": (190, 7),
    "setxattrat": (463, 463),
    "removexattr": (197, 14),
    "lremovexattr": (198, 15),
    "fremovexattr": (199, 16),
    "removexattrat": (466, 466),
}
"""what Landlock does not see"""
EXEC = {"execve": (59, 221), "execveat": (322, 281)}
LIMITS = {"setrlimit": (160, 164), "pidfd_open": (434, 434), "pidfd_send_signal": (424, 424)}
CLONE = {"clone": (56, 220)}
CLONE3 = {"clone3": (435, 435)}
SOCKET = {"socket": (41, 198)}
IOCTL = {"ioctl": (16, 29)}
PRLIMIT = {"prlimit64": (302, 261)}
TRUNCATE = {"truncate": (76, 45)}
