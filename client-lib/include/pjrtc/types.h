/* pjrtc: errors, element types, values. Part of pjrtc.h, which says what holds for all. */
#ifndef PJRTC_TYPES_H_
#define PJRTC_TYPES_H_

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#ifdef __cplusplus
extern "C" {
#endif

#define PJRTC_API __attribute__((visibility("default")))

/* The version of the library, "0.1.0". Static. */
PJRTC_API const char *pjrtc_version(void);

/* ---- Errors ---------------------------------------------------------------------------------------------------- */

/* PJRT's and gRPC's codes. What they mean when pjrtd or this library says them, and what to do:
 *
 * INVALID_ARGUMENT     the request is wrong; the message says what and what was expected. Do not retry.
 * NOT_FOUND            no such id in this session; or a custom-call target that does not exist.
 * PERMISSION_DENIED    the identity lacks the right, or may not open the socket.
 * RESOURCE_EXHAUSTED   a bound was reached, or memory; `retry_after_ns` is set where waiting helps.
 * FAILED_PRECONDITION  not now: session closed, connection of another process.
 * OUT_OF_RANGE         a result is larger than the memory given for it; its `size_bytes` says how large.
 * UNIMPLEMENTED        this plugin, server or library does not have it.
 * UNAVAILABLE          no connection, or it was lost, or the server drains. Connect again.
 * CANCELLED, DEADLINE_EXCEEDED   as asked.
 * INTERNAL             the plugin's own error, or a server that broke the protocol.
 * PENDING              not an error: the future is not done yet. */
typedef enum pjrtc_code {
  PJRTC_PENDING = -1,
  PJRTC_OK = 0,
  PJRTC_CANCELLED = 1,
  PJRTC_UNKNOWN = 2,
  PJRTC_INVALID_ARGUMENT = 3,
  PJRTC_DEADLINE_EXCEEDED = 4,
  PJRTC_NOT_FOUND = 5,
  PJRTC_ALREADY_EXISTS = 6,
  PJRTC_PERMISSION_DENIED = 7,
  PJRTC_RESOURCE_EXHAUSTED = 8,
  PJRTC_FAILED_PRECONDITION = 9,
  PJRTC_ABORTED = 10,
  PJRTC_OUT_OF_RANGE = 11,
  PJRTC_UNIMPLEMENTED = 12,
  PJRTC_INTERNAL = 13,
  PJRTC_UNAVAILABLE = 14,
  PJRTC_DATA_LOSS = 15,
  PJRTC_UNAUTHENTICATED = 16,
} pjrtc_code;

/* "INVALID_ARGUMENT". "UNKNOWN" for what is not a code. Static. */
PJRTC_API const char *pjrtc_code_name(pjrtc_code code);

#define PJRTC_MESSAGE_BYTES 1024
/* No message is longer than this. */
#define PJRTC_DETAIL_BYTES (1u << 20)

/* An error, in storage of the caller's. Initialise it with PJRTC_ERROR_INIT and use it for any number of calls.
 * On success only `code` is written.
 *
 * A compiler's message can be long. `message` holds its first PJRTC_MESSAGE_BYTES - 1 bytes. To get it whole, let
 * `detail` point to memory of yours; PJRTC_DETAIL_BYTES are always enough, `message_bytes` says how many it has. */
typedef struct pjrtc_error {
  size_t struct_size;
  char *detail;       /* yours, or NULL: receives the whole message, NUL-terminated, as far as it fits */
  size_t detail_size; /* in bytes */
  pjrtc_code code;
  uint32_t has_argument; /* 1: the next three say which argument was wrong, what was expected and what came */
  uint32_t argument_index;
  uint32_t reserved;
  uint64_t message_bytes;  /* of the whole message, without the NUL */
  uint64_t call;           /* number of the call that failed; 0: none was sent */
  uint64_t origin_call;    /* number of the call that failed first, where this one failed because of it; else 0 */
  uint64_t retry_after_ns; /* when another try may succeed; 0: not known */
  char argument_expected[160];
  char argument_actual[160];
  char allocator[512]; /* "bytes_in_use=1024 ...", where a device ran out of memory; else "" */
  char hint[512];      /* what to do about it; may be "" */
  char message[PJRTC_MESSAGE_BYTES];
} pjrtc_error;

#ifdef __cplusplus
#define PJRTC_ERROR_INIT \
  { sizeof(pjrtc_error) }
#else
#define PJRTC_ERROR_INIT \
  { .struct_size = sizeof(pjrtc_error) }
#endif

/* ---- Types ----------------------------------------------------------------------------------------------------- */

/* Element types; the values are PJRT_Buffer_Type's. */
typedef enum pjrtc_dtype {
  PJRTC_DTYPE_INVALID = 0,
  PJRTC_PRED = 1,
  PJRTC_S8 = 2,
  PJRTC_S16 = 3,
  PJRTC_S32 = 4,
  PJRTC_S64 = 5,
  PJRTC_U8 = 6,
  PJRTC_U16 = 7,
  PJRTC_U32 = 8,
  PJRTC_U64 = 9,
  PJRTC_F16 = 10,
  PJRTC_F32 = 11,
  PJRTC_F64 = 12,
  PJRTC_BF16 = 13,
  PJRTC_C64 = 14,
  PJRTC_C128 = 15,
  PJRTC_F8E5M2 = 16,
  PJRTC_F8E4M3FN = 17,
  PJRTC_F8E4M3B11FNUZ = 18,
  PJRTC_F8E5M2FNUZ = 19,
  PJRTC_F8E4M3FNUZ = 20,
  PJRTC_S4 = 21,
  PJRTC_U4 = 22,
  PJRTC_TOKEN = 23,
  PJRTC_S2 = 24,
  PJRTC_U2 = 25,
  PJRTC_F8E4M3 = 26,
  PJRTC_F8E3M4 = 27,
  PJRTC_F8E8M0FNU = 28,
  PJRTC_F4E2M1FN = 29,
  PJRTC_S1 = 30,
  PJRTC_U1 = 31,
  PJRTC_F6E2M3FN = 32,
  PJRTC_F6E3M2FN = 33,
} pjrtc_dtype;

/* "f32", "s4", "f8e4m3fn"; "invalid" for what is not an element type. Static. */
PJRTC_API const char *pjrtc_dtype_name(pjrtc_dtype dtype);
/* The element type of that name; PJRTC_DTYPE_INVALID where there is none. */
PJRTC_API pjrtc_dtype pjrtc_dtype_from_name(const char *name);
/* Bytes of one element on the host; 0 for a token and for what is not an element type. */
PJRTC_API uint32_t pjrtc_dtype_host_bytes(pjrtc_dtype dtype);
/* Bits of the value: 4 for s4, 8 for pred. */
PJRTC_API uint32_t pjrtc_dtype_bits(pjrtc_dtype dtype);

#define PJRTC_MAX_RANK 64

/* Element type and dimensions. `dims` is borrowed; a scalar has rank 0 and needs none. A dimension may be 0. */
typedef struct pjrtc_type {
  pjrtc_dtype dtype;
  uint32_t rank;
  const int64_t *dims;
} pjrtc_type;

/* Checks a type and gives the bytes of a dense array of it. INVALID_ARGUMENT says what is wrong with it. */
PJRTC_API pjrtc_code pjrtc_type_size(const pjrtc_type *type, uint64_t *out_size_bytes, pjrtc_error *error);
/* Writes "f32[2,3]" into `buffer`, cut short with "...]" where it does not fit, and returns it. 24 bytes at least. */
PJRTC_API char *pjrtc_type_format(const pjrtc_type *type, char *buffer, size_t buffer_size);

/* A tensor that comes back, and the memory for it.
 *
 * In: `data` and `capacity_bytes`. Where `data` is NULL the library allocates, and pjrtc_free releases it.
 * Out: type, dimensions and `size_bytes`. Where the capacity is too small the call fails with OUT_OF_RANGE, and these
 * are filled in. Data is dense row-major. */
typedef struct pjrtc_value {
  uint32_t position; /* in: which output of a program; not used by a download */
  pjrtc_dtype dtype;
  void *data;
  uint64_t capacity_bytes;
  uint64_t size_bytes;
  uint32_t rank;
  uint32_t reserved;
  int64_t dims[PJRTC_MAX_RANK];
} pjrtc_value;

/* Frees what the library allocated for a pjrtc_value. NULL is fine. */
PJRTC_API void pjrtc_free(void *data);

typedef enum pjrtc_attribute_kind {
  PJRTC_ATTRIBUTE_NONE = 0,
  PJRTC_ATTRIBUTE_TEXT = 1,
  PJRTC_ATTRIBUTE_INTEGER = 2,
  PJRTC_ATTRIBUTE_REAL = 3,
  PJRTC_ATTRIBUTE_BOOLEAN = 4,
  PJRTC_ATTRIBUTE_INTEGERS = 5,
} pjrtc_attribute_kind;

/* A named value: of a plugin, of a device, or an option of XLA's. */
typedef struct pjrtc_attribute {
  const char *name;
  pjrtc_attribute_kind kind;
  bool boolean;
  int64_t integer;
  double real;
  const char *text;
  const int64_t *integers;
  size_t num_integers;
} pjrtc_attribute;

#ifdef __cplusplus
}
#endif

#endif /* PJRTC_TYPES_H_ */
