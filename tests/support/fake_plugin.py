"""A daemon on the fake plugin (tests/fake_plugin/fake_plugin.h says what its scripts can do), and programs for it."""

from __future__ import annotations

import pathlib
import tempfile
from collections.abc import Mapping, Sequence
from typing import Any

from daemon import Daemon
from plugins import built_plugin


class FakeDaemon(Daemon):
    """`platform` "cpu": the daemon reads device memory in place and runs quick programs on its loop; any other name:
    everything goes through copies and lanes."""

    def __init__(self, script: str = "", *, platform: str = "cpu", devices: int = 2, args: Sequence[str] = (),
                 settings: Mapping[str, object] | None = None, **options: Any) -> None:
        folder = pathlib.Path(tempfile.mkdtemp(prefix="pjrtd-fake-"))
        self.fake_folder = folder / "fake"
        self.fake_folder.mkdir()
        made = ["--option", f"platform={platform}", "--option", f"devices={devices}", *args]
        # Scripts count the calls of an executable: it is not to stay for the next program of the same text.
        super().__init__(folder=folder, plugin=built_plugin("fake_plugin"), args=made,
                         settings={"max_idle_programs": 0} | dict(settings or {}),
                         env={"PJRTD_FAKE_DIR": str(self.fake_folder)}, **options)
        self._owns_folder = True
        self.script(script)

    def script(self, text: str = "") -> None:
        """From here on; "" for nothing. Calls are counted anew."""
        fresh = self.fake_folder / "script.new"
        fresh.write_text(text)
        fresh.rename(self.fake_folder / "script")

    def release(self) -> None:
        """Lets go what the scripts hold; what would be held from here on is not."""
        (self.fake_folder / "release").touch()

    def hold(self) -> None:
        (self.fake_folder / "release").unlink(missing_ok=True)


def program(args: Sequence[str] = ("4xf32", "4xf32"), results: Sequence[str] = ("4xf32",), script: str = "",
            donated: Mapping[int, int] | None = None, loops: bool = False) -> str:
    """A program with these tensors. Each result is the sum of all arguments of its type, or twice the one that there is.
    `donated`: argument to the result that takes its memory. `loops`: it is no straight line."""
    aliases = {index: f" {{tf.aliasing_output = {result} : i32}}" for index, result in (donated or {}).items()}
    given = ", ".join(f"%a{i}: tensor<{arg}>{aliases.get(i, '')}" for i, arg in enumerate(args))
    types = ", ".join(f"tensor<{result}>" for result in results)
    lines = [f"// fake {script}"] if script else []
    lines.append(f"func.func @main({given})" + (f" -> ({types}) {{" if results else " {"))
    if loops:
        lines.append("  // stablehlo.while")
    return "\n".join([*lines, "  return", "}", ""])
