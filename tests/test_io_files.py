"""Files are whole or absent."""

import pytest

from xpr.files import atomic_write


def test_a_block_that_ends_well_replaces_the_file(tmp_path):
    path = tmp_path / "a.txt"
    path.write_text("old")
    with atomic_write(path) as temporary:
        temporary.write_text("new")
        assert path.read_text() == "old"
        assert temporary.suffix == ".txt" and temporary.parent == tmp_path
    assert path.read_text() == "new"
    assert list(tmp_path.iterdir()) == [path]


def test_a_block_that_fails_leaves_the_old_file_and_nothing_else(tmp_path):
    path = tmp_path / "a.txt"
    path.write_text("old")
    with pytest.raises(RuntimeError, match="half way"), atomic_write(path) as temporary:
        temporary.write_text("half")
        raise RuntimeError("half way")
    assert path.read_text() == "old"
    assert list(tmp_path.iterdir()) == [path]


def test_a_missing_folder_is_named(tmp_path):
    with pytest.raises(FileNotFoundError, match="nowhere"), atomic_write(tmp_path / "nowhere/a"):
        pytest.fail("the block ran")


def test_a_folder_is_no_place_for_a_file(tmp_path):
    """The error names the folder, not the temporary file beside it."""
    with pytest.raises(IsADirectoryError) as caught, atomic_write(tmp_path):
        pytest.fail("the block ran")
    assert caught.value.filename == str(tmp_path) and "expected the name" in str(caught.value)
