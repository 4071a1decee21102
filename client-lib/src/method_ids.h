/* PJRTC_METHOD_hello, PJRTC_METHOD_buffer_upload, ...: the wire's numbers, from the method table. */
#pragma once

enum {
#define PJRTD_METHOD(id, family, Name, name, request, reply, right) PJRTC_METHOD_##name = id,
#include "proto/methods.def"
#undef PJRTD_METHOD
};
