/* Between the daemon's types and the messages'. Loop thread; what is filled borrows from its source. */
#pragma once

#include "plugin/plugin.h"
#include "service/messages.h"

typedef struct {
  Pjrtd__V1__Error message;
  Pjrtd__V1__ArgumentDetail argument;
  Pjrtd__V1__QuotaUse quota;
  Pjrtd__V1__BufferDetail biggest[PJRTD_MAX_BIGGEST], *biggest_list[PJRTD_MAX_BIGGEST];
  Pjrtd__V1__Attribute allocator[PJRTD_MAX_ALLOCATOR_STATS], *allocator_list[PJRTD_MAX_ALLOCATOR_STATS];
} pjrtd_error_message;
/* Borrows `status` and `out_message`'s own parts: neither may move or go while the message is used. Text that is not
 * UTF-8 is mended in a static buffer, so one message at a time. */
void pjrtd_error_message_fill(pjrtd_error_message *out_message, const pjrtd_status *status);

/* `text` itself where it is UTF-8 (and not far too long), else a mended copy in `*slot`, which the caller frees at the
 * end; an earlier one there is freed. */
const char *pjrtd_valid_text(const char *text, char **slot);
void pjrtd_type_message_fill(Pjrtd__V1__TensorType *out_message, const pjrtd_tensor_type *type);
typedef struct {
  Pjrtd__V1__Layout message;
  Pjrtd__V1__Tile tiles[8];
  Pjrtd__V1__Tile *tile_list[8];
} pjrtd_layout_message;
/* Borrows both: neither may move. */
void pjrtd_layout_message_fill(pjrtd_layout_message *out_message, const pjrtd_layout *layout);
/* The view borrows the message. NULL (no type in the request) gives an invalid type, which every check refuses. */
pjrtd_tensor_type pjrtd_type_of_message(const Pjrtd__V1__TensorType *message);

/* Fills `count` attributes from values: an array of pointers and messages in one block, to be freed with pjrtd_free.
 * NULL without memory, or for none (then `*out_ok` tells). */
Pjrtd__V1__Attribute **pjrtd_attributes_make(const pjrtd_value *values, size_t count, bool *out_ok);
/* The values borrow the messages' texts. NULL without memory; the caller frees the array. */
pjrtd_value *pjrtd_values_of_attributes(Pjrtd__V1__Attribute *const *attributes, size_t count);
