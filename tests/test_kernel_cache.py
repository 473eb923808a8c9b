"""The folder of compiled kernels: names that hold in every process, whole files only, nobody else's files."""

import os
import warnings

import pytest
from running import python

from quack_tutorial import compiler, kernel_cache


@pytest.fixture
def folder(tmp_path, monkeypatch):
    monkeypatch.setenv(kernel_cache.VARIABLE, str(tmp_path / "kernels"))
    return tmp_path / "kernels"


def write(content):
    def to(path):
        with open(path, "wb") as file:
            file.write(content)

    return to


def test_what_is_kept_is_found_whole(folder):
    assert kernel_cache.find("a" * 32) is None
    kept = kernel_cache.keep("a" * 32, write(b"code"))
    assert kernel_cache.find("a" * 32) == kept and kept.read_bytes() == b"code"
    assert kernel_cache.find("b" * 32) is None
    assert [path.name for path in folder.iterdir()] == [kept.name]  # nothing half-written stays


def test_a_broken_file_is_removed_and_others_files_are_ignored(folder):
    kept = kernel_cache.keep("a" * 32, write(b"code"))
    kept.write_bytes(b"cod")
    assert kernel_cache.find("a" * 32) is None and not kept.exists()
    if hasattr(os, "getuid"):
        kept = kernel_cache.keep("a" * 32, write(b"code"))
        kept.chmod(0o666)
        assert kernel_cache.find("a" * 32) is None and kept.exists()


def test_a_folder_that_cannot_be_written_is_named_once(tmp_path, monkeypatch):
    (tmp_path / "file").write_text("not a folder")
    monkeypatch.setenv(kernel_cache.VARIABLE, str(tmp_path / "file" / "kernels"))
    with pytest.warns(UserWarning, match="compiled kernels are not kept on disk .* QUACK_TUTORIAL_CACHE"):
        assert kernel_cache.keep("a" * 32, write(b"code")) is None


PARTS = "(1, 'x', 2.5, None, [True, {'k': (b'v',)}], (lambda a: a + 1).__code__, len)"


def test_names_are_the_same_in_every_process_and_tell_parts_apart():
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        here = kernel_cache.key(*eval(PARTS))
    script = f"from quack_tutorial import kernel_cache; print(kernel_cache.key(*{PARTS}))"
    for seed in ("1", "2"):
        done = python("-c", script, env={**os.environ, "PYTHONHASHSEED": seed})
        assert done.stdout.strip() == here, done.stderr
    different = [(1,), (1.0,), ("1",), (True,), ((1,),)]
    different += [([1],), ("1", ""), ("", "1"), ((lambda a: a + 2).__code__,)]
    names = {kernel_cache.key(*parts) for parts in different}
    assert len(names) == len(different) and None not in names
    # without a name in another process
    assert kernel_cache.key(object()) is kernel_cache.key(lambda: 1) is None


def test_a_function_given_at_compile_time_is_told_by_its_code():
    """A reader edits a layout function in a notebook's cell, or a helper that it calls, and launches again under the old name."""
    cutlass = pytest.importorskip("cutlass")

    def host(mX, layouts: cutlass.Constexpr): ...

    def keys(source):
        scope = {"__name__": "__main__"}
        exec(source, scope)
        spec = compiler.TensorSpec("int32", (16, 4), (1, 16))
        return compiler._signature_key(host, (spec, scope["layouts"]))

    first, edited = keys("def layouts(): return 4, 1"), keys("def layouts(): return 1, 4")
    helped, helped_anew = (keys(f"STEP = {step}\ndef layouts(): return STEP") for step in (1, 4))
    assert first == keys("def layouts(): return 4, 1") and first != edited and helped != helped_anew
    names = [compiler._kept_name("host", key, "sm_90a") for key in (first, edited, helped, helped_anew)]
    assert None not in names and len(set(names)) == 4


def test_a_compiled_kernel_can_be_written_and_a_damaged_one_is_compiled_again(folder, monkeypatch):
    cutlass = pytest.importorskip("cutlass")
    from quack_tutorial.kernels.tuned.softmax import Softmax

    spec = compiler.TensorSpec("float32", ("M", 64), (64, 1))
    kernel, args = Softmax(cutlass.Float32, 64), (spec, spec)
    key = (compiler._fingerprint(kernel), compiler._signature_key(kernel, args))
    name = compiler._kept_name(*key, "sm_90a")
    assert name is not None
    assert compiler._kept_name(compiler._fingerprint(Softmax(cutlass.Float32, 64)), key[1], "sm_90a") == name
    assert compiler._kept_name(compiler._fingerprint(Softmax(cutlass.Float32, 65)), key[1], "sm_90a") != name
    damaged = kernel_cache.keep(name, write(b"not an object file"))
    loaded = []
    monkeypatch.setattr(compiler, "_load", lambda path, name: loaded.append(path) or None)
    compiled = compiler._load_or_compile(kernel, args, key, arch="sm_90a")
    assert callable(compiled) and loaded[0] == damaged
    assert any(path.read_bytes()[:4] == b"\x7fELF" for path in folder.iterdir() if path != damaged)


def test_ptx_is_kept_too(folder, monkeypatch):
    cutlass = pytest.importorskip("cutlass")
    from quack_tutorial.kernels.tuned.softmax import Softmax

    spec = compiler.TensorSpec("float32", ("M", 64), (64, 1))
    made = compiler.ptx(Softmax(cutlass.Float32, 64), spec, spec)
    monkeypatch.setattr(compiler, "_compile", lambda *args, **more: pytest.fail("it was kept"))
    assert ".entry" in made and compiler.ptx(Softmax(cutlass.Float32, 64), spec, spec) == made
