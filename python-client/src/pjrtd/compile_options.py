"""Options of a compilation."""

from __future__ import annotations

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Mapping, Sequence
    from typing import Any

    from ._proto.program import CompileOptions as WireOptions

_FIELDS = (
    "num_replicas",
    "num_partitions",
    "use_spmd_partitioning",
    "use_shardy_partitioner",
    "alias_passthrough_params",
    "allow_spmd_sharding_propagation_to_output",
    "device_assignment",
    "parameter_is_tupled_arguments",
    "compile_portable_executable",
    "allow_spmd_sharding_propagation_to_parameters",
    "use_auto_spmd_partitioning",
    "auto_spmd_partitioning_mesh_shape",
    "auto_spmd_partitioning_mesh_ids",
    "deduplicate_hlo",
    "exec_time_optimization_effort",
    "memory_fitting_effort",
    "overrides",
)


class CompileOptions:
    """What XLA calls executable build options. The defaults compile for one device.

    num_replicas, num_partitions: the program runs on their product of devices at a time.
    use_spmd_partitioning: the compiler splits the program by its sharding annotations.
    use_shardy_partitioner: with Shardy, which is what newer JAX writes annotations for, instead of GSPMD.
    device_assignment: device ids, one row a replica, one column a partition (or flat, replica by replica); None: the
        plugin's default.
    alias_passthrough_params: results that are arguments unchanged share their memory.
    allow_spmd_sharding_propagation_to_parameters, ..._to_output: one bool for each, or one for all.
    parameter_is_tupled_arguments: the program takes its arguments as one tuple.
    compile_portable_executable: for any one device instead of a certain one.
    use_auto_spmd_partitioning, auto_spmd_partitioning_mesh_shape, auto_spmd_partitioning_mesh_ids: automatic sharding.
    deduplicate_hlo: identical functions are compiled once.
    exec_time_optimization_effort, memory_fitting_effort: -1.0 to 1.0; 0.0 is the default.
    overrides: XLA's own flags by name, such as {"xla_cpu_enable_fast_math": True}.
    """

    __slots__ = _FIELDS

    def __init__(
        self,
        num_replicas: int = 1,
        num_partitions: int = 1,
        use_spmd_partitioning: bool = False,
        use_shardy_partitioner: bool = False,
        alias_passthrough_params: bool = False,
        allow_spmd_sharding_propagation_to_output: Sequence[bool] = (),
        device_assignment: Sequence[int] | Sequence[Sequence[int]] | bytes | None = None,
        parameter_is_tupled_arguments: bool = False,
        compile_portable_executable: bool = False,
        *,
        allow_spmd_sharding_propagation_to_parameters: Sequence[bool] = (),
        use_auto_spmd_partitioning: bool = False,
        auto_spmd_partitioning_mesh_shape: Sequence[int] = (),
        auto_spmd_partitioning_mesh_ids: Sequence[int] = (),
        deduplicate_hlo: bool = False,
        exec_time_optimization_effort: float = 0.0,
        memory_fitting_effort: float = 0.0,
        overrides: Mapping[str, Any] | None = None,
    ) -> None:
        self.num_replicas = num_replicas
        self.num_partitions = num_partitions
        self.use_spmd_partitioning = use_spmd_partitioning
        self.use_shardy_partitioner = use_shardy_partitioner
        self.alias_passthrough_params = alias_passthrough_params
        self.allow_spmd_sharding_propagation_to_output = list(allow_spmd_sharding_propagation_to_output)
        self.device_assignment = device_assignment
        self.parameter_is_tupled_arguments = parameter_is_tupled_arguments
        self.compile_portable_executable = compile_portable_executable
        self.allow_spmd_sharding_propagation_to_parameters = list(allow_spmd_sharding_propagation_to_parameters)
        self.use_auto_spmd_partitioning = use_auto_spmd_partitioning
        self.auto_spmd_partitioning_mesh_shape = list(auto_spmd_partitioning_mesh_shape)
        self.auto_spmd_partitioning_mesh_ids = list(auto_spmd_partitioning_mesh_ids)
        self.deduplicate_hlo = deduplicate_hlo
        self.exec_time_optimization_effort = exec_time_optimization_effort
        self.memory_fitting_effort = memory_fitting_effort
        self.overrides = dict(overrides or {})

    def __repr__(self) -> str:
        default = CompileOptions()
        changed = (name for name in _FIELDS if getattr(self, name) != getattr(default, name))
        return f"CompileOptions({', '.join(f'{name}={getattr(self, name)!r}' for name in changed)})"

    def __eq__(self, other: object) -> bool:
        if not isinstance(other, CompileOptions):
            return NotImplemented
        return all(getattr(self, name) == getattr(other, name) for name in _FIELDS)

    __hash__ = None  # type: ignore[assignment]  # options are mutable

    def to_wire(self) -> WireOptions:
        """The message. Raises InvalidArgument, naming the field, for a value that it cannot carry."""
        from ._proto.program import CompileOptions as WireOptions
        from .attribute import make_attribute
        from .errors import InvalidArgument

        try:
            wire = WireOptions(
                num_replicas=self.num_replicas,
                num_partitions=self.num_partitions,
                use_spmd_partitioning=bool(self.use_spmd_partitioning),
                use_shardy_partitioner=bool(self.use_shardy_partitioner),
                use_auto_spmd_partitioning=bool(self.use_auto_spmd_partitioning),
                auto_spmd_partitioning_mesh_shape=self.auto_spmd_partitioning_mesh_shape,
                auto_spmd_partitioning_mesh_ids=self.auto_spmd_partitioning_mesh_ids,
                device_assignment=self._devices(),
                alias_passthrough_params=bool(self.alias_passthrough_params),
                allow_spmd_sharding_propagation_to_parameters=self.allow_spmd_sharding_propagation_to_parameters,
                allow_spmd_sharding_propagation_to_output=self.allow_spmd_sharding_propagation_to_output,
                parameter_is_tupled_arguments=bool(self.parameter_is_tupled_arguments),
                compile_portable_executable=bool(self.compile_portable_executable),
                deduplicate_hlo=bool(self.deduplicate_hlo),
                exec_time_optimization_effort=float(self.exec_time_optimization_effort),
                memory_fitting_effort=float(self.memory_fitting_effort),
                overrides=[make_attribute(name, value) for name, value in self.overrides.items()],
            )
            wire.encode()
        except (TypeError, ValueError) as error:
            raise InvalidArgument(f"compile options: {error}") from error
        return wire

    def _devices(self) -> list[int]:
        """The device assignment, flat and replica-major."""
        given = self.device_assignment
        if given is None:
            return []
        if isinstance(given, bytes):
            return _read_assignment(given)
        devices: list[int] = []
        for row in given:
            if isinstance(row, int):
                devices.append(row)
            else:
                devices += row
        return devices


def _read_assignment(proto: bytes) -> list[int]:
    """The ids in a serialized xla.DeviceAssignmentProto, which has one list of replicas for each partition."""
    from ._proto import wire

    columns: list[list[int]] = []
    pos, end = 0, len(proto)
    while pos < end:
        tag, pos = wire.get_tag(proto, pos, end)
        if tag != 3 << 3 | 2:
            pos = wire.skip(proto, pos, end, tag)
            continue
        size, pos = wire.get_size(proto, pos, end)
        stop = pos + size
        column: list[int] = []
        while pos < stop:
            tag, pos = wire.get_tag(proto, pos, stop)
            if tag == 1 << 3:
                value, pos = wire.get_int64(proto, pos, stop)
                column.append(value)
            elif tag == 1 << 3 | 2:
                size, pos = wire.get_size(proto, pos, stop)
                last = pos + size
                while pos < last:
                    value, pos = wire.get_int64(proto, pos, last)
                    column.append(value)
            else:
                pos = wire.skip(proto, pos, stop, tag)
        columns.append(column)
    return [column[replica] for replica in range(min(map(len, columns), default=0)) for column in columns]
