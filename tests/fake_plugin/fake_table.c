/* The fake plugin's entry point. */
#include "fake_plugin.h"

__attribute__((visibility("default"))) const PJRT_Api *GetPjrtApi(void);

const PJRT_Api *GetPjrtApi(void) {
  static PJRT_Api api;
  api.struct_size = PJRT_Api_STRUCT_SIZE;
  api.pjrt_api_version.struct_size = PJRT_Api_Version_STRUCT_SIZE;
  api.pjrt_api_version.major_version = PJRT_API_MAJOR;
  api.pjrt_api_version.minor_version = PJRT_API_MINOR;
  api.PJRT_Error_Destroy = fake_Error_Destroy;
  api.PJRT_Error_Message = fake_Error_Message;
#define FAKE_SLOT(name) api.PJRT_##name = fake_##name;
  FAKE_FUNCTIONS(FAKE_SLOT)
  return &api;
}

PJRT_Error *fake_Plugin_Initialize(PJRT_Plugin_Initialize_Args *args) {
  FAKE_ENTER(Plugin_Initialize, NULL);
  return NULL;
}

/* `lie`: that many attributes, and no list of them. */
PJRT_Error *fake_Plugin_Attributes(PJRT_Plugin_Attributes_Args *args) {
  FAKE_ENTER(Plugin_Attributes, NULL);
  static const int64_t current[] = {1, 14, 0}, minimum[] = {0, 9, 0};
  static const PJRT_NamedValue attributes[] = {
      {.struct_size = PJRT_NamedValue_STRUCT_SIZE,
       .name = "stablehlo_current_version",
       .name_size = 25,
       .type = PJRT_NamedValue_kInt64List,
       .int64_array_value = current,
       .value_size = 3},
      {.struct_size = PJRT_NamedValue_STRUCT_SIZE,
       .name = "stablehlo_minimum_version",
       .name_size = 25,
       .type = PJRT_NamedValue_kInt64List,
       .int64_array_value = minimum,
       .value_size = 3},
  };
  args->attributes = plan.lies ? NULL : attributes;
  args->num_attributes = plan.lies ? (size_t)plan.lie : 2;
  return NULL;
}
