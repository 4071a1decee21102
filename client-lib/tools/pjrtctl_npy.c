/* See ctl_numpy.h: reading. */
#include <ctype.h>
#include <inttypes.h>
#include <stdlib.h>
#include <string.h>

#include "ctl.h"
#include "ctl_file.h"
#include "ctl_numpy.h"

/* ---- Type strings ---- */

static const struct {
  pjrtc_dtype dtype;
  const char *descr;
} descrs[] = {
    {PJRTC_PRED, "|b1"},
    {PJRTC_S8, "|i1"},
    {PJRTC_S16, "<i2"},
    {PJRTC_S32, "<i4"},
    {PJRTC_S64, "<i8"},
    {PJRTC_U8, "|u1"},
    {PJRTC_U16, "<u2"},
    {PJRTC_U32, "<u4"},
    {PJRTC_U64, "<u8"},
    {PJRTC_F16, "<f2"},
    {PJRTC_F32, "<f4"},
    {PJRTC_F64, "<f8"},
    {PJRTC_C64, "<c8"},
    {PJRTC_C128, "<c16"},
    /* One element a byte, sign-extended: small integers are just these. */
    {PJRTC_S4, "|i1"},
    {PJRTC_S2, "|i1"},
    {PJRTC_S1, "|i1"},
    {PJRTC_U4, "|u1"},
    {PJRTC_U2, "|u1"},
    {PJRTC_U1, "|u1"},
};

const char *ctl_numpy_descr(pjrtc_dtype dtype, bool *out_raw) {
  *out_raw = false;
  for (size_t i = 0; i < sizeof descrs / sizeof *descrs; i++)
    if (descrs[i].dtype == dtype) return descrs[i].descr;
  *out_raw = true;
  return pjrtc_dtype_host_bytes(dtype) == 2 ? "|V2" : "|V1";
}

/* "<f4", ">i2", "|V2", "=f8". */
static char *take_descr(const char *descr, ctl_array *out, bool *out_swap) {
  char order = descr[0], kind = descr[1], little[8];
  long bytes = strtol(descr + 2, NULL, 10);
  if (!strchr("<>|=", order) || bytes < 1 || bytes > 16 || strlen(descr) > 5)
    return ctl_text("elements of numpy type \"%s\" cannot be used", descr);
  out->item_bytes = (size_t)bytes;
  *out_swap = order == '>' && bytes > 1;
  snprintf(little, sizeof little, "%c%c%ld", bytes == 1 ? '|' : '<', kind, bytes);
  for (size_t i = 0; i < sizeof descrs / sizeof *descrs; i++) {
    if (strcmp(descrs[i].descr, little) != 0) continue;
    out->dtype = descrs[i].dtype;
    break;
  }
  /* What ml_dtypes writes for types that numpy has not. */
  if (out->dtype == PJRTC_DTYPE_INVALID && (kind == 'V' || (kind == 'f' && bytes == 1)) && bytes <= 2) out->raw = true;
  if (kind == 'u' && bytes <= 2) out->raw = true;
  if (out->dtype == PJRTC_DTYPE_INVALID && !out->raw)
    return ctl_text("elements of numpy type \"%s\" cannot be used", descr);
  return NULL;
}

bool ctl_array_fits(const ctl_array *array, pjrtc_dtype dtype) {
  if (array->dtype == dtype) return true;
  if (pjrtc_dtype_host_bytes(dtype) != array->item_bytes) return false;
  bool raw;
  const char *descr = ctl_numpy_descr(dtype, &raw);
  if (raw) return array->raw;
  /* ml_dtypes saves types under 8 bits raw. */
  if (array->dtype == PJRTC_DTYPE_INVALID && pjrtc_dtype_bits(dtype) < 8) return array->raw;
  /* Types under 8 bits are kept as i1 and u1. */
  bool ignored;
  return array->dtype != PJRTC_DTYPE_INVALID && strcmp(descr, ctl_numpy_descr(array->dtype, &ignored)) == 0;
}

/* ---- The header: {'descr': '<f4', 'fortran_order': False, 'shape': (3, 4), } ---- */

static const char *skip(const char *c) {
  while (isspace((unsigned char)*c)) c++;
  return c;
}

static bool take_text(const char **cursor, char *out, size_t size) {
  const char *c = skip(*cursor), quote = *c;
  if (quote != '\'' && quote != '"') return false;
  const char *end = strchr(++c, quote);
  if (!end || (size_t)(end - c) >= size) return false;
  memcpy(out, c, (size_t)(end - c));
  out[end - c] = '\0';
  *cursor = end + 1;
  return true;
}

static bool take_shape(const char **cursor, ctl_array *out) {
  const char *c = skip(*cursor);
  if (*c++ != '(') return false;
  for (c = skip(c); *c != ')'; c = skip(c)) {
    char *end;
    long long dim = strtoll(c, &end, 10);
    if (end == c || dim < 0 || out->rank == PJRTC_MAX_RANK) return false;
    out->dims[out->rank++] = dim;
    c = skip(end);
    if (*c == ',')
      c++;
    else if (*c != ')')
      return false;
  }
  *cursor = c + 1;
  return true;
}

static bool take_word(const char **cursor, const char *word) {
  const char *c = skip(*cursor);
  if (strncmp(c, word, strlen(word)) != 0) return false;
  *cursor = c + strlen(word);
  return true;
}

static char *read_header(const char *header, ctl_array *out, bool *out_swap) {
  const char *cursor = skip(header);
  bool has_descr = false, has_order = false, has_shape = false;
  if (*cursor++ != '{') return ctl_text("the header is no dictionary");
  for (cursor = skip(cursor); *cursor && *cursor != '}'; cursor = skip(cursor)) {
    char key[32], descr[32];
    bool good = take_text(&cursor, key, sizeof key) && take_word(&cursor, ":");
    if (good && strcmp(key, "descr") == 0) {
      if (*skip(cursor) == '[') return ctl_text("structured arrays cannot be used");
      has_descr = good = take_text(&cursor, descr, sizeof descr) && strlen(descr) >= 3;
      char *complaint = good ? take_descr(descr, out, out_swap) : NULL;
      if (complaint) return complaint;
    } else if (good && strcmp(key, "fortran_order") == 0) {
      out->fortran_order = take_word(&cursor, "True");
      has_order = good = out->fortran_order || take_word(&cursor, "False");
    } else if (good && strcmp(key, "shape") == 0) {
      has_shape = good = !has_shape && take_shape(&cursor, out);
    } else {
      good = false;
    }
    if (!good) return ctl_text("the header is not what numpy writes");
    if (*skip(cursor) == ',') cursor = skip(cursor) + 1;
  }
  return has_descr && has_order && has_shape ? NULL : ctl_text("the header is not complete");
}

/* ---- The file ---- */

static void swap_bytes(uint8_t *data, uint64_t size_bytes, size_t width) {
  for (uint64_t at = 0; at + width <= size_bytes; at += width)
    for (size_t i = 0; i < width / 2; i++) {
      uint8_t kept = data[at + i];
      data[at + i] = data[at + width - 1 - i];
      data[at + width - 1 - i] = kept;
    }
}

static char *parse(uint8_t *file, size_t file_bytes, ctl_array *out) {
  static const uint8_t magic[] = "\x93NUMPY";
  if (file_bytes < 10 || memcmp(file, magic, 6) != 0) return ctl_text("it is no .npy file");
  size_t length_bytes = file[6] == 1 ? 2 : 4, header_bytes = 0;
  if (file[6] < 1 || file[6] > 3) return ctl_text("version %d.%d of .npy is not known", file[6], file[7]);
  if (file_bytes < 8 + length_bytes) return ctl_text("it is cut short");
  memcpy(&header_bytes, file + 8, length_bytes); /* little-endian */
  size_t begin = 8 + length_bytes;
  if (header_bytes > file_bytes - begin) return ctl_text("it is cut short");
  char *header = ctl_text("%.*s", (int)header_bytes, (const char *)file + begin);
  bool swap = false;
  char *complaint = read_header(header, out, &swap);
  free(header);
  if (complaint) return complaint;
  uint64_t size_bytes = out->item_bytes;
  for (uint32_t i = 0; i < out->rank; i++)
    if (__builtin_mul_overflow(size_bytes, (uint64_t)out->dims[i], &size_bytes))
      return ctl_text("its shape is impossible");
  if (size_bytes != file_bytes - begin - header_bytes)
    return ctl_text("it has %zu bytes of data, and its shape needs %" PRIu64, file_bytes - begin - header_bytes,
                    size_bytes);
  uint8_t *data = file + begin + header_bytes;
  /* A complex number is two. */
  bool is_complex = out->dtype == PJRTC_C64 || out->dtype == PJRTC_C128;
  if (swap) swap_bytes(data, size_bytes, is_complex ? out->item_bytes / 2 : out->item_bytes);
  out->data = data;
  return NULL;
}

char *ctl_array_read(const char *path, ctl_array *out_array) {
  memset(out_array, 0, sizeof *out_array);
  size_t file_bytes;
  char *complaint = ctl_file_read(path, &out_array->block, &file_bytes);
  if (!complaint) {
    char *inner = parse(out_array->block, file_bytes, out_array);
    if (inner) complaint = ctl_text("%s: %s", path, inner);
    free(inner);
  }
  if (complaint) ctl_array_deinit(out_array);
  return complaint;
}

void ctl_array_deinit(ctl_array *array) {
  free(array->block);
  memset(array, 0, sizeof *array);
}
