"""A call gives a tuple of buffers, and a buffer is not its value."""

import pjrtd


def use(exe: pjrtd.Executable) -> float:
    results = exe(1.0)
    results.append(1)  # error: reportAttributeAccessIssue
    first: float = results[0]  # error: reportAssignmentType
    return first
