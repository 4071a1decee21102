/* Targets, and what is said about those that are none. */
#include <criterion/criterion.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/socket.h>
#include <sys/stat.h>
#include <sys/un.h>
#include <unistd.h>

#include "target.h"

static pjrtc_error resolve_error(const char *target) {
  pjrtc_error error = PJRTC_ERROR_INIT;
  char *resolved;
  pjrtc_failure_finish(pjrtc_target_resolve(target, &resolved), &error);
  free(resolved);
  return error;
}

static void expect_resolved(const char *target, const char *expected) {
  char *resolved;
  cr_assert_null(pjrtc_target_resolve(target, &resolved));
  cr_assert_str_eq(resolved, expected);
  free(resolved);
}

Test(target, comes_from_the_caller_then_the_environment_then_the_default) {
  unsetenv("PJRTD_TARGET");
  unsetenv("XDG_RUNTIME_DIR");
  expect_resolved("unix:/x", "unix:/x");
  expect_resolved(NULL, "unix:/run/pjrtd/pjrtd.sock");
  char folder[] = "/tmp/pjrtc-test-XXXXXX", path[64], expected[80];
  cr_assert_not_null(mkdtemp(folder));
  setenv("XDG_RUNTIME_DIR", folder, 1);
  expect_resolved(NULL, "unix:/run/pjrtd/pjrtd.sock");
  snprintf(path, sizeof path, "%s/pjrtd.sock", folder);
  snprintf(expected, sizeof expected, "unix:%s", path);
  fclose(fopen(path, "w"));
  expect_resolved(NULL, expected);
  unlink(path);
  rmdir(folder);
  setenv("PJRTD_TARGET", "unix:/e", 1);
  expect_resolved(NULL, "unix:/e");
  expect_resolved("unix:/x", "unix:/x");
}

Test(target, that_is_a_plugin_file_is_explained) {
  pjrtc_error error = resolve_error("/opt/pjrt_c_api_cpu_plugin.so");
  cr_assert_eq(error.code, PJRTC_INVALID_ARGUMENT);
  cr_assert_not_null(strstr(error.message, "is a plugin's file, not a target"));
  cr_assert_not_null(strstr(error.hint, "pjrtd --plugin FILE"));
}

Test(target, of_another_kind_says_which_there_are) {
  pjrtc_error error = resolve_error("localhost:7578");
  cr_assert_eq(error.code, PJRTC_INVALID_ARGUMENT);
  cr_assert_not_null(strstr(error.hint, "unix:PATH"));
  error = resolve_error("unix:");
  cr_assert_eq(error.code, PJRTC_INVALID_ARGUMENT);
  char path[200] = "unix:/";
  memset(path + 6, 'x', 150);
  error = resolve_error(path);
  cr_assert_eq(error.code, PJRTC_INVALID_ARGUMENT);
  cr_assert_str_eq(error.message, "the socket's path has 151 bytes, at most 107 are possible");
}

Test(target, of_grpc_stays_what_it_is) {
  expect_resolved("grpc://h:7578", "grpc://h:7578");
  expect_resolved("grpcs://h", "grpcs://h");
}

static pjrtc_error open_error(const char *target) {
  pjrtc_error error = PJRTC_ERROR_INIT;
  pjrtc_link *link;
  pjrtc_failure_finish(pjrtc_target_open(target, NULL, 100000000, &link), &error);
  cr_assert_null(link);
  return error;
}

static void expect_refused(const char *target, const char *message) {
  pjrtc_error error = open_error(target);
  cr_assert_eq(error.code, PJRTC_INVALID_ARGUMENT);
  cr_assert_str_eq(error.message, message);
  cr_assert_not_null(strstr(error.hint, "grpc://HOST:PORT"));
}

Test(target, of_grpc_names_a_host_and_a_port) {
  expect_refused("grpc://", "\"grpc://\" is not a target: a host of 1 to 255 bytes belongs there");
  expect_refused("grpc://:7578", "\"grpc://:7578\" is not a target: a host of 1 to 255 bytes belongs there");
  expect_refused("grpc://h:", "\"grpc://h:\" is not a target: its port is not 1 to 65535");
  expect_refused("grpc://h:0", "\"grpc://h:0\" is not a target: its port is not 1 to 65535");
  expect_refused("grpc://h:65536", "\"grpc://h:65536\" is not a target: its port is not 1 to 65535");
  expect_refused("grpc://h:75x", "\"grpc://h:75x\" is not a target: its port is not 1 to 65535");
  expect_refused("grpc://[::1:75", "\"grpc://[::1:75\" is not a target: a \"]\" is missing");
  expect_refused("grpc://h/x:75", "\"grpc://h/x:75\" is not a target: \"h/x\" is no host");
  expect_refused("grpcs://u@h:75", "\"grpcs://u@h:75\" is not a target: \"u@h\" is no host");
}

Test(target, of_grpc_where_nobody_listens_is_unavailable_with_its_name) {
  pjrtc_error error = open_error("grpc://127.0.0.1:1");
  cr_assert_eq(error.code, PJRTC_UNAVAILABLE);
  cr_assert_str_eq(error.message, "cannot connect to grpc://127.0.0.1:1: nobody listens there");
  error = open_error("grpc://[::1]:1");
  cr_assert_eq(error.code, PJRTC_UNAVAILABLE);
  error = open_error("grpc://no-such-host.invalid");
  cr_assert_eq(error.code, PJRTC_UNAVAILABLE);
  cr_assert_not_null(strstr(error.message, "cannot connect to grpc://no-such-host.invalid: no-such-host.invalid: "));
}

Test(target, of_grpcs_with_a_bad_file_of_certificates_names_it) {
  pjrtc_error error = PJRTC_ERROR_INIT;
  pjrtc_link *link;
  pjrtc_failure_finish(pjrtc_target_open("grpcs://h", "/nonexistent/ca.pem", 100000000, &link), &error);
  cr_assert_eq(error.code, PJRTC_INVALID_ARGUMENT);
  cr_assert_str_eq(error.message, "cannot read /nonexistent/ca.pem: No such file or directory");
  setenv("PJRTD_CA_FILE", "/dev/null", 1);
  error = open_error("grpcs://h");
  cr_assert_str_eq(error.message, "/dev/null holds no certificates");
  cr_assert_not_null(strstr(error.hint, "PJRTD_CA_FILE"));
}

Test(target, where_nobody_listens_is_unavailable_with_its_name) {
  pjrtc_error error = open_error("unix:/nonexistent/s");
  cr_assert_eq(error.code, PJRTC_UNAVAILABLE);
  cr_assert_str_eq(error.message, "cannot connect to unix:/nonexistent/s: there is no such socket");
  char folder[] = "/tmp/pjrtc-test-XXXXXX", target[64];
  cr_assert_not_null(mkdtemp(folder));
  snprintf(target, sizeof target, "unix:%s/s", folder);
  struct sockaddr_un address = {.sun_family = AF_UNIX};
  strcpy(address.sun_path, target + 5);
  int listener = socket(AF_UNIX, SOCK_STREAM, 0);
  cr_assert(bind(listener, (struct sockaddr *)&address, sizeof address) == 0);
  error = open_error(target);
  cr_assert_eq(error.code, PJRTC_UNAVAILABLE);
  cr_assert_not_null(strstr(error.message, "nobody listens there"));
  close(listener);
  unlink(target + 5);
  rmdir(folder);
}
