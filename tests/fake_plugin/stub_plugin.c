/* A PJRT plugin that is wrong in the one way its STUB_ define names. It has no client: nothing gets that far. */
#include <signal.h>
#include <stddef.h>
#include <stdint.h>
#include <stdlib.h>
#include <string.h>

#include "xla/pjrt/c/pjrt_c_api.h"

static const char message[] = "the stub does not want to";

static void error_destroy(PJRT_Error_Destroy_Args *args) {}
static void error_message(PJRT_Error_Message_Args *args) {
  args->message = message;
  args->message_size = strlen(message);
}
static PJRT_Error *error_get_code(PJRT_Error_GetCode_Args *args) {
  args->code = PJRT_Error_Code_FAILED_PRECONDITION;
  return NULL;
}
static PJRT_Error *initialize(PJRT_Plugin_Initialize_Args *args) {
#if defined STUB_INITIALIZE_FAILS
  static PJRT_Error error;
  return &error;
#elif defined STUB_INITIALIZE_ABORTS
  abort();
#elif defined STUB_INITIALIZE_CRASHES
  raise(SIGSEGV);
  return NULL;
#elif defined STUB_INITIALIZE_EXITS
  exit(3);
#elif defined STUB_INITIALIZE_EXITS_WITH_0
  exit(0);
#else
  return NULL;
#endif
}
/* What nobody may call: the test's process would end here, and not with the error that is expected. */
static PJRT_Error *forbidden(void *args) {
  __builtin_trap();
}

#ifdef STUB_EXITS_WHEN_OPENED
__attribute__((constructor)) static void opened(void) {
  exit(4);
}
#endif

#ifdef STUB_NO_SYMBOL
#define GetPjrtApi GetSomethingElse
#endif

const PJRT_Api *GetPjrtApi(void) {
  static struct {
    PJRT_Api api;
    char behind[64];
  } table;
#define api table.api
  api.struct_size = PJRT_Api_STRUCT_SIZE;
  api.pjrt_api_version.struct_size = PJRT_Api_Version_STRUCT_SIZE;
  api.pjrt_api_version.major_version = PJRT_API_MAJOR;
  api.pjrt_api_version.minor_version = PJRT_API_MINOR;
  void *fill = (void *)forbidden;
  for (size_t at = offsetof(PJRT_Api, PJRT_Error_Destroy); at < sizeof api; at += sizeof fill)
    memcpy((char *)&api + at, &fill, sizeof fill);
  api.PJRT_Error_Destroy = error_destroy;
  api.PJRT_Error_Message = error_message;
  api.PJRT_Error_GetCode = error_get_code;
  api.PJRT_Plugin_Initialize = initialize;
  api.PJRT_Plugin_Attributes = NULL;
#if defined STUB_WRONG_MAJOR
  api.pjrt_api_version.major_version = 1;
#elif defined STUB_TOO_OLD
  api.pjrt_api_version.minor_version = 40;
  api.struct_size = offsetof(PJRT_Api, PJRT_Buffer_CopyToMemory);
#elif defined STUB_SHORT_STRUCT
  api.struct_size = offsetof(PJRT_Api, PJRT_Buffer_Destroy);
#elif defined STUB_SHORT_FOR_ITS_VERSION
  api.struct_size = offsetof(PJRT_Api, PJRT_Client_CreateErrorBuffer);
#elif defined STUB_HONEST_AND_OLD
  api.pjrt_api_version.minor_version = 81;
  api.struct_size = offsetof(PJRT_Api, PJRT_Client_CreateErrorBuffer);
#elif defined STUB_ENDS_EARLY /* the table has fewer entries than it says, and then come other things */
  memset((char *)&api + offsetof(PJRT_Api, PJRT_Client_CreateErrorBuffer), 'x',
         sizeof table - offsetof(PJRT_Api, PJRT_Client_CreateErrorBuffer));
#elif defined STUB_ODD_SIZE
  api.struct_size = PJRT_Api_STRUCT_SIZE + 1;
#elif defined STUB_HUGE_SIZE
  api.struct_size = SIZE_MAX - 7;
#elif defined STUB_BARE_HEADER
  api.struct_size = 16;
#elif defined STUB_NULL_SLOT
  api.PJRT_LoadedExecutable_Execute = NULL;
#elif defined STUB_MISSING_SLOT
  api.PJRT_Event_OnReady = NULL;
#elif defined STUB_ENDLESS_EXTENSIONS
  static PJRT_Extension_Base loop = {.struct_size = PJRT_Extension_Base_STRUCT_SIZE,
                                     .type = PJRT_Extension_Type_Layouts};
  loop.next = &loop;
  api.extension_start = &loop;
#endif
#if defined STUB_NULL_API
  return NULL;
#elif defined STUB_WILD_API
  return (const PJRT_Api *)64;
#else
  return &api;
#endif
}
