/* PJRT errors become statuses, and PJRT texts ours. Any thread, the plugin's own included. */
#include "base/utf8.h"
#include "plugin/pjrt_call.h"

/* With what pjrtd says before and behind it, a message of this size still fits an answer. */
#define MAX_MESSAGE_BYTES (950u << 10)
/* Of names, descriptions and the like. */
#define MAX_TEXT_BYTES (64u << 10)

static pjrtd_status *make(pjrtd_code code, const char *message, size_t size) {
  if (!message) return pjrtd_status_make(code, "the plugin gave no message");
  PJRTD_AUTO_FREE char *text = pjrtd_utf8_mend(message, size < MAX_MESSAGE_BYTES ? size : MAX_MESSAGE_BYTES);
  if (!text) return pjrtd_status_oom();
  return size <= MAX_MESSAGE_BYTES ? pjrtd_status_make_n(code, text, size)
                                   : pjrtd_status_make(code, "%s... (%zu bytes)", text, size);
}

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
  pjrtd_status *status = make(value, message.message, message.message_size);
  PJRTD_ARGS(Error_Destroy, destroy, .error = error);
  api->PJRT_Error_Destroy(&destroy);
  if (value == PJRTD_CODE_RESOURCE_EXHAUSTED) status = pjrtd_status_of_memory(status);
  return status;
}

pjrtd_status *pjrtd_plugin_copy_text(const char *text, size_t size, char **out) {
  *out = pjrtd_utf8_mend(text ? text : "", !text ? 0 : size < MAX_TEXT_BYTES ? size : MAX_TEXT_BYTES);
  return *out ? PJRTD_OK : pjrtd_status_oom();
}

pjrtd_status *pjrtd_plugin_lacks(const pjrtd_plugin *plugin, const char *function) {
  return pjrtd_status_make(PJRTD_CODE_UNIMPLEMENTED,
                           "this plugin has no %s (the plugin speaks PJRT %d.%d, pjrtd was built with %d.%d)", function,
                           plugin->info.api_major, plugin->info.api_minor, PJRT_API_MAJOR, PJRT_API_MINOR);
}
