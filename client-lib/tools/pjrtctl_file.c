/* See ctl_file.h. */
#include <errno.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>

#include "ctl.h"
#include "ctl_file.h"

char *ctl_file_read(const char *path, void **out_data, size_t *out_size_bytes) {
  *out_data = NULL;
  *out_size_bytes = 0;
  bool is_input = strcmp(path, "-") == 0;
  FILE *file = is_input ? stdin : fopen(path, "rb");
  if (!file) return ctl_text("%s: %s", path, strerror(errno));
  struct stat status;
  size_t capacity = 1 << 16, used = 0;
  if (fstat(fileno(file), &status) == 0 && S_ISREG(status.st_mode)) capacity = (size_t)status.st_size + 2;
  char *data = ctl_alloc(capacity), *complaint = NULL;
  for (;;) {
    size_t count = fread(data + used, 1, capacity - used - 1, file);
    used += count;
    if (count == 0) break;
    if (capacity - used > 1) continue;
    char *larger = realloc(data, capacity *= 2);
    if (!larger) {
      complaint = ctl_text("%s: no memory for %zu bytes", path, capacity);
      break;
    }
    data = larger;
  }
  if (!complaint && ferror(file)) complaint = ctl_text("%s: %s", path, strerror(errno));
  if (!is_input) fclose(file);
  if (complaint) {
    free(data);
    return complaint;
  }
  data[used] = '\0';
  *out_data = data;
  *out_size_bytes = used;
  return NULL;
}
