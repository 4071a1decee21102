/* Decoded messages as the public result objects. What an object points to lies in the arena of the message that it was
 * made from. Any thread. NULL: malformed, or out of memory. */
#pragma once

#include "failure.h"
#include "reply_arena.h"

struct Pjrtd__V1__ProgramDescription;
struct Pjrtd__V1__Attribute;

/* Makes a public object from a payload; on failure the arena ends here. */
typedef void *pjrtc_reply_object_reader(pjrtc_reply_arena *arena, const uint8_t *payload, size_t payload_bytes);

pjrtc_reply_object_reader pjrtc_read_info, pjrtc_read_devices, pjrtc_read_memories, pjrtc_read_stats;
pjrtc_reply_object_reader pjrtc_read_sessions, pjrtc_read_slots, pjrtc_read_published;
pjrtc_reply_object_reader pjrtc_read_compile, pjrtc_read_description;

/* An arena and its object; `*out_object` is to be destroyed with pjrtc_reply_object_destroy. */
pjrtc_failure *pjrtc_reply_object_read(pjrtc_reply_object_reader *reader, const uint8_t *payload, size_t payload_bytes,
                                       const char *name, void **out_object);
/* NULL where memory is out. */
const pjrtc_attribute *pjrtc_read_attributes(pjrtc_reply_arena *arena, size_t count,
                                             struct Pjrtd__V1__Attribute *const *messages);
