/* The fake plugin: a small PJRT plugin that does what the real one cannot be made to do, and aborts where its user
 * breaks a rule of PJRT. For tests of failures only, never for a case or a figure.
 *
 * Programs. Of a module's text it reads the signature of @main, with tensors of f32, s32 (i32) and u8 (ui8), and
 * tf.aliasing_output (a donation). Each result is the sum of all arguments of its type and dimensions, or twice the
 * argument where there is one, or zeros where there is none. A module with "stablehlo.while" in it is no straight line.
 * There are as many devices as the create option `devices` says (2); programs run on the first. The create option
 * `platform` is the platform's name ("cpu": the host may read device memory in place).
 *
 * Scripts say what goes wrong, as entries with ";" between them:
 *
 *   FUNCTION[@N]=ACTION    at each call of PJRT_FUNCTION, or at the N-th since the script was read; several may apply
 *
 *   error:CODE:TEXT        fails with that code (any number) and text; %XX in it is a byte
 *   error_big:CODE:BYTES   ... with a text of that many "x"        error_mute:CODE   ... without a text
 *   delay:MS               takes that long                         hold              until the file "release" is there
 *   abort                  exit:CODE                               of the process
 *   event_after:MS         the event that it gives ends that much later, on a thread of its own
 *   event_hold             ... once the file "release" is there    event_null        it gives none
 *   event_error:CODE:TEXT  the event carries an error              consume           an Execute that fails consumes
 * donated arguments lie:NUMBER             a wrong answer: a count, a size, a pointer (0: NULL); the function says
 * which
 *
 * One script is the file "script" in the folder PJRTD_FAKE_DIR, read anew when it is replaced. Lines of a program's
 * text that begin with "// fake " are a script of its own, for its compile, its executable, its executions and their
 * outputs.
 *
 * Rules are checked all the time; one that is broken ends the process with a line "fake plugin: rule broken: ...". */
#pragma once

#include <stdatomic.h>
#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "xla/pjrt/c/pjrt_c_api.h"

/* ---- rules (fake_rules.c) ---- */

typedef enum { FAKE_CLIENT, FAKE_ERROR, FAKE_EVENT, FAKE_BUFFER, FAKE_EXECUTABLE, FAKE_LOADED, FAKE_KINDS } fake_kind;

/* Every object that the user has to destroy. Never really freed, so that a use of one that is gone is always seen. */
typedef struct fake_object {
  struct fake_object *next; /* of all that ever were */
  fake_kind kind;
  atomic_int state; /* 1: alive, 2: destroyed */
} fake_object;

#define FAKE_RULE(holds, ...)               \
  do {                                      \
    if (!(holds)) fake_broken(__VA_ARGS__); \
  } while (0)
_Noreturn void fake_broken(const char *format, ...) __attribute__((format(printf, 1, 2)));

void fake_object_init(fake_object *object, fake_kind kind);
/* A rule is broken where it is none, is of another kind, or was destroyed. */
void fake_object_check(const fake_object *object, fake_kind kind, const char *function);
void fake_object_destroy(fake_object *object, fake_kind kind, const char *function);
/* Nothing may be alive, and no callback outstanding, when the client goes. */
void fake_check_all_destroyed(void);
/* Around a callback: the user may only deal with errors and drop events in it. */
void fake_callback_begin(void);
void fake_callback_end(void);
void fake_callback_outstanding(int more);
void fake_check_call(const char *function, size_t struct_size, size_t right_size, const void *extension_start);
extern atomic_bool fake_client_is_gone;

/* ---- scripts (fake_script.c) ---- */

typedef struct fake_script fake_script;

typedef struct {
  PJRT_Error *error; /* NULL: go on */
  bool event_null, event_hold, consume, lies;
  int event_after_ms;     /* -1: it ends in the call */
  const char *event_text; /* NULL: it carries no error; kept for ever */
  size_t event_text_bytes;
  int event_code;
  int64_t lie;
} fake_plan;

/* Reads the "// fake " lines of a program's text; NULL where there are none. Kept for ever. */
fake_script *fake_script_of_text(const char *text, size_t bytes);
/* What the scripts say about this call; delays, holds and ends right here. */
fake_plan fake_plan_for(const char *function, fake_script *own);
void fake_wait_for_release(void);
void fake_sleep_ms(int milliseconds);

/* The beginning of a function: checks, then `plan`. One that destroys does so whatever error it gives. */
#define FAKE_ENTER_DESTROY(name, own)                                                               \
  fake_check_call(#name, args->struct_size, PJRT_##name##_Args_STRUCT_SIZE, args->extension_start); \
  fake_plan plan = fake_plan_for(#name, (own))
#define FAKE_ENTER(name, own)    \
  FAKE_ENTER_DESTROY(name, own); \
  if (plan.error) return plan.error

/* ---- errors and events (fake_event.c) ---- */

PJRT_Error *fake_error_make(int code, const char *text, size_t bytes);
PJRT_Error *fake_error_text(int code, const char *text);

struct PJRT_Event {
  fake_object object;
  bool ready;
  int code; /* with `text` NULL: no error */
  const char *text;
  size_t text_bytes;
  PJRT_Event_OnReadyCallback callback;
  void *user;
  PJRT_Event *next; /* of those that wait for the same thing */
};

PJRT_Event *fake_event_make(void);
/* Ends it, with an error where `text` is not NULL, and calls back. */
void fake_event_end(PJRT_Event *event, int code, const char *text, size_t text_bytes);
/* Something under way, whose end several events tell. Never freed. */
typedef struct fake_pending fake_pending;
fake_pending *fake_pending_make(void);
/* Adds an event, or ends it at once where that has come. */
void fake_pending_tell(fake_pending *pending, PJRT_Event *event);
void fake_pending_end(fake_pending *pending, const fake_plan *plan);
/* Calls `work` now, or later on a thread of its own, as the plan says. */
void fake_when_planned(const fake_plan *plan, void (*work)(void *user, const fake_plan *plan), void *user);

/* ---- client and devices (fake_client.c) ---- */

#define FAKE_MAX_DEVICES 16

struct PJRT_DeviceDescription {
  int id;
};
struct PJRT_Device {
  PJRT_DeviceDescription description;
};
struct PJRT_Client {
  fake_object object;
  char platform[64];
  PJRT_Device devices[FAKE_MAX_DEVICES];
  PJRT_Device *list[FAKE_MAX_DEVICES];
  size_t num_devices;
};
void fake_client_check(const PJRT_Client *client, const char *function);

/* ---- programs (fake_module.c) ---- */

#define FAKE_MAX_TENSORS 64
#define FAKE_MAX_RANK 8

typedef struct {
  PJRT_Buffer_Type type;
  size_t rank;
  int64_t dims[FAKE_MAX_RANK];
  int alias; /* of an argument: the output that its memory goes to; -1 */
} fake_tensor;
typedef struct {
  fake_tensor args[FAKE_MAX_TENSORS], outputs[FAKE_MAX_TENSORS];
  size_t num_args, num_outputs;
  bool loops;
} fake_module;

size_t fake_element_bytes(PJRT_Buffer_Type type); /* 0: not one that it knows */
size_t fake_tensor_bytes(const fake_tensor *tensor);
bool fake_tensor_equal(const fake_tensor *a, const fake_tensor *b);
/* False where there is no @main that it can read. */
bool fake_module_parse(const char *text, fake_module *out);
/* As an HLO module's bytes; the caller frees. `lie` (0: none): 1 no module, 2 cut short, 3 a negative dimension, 4 one
 * output more, 5 more dimensions than a tensor may have, 6 an element type that does not exist, 7 a huge dimension, 8
 * no output, 9 a donated argument that does not exist. */
uint8_t *fake_module_encode(const fake_module *module, int64_t lie, size_t *out_bytes);

/* ---- buffers (fake_buffer.c) ---- */

typedef struct {
  atomic_int references; /* of buffers, and of copies under way */
  uint8_t *data;
  size_t bytes;
  PJRT_Event *adopted; /* the host's memory, given back through this; NULL: ours */
} fake_storage;

struct PJRT_Buffer {
  fake_object object;
  fake_tensor tensor;
  fake_storage *storage; /* NULL: deleted */
  PJRT_Device *device;
  atomic_int users;     /* executions that still read or write it */
  fake_pending *making; /* what it comes of; NULL: it was there at once */
  fake_script *own;
};
PJRT_Buffer *fake_buffer_make(const fake_tensor *tensor, fake_storage *storage, PJRT_Device *device, fake_script *own);
fake_storage *fake_storage_make(size_t bytes);
void fake_storage_release(fake_storage *storage);

/* ---- the table (fake_table.c): one function a slot ---- */

#define FAKE_FUNCTIONS(X)                \
  X(Plugin_Initialize)                   \
  X(Plugin_Attributes)                   \
  X(Error_GetCode)                       \
  X(Event_Destroy)                       \
  X(Event_IsReady)                       \
  X(Event_Await)                         \
  X(Event_OnReady)                       \
  X(Client_Create)                       \
  X(Client_Destroy)                      \
  X(Client_PlatformName)                 \
  X(Client_PlatformVersion)              \
  X(Client_ProcessIndex)                 \
  X(Client_Devices)                      \
  X(Client_AddressableDevices)           \
  X(Client_DefaultDeviceAssignment)      \
  X(Client_Compile)                      \
  X(Client_BufferFromHostBuffer)         \
  X(Device_GetDescription)               \
  X(Device_MemoryStats)                  \
  X(DeviceDescription_Id)                \
  X(DeviceDescription_Kind)              \
  X(Executable_Destroy)                  \
  X(Executable_Name)                     \
  X(Executable_NumReplicas)              \
  X(Executable_NumPartitions)            \
  X(Executable_NumOutputs)               \
  X(Executable_OptimizedProgram)         \
  X(Executable_Fingerprint)              \
  X(LoadedExecutable_Destroy)            \
  X(LoadedExecutable_GetExecutable)      \
  X(LoadedExecutable_AddressableDevices) \
  X(LoadedExecutable_Execute)            \
  X(Buffer_Destroy)                      \
  X(Buffer_IsDeleted)                    \
  X(Buffer_ToHostBuffer)                 \
  X(Buffer_ReadyEvent)                   \
  X(Buffer_UnsafePointer)                \
  X(Buffer_OnDeviceSizeInBytes)
#define FAKE_DECLARE(name) PJRT_Error *fake_##name(PJRT_##name##_Args *args);
FAKE_FUNCTIONS(FAKE_DECLARE)
#undef FAKE_DECLARE
void fake_Error_Destroy(PJRT_Error_Destroy_Args *args);
void fake_Error_Message(PJRT_Error_Message_Args *args);
