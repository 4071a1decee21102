/* Files as a whole. One thread. */
#pragma once

#include <stddef.h>

/* Reads a file; "-" is standard input. `*out_data` is to be freed; a NUL is behind its last byte. NULL is success; else
 * a complaint to be freed. */
char *ctl_file_read(const char *path, void **out_data, size_t *out_size_bytes);
