/* Runs a fuzz target over the files of folders, without a fuzzer: what the ordinary build does with the corpora.
 * Each input lies in a block of exactly its size, so that a sanitizer sees a read beyond it. */
#include <dirent.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <sys/stat.h>

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size_bytes);

static int replay_file(const char *path) {
  FILE *file = fopen(path, "rb");
  struct stat info;
  if (!file || fstat(fileno(file), &info) != 0) {
    perror(path);
    return -1;
  }
  size_t size_bytes = (size_t)info.st_size;
  uint8_t *data = malloc(size_bytes ? size_bytes : 1);
  int result = data && fread(data, 1, size_bytes, file) == size_bytes ? LLVMFuzzerTestOneInput(data, size_bytes) : -1;
  free(data);
  fclose(file);
  return result;
}

int main(int argc, char **argv) {
  size_t count = 0;
  for (int i = 1; i < argc; i++) {
    DIR *folder = opendir(argv[i]);
    if (!folder) {
      perror(argv[i]);
      return 1;
    }
    for (struct dirent *entry; (entry = readdir(folder)) != NULL;) {
      if (entry->d_name[0] == '.') continue;
      char path[4096];
      snprintf(path, sizeof path, "%s/%s", argv[i], entry->d_name);
      if (replay_file(path) < 0) return 1;
      count++;
    }
    closedir(folder);
  }
  printf("%zu inputs\n", count);
  return count ? 0 : 1; /* an empty corpus would show nothing */
}
