#!/usr/bin/env python3
"""Brings the pinned headers into the build tree.

    fetch.py --pins pins.txt --out DIR [--cache DIR] [--archive FILE]

The archive named in the pins file is taken from the first of these, and is used only if its SHA-256 is the pinned one:

1. --archive, or the environment variable PJRTD_VENDOR_ARCHIVE: a file, for machines without a network;
2. the cache folder (--cache, PJRTD_VENDOR_CACHE, or pjrtd/ in the user's cache folder), so that a second build folder
   does not download again;
3. a package index, through pip with whatever configuration pip has.

Only headers, compile_options.proto and the generated ABI table are unpacked, under DIR/include/xla and DIR/abi. Nothing
of the archive is executed. Standard library only.
"""

from __future__ import annotations

import argparse
import hashlib
import os
import re
import shutil
import subprocess
import sys
import tarfile
import tempfile
from dataclasses import dataclass
from pathlib import Path


class FetchError(Exception):
    """Says what went wrong and what to do about it."""


@dataclass(frozen=True)
class Pin:
    name: str
    version: str
    sha256: str

    @property
    def archive(self) -> str:
        return f"{self.name}-{self.version}.tar.gz"


def read_pin(path: Path) -> Pin:
    for line in path.read_text(encoding="utf-8").splitlines():
        match = re.fullmatch(r"([A-Za-z0-9_.-]+)==(\S+)\s+--hash=sha256:([0-9a-f]{64})", line.strip())
        if match:
            return Pin(*match.groups())
    raise FetchError(f"{path} pins nothing")


def sha256_of(path: Path) -> str:
    digest = hashlib.sha256()
    with path.open("rb") as file:
        for block in iter(lambda: file.read(1 << 20), b""):
            digest.update(block)
    return digest.hexdigest()


def check(path: Path, pin: Pin) -> None:
    actual = sha256_of(path)
    if actual != pin.sha256:
        raise FetchError(f"{path}: SHA-256 is {actual}, pinned is {pin.sha256}")


def pip_commands(scratch: Path) -> list[list[str]]:
    """Ways to run pip, the likeliest first; the last makes a virtual environment to have one."""
    commands = [[sys.executable, "-m", "pip"], ["/usr/bin/python3", "-m", "pip"], ["pip3"], ["pip"]]
    commands = [command for command in commands if shutil.which(command[0])]
    usable = [command for command in commands
              if subprocess.run([*command, "--version"], capture_output=True, check=False).returncode == 0]
    if not usable:
        venv = scratch / "venv"
        made = subprocess.run([sys.executable, "-m", "venv", str(venv)], capture_output=True, text=True, check=False)
        if made.returncode == 0:
            usable = [[str(venv / "bin" / "python"), "-m", "pip"]]
    if not usable:
        raise FetchError("no pip found: install python3-pip (or python3-venv), or give the archive with "
                         "PJRTD_VENDOR_ARCHIVE=FILE")
    return usable


# pip asks a source archive's build backend for metadata even when it only downloads. This stand-in answers instead, so
# that neither the backend is downloaded nor code of the archive is run.
STAND_IN = '''
import os
def get_requires_for_build_wheel(config_settings=None): return []
def prepare_metadata_for_build_wheel(metadata_directory, config_settings=None):
    name = "{name}-{version}.dist-info"
    os.mkdir(os.path.join(metadata_directory, name))
    with open(os.path.join(metadata_directory, name, "METADATA"), "w") as file:
        file.write("Metadata-Version: 2.1\\nName: {name}\\nVersion: {version}\\n")
    return name
'''


def write_stand_in(folder: Path, pin: Pin) -> Path:
    package = folder / "backend" / "hatchling"
    package.mkdir(parents=True)
    (package / "__init__.py").write_text("", encoding="utf-8")
    (package / "build.py").write_text(STAND_IN.format(name=pin.name, version=pin.version), encoding="utf-8")
    return package.parent


def download(pin: Pin, target: Path) -> None:
    """Leaves the archive at `target`, checked, whole or not at all."""
    target.parent.mkdir(parents=True, exist_ok=True)
    with tempfile.TemporaryDirectory(prefix=".fetch-", dir=target.parent) as name:
        scratch = Path(name)
        requirements = scratch / "requirements.txt"
        requirements.write_text(f"{pin.name}=={pin.version} --hash=sha256:{pin.sha256}\n", encoding="utf-8")
        stand_in = write_stand_in(scratch, pin)
        failures: list[str] = []
        for pip in pip_commands(scratch):
            common = [*pip, "download", "--quiet", "--disable-pip-version-check", "--no-deps", "--require-hashes",
                      "--no-binary", pin.name, "--dest", str(scratch), "-r", str(requirements)]
            without_backend = {**os.environ, "PYTHONPATH": str(stand_in)}
            for command, environment in (([*common, "--no-build-isolation"], without_backend), (common, None)):
                run = subprocess.run(command, capture_output=True, text=True, check=False, env=environment)
                found = scratch / pin.archive
                if run.returncode == 0 and found.is_file():
                    check(found, pin)
                    os.replace(found, target)
                    return
                failures.append(f"$ {' '.join(command)}\n{run.stderr.strip() or run.stdout.strip()}")
        raise FetchError(f"could not download {pin.archive}; to build without a network, give the file with "
                         "PJRTD_VENDOR_ARCHIVE=FILE\n" + "\n".join(failures))


def find_archive(pin: Pin, archive: str | None, cache: Path) -> Path:
    if archive:
        path = Path(archive)
        if not path.is_file():
            raise FetchError(f"PJRTD_VENDOR_ARCHIVE names {path}, which is not a file")
        check(path, pin)
        return path
    path = cache / pin.archive
    if path.is_file():
        try:
            check(path, pin)
            return path
        except FetchError as error:
            print(f"{error}; downloading it again", file=sys.stderr)
            path.unlink()
    download(pin, path)
    return path


def destination(member: str, root: str) -> str | None:
    """Where a member of the archive goes, relative to the output folder; None: it is not unpacked."""
    headers = f"{root}/vendor/xla/"
    if member.startswith(headers) and (member.endswith(".h") or member.endswith("/compile_options.proto")):
        return "include/xla/" + member[len(headers):]
    if re.fullmatch(re.escape(root) + r"/src/pypjrt/_abi/pjrt_\d+_\d+\.py", member):
        return "abi/" + member.rsplit("/", 1)[1]
    return None


def unpack(archive: Path, pin: Pin, out: Path) -> int:
    count = 0
    with tarfile.open(archive) as tar:
        for member in tar:
            target = destination(member.name, f"{pin.name}-{pin.version}")
            if target is None or not member.isfile() or ".." in Path(target).parts:
                continue
            source = tar.extractfile(member)
            assert source is not None
            path = out / target
            path.parent.mkdir(parents=True, exist_ok=True)
            path.write_bytes(source.read())
            count += 1
    if not (out / "include/xla/pjrt/c/pjrt_c_api.h").is_file():
        raise FetchError(f"{archive} has no vendor/xla/pjrt/c/pjrt_c_api.h")
    return count


def default_cache() -> Path:
    if named := os.environ.get("PJRTD_VENDOR_CACHE"):
        return Path(named)
    base = os.environ.get("XDG_CACHE_HOME") or os.path.join(os.path.expanduser("~"), ".cache")
    return Path(base) / "pjrtd"


def usable(cache: Path, out: Path) -> Path:
    """The cache folder, or one beside the output where that cannot be written to."""
    try:
        cache.mkdir(parents=True, exist_ok=True)
        with tempfile.TemporaryFile(dir=cache):
            return cache
    except OSError:
        return out.parent / "downloads"


def main() -> int:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--pins", type=Path, required=True)
    parser.add_argument("--out", type=Path, required=True)
    parser.add_argument("--cache", type=Path, default=None)
    parser.add_argument("--archive", default=os.environ.get("PJRTD_VENDOR_ARCHIVE"))
    arguments = parser.parse_args()
    try:
        pin = read_pin(arguments.pins)
        stamp = arguments.out / "unpacked"
        if stamp.is_file() and stamp.read_text(encoding="utf-8") == pin.sha256:
            return 0
        archive = find_archive(pin, arguments.archive, usable(arguments.cache or default_cache(), arguments.out))
        shutil.rmtree(arguments.out, ignore_errors=True)
        arguments.out.mkdir(parents=True)
        count = unpack(archive, pin, arguments.out)
        stamp.write_text(pin.sha256, encoding="utf-8")
        print(f"{count} files of {pin.archive} unpacked into {arguments.out}")
        return 0
    except (FetchError, OSError, tarfile.TarError) as error:
        print(f"vendor/fetch.py: {error}", file=sys.stderr)
        return 1


if __name__ == "__main__":
    sys.exit(main())
