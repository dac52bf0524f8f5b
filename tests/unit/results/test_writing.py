import os
import stat
import sys
from pathlib import Path

import pytest

from simulator.errors import InputError
from simulator.results.writing import check_writable, replacing


def write(path: Path, text: bytes = b"new") -> None:
    with replacing(path) as file:
        file.write(text)


def test_file_appears_whole(tmp_path: Path) -> None:
    target = tmp_path / "out.json"
    with replacing(target) as file:
        file.write(b"half")
        assert not target.exists()
        file.write(b" and half")
    assert target.read_bytes() == b"half and half"
    assert os.listdir(tmp_path) == ["out.json"]


def test_nothing_is_left_and_the_old_file_stays_when_writing_fails(tmp_path: Path) -> None:
    target = tmp_path / "out.json"
    target.write_bytes(b"old")
    with pytest.raises(KeyboardInterrupt), replacing(target) as file:
        file.write(b"new")
        raise KeyboardInterrupt
    assert target.read_bytes() == b"old"
    assert os.listdir(tmp_path) == ["out.json"]


def test_mode_of_an_existing_file_is_kept_and_a_new_one_respects_the_mask(tmp_path: Path) -> None:
    target, fresh = tmp_path / "old", tmp_path / "new"
    target.write_bytes(b"")
    target.chmod(0o640)
    write(target)
    previous = os.umask(0o027)
    try:
        write(fresh)
    finally:
        os.umask(previous)
    assert [stat.S_IMODE(path.stat().st_mode) for path in (target, fresh)] == [0o640, 0o640]


def test_links_are_followed(tmp_path: Path) -> None:
    target, link = tmp_path / "real", tmp_path / "link"
    target.write_bytes(b"old")
    link.symlink_to(target)
    write(link)
    assert link.is_symlink()
    assert target.read_bytes() == b"new"


@pytest.mark.skipif(sys.platform == "win32", reason="no such device")
def test_devices_are_written_and_not_replaced() -> None:
    check_writable("/dev/null")
    write(Path("/dev/null"))
    assert stat.S_ISCHR(os.stat("/dev/null").st_mode)


@pytest.mark.parametrize(
    ("place", "message"),
    [
        (".", "is a folder"),
        ("missing/out.json", "its folder does not exist"),
        ("file/out.json", "its folder does not exist"),
    ],
)
def test_places_that_cannot_be_written(tmp_path: Path, place: str, message: str) -> None:
    (tmp_path / "file").write_bytes(b"")
    for attempt in (check_writable, write):
        with pytest.raises(InputError, match=message):
            attempt(tmp_path / place)
    assert os.listdir(tmp_path) == ["file"]


@pytest.mark.parametrize("path", ["", "a\0b"])
def test_names_that_no_file_has(path: str) -> None:
    with pytest.raises(InputError):
        check_writable(path)


def test_system_errors_are_told(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    def refuse(*_: object, **__: object) -> int:
        raise PermissionError(13, "Permission denied")

    monkeypatch.setattr(os, "open", refuse)
    with pytest.raises(InputError, match=r"out: cannot be written: Permission denied"):
        check_writable(tmp_path / "out")


def test_write_protected_file_is_not_replaced(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    target = tmp_path / "out"
    target.write_bytes(b"old")
    monkeypatch.setattr(os, "access", lambda path, mode: False)  # root may write anything
    with pytest.raises(InputError, match="write-protected"):
        check_writable(target)


def test_full_disk_leaves_nothing(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    def full(descriptor: int) -> None:
        raise OSError(28, "No space left on device")

    monkeypatch.setattr(os, "fsync", full)
    with pytest.raises(InputError, match="No space left on device"):
        write(tmp_path / "out")
    assert os.listdir(tmp_path) == []


def test_checking_leaves_nothing(tmp_path: Path) -> None:
    check_writable(tmp_path / "out")
    assert os.listdir(tmp_path) == []
