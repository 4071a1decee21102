"""Named values of a plugin as Python values: device attributes, create options, allocator statistics."""

from __future__ import annotations

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Iterable
    from typing import Union

    from ._proto.common import Attribute

    Value = Union[str, int, float, bool, tuple[int, ...], None]


def attribute_value(attribute: Attribute) -> Value:
    """The value that is set, with the type that the plugin gave it; None where none is."""
    if attribute.integers is not None:
        return tuple(attribute.integers.values)
    for value in (attribute.text, attribute.integer, attribute.real, attribute.boolean):
        if value is not None:
            return value
    return None


def attribute_values(attributes: Iterable[Attribute]) -> dict[str, Value]:
    return {attribute.name: attribute_value(attribute) for attribute in attributes}


def make_attribute(name: str, value: object) -> Attribute:
    """The wire form of a name and a str, bool, int, float, or list of ints. TypeError for anything else."""
    from ._proto.common import Attribute, IntegerList

    if isinstance(value, str):
        return Attribute(name, text=value)
    if isinstance(value, bool):
        return Attribute(name, boolean=value)
    if isinstance(value, int):
        return Attribute(name, integer=value)
    if isinstance(value, float):
        return Attribute(name, real=value)
    if isinstance(value, (list, tuple)):
        integers: list[int] = []
        for item in value:  # pyright: ignore[reportUnknownVariableType]
            if not isinstance(item, int):
                break
            integers.append(item)
        else:
            return Attribute(name, integers=IntegerList(integers))
    raise TypeError(f"{name}: {value!r} is not a str, bool, int, float or list of ints")
