"""Plugins that cannot be used: the daemon ends with a code that is not 0 and one line that names the file, what was
wrong, what was expected, and what to do."""

from __future__ import annotations

import pathlib
import re
import signal

import pytest

from daemon import Daemon, refuses_to_start
from plugins import built_plugin, plugin_path

# What the one line says, after the name of the file; and what to do about it.
STUBS = {
    "no_symbol": ("is a library but not a PJRT plugin: it has no GetPjrtApi", "--plugin FILE"),
    "null_api": ("is not usable: its GetPjrtApi returned NULL, not a function table", "another release"),
    "wrong_major": ("speaks PJRT 1.114, this pjrtd speaks 0.114 and takes 0.57 to 0.x", "install a newer pjrtd, or an older plugin"),
    "too_old": ("speaks PJRT 0.40, this pjrtd speaks 0.114 and takes 0.57 to 0.x", "install a newer plugin"),
    "short_struct": ("it says that it speaks PJRT 0.114, whose PJRT_Api has at least 1144 bytes, but its own has 504", "another release"),
    "short_for_its_version": ("PJRT 0.114, whose PJRT_Api has at least 1144 bytes, but its own has 984", "another release"),
    "ends_early": ("entry 118 of its PJRT_Api is no function; it says that the table has 1144 bytes", "another release"),
    "bare_header": ("its PJRT_Api has 16 bytes, fewer than the 40 of its head", "another release"),
    "odd_size": ("its PJRT_Api has 1145 bytes; a table has a multiple of 8, and under 65536", "another release"),
    "huge_size": ("its PJRT_Api has 18446744073709551608 bytes; a table has a multiple of 8, and under 65536", "another release"),
    "null_slot": ("its PJRT_LoadedExecutable_Execute is NULL (the plugin speaks PJRT 0.114, pjrtd was built with 0.114)", "cannot do without"),
    "missing_slot": ("its PJRT_Event_OnReady is NULL", "cannot do without"),
    "endless_extensions": ("its extensions form a chain of more than 256", "another release"),
    "initialize_fails": ("the stub does not want to", "device and driver"),
    "missing_library": ("libpjrtd_nowhere_to_be_found.so: cannot open shared object file", "LD_LIBRARY_PATH"),
    "library_needs": ("undefined symbol: pjrtd_stub_given", "other versions of its libraries"),
}

# How a plugin ends the process while it starts, and doing what.
ENDS = {
    "wild_api": ("signal 11 (SIGSEGV)", "it was asked for its function table", -signal.SIGSEGV),
    "initialize_crashes": ("signal 11 (SIGSEGV)", "it was initialised", -signal.SIGSEGV),
    "initialize_aborts": ("signal 6 (SIGABRT)", "it was initialised", -signal.SIGABRT),
    "initialize_exits": ("exit(3)", "it was initialised", 3),
    "initialize_exits_with_0": ("exit(0)", "it was initialised", 1),
    "exits_when_opened": ("exit(4)", "it was opened", 4),
}


def one_error(log: str, path: object, *words: str) -> None:
    """One line of the log is an error, and has these words and the file's name; the plugin was never "loaded"."""
    errors = [line for line in log.splitlines() if " level=error " in line]
    assert len(errors) == 1, log
    for word in (str(path), *words):
        assert word in errors[0], f"{word!r} is not in: {errors[0]}"
    assert re.search(r' hint="[^"]+"', errors[0]), f"nothing says what to do: {errors[0]}"
    assert "loaded" not in log


@pytest.mark.parametrize("name", STUBS)
def test_a_plugin_that_is_wrong_in_one_way(name: str) -> None:
    path = built_plugin(f"stubs/stub_{name}")
    one_error(refuses_to_start(Daemon(plugin=path)), path, *STUBS[name])


@pytest.mark.parametrize("name", ENDS)
def test_a_plugin_that_ends_the_process(name: str) -> None:
    how, doing, right = ENDS[name]
    path = built_plugin(f"stubs/stub_{name}")
    daemon = Daemon(plugin=path)
    try:
        daemon.spawn()
        code = daemon.wait(10)
        log = daemon.log()
        assert code != 0 and daemon.output == []
        if "Sanitizer" in log:  # one takes signals itself, and does not like an end inside dlopen
            return
        assert code == right
        one_error(log, path, f"ended the process with {how} while {doing}")
    finally:
        daemon.discard()


def test_no_such_plugin() -> None:
    one_error(refuses_to_start(Daemon(plugin="/nonexistent/plugin.so")), "/nonexistent/plugin.so", "No such file")


@pytest.mark.parametrize("content,words", [
    (b"this is no library\n", "it is not a shared library (it has no ELF header)"),
    (b"", "it is not a shared library (it has no ELF header)"),
    (b"\x7fELF\x02\x01\x01" + bytes(60), "it is a library for ELF machine 0, this machine needs one for "),
    (b"\x7fELF\x02\x01\x01", ""),
])
def test_files_that_are_no_libraries(tmp_path: pathlib.Path, content: bytes, words: str) -> None:
    path = tmp_path / "plugin.so"
    path.write_bytes(content)
    one_error(refuses_to_start(Daemon(plugin=path)), path, words)


def test_a_folder_as_plugin(tmp_path: pathlib.Path) -> None:
    one_error(refuses_to_start(Daemon(plugin=tmp_path)), tmp_path, "directory")


@pytest.mark.parametrize("offset,value,machine", [(18, 183, "aarch64"), (18, 243, "RISC-V"), (18, 3, "32-bit x86")])
def test_a_library_for_another_machine(tmp_path: pathlib.Path, offset: int, value: int, machine: str) -> None:
    changed = bytearray(built_plugin("stubs/stub_null_api").read_bytes())
    changed[offset] = value
    path = tmp_path / "plugin.so"
    path.write_bytes(changed)
    one_error(refuses_to_start(Daemon(plugin=path)), path, f"it is a library for {machine}, this machine needs one for ",
              "that is for this machine")


def test_a_library_that_is_cut_short(tmp_path: pathlib.Path) -> None:
    whole = built_plugin("stubs/stub_null_api").read_bytes()
    path = tmp_path / "plugin.so"
    path.write_bytes(whole[:1000])
    daemon = Daemon(plugin=path)
    try:
        daemon.spawn()
        assert daemon.wait(10) != 0 and daemon.output == []
        if "Sanitizer" not in daemon.log():
            one_error(daemon.log(), path, "signal 7 (SIGBUS) while it was opened", "damaged")
    finally:
        daemon.discard()


def test_a_library_that_is_no_plugin() -> None:
    lines = pathlib.Path("/proc/self/maps").read_text().splitlines()
    path = next(line.split()[-1] for line in lines if line.endswith("libm.so.6"))
    one_error(refuses_to_start(Daemon(plugin=path)), path, "GetPjrtApi")


def test_an_unknown_create_option() -> None:
    log = refuses_to_start(Daemon(args=["--option", "no_such_option=1"]))
    errors = [line for line in log.splitlines() if " level=error " in line]
    assert len(errors) == 1 and "no_such_option" in errors[0] and str(plugin_path().resolve()) in errors[0] and " hint=" in errors[0]


def test_unknown_xla_flags_are_explained() -> None:
    """The plugin ends the process by itself: what it was and what it did not like stands in the log."""
    log = refuses_to_start(Daemon(env={"XLA_FLAGS": "--xla_no_such_flag_at_all=1"}), "xla_no_such_flag_at_all")
    assert "XLA_FLAGS" in log and str(plugin_path()) in log
