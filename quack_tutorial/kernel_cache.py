"""Compiled kernels kept on disk, so that a new process loads them instead of compiling them again.

| function        | gives                                                                               |
|-----------------|-------------------------------------------------------------------------------------|
| `folder()`      | where kernels are kept, or None if they are not                                     |
| `key(*parts)`   | a name for what a kernel is made from, the same in every process                    |
| `find(key)`     | the file of a kernel, or of its PTX, if there is a whole one of this user's         |
| `keep(key, w)`  | has `w(path)` write a file, and puts it in its place                                |
| `discard(path)` | removes a file that turned out to be useless                                        |

The folder is `$QUACK_TUTORIAL_CACHE`, such as ~/.cache/quack-tutorial; without that variable nothing is kept. It can be
deleted at any time. A file holds code for the host and for the GPU, which is why only files are loaded that belong to the
user and that nobody else could have written.

A file's name ends with the hash of its content: one rename puts it in place whole, and what is broken is seen.
"""

from __future__ import annotations

import enum
import hashlib
import os
import sys
import tempfile
import types
import warnings
from collections.abc import Callable
from contextlib import suppress
from pathlib import Path

VARIABLE = "QUACK_TUTORIAL_CACHE"
SUFFIX = ".o"
HASH_DIGITS = 32  # of a sha256, in hexadecimal
NAMED = (type, types.FunctionType, types.BuiltinFunctionType)
NAMED += (types.WrapperDescriptorType, types.MethodDescriptorType)


def folder() -> Path | None:
    """Where compiled kernels are kept, or None if the user named no place; it need not exist yet."""
    chosen = os.environ.get(VARIABLE)
    return Path(chosen).expanduser() if chosen else None


class Unnameable(Exception):
    """Something that a kernel is made from has no name that a later process would give it too."""


def key(*parts) -> str | None:
    """A name for `parts`: equal in every process for equal parts; None if there is none for one of them.

    Parts are numbers, strings, code objects, classes, functions, enum members, modules, and tuples, lists and dicts of
    those.
    """
    digest = hashlib.sha256()
    try:
        _feed(digest, parts)
    except Unnameable:
        return None
    return digest.hexdigest()[:HASH_DIGITS]


def find(key: str, suffix: str = SUFFIX) -> Path | None:
    """The whole file kept for `key`, with that suffix; None if there is none. A broken one is removed, another user's ignored."""
    where = folder()
    if where is None:
        return None
    for path in sorted(where.glob(f"{key}-*{suffix}")):
        with suppress(OSError):
            if not _only_ours(path):
                continue
            if path.name == _file_name(key, path.read_bytes(), suffix):
                return path
            discard(path)
    return None


def keep(key: str, write: Callable[[str], object], suffix: str = SUFFIX) -> Path | None:
    """Have `write(path)` write the kernel's file, and put it in its place; None, with a warning, if the folder refuses it."""
    where = folder()
    if where is None:
        return None
    try:
        where.mkdir(mode=0o700, parents=True, exist_ok=True)
        with tempfile.TemporaryDirectory(dir=where, prefix="writing-") as private:
            written = Path(private, f"kernel{suffix}")
            write(str(written))
            written.chmod(0o600)
            return written.replace(where / _file_name(key, written.read_bytes(), suffix))
    except OSError as error:
        warnings.warn(
            f"compiled kernels are not kept on disk in {where} ({error.strerror}): set {VARIABLE} to a folder that can be "
            "written, or to nothing to do without",
            stacklevel=2,
        )
        return None


def discard(path: Path) -> None:
    """Remove a file that turned out to be useless."""
    with suppress(OSError):
        path.unlink()


def _file_name(key: str, content: bytes, suffix: str) -> str:
    return f"{key}-{hashlib.sha256(content).hexdigest()[:HASH_DIGITS]}{suffix}"


def _only_ours(path: Path) -> bool:
    """Whether file and folder are the user's, and nobody else may write them."""
    if not hasattr(os, "getuid"):
        return True
    return all(
        status.st_uid == os.getuid() and not status.st_mode & 0o022 for status in (path.lstat(), path.parent.stat())
    )


def _feed(digest, value) -> None:
    """Add `value` to `digest`, in a form that tells kinds and lengths apart."""
    if isinstance(value, (tuple, list)):
        _feed_all(digest, type(value).__name__, value)
    elif isinstance(value, dict):
        _feed_all(digest, "dict", [part for item in value.items() for part in item])
    elif isinstance(value, (set, frozenset)):
        _feed_all(digest, "set", sorted(value, key=repr))
    elif isinstance(value, types.CodeType):
        # Not where the code is: a kernel that moved to another line or file is the same kernel.
        names = (value.co_names, value.co_varnames, value.co_freevars, value.co_cellvars)
        counts = (value.co_argcount, value.co_posonlyargcount, value.co_kwonlyargcount, value.co_flags)
        _feed_all(digest, "code", (value.co_code, value.co_consts, names, counts))
    elif isinstance(value, enum.Enum):
        _feed_all(digest, "enum", (type(value), value.name))
    elif value is None or value is Ellipsis or isinstance(value, (bool, int, float, complex, str, bytes)):
        _add(digest, f"{type(value).__name__} {value!r}")
    elif isinstance(value, NAMED):
        if "<locals>" in value.__qualname__:
            raise Unnameable(value)
        _add(digest, f"{type(value).__name__} {getattr(value, '__module__', None)}.{value.__qualname__}")
    elif isinstance(value, types.ModuleType):
        _add(digest, f"module {value.__name__} {_source_hash(value)}")
    else:
        raise Unnameable(value)


def _feed_all(digest, kind: str, values) -> None:
    _add(digest, f"{kind} {len(values)}")
    for value in values:
        _feed(digest, value)


def _add(digest, text: str) -> None:
    data = text.encode()
    digest.update(f"{len(data)}:".encode() + data)


def _source_hash(module) -> str:
    """The hash of a module's file; nothing for the standard library, which is as old as Python."""
    if module.__name__.partition(".")[0] in sys.stdlib_module_names:
        return ""
    try:
        return hashlib.sha256(Path(module.__file__).read_bytes()).hexdigest()
    except (AttributeError, TypeError, OSError):
        return ""
