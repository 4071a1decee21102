/* PJRT errors become statuses. Any thread, the plugin's own included. */
#include "plugin/pjrt_call.h"

pjrtd_status *pjrtd_plugin_take_error(const pjrtd_plugin *plugin, PJRT_Error *error) {
  if (!error) return PJRTD_OK;
  const PJRT_Api *api = &plugin->api;
  PJRTD_ARGS(Error_Message, message, .error = error);
  api->PJRT_Error_Message(&message);
  PJRTD_ARGS(Error_GetCode, code, .error = error);
  PJRT_Error *second = api->PJRT_Error_GetCode(&code);
  pjrtd_code value = (pjrtd_code)code.code;
  if (second) {
    PJRTD_ARGS(Error_Destroy, destroy, .error = second);
    api->PJRT_Error_Destroy(&destroy);
    value = PJRTD_CODE_UNKNOWN;
  }
  if ((unsigned)value > PJRTD_CODE_UNAUTHENTICATED || value == PJRTD_CODE_OK) value = PJRTD_CODE_UNKNOWN;
  pjrtd_status *status = message.message ? pjrtd_status_make_n(value, message.message, message.message_size)
                                         : pjrtd_status_make(value, "the plugin gave no message");
  PJRTD_ARGS(Error_Destroy, destroy, .error = error);
  api->PJRT_Error_Destroy(&destroy);
  return status;
}

pjrtd_status *pjrtd_plugin_lacks(const pjrtd_plugin *plugin, const char *function) {
  return pjrtd_status_make(PJRTD_CODE_UNIMPLEMENTED,
                           "this plugin has no %s (the plugin speaks PJRT %d.%d, pjrtd was built with %d.%d)", function,
                           plugin->info.api_major, plugin->info.api_minor, PJRT_API_MAJOR, PJRT_API_MINOR);
}
