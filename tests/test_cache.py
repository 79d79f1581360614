"""Compiled programs are kept in the user's cache folder, and nothing breaks where they cannot be."""

import jax
import jax.numpy as jnp
import numpy as np
import pytest

from xpr import cache


@pytest.fixture
def fresh():
    """JAX without a cache, before and after."""
    before = jax.config.jax_persistent_cache_min_compile_time_secs
    yield
    jax.config.update("jax_compilation_cache_dir", None)
    jax.config.update("jax_persistent_cache_min_compile_time_secs", before)
    cache.compilation_cache.reset_cache()


def test_every_system_has_its_folder():
    home = {"HOME": "/h", "LOCALAPPDATA": "/local"}
    inside = {s: cache.folder(home, s).parts[:-1] for s in ("linux", "darwin", "win32")}
    assert inside["linux"] == ("/", "h", ".cache", "xpr")
    assert inside["darwin"] == ("/", "h", "Library", "Caches", "xpr")
    assert inside["win32"] == ("/", "local", "xpr")
    assert str(cache.folder(home | {"XDG_CACHE_HOME": "/x"}, "linux")).startswith("/x/xpr/")
    assert str(cache.folder({"XPR_CACHE": "/mine"})) == "/mine"
    assert cache.folder({"XPR_CACHE": "off"}) is cache.folder({"XPR_CACHE": "0"}) is None


def test_a_compiled_program_is_kept(fresh, monkeypatch, tmp_path):
    """Even when something has been compiled before."""
    jax.jit(lambda x: x + 2)(1.0)
    monkeypatch.setenv("XPR_CACHE", str(tmp_path / "new"))
    cache.turn_on()
    jax.jit(lambda x: jnp.sin(x) + 3)(1.0)
    assert list((tmp_path / "new").iterdir())


def test_machine_code_is_kept_and_damage_in_it_is_noticed(fresh, tmp_path):
    """The instructions are made once; a file with a flipped bit is never run."""
    program = pytest.importorskip("xpr.pipeline.kernels.program")
    jax.config.update("jax_compilation_cache_dir", str(tmp_path))
    made = []

    def text():
        new = program.Program("answer")
        program.store(new.b, program.long(42), new.function.args[0], program.long(0))
        made.append(new)
        return new.text()

    def answer():
        place = np.zeros(1, np.int64)
        program.compiled("answer", "of this test", text)(place.ctypes.data)
        return place[0], len(made)

    assert answer() == (42, 1)
    assert answer() == (42, 1)
    (file,) = (tmp_path / "kernels").iterdir()
    whole = bytearray(file.read_bytes())
    whole[len(whole) // 2] ^= 1
    file.write_bytes(whole)
    assert answer() == (42, 2)
    assert answer() == (42, 2)


def test_a_folder_that_cannot_be_made_is_no_error(fresh, monkeypatch, tmp_path):
    (tmp_path / "file").write_text("")
    monkeypatch.setenv("XPR_CACHE", str(tmp_path / "file" / "below"))
    cache.turn_on()
    assert jax.config.jax_compilation_cache_dir is None


def test_a_folder_of_the_users_own_choice_stays(fresh, monkeypatch, tmp_path):
    jax.config.update("jax_compilation_cache_dir", str(tmp_path / "own"))
    monkeypatch.setenv("XPR_CACHE", str(tmp_path / "new"))
    cache.turn_on()
    assert jax.config.jax_compilation_cache_dir == str(tmp_path / "own")
