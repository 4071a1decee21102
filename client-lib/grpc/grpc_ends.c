/* Why a link over gRPC is over, in words that say what to do (grpc_link.h). */
#include <grpc/support/alloc.h>
#include <stdio.h>
#include <string.h>

#include "grpc_link.h"

static const char is_it_pjrtd[] =
    "does pjrtd listen there, and with or without TLS as the target says "
    "(grpc:// or grpcs://)?";

/* gRPC 1.51 does not say what was wrong with them. */
static const char *explain_certificates(pjrtc_grpc_link *own) {
  const char *host = strstr(own->target, "://") + 3;
  snprintf(own->hint, sizeof own->hint,
           "the server's certificate must be for %.*s, valid now, and signed by an authority in %s (ca_file, or "
           "PJRTD_CA_FILE)",
           (int)(*host == '[' ? strcspn(host, "]") + 1 : strcspn(host, ":")), host,
           own->ca_file ? own->ca_file : "the system's store");
  return own->hint;
}

void pjrtc_grpc_link_explain(pjrtc_link *link, pjrtc_link_end *out_end) {
  pjrtc_grpc_link *own = (pjrtc_grpc_link *)link;
  char *details = grpc_slice_to_c_string(own->details);
  const char *why = *details ? details : "the server closed it";
  pjrtc_link_end end = {.code = PJRTC_UNAVAILABLE, .message = own->text};
  if (own->fault) {
    end.code = PJRTC_INTERNAL;
    end.hint = "client and server may be of different versions";
    snprintf(own->text, sizeof own->text, "the server at %s broke the protocol: %s", own->target, own->fault);
  } else if (own->status == GRPC_STATUS_UNIMPLEMENTED) {
    end.code = PJRTC_UNIMPLEMENTED;
    end.hint = "set PJRTD_TARGET to where pjrtd listens (its line \"pjrtd ready ...\")";
    snprintf(own->text, sizeof own->text, "%s is a gRPC server, but no pjrtd: %s", own->target, why);
  } else if (own->greeted) {
    end.hint = "connect again; what the session held is gone";
    snprintf(own->text, sizeof own->text, "the connection to %s is lost: %s", own->target, why);
  } else {
    switch (own->status) {
      case GRPC_STATUS_PERMISSION_DENIED:
      case GRPC_STATUS_UNAUTHENTICATED:
      case GRPC_STATUS_RESOURCE_EXHAUSTED: end.code = (pjrtc_code)own->status; break;
      default: break;
    }
    end.hint = strstr(why, "ertificate") || strstr(why, "ostname") ? explain_certificates(own) : is_it_pjrtd;
    snprintf(own->text, sizeof own->text, "cannot connect to %s: %s", own->target, why);
  }
  gpr_free(details);
  *out_end = end;
}
