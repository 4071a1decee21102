"""The generations of real plugins that tests run on, each XLA's CPU backend of its day.

The default one is PJRTD_TEST_PLUGIN, else that of lammps-jax-pjrt-cpu (PJRT 0.115). The older ones come from their wheels
in this Python. Where one is missing the tests fail: nothing is skipped.

The stubs are plugins that are wrong in one way each, which the build makes (tests/fake_plugin).
"""

from __future__ import annotations

import importlib.util
import os
import pathlib

from wire_messages import REPOSITORY

# Version of PJRT: module and file in it.
WHEELS = {
    "0.115": ("lammps_jax_pjrt_cpu", "pjrt_c_api_cpu_plugin.so"),
    "0.106": ("fastatomstruct_xla_cpu", "libpjrt_cpu.so"),
    "0.81": ("xla_plugins.xla_cpu_pjrt", "xla_cpu_pjrt.so"),
}
DISTRIBUTIONS = {"0.115": "lammps-jax-pjrt-cpu", "0.106": "fastatomstruct-xla-cpu", "0.81": "xla-cpu-pjrt"}
OLD = ("0.106", "0.81")

# Versions of StableHLO, as the plugin of each says.
STABLEHLO = {115: "1.20.0", 106: "1.16.1", 81: "1.13.3"}


class NoPlugin(AssertionError):
    pass


def wheel_plugin(version: str) -> pathlib.Path:
    """The plugin of that version of PJRT, from its wheel."""
    module, file = WHEELS[version]
    try:
        found = importlib.util.find_spec(module)
    except ModuleNotFoundError:
        found = None
    if found is None or not found.submodule_search_locations:
        raise NoPlugin(f"no plugin of PJRT {version}: install {DISTRIBUTIONS[version]}")
    return pathlib.Path(found.submodule_search_locations[0]) / file


def plugin_path(version: str = "default") -> pathlib.Path:
    """The file of the default plugin, or of the one of that version."""
    named = os.environ.get("PJRTD_TEST_PLUGIN")
    if version != "default":
        path = wheel_plugin(version)
    elif named:
        path = pathlib.Path(named).absolute()
    else:
        path = wheel_plugin("0.115")
    if not path.is_file():
        raise NoPlugin(f"no plugin at {path}")
    return path


def built_plugin(name: str) -> pathlib.Path:
    """A plugin that the build makes, by its place under lib: "stubs/stub_null_api", "fake_plugin"."""
    build = pathlib.Path(os.environ.get("PJRTD_BUILD", REPOSITORY / "build" / "release")).absolute()
    path = build / "lib" / f"{name}.so"
    if not path.is_file():
        raise NoPlugin(f"no plugin at {path}: build everything, or set PJRTD_BUILD")
    return path
