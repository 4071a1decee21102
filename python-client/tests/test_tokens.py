"""The file of tokens: private, whole, and kept by target and name."""

from __future__ import annotations

import json
import threading
from pathlib import Path

import pytest

from pjrtd import errors, tokens

HERE = "grpc://127.0.0.1:7578"


@pytest.fixture(autouse=True)
def state(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    monkeypatch.setenv("XDG_STATE_HOME", str(tmp_path / "state"))
    return tmp_path / "state" / "pjrtd"


def test_tokens_are_kept_by_target_and_name(state: Path) -> None:
    assert tokens.find(HERE, "a") is None
    tokens.put(HERE, "a", "one")
    tokens.put(HERE, "b", "two")
    tokens.put("grpc://elsewhere", "a", "three")
    assert [tokens.find(HERE, "a"), tokens.find(HERE, "b"), tokens.find("grpc://elsewhere", "a")] == ["one", "two", "three"]
    tokens.put(HERE, "a", "four")
    tokens.forget(HERE, "a", "one")
    assert tokens.find(HERE, "a") == "four", "another one took its place"
    tokens.forget(HERE, "a", "four")
    tokens.forget(HERE, "b", "two")
    assert json.loads((state / "tokens").read_text()) == {"grpc://elsewhere": {"a": "three"}}


def test_nobody_else_may_read_them(state: Path) -> None:
    tokens.put(HERE, "a", "one")
    assert state.stat().st_mode & 0o777 == 0o700
    assert {path.name: path.stat().st_mode & 0o777 for path in state.iterdir()} == {"tokens": 0o600, "tokens.lock": 0o600}


@pytest.mark.parametrize("name, mode", [("tokens", 0o640), ("tokens", 0o604), (".", 0o750), (".", 0o701)])
def test_what_others_may_use_is_refused(state: Path, name: str, mode: int) -> None:
    tokens.put(HERE, "a", "one")
    (state / name).chmod(mode)
    for use in (lambda: tokens.find(HERE, "a"), lambda: tokens.put(HERE, "b", "two")):
        with pytest.raises(errors.PermissionDenied, match=f"its mode is {mode:04o}") as refused:
            use()
        assert "chmod" in refused.value.hint


@pytest.mark.parametrize("text, said", [("{", "is not JSON"), ("[]", "is not a table"), ("", "is not JSON")])
def test_a_damaged_file_says_so(state: Path, text: str, said: str) -> None:
    tokens.put(HERE, "a", "one")
    (state / "tokens").write_text(text)
    with pytest.raises(errors.FailedPrecondition, match=said):
        tokens.find(HERE, "a")


def test_a_relative_state_home_is_not_used(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("XDG_STATE_HOME", "relative")
    monkeypatch.setenv("HOME", str(tmp_path))
    tokens.put(HERE, "a", "one")
    assert (tmp_path / ".local" / "state" / "pjrtd" / "tokens").exists()


def test_many_writers_lose_nothing() -> None:
    def write(first: int) -> None:
        for number in range(first, first + 20):
            tokens.put(HERE, f"s{number}", str(number))

    threads = [threading.Thread(target=write, args=(first,)) for first in range(0, 80, 20)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert [tokens.find(HERE, f"s{number}") for number in range(80)] == [str(number) for number in range(80)]


def test_a_link_is_not_followed_when_writing(state: Path, tmp_path: Path) -> None:
    import os

    tokens.put(HERE, "a", "one")
    victim = tmp_path / "victim"
    victim.write_text("mine")
    (state / f"tokens.{os.getpid()}").symlink_to(victim)
    with pytest.raises(OSError):
        tokens.put(HERE, "b", "two")
    assert victim.read_text() == "mine" and tokens.find(HERE, "a") == "one"
