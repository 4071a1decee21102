"""What the figures were measured on: no figure means anything without it."""

from __future__ import annotations

import os
import platform
from typing import Any


def _cpu_model() -> str:
    with open("/proc/cpuinfo", encoding="utf-8") as file:
        for line in file:
            if line.startswith("model name"):
                return line.split(":", 1)[1].strip()
    return platform.processor() or "unknown"


def _operating_system() -> str:
    try:
        return platform.freedesktop_os_release()["PRETTY_NAME"]
    except (OSError, KeyError):
        return platform.system()


def load_average() -> float:
    """Runnable threads, averaged over the last minute. Over 1 before a run, the figures are worth little."""
    return os.getloadavg()[0]


def describe_machine() -> dict[str, Any]:
    """Cores this process may use, CPU model, kernel, operating system, memory in GB, load average before the run."""
    return {
        "cores": len(os.sched_getaffinity(0)),
        "model": _cpu_model(),
        "kernel": platform.release(),
        "system": _operating_system(),
        "virtual_machine": "hypervisor" in open("/proc/cpuinfo", encoding="utf-8").read(),
        "memory_gb": round(os.sysconf("SC_PAGE_SIZE") * os.sysconf("SC_PHYS_PAGES") / 1e9, 1),
        "load_average": load_average(),
    }
