"""The closed words of the spec language, and the members of the kernel's structures. Data only."""

ON = ("file", "path", "none")
RESULTS = ("none", "count", "bytes", "list", "handle", "stat")
SURFACES = ("method", "stream", "library")
TYPES = (
    "size", "offset", "flag", "enum", "bytes_in", "bytes_out", "parts", "parts_out", "path",
    "handle", "spans", "pairs", "mode",
)
DEFAULTED = ("size", "offset", "flag", "enum", "mode")
SHORTS = ("none", "resume", "resume-until-eof")
CANCELS = ("detach", "wait", "shield")
ORDERS = ("any", "fence")
WAITS = ("none", "readable", "writable")
PROBES = ("none", "nowait", "ready", "cached-open", "local", "always")
KINDS = ("file", "pipe", "missing", "directory", "none")
BECOMES = ("file", "directory", "gone")
ERROR_KINDS = ("unsupported", "closed")
PLATFORMS = ("posix", "win32", "darwin")
HEADER_PLATFORMS = ("posix", "linux", "darwin", "win32")
HOOKS = ("open", "close", "submit", "reap", "cancel")
OPTION_TYPES = ("choice", "int", "bool")

ERRNOS = frozenset(
    """E2BIG EACCES EADDRINUSE EADDRNOTAVAIL EAGAIN EALREADY EBADF EBUSY ECANCELED ECHILD
    ECONNABORTED ECONNREFUSED ECONNRESET EDEADLK EDESTADDRREQ EDOM EEXIST EFAULT EFBIG EILSEQ
    EINPROGRESS EINTR EINVAL EIO EISDIR ELOOP EMFILE EMLINK EMSGSIZE ENAMETOOLONG ENETDOWN ENFILE
    ENOBUFS ENODEV ENOENT ENOEXEC ENOLCK ENOMEM ENOSPC ENOSYS ENOTCONN ENOTDIR ENOTEMPTY ENOTSOCK
    ENOTSUP ENOTTY ENXIO EOPNOTSUPP EOVERFLOW EPERM EPIPE EPROTO ERANGE EROFS ESPIPE ESRCH
    ETIMEDOUT ETXTBSY EWOULDBLOCK EXDEV""".split()
)

# Member of struct io_uring_sqe → its C type; the unions' members stand in one group each.
SQE_UNIONS = (
    ("off", "addr2"),
    ("addr", "splice_off_in"),
    ("rw_flags", "fsync_flags", "poll32_events", "sync_range_flags", "msg_flags", "timeout_flags",
     "accept_flags", "cancel_flags", "open_flags", "statx_flags", "fadvise_advice",
     "splice_flags", "rename_flags", "unlink_flags", "hardlink_flags", "xattr_flags"),
    ("splice_fd_in", "file_index", "addr_len"),
    ("buf_index", "buf_group"),
)
SQE_MEMBERS = {
    "flags": "uint8_t", "ioprio": "uint16_t", "fd": "int32_t", "off": "uint64_t",
    "addr2": "uint64_t", "addr": "uint64_t", "splice_off_in": "uint64_t", "len": "uint32_t",
    **{name: "uint32_t" for name in SQE_UNIONS[2]}, "rw_flags": "int32_t",
    "buf_index": "uint16_t", "buf_group": "uint16_t", "personality": "uint16_t",
    "splice_fd_in": "int32_t", "file_index": "uint32_t", "addr_len": "uint16_t",
    "addr3": "uint64_t",
}
# Key of an iocb row → member and C type.
IOCB_MEMBERS = {
    "fd": ("aio_fildes", "uint32_t"),
    "buf": ("aio_buf", "uint64_t"),
    "nbytes": ("aio_nbytes", "uint64_t"),
    "offset": ("aio_offset", "int64_t"),
    "rw_flags": ("aio_rw_flags", "int"),
    "flags": ("aio_flags", "uint32_t"),
    "reqprio": ("aio_reqprio", "int16_t"),
}

# Form → the keys of its rows that hold C expressions, and those that hold something else.
EXPRESSIONS = {
    "sqe": tuple(SQE_MEMBERS),
    "iocb": tuple(IOCB_MEMBERS),
    "call": (*PLATFORMS, "inline"),
    "overlapped": ("call", "offset"),
    "dispatch": ("block",),
}
SETTINGS = {
    "sqe": ("opcode", "probe"),
    "iocb": ("opcode",),
    "call": ("returns",),
    "overlapped": ("eof",),
    "dispatch": ("returns",),
}
EVERY_ROW = ("via", "only", "unsupported")
# Names that a form adds to an operation's own.
FORM_NAMES = {"overlapped": ("overlapped",), "dispatch": ()}

C_KEYWORDS = frozenset(
    """auto break case char const continue default do double else enum extern float for goto if
    inline int long register restrict return short signed sizeof static struct switch typedef union
    unsigned void volatile while bool true false NULL""".split()
)
PYTHON_KEYWORDS = frozenset(
    """False None True and as assert async await break class continue def del elif else except
    finally for from global if import in is lambda nonlocal not or pass raise return try while with
    yield""".split()
)
# What generated functions call their own variables.
TAKEN = frozenset(
    "op self args nargs kwnames names signature values operation sqe iocb overlapped result error "
    "world queue done context".split()
)
# Operations that would be called like something that generated or handwritten C defines already:
# aya_op_NAME(), AYA_OP_NAME, AYA_NAME_WORD.
TAKEN_OPS = frozenset(
    """code count error_kind info infos room total backend cancel config descriptor error example
    file inline mount no on option probe queue result route row state statx verdict""".split()
)
# Backends whose file would be one that is generated for all of them.
TAKEN_BACKENDS = frozenset(
    "backends config examples inline ops platform python_ops".split()
)
