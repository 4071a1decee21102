/* transport/local_listener.c. */
#include <pthread.h>
#include <sys/file.h>
#include <sys/stat.h>

#include "wire_fixture.h"

static char folder[64], path[96];

static void begin(void) {
  open_server();
  strcpy(folder, "/tmp/pjrtd-unit-XXXXXX");
  cr_assert_not_null(mkdtemp(folder));
  snprintf(path, sizeof path, "%s/s.sock", folder);
}

static void end(void) {
  close_server();
  unlink(path);
  cr_assert_eq(rmdir(folder), 0, "something was left in the folder");
}

TestSuite(local_listener, .init = begin, .fini = end, .timeout = 120);

static int try_connect(void) {
  struct sockaddr_un address = {.sun_family = AF_UNIX};
  strncpy(address.sun_path, path, sizeof address.sun_path - 1);
  int descriptor = socket(AF_UNIX, SOCK_STREAM | SOCK_CLOEXEC, 0);
  if (connect(descriptor, (struct sockaddr *)&address, sizeof address) == 0) {
    fcntl(descriptor, F_SETFL, O_NONBLOCK);
    return descriptor;
  }
  close(descriptor);
  return -1;
}

static void greet(wire_client *client) {
  *client = (wire_client){.descriptor = try_connect()};
  cr_assert_geq(client->descriptor, 0);
  bytes all = {0};
  uint64_t call = add_hello(&all, client, 0);
  send_bytes(client, &all);
  take_reply(client, call);
}

Test(local_listener, serves_who_connects_and_takes_the_file_away) {
  ASSERT_OK(local_server_listen(server, path));
  struct stat found;
  cr_assert_eq(lstat(path, &found), 0);
  cr_assert(S_ISSOCK(found.st_mode));
  cr_assert_eq(found.st_mode & 0777, settings.socket_mode);
  wire_client clients[3];
  for (int i = 0; i < 3; i++) greet(&clients[i]);
  cr_assert_eq(runtime->stats.connections, 3);
  cr_assert_eq(server->connections->peer.identity.uid, geteuid());
  cr_assert_eq(server->connections->peer.identity.pid, getpid());
  local_server_stop_listening(server);
  cr_assert_neq(lstat(path, &found), 0);
  cr_assert_eq(try_connect(), -1);
  /* Who is connected stays so. */
  bytes all = {0};
  uint64_t call = add_info(&all, &clients[1]);
  send_bytes(&clients[1], &all);
  take_reply(&clients[1], call);
  for (int i = 0; i < 3; i++) close_client(&clients[i]);
}

Test(local_listener, gives_the_file_the_mode_of_the_settings) {
  settings.socket_mode = 0666;
  mode_t before = umask(022);
  ASSERT_OK(local_server_listen(server, path));
  struct stat found;
  cr_assert_eq(lstat(path, &found), 0);
  cr_assert_eq(found.st_mode & 0777, 0666);
  cr_assert_eq(umask(before), 022, "the process's mask is as it was");
}

/* A socket file that nobody listens behind. */
static void make_stale(void) {
  struct sockaddr_un address = {.sun_family = AF_UNIX};
  strncpy(address.sun_path, path, sizeof address.sun_path - 1);
  int descriptor = socket(AF_UNIX, SOCK_STREAM | SOCK_CLOEXEC, 0);
  cr_assert_eq(bind(descriptor, (struct sockaddr *)&address, sizeof address), 0);
  close(descriptor);
}

Test(local_listener, replaces_a_stale_socket) {
  make_stale();
  ASSERT_OK(local_server_listen(server, path));
  wire_client client;
  greet(&client);
  close_client(&client);
}

Test(local_listener, leaves_a_live_socket_alone_and_names_who_serves_it) {
  ASSERT_OK(local_server_listen(server, path));
  char piece[32];
  snprintf(piece, sizeof piece, "pid %d", (int)getpid());
  ASSERT_FAILS(local_server_listen(server, path), PJRTD_CODE_ALREADY_EXISTS, piece);
  wire_client client;
  greet(&client);
  close_client(&client);
}

Test(local_listener, leaves_a_file_alone_that_is_no_socket) {
  FILE *file = fopen(path, "w");
  fputs("precious", file);
  fclose(file);
  ASSERT_FAILS(local_server_listen(server, path), PJRTD_CODE_ALREADY_EXISTS, "not a socket");
  char text[20] = "";
  file = fopen(path, "r");
  cr_assert_not_null(fgets(text, sizeof text, file));
  fclose(file);
  cr_assert_str_eq(text, "precious");
}

Test(local_listener, does_not_take_away_what_another_put_in_its_place) {
  ASSERT_OK(local_server_listen(server, path));
  unlink(path);
  make_stale();
  local_server_stop_listening(server);
  struct stat found;
  cr_assert_eq(lstat(path, &found), 0);
}

Test(local_listener, refuses_a_path_that_the_kernel_cannot_take) {
  char longer[200];
  memset(longer, 'a', sizeof longer);
  longer[0] = '/';
  longer[199] = 0;
  ASSERT_FAILS(local_server_listen(server, longer), PJRTD_CODE_INVALID_ARGUMENT, "the kernel takes 107");
  ASSERT_FAILS(local_server_listen(server, ""), PJRTD_CODE_INVALID_ARGUMENT, "empty");
}

Test(local_listener, makes_the_last_folder_and_no_more) {
  char inner[160];
  snprintf(inner, sizeof inner, "%s/one/s.sock", folder);
  ASSERT_OK(local_server_listen(server, inner));
  local_server_stop_listening(server);
  snprintf(inner, sizeof inner, "%s/one", folder);
  cr_assert_eq(rmdir(inner), 0);
  snprintf(inner, sizeof inner, "%s/one/two/s.sock", folder);
  ASSERT_FAILS(local_server_listen(server, inner), PJRTD_CODE_NOT_FOUND, "folder");
}

static void *hold_lock(void *release_after_us) {
  int lock = open(folder, O_RDONLY | O_DIRECTORY | O_CLOEXEC);
  flock(lock, LOCK_EX);
  usleep((useconds_t)(uintptr_t)release_after_us);
  close(lock);
  return NULL;
}

Test(local_listener, waits_for_another_that_starts_but_not_for_ever) {
  pthread_t thread;
  pthread_create(&thread, NULL, hold_lock, (void *)(uintptr_t)200000);
  usleep(50000);
  ASSERT_OK(local_server_listen(server, path));
  pthread_join(thread, NULL);
  local_server_stop_listening(server);
  pthread_create(&thread, NULL, hold_lock, (void *)(uintptr_t)4000000);
  usleep(50000);
  ASSERT_FAILS(local_server_listen(server, path), PJRTD_CODE_UNAVAILABLE, folder);
  pthread_join(thread, NULL);
}

Test(local_listener, listens_at_several_places) {
  char other[96];
  snprintf(other, sizeof other, "%s/t.sock", folder);
  ASSERT_OK(local_server_listen(server, path));
  ASSERT_OK(local_server_listen(server, other));
  wire_client one, two;
  greet(&one);
  char kept[96];
  strcpy(kept, path);
  strcpy(path, other);
  greet(&two);
  strcpy(path, kept);
  close_client(&one);
  close_client(&two);
  local_server_stop_listening(server);
  struct stat found;
  cr_assert_neq(lstat(other, &found), 0);
}

Test(local_listener, tells_who_is_too_many_and_serves_again_when_there_is_room) {
  settings.max_connections = 2;
  ASSERT_OK(local_server_listen(server, path));
  wire_client clients[2], extra_client = {.descriptor = -1}, later;
  for (int i = 0; i < 2; i++) greet(&clients[i]);
  for (int i = 0; i < 3; i++) {
    extra_client = (wire_client){.descriptor = try_connect()};
    take_error(&extra_client, 0, PJRTD_CODE_RESOURCE_EXHAUSTED, "2 connections");
    is_at_end(&extra_client);
    close_client(&extra_client);
  }
  TURN_UNTIL(runtime->stats.connections == 2);
  close_client(&clients[0]);
  TURN_UNTIL(runtime->stats.connections == 1);
  greet(&later);
  close_client(&later);
  close_client(&clients[1]);
}

Test(local_listener, is_not_made_when_any_allocation_fails) {
  int64_t successes = 0, asked;
  int failed = 0;
  do {
    pjrtd_alloc_fail_after(successes);
    pjrtd_status *status = local_server_listen(server, path);
    asked = pjrtd_alloc_fail_after(-1);
    struct stat found;
    cr_assert_eq(lstat(path, &found) == 0, status == NULL, "the file is there only when it serves");
    failed += status != NULL;
    pjrtd_status_destroy(status);
  } while (asked > successes++);
  cr_assert_geq(failed, 3);
  cr_assert_not_null(server->listeners);
}
