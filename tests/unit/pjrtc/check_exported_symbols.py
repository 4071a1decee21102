"""Holds the symbols that libpjrtc exports against its version script and its headers: all three must name the same."""

import argparse
import re
import subprocess
import sys
from pathlib import Path


def main() -> int:
    parser = argparse.ArgumentParser()
    for name in ("library", "map", "headers", "nm"):
        parser.add_argument("--" + name, required=True)
    options = parser.parse_args()

    listing = subprocess.run([options.nm, "-D", "--defined-only", options.library], check=True, text=True,
                             capture_output=True).stdout
    symbols = {line.split()[-1].split("@")[0] for line in listing.splitlines() if line.split()[-2] != "A"}
    script = Path(options.map).read_text()
    listed = set(re.findall(r"^\s+(\w+);$", script.split("local:")[0], re.MULTILINE))
    header = "\n".join(path.read_text() for path in sorted(Path(options.headers).glob("*.h")))
    declared = set(re.findall(r"^PJRTC_API[^;]*?\b(pjrtc_\w+)\s*\(", header, re.MULTILINE))

    faults = [f"{what}: {', '.join(sorted(names))}"
              for what, names in (("exported and not in the version script", symbols - listed),
                                  ("in the version script and not exported", listed - symbols),
                                  ("declared in the headers and not exported", declared - symbols),
                                  ("exported and not declared in the headers", symbols - declared))
              if names]
    if len(symbols) < 10:
        faults.append(f"only {len(symbols)} symbols were found in {options.library}")
    print("\n".join(faults) or f"{len(symbols)} symbols")
    return 1 if faults else 0


if __name__ == "__main__":
    sys.exit(main())
