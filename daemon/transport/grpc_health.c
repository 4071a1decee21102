/* grpc.health.v1: "" is alive, "pjrtd.v1.Runtime" ready, which a daemon that drains no longer is. Loop thread. */
#include <string.h>

#include "grpc/health/v1/health.pb-c.h"
#include "transport/grpc_front.h"

#define CHECK_PATH "/grpc.health.v1.Health/Check"
#define WATCH_PATH "/grpc.health.v1.Health/Watch"
#define READY_SERVICE "pjrtd.v1.Runtime"
#define MAX_SERVICE_BYTES 256

typedef Grpc__Health__V1__HealthCheckResponse__ServingStatus serving_status;
#define STATUS(name) GRPC__HEALTH__V1__HEALTH_CHECK_RESPONSE__SERVING_STATUS__##name

struct grpc_health_rpc {
  grpc_rpc rpc; /* first */
  bool watching, asked;
  char service[MAX_SERVICE_BYTES];
  grpc_health_rpc *next, **link;
  serving_status told;
};

static serving_status status_of(const pjrtd_runtime *runtime, const char *service) {
  if (!*service) return STATUS(SERVING);
  if (strcmp(service, READY_SERVICE) != 0) return STATUS(SERVICE_UNKNOWN);
  return runtime->draining ? STATUS(NOT_SERVING) : STATUS(SERVING);
}

/* NULL without memory. */
static grpc_byte_buffer *response(serving_status status) {
  Grpc__Health__V1__HealthCheckResponse message = GRPC__HEALTH__V1__HEALTH_CHECK_RESPONSE__INIT;
  message.status = status;
  uint8_t *bytes = pjrtd_malloc(8);
  return bytes ? grpc_message_of(bytes, grpc__health__v1__health_check_response__pack(&message, bytes)) : NULL;
}

static void tell(grpc_health_rpc *health) {
  serving_status now = status_of(health->rpc.front->runtime, health->service);
  if (health->rpc.sending || now == health->told) return;
  health->told = now;
  grpc_rpc_send(&health->rpc, response(now));
}

void grpc_health_update(grpc_front *front) {
  for (grpc_health_rpc *at = front->watchers; at; at = at->next) tell(at);
}

static void answer(grpc_health_rpc *health) {
  serving_status now = status_of(health->rpc.front->runtime, health->service);
  if (health->watching) {
    health->next = health->rpc.front->watchers;
    health->link = &health->rpc.front->watchers;
    if (health->next) health->next->link = &health->next;
    health->rpc.front->watchers = health;
    tell(health);
  } else if (now == STATUS(SERVICE_UNKNOWN)) {
    grpc_rpc_fail_status(
        &health->rpc,
        pjrtd_status_with_hint(pjrtd_status_make(PJRTD_CODE_NOT_FOUND, "there is no service \"%s\"", health->service),
                               "\"\" is alive, \"" READY_SERVICE "\" is ready"));
  } else {
    grpc_rpc_finish(&health->rpc, response(now));
  }
}

static void on_message(grpc_rpc *rpc, grpc_byte_buffer *message) {
  grpc_health_rpc *health = (grpc_health_rpc *)rpc;
  if (health->asked) return;
  health->asked = true;
  grpc_slice bytes = message ? grpc_message_bytes(message) : grpc_empty_slice();
  Grpc__Health__V1__HealthCheckRequest *request =
      message
          ? grpc__health__v1__health_check_request__unpack(NULL, GRPC_SLICE_LENGTH(bytes), GRPC_SLICE_START_PTR(bytes))
          : NULL;
  bool known = request && strlen(request->service) < MAX_SERVICE_BYTES;
  if (known) strcpy(health->service, request->service);
  if (known)
    answer(health);
  else
    grpc_rpc_fail_status(rpc,
                         PJRTD_INVALID("the call carries no HealthCheckRequest, or a service's name of over %d bytes",
                                       MAX_SERVICE_BYTES - 1));
  if (request) grpc__health__v1__health_check_request__free_unpacked(request, NULL);
  grpc_slice_unref(bytes);
}

static void on_sent(grpc_rpc *rpc, bool ok) {
  if (ok) tell((grpc_health_rpc *)rpc); /* what changed meanwhile */
}

static void on_ended(grpc_rpc *rpc, bool cancelled) {
  grpc_health_rpc *health = (grpc_health_rpc *)rpc;
  if (!health->link) return;
  *health->link = health->next;
  if (health->next) health->next->link = health->link;
}

static void free_health(grpc_rpc *rpc) {
  pjrtd_free(rpc);
}

static const grpc_rpc_events events = {
    .on_message = on_message, .on_sent = on_sent, .on_ended = on_ended, .free = free_health};

bool grpc_health_begin(grpc_front *front, grpc_call *call, const char *path) {
  bool watching = strcmp(path, WATCH_PATH) == 0;
  if (!watching && strcmp(path, CHECK_PATH) != 0) return false;
  grpc_health_rpc *health = pjrtd_calloc(1, sizeof *health);
  if (!health) {
    grpc_call_refuse(call, GRPC_NO_MEMORY);
    return true;
  }
  health->watching = watching;
  grpc_rpc_init(&health->rpc, &events, front, call);
  grpc_rpc_receive(&health->rpc);
  return true;
}
