"""Programs: StableHLO in, loaded executables held by id."""
# Written by tools/gen_proto.py from proto/pjrtd/v1/program.proto.

from __future__ import annotations

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Iterable

from .common import Attribute, Layout, TensorType
from .wire import (
    get_bool,
    get_bytes,
    get_double,
    get_int32,
    get_int64,
    get_size,
    get_string,
    get_tag,
    get_uint32,
    get_uint64,
    is_set,
    Message,
    put_bool,
    put_bytes,
    put_double,
    put_int32,
    put_int64,
    put_string,
    put_uint32,
    put_uint64,
    skip,
)

COMPRESSION_NONE = 0
COMPRESSION_ZSTD = 1


class CompileOptions(Message):
    """What XLA calls executable build options. 0 and empty mean the default."""

    __slots__ = ("num_replicas", "num_partitions", "use_spmd_partitioning", "use_shardy_partitioner", "use_auto_spmd_partitioning", "auto_spmd_partitioning_mesh_shape", "auto_spmd_partitioning_mesh_ids", "device_assignment", "alias_passthrough_params", "allow_spmd_sharding_propagation_to_parameters", "allow_spmd_sharding_propagation_to_output", "parameter_is_tupled_arguments", "compile_portable_executable", "deduplicate_hlo", "exec_time_optimization_effort", "memory_fitting_effort", "overrides")

    def __init__(
        self,
        num_replicas: int = 0,
        num_partitions: int = 0,
        use_spmd_partitioning: bool = False,
        use_shardy_partitioner: bool = False,
        use_auto_spmd_partitioning: bool = False,
        auto_spmd_partitioning_mesh_shape: Iterable[int] = (),
        auto_spmd_partitioning_mesh_ids: Iterable[int] = (),
        device_assignment: Iterable[int] = (),
        alias_passthrough_params: bool = False,
        allow_spmd_sharding_propagation_to_parameters: Iterable[bool] = (),
        allow_spmd_sharding_propagation_to_output: Iterable[bool] = (),
        parameter_is_tupled_arguments: bool = False,
        compile_portable_executable: bool = False,
        deduplicate_hlo: bool = False,
        exec_time_optimization_effort: float = 0.0,
        memory_fitting_effort: float = 0.0,
        overrides: Iterable[Attribute] = (),
    ) -> None:
        self.num_replicas: int = num_replicas
        self.num_partitions: int = num_partitions
        self.use_spmd_partitioning: bool = use_spmd_partitioning
        self.use_shardy_partitioner: bool = use_shardy_partitioner
        self.use_auto_spmd_partitioning: bool = use_auto_spmd_partitioning
        self.auto_spmd_partitioning_mesh_shape: list[int] = list(auto_spmd_partitioning_mesh_shape)
        self.auto_spmd_partitioning_mesh_ids: list[int] = list(auto_spmd_partitioning_mesh_ids)
        self.device_assignment: list[int] = list(device_assignment)
        self.alias_passthrough_params: bool = alias_passthrough_params
        self.allow_spmd_sharding_propagation_to_parameters: list[bool] = list(allow_spmd_sharding_propagation_to_parameters)
        self.allow_spmd_sharding_propagation_to_output: list[bool] = list(allow_spmd_sharding_propagation_to_output)
        self.parameter_is_tupled_arguments: bool = parameter_is_tupled_arguments
        self.compile_portable_executable: bool = compile_portable_executable
        self.deduplicate_hlo: bool = deduplicate_hlo
        self.exec_time_optimization_effort: float = exec_time_optimization_effort
        self.memory_fitting_effort: float = memory_fitting_effort
        self.overrides: list[Attribute] = list(overrides)

    def encode(self) -> bytes:
        out = bytearray()
        if self.num_replicas:
            out += b"\x08"
            put_uint32(out, self.num_replicas)
        if self.num_partitions:
            out += b"\x10"
            put_uint32(out, self.num_partitions)
        if self.use_spmd_partitioning:
            out += b"\x18"
            put_bool(out, self.use_spmd_partitioning)
        if self.use_shardy_partitioner:
            out += b"\x20"
            put_bool(out, self.use_shardy_partitioner)
        if self.use_auto_spmd_partitioning:
            out += b"\x28"
            put_bool(out, self.use_auto_spmd_partitioning)
        if self.auto_spmd_partitioning_mesh_shape:
            packed = bytearray()
            for value in self.auto_spmd_partitioning_mesh_shape:
                put_int64(packed, value)
            out += b"\x32"
            put_bytes(out, packed)
        if self.auto_spmd_partitioning_mesh_ids:
            packed = bytearray()
            for value in self.auto_spmd_partitioning_mesh_ids:
                put_int64(packed, value)
            out += b"\x3a"
            put_bytes(out, packed)
        if self.device_assignment:
            packed = bytearray()
            for value in self.device_assignment:
                put_int32(packed, value)
            out += b"\x42"
            put_bytes(out, packed)
        if self.alias_passthrough_params:
            out += b"\x48"
            put_bool(out, self.alias_passthrough_params)
        if self.allow_spmd_sharding_propagation_to_parameters:
            packed = bytearray()
            for value in self.allow_spmd_sharding_propagation_to_parameters:
                put_bool(packed, value)
            out += b"\x52"
            put_bytes(out, packed)
        if self.allow_spmd_sharding_propagation_to_output:
            packed = bytearray()
            for value in self.allow_spmd_sharding_propagation_to_output:
                put_bool(packed, value)
            out += b"\x5a"
            put_bytes(out, packed)
        if self.parameter_is_tupled_arguments:
            out += b"\x60"
            put_bool(out, self.parameter_is_tupled_arguments)
        if self.compile_portable_executable:
            out += b"\x68"
            put_bool(out, self.compile_portable_executable)
        if self.deduplicate_hlo:
            out += b"\x70"
            put_bool(out, self.deduplicate_hlo)
        if is_set(self.exec_time_optimization_effort):
            out += b"\x79"
            put_double(out, self.exec_time_optimization_effort)
        if is_set(self.memory_fitting_effort):
            out += b"\x81\x01"
            put_double(out, self.memory_fitting_effort)
        for value in self.overrides:
            out += b"\x8a\x01"
            put_bytes(out, value.encode())
        return bytes(out)

    def merge(self, data: bytes, pos: int, end: int) -> None:
        while pos < end:
            tag, pos = get_tag(data, pos, end)
            if tag == 8:
                self.num_replicas, pos = get_uint32(data, pos, end)
            elif tag == 16:
                self.num_partitions, pos = get_uint32(data, pos, end)
            elif tag == 24:
                self.use_spmd_partitioning, pos = get_bool(data, pos, end)
            elif tag == 32:
                self.use_shardy_partitioner, pos = get_bool(data, pos, end)
            elif tag == 40:
                self.use_auto_spmd_partitioning, pos = get_bool(data, pos, end)
            elif tag == 48:
                value, pos = get_int64(data, pos, end)
                self.auto_spmd_partitioning_mesh_shape.append(value)
            elif tag == 50:
                size, pos = get_size(data, pos, end)
                stop = pos + size
                while pos < stop:
                    value, pos = get_int64(data, pos, stop)
                    self.auto_spmd_partitioning_mesh_shape.append(value)
            elif tag == 56:
                value, pos = get_int64(data, pos, end)
                self.auto_spmd_partitioning_mesh_ids.append(value)
            elif tag == 58:
                size, pos = get_size(data, pos, end)
                stop = pos + size
                while pos < stop:
                    value, pos = get_int64(data, pos, stop)
                    self.auto_spmd_partitioning_mesh_ids.append(value)
            elif tag == 64:
                value, pos = get_int32(data, pos, end)
                self.device_assignment.append(value)
            elif tag == 66:
                size, pos = get_size(data, pos, end)
                stop = pos + size
                while pos < stop:
                    value, pos = get_int32(data, pos, stop)
                    self.device_assignment.append(value)
            elif tag == 72:
                self.alias_passthrough_params, pos = get_bool(data, pos, end)
            elif tag == 80:
                value, pos = get_bool(data, pos, end)
                self.allow_spmd_sharding_propagation_to_parameters.append(value)
            elif tag == 82:
                size, pos = get_size(data, pos, end)
                stop = pos + size
                while pos < stop:
                    value, pos = get_bool(data, pos, stop)
                    self.allow_spmd_sharding_propagation_to_parameters.append(value)
            elif tag == 88:
                value, pos = get_bool(data, pos, end)
                self.allow_spmd_sharding_propagation_to_output.append(value)
            elif tag == 90:
                size, pos = get_size(data, pos, end)
                stop = pos + size
                while pos < stop:
                    value, pos = get_bool(data, pos, stop)
                    self.allow_spmd_sharding_propagation_to_output.append(value)
            elif tag == 96:
                self.parameter_is_tupled_arguments, pos = get_bool(data, pos, end)
            elif tag == 104:
                self.compile_portable_executable, pos = get_bool(data, pos, end)
            elif tag == 112:
                self.deduplicate_hlo, pos = get_bool(data, pos, end)
            elif tag == 121:
                self.exec_time_optimization_effort, pos = get_double(data, pos, end)
            elif tag == 129:
                self.memory_fitting_effort, pos = get_double(data, pos, end)
            elif tag == 138:
                size, pos = get_size(data, pos, end)
                item = Attribute()
                item.merge(data, pos, pos + size)
                self.overrides.append(item)
                pos += size
            else:
                pos = skip(data, pos, end, tag)


class CompileRequest(Message):
    """The program itself is bulk, as an upload's data is."""

    __slots__ = ("program", "code_bytes", "compression", "uncompressed_bytes", "options", "bulk")

    def __init__(
        self,
        program: int = 0,
        code_bytes: int = 0,
        compression: int = 0,
        uncompressed_bytes: int = 0,
        options: CompileOptions | None = None,
        bulk: bytes = b"",
    ) -> None:
        self.program: int = program
        self.code_bytes: int = code_bytes
        self.compression: int = compression
        self.uncompressed_bytes: int = uncompressed_bytes
        self.options: CompileOptions | None = options
        self.bulk: bytes = bulk

    def encode(self) -> bytes:
        out = bytearray()
        if self.program:
            out += b"\x08"
            put_uint64(out, self.program)
        if self.code_bytes:
            out += b"\x10"
            put_uint64(out, self.code_bytes)
        if self.compression:
            out += b"\x18"
            put_int32(out, self.compression)
        if self.uncompressed_bytes:
            out += b"\x20"
            put_uint64(out, self.uncompressed_bytes)
        if self.options is not None:
            out += b"\x2a"
            put_bytes(out, self.options.encode())
        if self.bulk:
            out += b"\x7a"
            put_bytes(out, self.bulk)
        return bytes(out)

    def merge(self, data: bytes, pos: int, end: int) -> None:
        while pos < end:
            tag, pos = get_tag(data, pos, end)
            if tag == 8:
                self.program, pos = get_uint64(data, pos, end)
            elif tag == 16:
                self.code_bytes, pos = get_uint64(data, pos, end)
            elif tag == 24:
                self.compression, pos = get_int32(data, pos, end)
            elif tag == 32:
                self.uncompressed_bytes, pos = get_uint64(data, pos, end)
            elif tag == 42:
                size, pos = get_size(data, pos, end)
                if self.options is None:
                    self.options = CompileOptions()
                self.options.merge(data, pos, pos + size)
                pos += size
            elif tag == 122:
                self.bulk, pos = get_bytes(data, pos, end)
            else:
                pos = skip(data, pos, end, tag)


class ProgramTensor(Message):
    __slots__ = ("type", "layout", "memory_kind", "donated", "unsupported")

    def __init__(
        self,
        type: TensorType | None = None,
        layout: Layout | None = None,
        memory_kind: str = "",
        donated: bool = False,
        unsupported: str = "",
    ) -> None:
        self.type: TensorType | None = type
        self.layout: Layout | None = layout
        self.memory_kind: str = memory_kind
        self.donated: bool = donated
        self.unsupported: str = unsupported

    def encode(self) -> bytes:
        out = bytearray()
        if self.type is not None:
            out += b"\x0a"
            put_bytes(out, self.type.encode())
        if self.layout is not None:
            out += b"\x12"
            put_bytes(out, self.layout.encode())
        if self.memory_kind:
            out += b"\x1a"
            put_string(out, self.memory_kind)
        if self.donated:
            out += b"\x20"
            put_bool(out, self.donated)
        if self.unsupported:
            out += b"\x2a"
            put_string(out, self.unsupported)
        return bytes(out)

    def merge(self, data: bytes, pos: int, end: int) -> None:
        while pos < end:
            tag, pos = get_tag(data, pos, end)
            if tag == 10:
                size, pos = get_size(data, pos, end)
                if self.type is None:
                    self.type = TensorType()
                self.type.merge(data, pos, pos + size)
                pos += size
            elif tag == 18:
                size, pos = get_size(data, pos, end)
                if self.layout is None:
                    self.layout = Layout()
                self.layout.merge(data, pos, pos + size)
                pos += size
            elif tag == 26:
                self.memory_kind, pos = get_string(data, pos, end)
            elif tag == 32:
                self.donated, pos = get_bool(data, pos, end)
            elif tag == 42:
                self.unsupported, pos = get_string(data, pos, end)
            else:
                pos = skip(data, pos, end, tag)


class ProgramDescription(Message):
    __slots__ = ("name", "num_replicas", "num_partitions", "devices", "args", "outputs", "straight_line", "fingerprint", "generated_code_bytes")

    def __init__(
        self,
        name: str = "",
        num_replicas: int = 0,
        num_partitions: int = 0,
        devices: Iterable[int] = (),
        args: Iterable[ProgramTensor] = (),
        outputs: Iterable[ProgramTensor] = (),
        straight_line: bool = False,
        fingerprint: str = "",
        generated_code_bytes: int = 0,
    ) -> None:
        self.name: str = name
        self.num_replicas: int = num_replicas
        self.num_partitions: int = num_partitions
        self.devices: list[int] = list(devices)
        self.args: list[ProgramTensor] = list(args)
        self.outputs: list[ProgramTensor] = list(outputs)
        self.straight_line: bool = straight_line
        self.fingerprint: str = fingerprint
        self.generated_code_bytes: int = generated_code_bytes

    def encode(self) -> bytes:
        out = bytearray()
        if self.name:
            out += b"\x0a"
            put_string(out, self.name)
        if self.num_replicas:
            out += b"\x10"
            put_uint32(out, self.num_replicas)
        if self.num_partitions:
            out += b"\x18"
            put_uint32(out, self.num_partitions)
        if self.devices:
            packed = bytearray()
            for value in self.devices:
                put_int32(packed, value)
            out += b"\x22"
            put_bytes(out, packed)
        for value in self.args:
            out += b"\x2a"
            put_bytes(out, value.encode())
        for value in self.outputs:
            out += b"\x32"
            put_bytes(out, value.encode())
        if self.straight_line:
            out += b"\x38"
            put_bool(out, self.straight_line)
        if self.fingerprint:
            out += b"\x42"
            put_string(out, self.fingerprint)
        if self.generated_code_bytes:
            out += b"\x48"
            put_uint64(out, self.generated_code_bytes)
        return bytes(out)

    def merge(self, data: bytes, pos: int, end: int) -> None:
        while pos < end:
            tag, pos = get_tag(data, pos, end)
            if tag == 10:
                self.name, pos = get_string(data, pos, end)
            elif tag == 16:
                self.num_replicas, pos = get_uint32(data, pos, end)
            elif tag == 24:
                self.num_partitions, pos = get_uint32(data, pos, end)
            elif tag == 32:
                value, pos = get_int32(data, pos, end)
                self.devices.append(value)
            elif tag == 34:
                size, pos = get_size(data, pos, end)
                stop = pos + size
                while pos < stop:
                    value, pos = get_int32(data, pos, stop)
                    self.devices.append(value)
            elif tag == 42:
                size, pos = get_size(data, pos, end)
                item = ProgramTensor()
                item.merge(data, pos, pos + size)
                self.args.append(item)
                pos += size
            elif tag == 50:
                size, pos = get_size(data, pos, end)
                item = ProgramTensor()
                item.merge(data, pos, pos + size)
                self.outputs.append(item)
                pos += size
            elif tag == 56:
                self.straight_line, pos = get_bool(data, pos, end)
            elif tag == 66:
                self.fingerprint, pos = get_string(data, pos, end)
            elif tag == 72:
                self.generated_code_bytes, pos = get_uint64(data, pos, end)
            else:
                pos = skip(data, pos, end, tag)


class CompileReply(Message):
    __slots__ = ("description", "compile_ns")

    def __init__(
        self,
        description: ProgramDescription | None = None,
        compile_ns: int = 0,
    ) -> None:
        self.description: ProgramDescription | None = description
        self.compile_ns: int = compile_ns

    def encode(self) -> bytes:
        out = bytearray()
        if self.description is not None:
            out += b"\x0a"
            put_bytes(out, self.description.encode())
        if self.compile_ns:
            out += b"\x10"
            put_uint64(out, self.compile_ns)
        return bytes(out)

    def merge(self, data: bytes, pos: int, end: int) -> None:
        while pos < end:
            tag, pos = get_tag(data, pos, end)
            if tag == 10:
                size, pos = get_size(data, pos, end)
                if self.description is None:
                    self.description = ProgramDescription()
                self.description.merge(data, pos, pos + size)
                pos += size
            elif tag == 16:
                self.compile_ns, pos = get_uint64(data, pos, end)
            else:
                pos = skip(data, pos, end, tag)


class ProgramRequest(Message):
    __slots__ = ("program",)

    def __init__(
        self,
        program: int = 0,
    ) -> None:
        self.program: int = program

    def encode(self) -> bytes:
        out = bytearray()
        if self.program:
            out += b"\x08"
            put_uint64(out, self.program)
        return bytes(out)

    def merge(self, data: bytes, pos: int, end: int) -> None:
        while pos < end:
            tag, pos = get_tag(data, pos, end)
            if tag == 8:
                self.program, pos = get_uint64(data, pos, end)
            else:
                pos = skip(data, pos, end, tag)


class ReleaseRequest(Message):
    __slots__ = ("programs",)

    def __init__(
        self,
        programs: Iterable[int] = (),
    ) -> None:
        self.programs: list[int] = list(programs)

    def encode(self) -> bytes:
        out = bytearray()
        if self.programs:
            packed = bytearray()
            for value in self.programs:
                put_uint64(packed, value)
            out += b"\x0a"
            put_bytes(out, packed)
        return bytes(out)

    def merge(self, data: bytes, pos: int, end: int) -> None:
        while pos < end:
            tag, pos = get_tag(data, pos, end)
            if tag == 8:
                value, pos = get_uint64(data, pos, end)
                self.programs.append(value)
            elif tag == 10:
                size, pos = get_size(data, pos, end)
                stop = pos + size
                while pos < stop:
                    value, pos = get_uint64(data, pos, stop)
                    self.programs.append(value)
            else:
                pos = skip(data, pos, end, tag)
