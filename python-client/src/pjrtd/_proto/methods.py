"""The method table: ids as they travel in frames."""
# Written by tools/gen_proto.py from proto/methods.def.

from __future__ import annotations

HELLO = 0x0101
INFO = 0x0102
DEVICES = 0x0103
MEMORIES = 0x0104
DEFAULT_ASSIGNMENT = 0x0105
SESSION_OPEN = 0x0201
SESSION_CLOSE = 0x0202
SESSION_SYNC = 0x0203
SESSION_ATTACH = 0x0204
SESSION_LIST = 0x0205
SESSION_BIND = 0x0206
SESSION_UNBIND = 0x0207
SESSION_LOOKUP = 0x0208
SESSION_SLOTS = 0x0209
SESSION_PUBLISH = 0x020a
SESSION_WITHDRAW = 0x020b
SESSION_BORROW = 0x020c
SESSION_PUBLISHED = 0x020d
SESSION_CONFIGURE = 0x020e
BUFFER_UPLOAD = 0x0301
BUFFER_DOWNLOAD = 0x0302
BUFFER_STAT = 0x0303
BUFFER_DELETE = 0x0304
PROGRAM_COMPILE = 0x0401
PROGRAM_DESCRIBE = 0x0402
PROGRAM_RELEASE = 0x0403
EXECUTE = 0x0501
EXECUTE_RUN = 0x0502
ADMIN_STATS = 0x0701

# id -> (Family.Name, request message, reply message)
METHODS: dict[int, tuple[str, str, str]] = {
    0x0101: ("Runtime.Hello", "HelloRequest", "HelloReply"),
    0x0102: ("Runtime.Info", "Empty", "InfoReply"),
    0x0103: ("Runtime.Devices", "Empty", "DevicesReply"),
    0x0104: ("Runtime.Memories", "Empty", "MemoriesReply"),
    0x0105: ("Runtime.DefaultAssignment", "DefaultAssignmentRequest", "DefaultAssignmentReply"),
    0x0201: ("Session.Open", "SessionOpenRequest", "SessionOpenReply"),
    0x0202: ("Session.Close", "SessionCloseRequest", "SessionCloseReply"),
    0x0203: ("Session.Sync", "Empty", "SyncReply"),
    0x0204: ("Session.Attach", "SessionAttachRequest", "SessionAttachReply"),
    0x0205: ("Session.List", "SessionListRequest", "SessionListReply"),
    0x0206: ("Session.Bind", "BindRequest", "Empty"),
    0x0207: ("Session.Unbind", "UnbindRequest", "Empty"),
    0x0208: ("Session.Lookup", "LookupRequest", "Empty"),
    0x0209: ("Session.Slots", "SlotsRequest", "SlotsReply"),
    0x020a: ("Session.Publish", "PublishRequest", "Empty"),
    0x020b: ("Session.Withdraw", "WithdrawRequest", "Empty"),
    0x020c: ("Session.Borrow", "BorrowRequest", "Empty"),
    0x020d: ("Session.Published", "Empty", "PublishedReply"),
    0x020e: ("Session.Configure", "ConfigureRequest", "Empty"),
    0x0301: ("Buffer.Upload", "UploadRequest", "UploadReply"),
    0x0302: ("Buffer.Download", "DownloadRequest", "DownloadReply"),
    0x0303: ("Buffer.Stat", "BufferRequest", "StatReply"),
    0x0304: ("Buffer.Delete", "DeleteRequest", "Empty"),
    0x0401: ("Program.Compile", "CompileRequest", "CompileReply"),
    0x0402: ("Program.Describe", "ProgramRequest", "ProgramDescription"),
    0x0403: ("Program.Release", "ReleaseRequest", "Empty"),
    0x0501: ("Execute.Execute", "ExecuteRequest", "ExecuteReply"),
    0x0502: ("Execute.Run", "RunRequest", "RunReply"),
    0x0701: ("Admin.Stats", "Empty", "StatsReply"),
}
