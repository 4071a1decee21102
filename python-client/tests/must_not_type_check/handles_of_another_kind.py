"""Programs, buffers, devices and clients are not mixed up."""

import pjrtd


def use(client: pjrtd.Client, exe: pjrtd.Executable, buffer: pjrtd.Buffer[pjrtd.typing.F32]) -> None:
    exe.compile("")  # error: reportAttributeAccessIssue
    buffer(1.0)  # error: reportCallIssue
    client.buffer_from_host([1.0], device=buffer)  # error: reportArgumentType
    client.compile(1.0)  # error: reportArgumentType
    exe.execute_sharded(buffer)  # error: reportArgumentType
