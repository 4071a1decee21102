"""ResourceWarning for what was dropped without close(), at the price of a glance where nobody wants to see it."""

from __future__ import annotations

import warnings

# The warning filters that were looked at last, and whether they drop a ResourceWarning from anywhere. The list and its
# first entry tell: every change puts an entry in front, empties the list or replaces it.
_seen: tuple[object, object, int] = (None, None, 0)
_ignored = False
# Python 3.14 can keep filters in the context instead: then there is no such short cut.
_has_context_filters = hasattr(warnings, "_get_filters")


def warn_leak(message: str, source: object) -> None:
    """Warns that `source` was never closed, from its __del__."""
    filters = warnings.filters
    if filters and not _has_context_filters:
        seen, first, count = _seen
        if filters is not seen or filters[0] is not first or len(filters) != count:
            _look(filters)
        if _ignored:
            return
    warnings.warn(message, ResourceWarning, 3, source)


def _look(filters: object) -> None:
    global _seen, _ignored
    entries: list[tuple[str, object, type[Warning], object, int]] = list(filters)  # type: ignore[call-overload]
    _ignored = False
    for action, message, category, module, line in entries:
        if issubclass(ResourceWarning, category):
            if action != "ignore":
                break
            if message is None and module is None and not line:
                _ignored = True
                break
    _seen = (filters, entries[0], len(entries))
