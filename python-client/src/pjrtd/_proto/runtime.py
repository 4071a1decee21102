"""What is served: versions, plugin, devices, memory spaces."""
# Written by tools/gen_proto.py from proto/pjrtd/v1/runtime.proto.

from __future__ import annotations

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Iterable

from .common import Attribute
from .wire import (
    get_bool,
    get_int32,
    get_size,
    get_string,
    get_tag,
    get_uint32,
    get_uint64,
    Message,
    put_bool,
    put_bytes,
    put_int32,
    put_string,
    put_uint32,
    put_uint64,
    skip,
)


class HelloRequest(Message):
    """The first request of a connection."""

    __slots__ = ("min_version", "max_version", "client_name", "download_credit_bytes", "wants_notices")

    def __init__(
        self,
        min_version: int = 0,
        max_version: int = 0,
        client_name: str = "",
        download_credit_bytes: int = 0,
        wants_notices: bool = False,
    ) -> None:
        self.min_version: int = min_version
        self.max_version: int = max_version
        self.client_name: str = client_name
        self.download_credit_bytes: int = download_credit_bytes
        self.wants_notices: bool = wants_notices

    def encode(self) -> bytes:
        out = bytearray()
        if self.min_version:
            out += b"\x08"
            put_uint32(out, self.min_version)
        if self.max_version:
            out += b"\x10"
            put_uint32(out, self.max_version)
        if self.client_name:
            out += b"\x1a"
            put_string(out, self.client_name)
        if self.download_credit_bytes:
            out += b"\x20"
            put_uint64(out, self.download_credit_bytes)
        if self.wants_notices:
            out += b"\x28"
            put_bool(out, self.wants_notices)
        return bytes(out)

    def merge(self, data: bytes, pos: int, end: int) -> None:
        while pos < end:
            tag, pos = get_tag(data, pos, end)
            if tag == 8:
                self.min_version, pos = get_uint32(data, pos, end)
            elif tag == 16:
                self.max_version, pos = get_uint32(data, pos, end)
            elif tag == 26:
                self.client_name, pos = get_string(data, pos, end)
            elif tag == 32:
                self.download_credit_bytes, pos = get_uint64(data, pos, end)
            elif tag == 40:
                self.wants_notices, pos = get_bool(data, pos, end)
            else:
                pos = skip(data, pos, end, tag)


class HelloReply(Message):
    __slots__ = ("version", "server_epoch", "server_version", "id_prefix", "max_payload_bytes", "max_inline_bytes", "max_item_bytes", "upload_credit_bytes", "max_calls_in_flight", "busy_poll_us", "home_device")

    def __init__(
        self,
        version: int = 0,
        server_epoch: int = 0,
        server_version: str = "",
        id_prefix: int = 0,
        max_payload_bytes: int = 0,
        max_inline_bytes: int = 0,
        max_item_bytes: int = 0,
        upload_credit_bytes: int = 0,
        max_calls_in_flight: int = 0,
        busy_poll_us: int = 0,
        home_device: int = 0,
    ) -> None:
        self.version: int = version
        self.server_epoch: int = server_epoch
        self.server_version: str = server_version
        self.id_prefix: int = id_prefix
        self.max_payload_bytes: int = max_payload_bytes
        self.max_inline_bytes: int = max_inline_bytes
        self.max_item_bytes: int = max_item_bytes
        self.upload_credit_bytes: int = upload_credit_bytes
        self.max_calls_in_flight: int = max_calls_in_flight
        self.busy_poll_us: int = busy_poll_us
        self.home_device: int = home_device

    def encode(self) -> bytes:
        out = bytearray()
        if self.version:
            out += b"\x08"
            put_uint32(out, self.version)
        if self.server_epoch:
            out += b"\x10"
            put_uint64(out, self.server_epoch)
        if self.server_version:
            out += b"\x1a"
            put_string(out, self.server_version)
        if self.id_prefix:
            out += b"\x20"
            put_uint32(out, self.id_prefix)
        if self.max_payload_bytes:
            out += b"\x28"
            put_uint32(out, self.max_payload_bytes)
        if self.max_inline_bytes:
            out += b"\x30"
            put_uint32(out, self.max_inline_bytes)
        if self.max_item_bytes:
            out += b"\x38"
            put_uint32(out, self.max_item_bytes)
        if self.upload_credit_bytes:
            out += b"\x40"
            put_uint64(out, self.upload_credit_bytes)
        if self.max_calls_in_flight:
            out += b"\x48"
            put_uint32(out, self.max_calls_in_flight)
        if self.busy_poll_us:
            out += b"\x50"
            put_uint32(out, self.busy_poll_us)
        if self.home_device:
            out += b"\x58"
            put_int32(out, self.home_device)
        return bytes(out)

    def merge(self, data: bytes, pos: int, end: int) -> None:
        while pos < end:
            tag, pos = get_tag(data, pos, end)
            if tag == 8:
                self.version, pos = get_uint32(data, pos, end)
            elif tag == 16:
                self.server_epoch, pos = get_uint64(data, pos, end)
            elif tag == 26:
                self.server_version, pos = get_string(data, pos, end)
            elif tag == 32:
                self.id_prefix, pos = get_uint32(data, pos, end)
            elif tag == 40:
                self.max_payload_bytes, pos = get_uint32(data, pos, end)
            elif tag == 48:
                self.max_inline_bytes, pos = get_uint32(data, pos, end)
            elif tag == 56:
                self.max_item_bytes, pos = get_uint32(data, pos, end)
            elif tag == 64:
                self.upload_credit_bytes, pos = get_uint64(data, pos, end)
            elif tag == 72:
                self.max_calls_in_flight, pos = get_uint32(data, pos, end)
            elif tag == 80:
                self.busy_poll_us, pos = get_uint32(data, pos, end)
            elif tag == 88:
                self.home_device, pos = get_int32(data, pos, end)
            else:
                pos = skip(data, pos, end, tag)


class InfoReply(Message):
    __slots__ = ("server_version", "server_epoch", "pid", "uptime_ns", "protocol_min", "protocol_max", "plugin_path", "pjrt_major", "pjrt_minor", "platform_name", "platform_version", "stablehlo_current", "stablehlo_minimum", "process_index", "num_devices", "num_addressable_devices", "extensions", "attributes", "create_options", "headers_major", "headers_minor")

    def __init__(
        self,
        server_version: str = "",
        server_epoch: int = 0,
        pid: int = 0,
        uptime_ns: int = 0,
        protocol_min: int = 0,
        protocol_max: int = 0,
        plugin_path: str = "",
        pjrt_major: int = 0,
        pjrt_minor: int = 0,
        platform_name: str = "",
        platform_version: str = "",
        stablehlo_current: str = "",
        stablehlo_minimum: str = "",
        process_index: int = 0,
        num_devices: int = 0,
        num_addressable_devices: int = 0,
        extensions: Iterable[str] = (),
        attributes: Iterable[Attribute] = (),
        create_options: Iterable[Attribute] = (),
        headers_major: int = 0,
        headers_minor: int = 0,
    ) -> None:
        self.server_version: str = server_version
        self.server_epoch: int = server_epoch
        self.pid: int = pid
        self.uptime_ns: int = uptime_ns
        self.protocol_min: int = protocol_min
        self.protocol_max: int = protocol_max
        self.plugin_path: str = plugin_path
        self.pjrt_major: int = pjrt_major
        self.pjrt_minor: int = pjrt_minor
        self.platform_name: str = platform_name
        self.platform_version: str = platform_version
        self.stablehlo_current: str = stablehlo_current
        self.stablehlo_minimum: str = stablehlo_minimum
        self.process_index: int = process_index
        self.num_devices: int = num_devices
        self.num_addressable_devices: int = num_addressable_devices
        self.extensions: list[str] = list(extensions)
        self.attributes: list[Attribute] = list(attributes)
        self.create_options: list[Attribute] = list(create_options)
        self.headers_major: int = headers_major
        self.headers_minor: int = headers_minor

    def encode(self) -> bytes:
        out = bytearray()
        if self.server_version:
            out += b"\x0a"
            put_string(out, self.server_version)
        if self.server_epoch:
            out += b"\x10"
            put_uint64(out, self.server_epoch)
        if self.pid:
            out += b"\x18"
            put_uint32(out, self.pid)
        if self.uptime_ns:
            out += b"\x20"
            put_uint64(out, self.uptime_ns)
        if self.protocol_min:
            out += b"\x28"
            put_uint32(out, self.protocol_min)
        if self.protocol_max:
            out += b"\x30"
            put_uint32(out, self.protocol_max)
        if self.plugin_path:
            out += b"\x3a"
            put_string(out, self.plugin_path)
        if self.pjrt_major:
            out += b"\x40"
            put_uint32(out, self.pjrt_major)
        if self.pjrt_minor:
            out += b"\x48"
            put_uint32(out, self.pjrt_minor)
        if self.platform_name:
            out += b"\x52"
            put_string(out, self.platform_name)
        if self.platform_version:
            out += b"\x5a"
            put_string(out, self.platform_version)
        if self.stablehlo_current:
            out += b"\x62"
            put_string(out, self.stablehlo_current)
        if self.stablehlo_minimum:
            out += b"\x6a"
            put_string(out, self.stablehlo_minimum)
        if self.process_index:
            out += b"\x70"
            put_uint32(out, self.process_index)
        if self.num_devices:
            out += b"\x78"
            put_uint32(out, self.num_devices)
        if self.num_addressable_devices:
            out += b"\x80\x01"
            put_uint32(out, self.num_addressable_devices)
        for value in self.extensions:
            out += b"\x8a\x01"
            put_string(out, value)
        for value in self.attributes:
            out += b"\x92\x01"
            put_bytes(out, value.encode())
        for value in self.create_options:
            out += b"\x9a\x01"
            put_bytes(out, value.encode())
        if self.headers_major:
            out += b"\xa0\x01"
            put_uint32(out, self.headers_major)
        if self.headers_minor:
            out += b"\xa8\x01"
            put_uint32(out, self.headers_minor)
        return bytes(out)

    def merge(self, data: bytes, pos: int, end: int) -> None:
        while pos < end:
            tag, pos = get_tag(data, pos, end)
            if tag == 10:
                self.server_version, pos = get_string(data, pos, end)
            elif tag == 16:
                self.server_epoch, pos = get_uint64(data, pos, end)
            elif tag == 24:
                self.pid, pos = get_uint32(data, pos, end)
            elif tag == 32:
                self.uptime_ns, pos = get_uint64(data, pos, end)
            elif tag == 40:
                self.protocol_min, pos = get_uint32(data, pos, end)
            elif tag == 48:
                self.protocol_max, pos = get_uint32(data, pos, end)
            elif tag == 58:
                self.plugin_path, pos = get_string(data, pos, end)
            elif tag == 64:
                self.pjrt_major, pos = get_uint32(data, pos, end)
            elif tag == 72:
                self.pjrt_minor, pos = get_uint32(data, pos, end)
            elif tag == 82:
                self.platform_name, pos = get_string(data, pos, end)
            elif tag == 90:
                self.platform_version, pos = get_string(data, pos, end)
            elif tag == 98:
                self.stablehlo_current, pos = get_string(data, pos, end)
            elif tag == 106:
                self.stablehlo_minimum, pos = get_string(data, pos, end)
            elif tag == 112:
                self.process_index, pos = get_uint32(data, pos, end)
            elif tag == 120:
                self.num_devices, pos = get_uint32(data, pos, end)
            elif tag == 128:
                self.num_addressable_devices, pos = get_uint32(data, pos, end)
            elif tag == 138:
                value, pos = get_string(data, pos, end)
                self.extensions.append(value)
            elif tag == 146:
                size, pos = get_size(data, pos, end)
                item = Attribute()
                item.merge(data, pos, pos + size)
                self.attributes.append(item)
                pos += size
            elif tag == 154:
                size, pos = get_size(data, pos, end)
                item = Attribute()
                item.merge(data, pos, pos + size)
                self.create_options.append(item)
                pos += size
            elif tag == 160:
                self.headers_major, pos = get_uint32(data, pos, end)
            elif tag == 168:
                self.headers_minor, pos = get_uint32(data, pos, end)
            else:
                pos = skip(data, pos, end, tag)


class DeviceInfo(Message):
    __slots__ = ("id", "kind", "local_hardware_id", "process_index", "addressable", "debug_string", "to_string", "memories", "default_memory", "attributes", "memory_stats")

    def __init__(
        self,
        id: int = 0,
        kind: str = "",
        local_hardware_id: int = 0,
        process_index: int = 0,
        addressable: bool = False,
        debug_string: str = "",
        to_string: str = "",
        memories: Iterable[int] = (),
        default_memory: int = 0,
        attributes: Iterable[Attribute] = (),
        memory_stats: Iterable[Attribute] = (),
    ) -> None:
        self.id: int = id
        self.kind: str = kind
        self.local_hardware_id: int = local_hardware_id
        self.process_index: int = process_index
        self.addressable: bool = addressable
        self.debug_string: str = debug_string
        self.to_string: str = to_string
        self.memories: list[int] = list(memories)
        self.default_memory: int = default_memory
        self.attributes: list[Attribute] = list(attributes)
        self.memory_stats: list[Attribute] = list(memory_stats)

    def encode(self) -> bytes:
        out = bytearray()
        if self.id:
            out += b"\x08"
            put_int32(out, self.id)
        if self.kind:
            out += b"\x12"
            put_string(out, self.kind)
        if self.local_hardware_id:
            out += b"\x18"
            put_int32(out, self.local_hardware_id)
        if self.process_index:
            out += b"\x20"
            put_int32(out, self.process_index)
        if self.addressable:
            out += b"\x28"
            put_bool(out, self.addressable)
        if self.debug_string:
            out += b"\x32"
            put_string(out, self.debug_string)
        if self.to_string:
            out += b"\x3a"
            put_string(out, self.to_string)
        if self.memories:
            packed = bytearray()
            for value in self.memories:
                put_int32(packed, value)
            out += b"\x42"
            put_bytes(out, packed)
        if self.default_memory:
            out += b"\x48"
            put_int32(out, self.default_memory)
        for value in self.attributes:
            out += b"\x52"
            put_bytes(out, value.encode())
        for value in self.memory_stats:
            out += b"\x5a"
            put_bytes(out, value.encode())
        return bytes(out)

    def merge(self, data: bytes, pos: int, end: int) -> None:
        while pos < end:
            tag, pos = get_tag(data, pos, end)
            if tag == 8:
                self.id, pos = get_int32(data, pos, end)
            elif tag == 18:
                self.kind, pos = get_string(data, pos, end)
            elif tag == 24:
                self.local_hardware_id, pos = get_int32(data, pos, end)
            elif tag == 32:
                self.process_index, pos = get_int32(data, pos, end)
            elif tag == 40:
                self.addressable, pos = get_bool(data, pos, end)
            elif tag == 50:
                self.debug_string, pos = get_string(data, pos, end)
            elif tag == 58:
                self.to_string, pos = get_string(data, pos, end)
            elif tag == 64:
                value, pos = get_int32(data, pos, end)
                self.memories.append(value)
            elif tag == 66:
                size, pos = get_size(data, pos, end)
                stop = pos + size
                while pos < stop:
                    value, pos = get_int32(data, pos, stop)
                    self.memories.append(value)
            elif tag == 72:
                self.default_memory, pos = get_int32(data, pos, end)
            elif tag == 82:
                size, pos = get_size(data, pos, end)
                item = Attribute()
                item.merge(data, pos, pos + size)
                self.attributes.append(item)
                pos += size
            elif tag == 90:
                size, pos = get_size(data, pos, end)
                item = Attribute()
                item.merge(data, pos, pos + size)
                self.memory_stats.append(item)
                pos += size
            else:
                pos = skip(data, pos, end, tag)


class DevicesReply(Message):
    __slots__ = ("devices",)

    def __init__(
        self,
        devices: Iterable[DeviceInfo] = (),
    ) -> None:
        self.devices: list[DeviceInfo] = list(devices)

    def encode(self) -> bytes:
        out = bytearray()
        for value in self.devices:
            out += b"\x0a"
            put_bytes(out, value.encode())
        return bytes(out)

    def merge(self, data: bytes, pos: int, end: int) -> None:
        while pos < end:
            tag, pos = get_tag(data, pos, end)
            if tag == 10:
                size, pos = get_size(data, pos, end)
                item = DeviceInfo()
                item.merge(data, pos, pos + size)
                self.devices.append(item)
                pos += size
            else:
                pos = skip(data, pos, end, tag)


class MemoryInfo(Message):
    __slots__ = ("id", "kind", "kind_id", "debug_string", "to_string", "devices")

    def __init__(
        self,
        id: int = 0,
        kind: str = "",
        kind_id: int = 0,
        debug_string: str = "",
        to_string: str = "",
        devices: Iterable[int] = (),
    ) -> None:
        self.id: int = id
        self.kind: str = kind
        self.kind_id: int = kind_id
        self.debug_string: str = debug_string
        self.to_string: str = to_string
        self.devices: list[int] = list(devices)

    def encode(self) -> bytes:
        out = bytearray()
        if self.id:
            out += b"\x08"
            put_int32(out, self.id)
        if self.kind:
            out += b"\x12"
            put_string(out, self.kind)
        if self.kind_id:
            out += b"\x18"
            put_int32(out, self.kind_id)
        if self.debug_string:
            out += b"\x22"
            put_string(out, self.debug_string)
        if self.to_string:
            out += b"\x2a"
            put_string(out, self.to_string)
        if self.devices:
            packed = bytearray()
            for value in self.devices:
                put_int32(packed, value)
            out += b"\x32"
            put_bytes(out, packed)
        return bytes(out)

    def merge(self, data: bytes, pos: int, end: int) -> None:
        while pos < end:
            tag, pos = get_tag(data, pos, end)
            if tag == 8:
                self.id, pos = get_int32(data, pos, end)
            elif tag == 18:
                self.kind, pos = get_string(data, pos, end)
            elif tag == 24:
                self.kind_id, pos = get_int32(data, pos, end)
            elif tag == 34:
                self.debug_string, pos = get_string(data, pos, end)
            elif tag == 42:
                self.to_string, pos = get_string(data, pos, end)
            elif tag == 48:
                value, pos = get_int32(data, pos, end)
                self.devices.append(value)
            elif tag == 50:
                size, pos = get_size(data, pos, end)
                stop = pos + size
                while pos < stop:
                    value, pos = get_int32(data, pos, stop)
                    self.devices.append(value)
            else:
                pos = skip(data, pos, end, tag)


class MemoriesReply(Message):
    __slots__ = ("memories",)

    def __init__(
        self,
        memories: Iterable[MemoryInfo] = (),
    ) -> None:
        self.memories: list[MemoryInfo] = list(memories)

    def encode(self) -> bytes:
        out = bytearray()
        for value in self.memories:
            out += b"\x0a"
            put_bytes(out, value.encode())
        return bytes(out)

    def merge(self, data: bytes, pos: int, end: int) -> None:
        while pos < end:
            tag, pos = get_tag(data, pos, end)
            if tag == 10:
                size, pos = get_size(data, pos, end)
                item = MemoryInfo()
                item.merge(data, pos, pos + size)
                self.memories.append(item)
                pos += size
            else:
                pos = skip(data, pos, end, tag)


class DefaultAssignmentRequest(Message):
    __slots__ = ("num_replicas", "num_partitions")

    def __init__(
        self,
        num_replicas: int = 0,
        num_partitions: int = 0,
    ) -> None:
        self.num_replicas: int = num_replicas
        self.num_partitions: int = num_partitions

    def encode(self) -> bytes:
        out = bytearray()
        if self.num_replicas:
            out += b"\x08"
            put_uint32(out, self.num_replicas)
        if self.num_partitions:
            out += b"\x10"
            put_uint32(out, self.num_partitions)
        return bytes(out)

    def merge(self, data: bytes, pos: int, end: int) -> None:
        while pos < end:
            tag, pos = get_tag(data, pos, end)
            if tag == 8:
                self.num_replicas, pos = get_uint32(data, pos, end)
            elif tag == 16:
                self.num_partitions, pos = get_uint32(data, pos, end)
            else:
                pos = skip(data, pos, end, tag)


class DefaultAssignmentReply(Message):
    __slots__ = ("devices",)

    def __init__(
        self,
        devices: Iterable[int] = (),
    ) -> None:
        self.devices: list[int] = list(devices)

    def encode(self) -> bytes:
        out = bytearray()
        if self.devices:
            packed = bytearray()
            for value in self.devices:
                put_int32(packed, value)
            out += b"\x0a"
            put_bytes(out, packed)
        return bytes(out)

    def merge(self, data: bytes, pos: int, end: int) -> None:
        while pos < end:
            tag, pos = get_tag(data, pos, end)
            if tag == 8:
                value, pos = get_int32(data, pos, end)
                self.devices.append(value)
            elif tag == 10:
                size, pos = get_size(data, pos, end)
                stop = pos + size
                while pos < stop:
                    value, pos = get_int32(data, pos, stop)
                    self.devices.append(value)
            else:
                pos = skip(data, pos, end, tag)
