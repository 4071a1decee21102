/* ProgramDescription as compile and describe answer it. Loop thread. */
#pragma once

#include "service/call.h"

PJRTD_MUST_USE pjrtd_status *pjrtd_answer_compile(pjrtd_peer *peer, const pjrtd_frame_header *header,
                                                  const pjrtd_program_info *info, uint64_t compile_ns);
PJRTD_MUST_USE pjrtd_status *pjrtd_answer_describe(pjrtd_peer *peer, const pjrtd_frame_header *header,
                                                   const pjrtd_program_info *info);
