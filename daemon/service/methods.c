/* The method table (proto/methods.def) as the daemon uses it. */
#include "service/call.h"
#include "service/messages.h"

/* C99's token pasting cannot lower the case of a name, so the descriptors get names of their own in messages.h. */
#define PJRTD_METHOD(id_, family, Name, name_, Request, Reply, right_)                                               \
  {.id = id_,                                                                                                        \
   .name = #family "." #Name,                                                                                        \
   .request = PJRTD_DESCRIPTOR_##Request,                                                                            \
   .right = PJRTD_RIGHT_##right_,                                                                                    \
   .needs_session = ((id_) >> 8 >= 3 && (id_) >> 8 <= 6) || ((id_) >= PJRTD_METHOD_Session_Bind && (id_) >> 8 == 2), \
   .takes_bulk = (id_) == PJRTD_METHOD_Buffer_Upload || (id_) == PJRTD_METHOD_Program_Compile ||                     \
                 (id_) == PJRTD_METHOD_Execute_Execute || (id_) == PJRTD_METHOD_Execute_Run,                         \
   .handle = pjrtd_handle_##name_},

static const pjrtd_method methods[] = {
#include "proto/methods.def"
};
#undef PJRTD_METHOD

const pjrtd_method *pjrtd_method_find(uint16_t id) {
  /* In the order of their ids. */
  size_t low = 0, high = sizeof methods / sizeof *methods;
  while (low < high) {
    size_t middle = (low + high) / 2;
    if (methods[middle].id == id) return &methods[middle];
    if (methods[middle].id < id)
      low = middle + 1;
    else
      high = middle;
  }
  return NULL;
}
