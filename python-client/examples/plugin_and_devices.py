"""What am I talking to? The daemon, its plugin, its devices and their memory.

    python plugin_and_devices.py [unix:/run/pjrtd/pjrtd.sock]
"""

from __future__ import annotations

import sys

import pjrtd
from pjrtd import errors


def main(target: str | None = None) -> None:
    with pjrtd.Client.create(target) as client, client.devices() as devices:
        plugin = client.plugin
        print(f"daemon:     pjrtd {client.server_version} at {client.target}, process {client.server_pid}")
        print(f"plugin:     {plugin.path.name}, PJRT {'.'.join(map(str, plugin.api_version))}")
        print(f"platform:   {client.platform_name} ({client.platform_version.splitlines()[0]})")
        print(f"extensions: {', '.join(extension.name for extension in plugin.extensions) or 'none'}")
        if plugin.extension("ffi") is None:
            print("            no FFI: this plugin cannot call custom handlers")
        if plugin.stablehlo_version_range is not None:
            print(f"StableHLO:  {plugin.stablehlo_target('min')} to {plugin.stablehlo_target('max')}")

        for device in devices:
            print(f"device {device.id}:   {device.kind}, {device.to_string()}")
            for memory in device.memories():
                print(f"            memory {memory.id}: {memory.kind}")
            try:
                stats = device.memory_stats()
                print(f"            {stats['bytes_in_use']} bytes in use")
            except errors.Unimplemented:
                print("            the plugin keeps no memory statistics")


if __name__ == "__main__":
    main(*sys.argv[1:2])
