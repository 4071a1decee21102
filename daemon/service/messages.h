/* All messages, and their descriptors by the names of the method table. */
#pragma once

#include "pjrtd/v1/admin.pb-c.h"
#include "pjrtd/v1/buffer.pb-c.h"
#include "pjrtd/v1/common.pb-c.h"
#include "pjrtd/v1/execute.pb-c.h"
#include "pjrtd/v1/frame.pb-c.h"
#include "pjrtd/v1/program.pb-c.h"
#include "pjrtd/v1/runtime.pb-c.h"
#include "pjrtd/v1/session.pb-c.h"

#define PJRTD_DESCRIPTOR_Empty &pjrtd__v1__empty__descriptor
#define PJRTD_DESCRIPTOR_HelloRequest &pjrtd__v1__hello_request__descriptor
#define PJRTD_DESCRIPTOR_DefaultAssignmentRequest &pjrtd__v1__default_assignment_request__descriptor
#define PJRTD_DESCRIPTOR_SessionOpenRequest &pjrtd__v1__session_open_request__descriptor
#define PJRTD_DESCRIPTOR_SessionCloseRequest &pjrtd__v1__session_close_request__descriptor
#define PJRTD_DESCRIPTOR_SessionAttachRequest &pjrtd__v1__session_attach_request__descriptor
#define PJRTD_DESCRIPTOR_SessionListRequest &pjrtd__v1__session_list_request__descriptor
#define PJRTD_DESCRIPTOR_BindRequest &pjrtd__v1__bind_request__descriptor
#define PJRTD_DESCRIPTOR_UnbindRequest &pjrtd__v1__unbind_request__descriptor
#define PJRTD_DESCRIPTOR_LookupRequest &pjrtd__v1__lookup_request__descriptor
#define PJRTD_DESCRIPTOR_SlotsRequest &pjrtd__v1__slots_request__descriptor
#define PJRTD_DESCRIPTOR_UploadRequest &pjrtd__v1__upload_request__descriptor
#define PJRTD_DESCRIPTOR_DownloadRequest &pjrtd__v1__download_request__descriptor
#define PJRTD_DESCRIPTOR_BufferRequest &pjrtd__v1__buffer_request__descriptor
#define PJRTD_DESCRIPTOR_DeleteRequest &pjrtd__v1__delete_request__descriptor
#define PJRTD_DESCRIPTOR_CompileRequest &pjrtd__v1__compile_request__descriptor
#define PJRTD_DESCRIPTOR_ProgramRequest &pjrtd__v1__program_request__descriptor
#define PJRTD_DESCRIPTOR_ReleaseRequest &pjrtd__v1__release_request__descriptor
#define PJRTD_DESCRIPTOR_ExecuteRequest &pjrtd__v1__execute_request__descriptor
#define PJRTD_DESCRIPTOR_RunRequest &pjrtd__v1__run_request__descriptor
