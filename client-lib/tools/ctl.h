/* What the commands of pjrtctl share. One thread. pjrtctl knows pjrtc.h only, and nothing of the library's insides. */
#pragma once

#include <pjrtc/pjrtc.h>
#include <stdio.h>

/* Exit statuses; the man page lists them. */
enum {
  CTL_OK = 0,
  CTL_FAILED = 1,    /* the server refused the request, or it failed */
  CTL_USAGE = 2,     /* the command line is wrong */
  CTL_NO_SERVER = 3, /* there is no connection, or it was lost */
  CTL_FILE = 4,      /* a file cannot be read or written, or is not what it should be */
};

/* What every command takes. */
typedef struct {
  const char *target; /* NULL: the library's default */
  bool json;
} ctl_common;

/* ---- Errors (pjrtctl_error.c) ---- */

/* "pjrtctl: CODE: message" and the hint on standard error; with --json the same on standard output too. Returns the
 * exit status that fits. */
int ctl_fail(const ctl_common *common, const pjrtc_error *error);
/* "pjrtctl: ..." without a code: of the command line or of a file. Returns `status`. */
int ctl_complain(const ctl_common *common, int status, const char *hint, const char *format, ...)
    __attribute__((format(printf, 4, 5)));
/* An error with room for the whole message, however long. */
void ctl_error_init(pjrtc_error *error);
/* Ends with CTL_FAILED where memory is out: pjrtctl has nothing else to do. */
void *ctl_alloc(size_t size_bytes);
char *ctl_text(const char *format, ...) __attribute__((format(printf, 1, 2)));

/* Connects as the options say; NULL after a message, with the exit status. */
pjrtc_client *ctl_connect(const ctl_common *common, int *out_status);

/* ---- Sessions (pjrtctl_session.c) ---- */

/* Takes part in the session of that name, beside others; `create`: makes it where there is none, to outlive its last
 * connection by `ttl_ns` (0: the server's usual time). A leading '=' is not part of the name. CTL_OK, or another status
 * after a message. */
int ctl_session_join(const ctl_common *common, pjrtc_client *client, const char *name, bool create, uint64_t ttl_ns);
/* Deletes ids that a command made: a session that was joined stays. 0 is passed over. */
void ctl_session_tidy(pjrtc_client *client, uint64_t *buffers, size_t num_buffers);
/* Whose a session is: the name of a user of this host, or "remote"; to be freed. */
char *ctl_owner_text(bool local, uint32_t uid);

/* ---- Command lines (pjrtctl_options.c) ---- */

typedef struct {
  const char *name;       /* "--device" */
  const char *value_name; /* NULL: takes none */
  /* NULL or a complaint about the value, which the caller frees. */
  char *(*set)(void *options, const char *value);
} ctl_option;

/* Takes options and up to `max_words` words from the arguments; "--" ends the options. Knows --target, --json and
 * --help besides `options`. Returns CTL_OK, or another status after a message; -1 where the help was asked for. */
int ctl_parse(int argc, char **argv, const ctl_option *options, size_t num_options, void *user, ctl_common *common,
              const char **words, size_t max_words, size_t *out_num_words);

/* What the options read: numbers. NULL, or a complaint to be freed. */
char *ctl_read_count(const char *value, long least, long most, long *out);
/* The place of an argument or of an output. */
char *ctl_read_position(const char *value, uint32_t *out_position);
char *ctl_read_device(const char *value, int32_t *out_device);
char *ctl_read_seconds(const char *value, uint64_t *out_ns);

/* ---- Commands ---- */

typedef int ctl_command(int argc, char **argv, ctl_common *common);
ctl_command ctl_info, ctl_devices, ctl_stats, ctl_session, ctl_slot, ctl_compile, ctl_run;
/* The usage of one command, or of all where `command` is NULL. */
void ctl_usage(FILE *to, const char *command);
