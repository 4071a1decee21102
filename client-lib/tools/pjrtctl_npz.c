/* See ctl_numpy.h: writing an .npz file, which is a zip archive of .npy files, stored without compression. Entries and
 * archives over 4 GiB have the zip64 fields. */
#include <errno.h>
#include <inttypes.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "ctl.h"
#include "ctl_numpy.h"

/* ---- CRC-32 (of ISO 3309, as zip has it) ---- */

static uint32_t crc_table[8][256];

/* Eight bytes a step. */
static void make_crc_table(void) {
  for (uint32_t i = 0; i < 256; i++) {
    uint32_t crc = i;
    for (int bit = 0; bit < 8; bit++) crc = crc & 1 ? 0xedb88320u ^ crc >> 1 : crc >> 1;
    crc_table[0][i] = crc;
  }
  for (uint32_t i = 0; i < 256; i++)
    for (int t = 1; t < 8; t++) crc_table[t][i] = crc_table[0][crc_table[t - 1][i] & 0xff] ^ crc_table[t - 1][i] >> 8;
}

uint32_t ctl_crc32(uint32_t crc, const void *data, size_t size_bytes) {
  const uint8_t *bytes = data;
  if (!crc_table[0][1]) make_crc_table();
  crc = ~crc;
  for (; size_bytes >= 8; size_bytes -= 8, bytes += 8) {
    uint32_t low, high;
    memcpy(&low, bytes, 4);
    memcpy(&high, bytes + 4, 4);
    low ^= crc;
    crc = crc_table[7][low & 0xff] ^ crc_table[6][low >> 8 & 0xff] ^ crc_table[5][low >> 16 & 0xff] ^
          crc_table[4][low >> 24] ^ crc_table[3][high & 0xff] ^ crc_table[2][high >> 8 & 0xff] ^
          crc_table[1][high >> 16 & 0xff] ^ crc_table[0][high >> 24];
  }
  while (size_bytes--) crc = crc_table[0][(crc ^ *bytes++) & 0xff] ^ crc >> 8;
  return ~crc;
}

/* ---- The archive ---- */

enum { MAX_NAME = 272, VERSION = 45, DATE_1980 = 0x21 };

typedef struct {
  char name[MAX_NAME];
  uint32_t crc;
  uint64_t size_bytes, offset;
} entry;

struct ctl_archive {
  FILE *file;
  char *path, *temporary; /* owned */
  entry *entries;         /* owned */
  size_t num_entries, capacity;
  uint64_t offset;
  int error;
};

static void put(ctl_archive *archive, const void *data, size_t size_bytes) {
  if (!archive->error && size_bytes && fwrite(data, 1, size_bytes, archive->file) != size_bytes)
    archive->error = errno ? errno : EIO;
  archive->offset += size_bytes;
}

static void put_number(ctl_archive *archive, uint64_t value, size_t size_bytes) {
  put(archive, &value, size_bytes); /* little-endian */
}

ctl_archive *ctl_archive_create(const char *path, char **out_complaint) {
  ctl_archive *archive = ctl_alloc(sizeof *archive);
  archive->path = ctl_text("%s", path);
  archive->temporary = ctl_text("%s.%d.tmp", path, (int)getpid());
  archive->file = fopen(archive->temporary, "wbx");
  *out_complaint = NULL;
  if (archive->file) return archive;
  *out_complaint = ctl_text("%s: %s", path, strerror(errno));
  free(archive->temporary);
  archive->temporary = NULL;
  ctl_archive_abandon(archive);
  return NULL;
}

/* Sizes and offset in a zip64 field; always there, so that small and large entries are written alike. */
static void put_zip64(ctl_archive *archive, const entry *e, bool with_offset) {
  put_number(archive, 1, 2);
  put_number(archive, with_offset ? 24 : 16, 2);
  put_number(archive, e->size_bytes, 8);
  put_number(archive, e->size_bytes, 8);
  if (with_offset) put_number(archive, e->offset, 8);
}

static void put_entry(ctl_archive *archive, const entry *e, bool central) {
  put_number(archive, central ? 0x02014b50 : 0x04034b50, 4);
  if (central) put_number(archive, VERSION, 2);
  put_number(archive, VERSION, 2);
  put_number(archive, 0, 2); /* flags */
  put_number(archive, 0, 2); /* stored */
  put_number(archive, 0, 2);
  put_number(archive, DATE_1980, 2);
  put_number(archive, e->crc, 4);
  put_number(archive, 0xffffffff, 4);
  put_number(archive, 0xffffffff, 4);
  put_number(archive, strlen(e->name), 2);
  put_number(archive, central ? 28 : 20, 2);
  if (central) {
    put_number(archive, 0, 2); /* comment */
    put_number(archive, 0, 2); /* disk */
    put_number(archive, 0, 2); /* attributes */
    put_number(archive, 0100644u << 16, 4);
    put_number(archive, 0xffffffff, 4);
  }
  put(archive, e->name, strlen(e->name));
  put_zip64(archive, e, central);
}

/* The .npy header, padded so that the data begins at a multiple of 64. */
static char *npy_header(const pjrtc_type *type, size_t *out_size_bytes) {
  bool raw;
  char *shape = ctl_text("%s", "");
  for (uint32_t i = 0; i < type->rank; i++) {
    char *longer = ctl_text("%s%" PRId64 ",%s", shape, type->dims[i], i + 1 < type->rank ? " " : "");
    free(shape);
    shape = longer;
  }
  if (type->rank > 1) shape[strlen(shape) - 1] = '\0'; /* "(3,)" keeps its comma, "(3, 4)" has none at the end */
  char *text =
      ctl_text("{'descr': '%s', 'fortran_order': False, 'shape': (%s), }", ctl_numpy_descr(type->dtype, &raw), shape);
  free(shape);
  size_t unpadded = 10 + strlen(text) + 1, padded = (unpadded + 63) / 64 * 64;
  char *header = ctl_alloc(padded + 1);
  memcpy(header, "\x93NUMPY\x01\x00", 8);
  header[8] = (char)((padded - 10) & 0xff);
  header[9] = (char)((padded - 10) >> 8);
  sprintf(header + 10, "%-*s\n", (int)(padded - 11), text);
  free(text);
  *out_size_bytes = padded;
  return header;
}

void ctl_archive_add(ctl_archive *archive, const char *name, const pjrtc_type *type, const void *data) {
  if (archive->num_entries == archive->capacity) {
    archive->capacity = archive->capacity ? archive->capacity * 2 : 16;
    entry *entries = ctl_alloc(archive->capacity * sizeof *entries);
    if (archive->num_entries) memcpy(entries, archive->entries, archive->num_entries * sizeof *entries);
    free(archive->entries);
    archive->entries = entries;
  }
  entry *e = &archive->entries[archive->num_entries++];
  uint64_t data_bytes = 0;
  pjrtc_type_size(type, &data_bytes, NULL);
  size_t header_bytes;
  char *header = npy_header(type, &header_bytes);
  snprintf(e->name, sizeof e->name, "%s.npy", name);
  e->crc = ctl_crc32(ctl_crc32(0, header, header_bytes), data, data_bytes);
  e->size_bytes = header_bytes + data_bytes;
  e->offset = archive->offset;
  put_entry(archive, e, false);
  put(archive, header, header_bytes);
  put(archive, data, data_bytes);
  free(header);
}

static void put_end(ctl_archive *archive) {
  uint64_t directory = archive->offset;
  for (size_t i = 0; i < archive->num_entries; i++) put_entry(archive, &archive->entries[i], true);
  uint64_t directory_bytes = archive->offset - directory, end = archive->offset;
  put_number(archive, 0x06064b50, 4); /* zip64 end of the directory */
  put_number(archive, 44, 8);
  put_number(archive, VERSION, 2);
  put_number(archive, VERSION, 2);
  put_number(archive, 0, 4);
  put_number(archive, 0, 4);
  put_number(archive, archive->num_entries, 8);
  put_number(archive, archive->num_entries, 8);
  put_number(archive, directory_bytes, 8);
  put_number(archive, directory, 8);
  put_number(archive, 0x07064b50, 4); /* where that is */
  put_number(archive, 0, 4);
  put_number(archive, end, 8);
  put_number(archive, 1, 4);
  put_number(archive, 0x06054b50, 4); /* end of the directory */
  put_number(archive, 0, 2);
  put_number(archive, 0, 2);
  put_number(archive, 0xffff, 2);
  put_number(archive, 0xffff, 2);
  put_number(archive, 0xffffffff, 4);
  put_number(archive, 0xffffffff, 4);
  put_number(archive, 0, 2);
}

char *ctl_archive_finish(ctl_archive *archive) {
  put_end(archive);
  if (!archive->error && fflush(archive->file) != 0) archive->error = errno;
  if (fclose(archive->file) != 0 && !archive->error) archive->error = errno;
  archive->file = NULL;
  if (!archive->error && rename(archive->temporary, archive->path) != 0) archive->error = errno;
  char *complaint = archive->error ? ctl_text("%s: %s", archive->path, strerror(archive->error)) : NULL;
  if (!complaint) {
    free(archive->temporary);
    archive->temporary = NULL;
  }
  ctl_archive_abandon(archive);
  return complaint;
}

void ctl_archive_abandon(ctl_archive *archive) {
  if (!archive) return;
  if (archive->file) fclose(archive->file);
  if (archive->temporary) unlink(archive->temporary);
  free(archive->temporary);
  free(archive->path);
  free(archive->entries);
  free(archive);
}
