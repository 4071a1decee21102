/* state/session.c. */
#include "runtime_fixture.h"
#include "state/session.h"

static const pjrtd_identity somebody = {.local = true, .uid = 1000, .gid = 1000, .pid = 1, .rights = PJRTD_RIGHT_USE};
static pjrtd_session *session;
static pjrtd_id_space space = {.prefix = 0};

static void begin(void) {
  open_bare();
  ASSERT_OK(pjrtd_session_create(runtime, &somebody, &session));
}

TestSuite(session, .init = begin, .fini = close_bare, .timeout = 60);

/* A buffer under a name; only the session has a reference. */
static pjrtd_buffer *name_buffer(uint64_t id) {
  pjrtd_buffer *buffer;
  ASSERT_OK(pjrtd_session_check_new(session, &space, PJRTD_ID_BUFFER, id));
  ASSERT_OK(pjrtd_buffer_create(runtime, &buffer));
  ASSERT_OK(pjrtd_session_name_buffer(session, &space, id, buffer));
  pjrtd_resource_release(&buffer->resource);
  return buffer;
}

static pjrtd_program *name_program(uint64_t id) {
  pjrtd_program *program;
  ASSERT_OK(pjrtd_session_check_new(session, &space, PJRTD_ID_PROGRAM, id));
  ASSERT_OK(pjrtd_program_create(runtime, &program));
  ASSERT_OK(pjrtd_session_name_program(session, &space, id, program));
  pjrtd_resource_release(&program->resource);
  return program;
}

static pjrtd_status *forget(pjrtd_session *from, pjrtd_id_kind kind, uint64_t id) {
  return pjrtd_session_forget(from, kind, &id, 1);
}

static void close_session(void) {
  pjrtd_session_close(session, NULL, NULL);
}

Test(session, has_a_token_that_nobody_can_guess) {
  pjrtd_session *other;
  ASSERT_OK(pjrtd_session_create(runtime, &somebody, &other));
  static const char allowed[] = "ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz0123456789-_";
  cr_assert_eq(strlen(session->token), 43);
  cr_assert_eq(strspn(session->token, allowed), 43);
  cr_assert_eq(strspn(other->token, allowed), 43);
  int same = 0;
  for (int i = 0; i < 43; i++) same += session->token[i] == other->token[i];
  cr_assert_lt(same, 12, "of 43 letters out of 64, 12 agree once in 10^11");
  cr_assert_eq(runtime->stats.sessions, 2);
  cr_assert_gt(other->id, session->id);
  pjrtd_session_close(other, NULL, NULL);
  cr_assert_eq(runtime->stats.sessions, 1);
  close_session();
  cr_assert_eq(runtime->stats.sessions, 0);
}

Test(session, leaves_the_list_of_sessions_wherever_it_was) {
  pjrtd_session *more[3];
  for (int i = 0; i < 3; i++) ASSERT_OK(pjrtd_session_create(runtime, &somebody, &more[i]));
  pjrtd_session_close(more[1], NULL, NULL);
  cr_assert_eq(runtime->sessions, more[2]);
  cr_assert_eq(more[2]->next, more[0]);
  pjrtd_session_close(more[2], NULL, NULL);
  cr_assert_eq(runtime->sessions, more[0]);
  close_session();
  cr_assert_eq(runtime->sessions, more[0]);
  cr_assert_null(more[0]->next);
  pjrtd_session_close(more[0], NULL, NULL);
  cr_assert_null(runtime->sessions);
}

Test(session, takes_ids_that_increase_and_no_others) {
  ASSERT_FAILS(pjrtd_session_check_new(session, &space, PJRTD_ID_BUFFER, 0), PJRTD_CODE_INVALID_ARGUMENT,
               "a buffer id must not be 0");
  name_buffer(5);
  for (uint64_t id = 1; id <= 5; id++)
    ASSERT_FAILS(pjrtd_session_check_new(session, &space, PJRTD_ID_BUFFER, id), PJRTD_CODE_INVALID_ARGUMENT,
                 "is not above 5, the highest so far");
  name_buffer(6);
  name_buffer(1000000);
  ASSERT_OK(forget(session, PJRTD_ID_BUFFER, 1000000));
  ASSERT_FAILS(pjrtd_session_check_new(session, &space, PJRTD_ID_BUFFER, 1000000), PJRTD_CODE_INVALID_ARGUMENT,
               "is not above");
  close_session();
}

Test(session, numbers_buffers_and_programs_apart) {
  name_buffer(7);
  name_program(3);
  ASSERT_FAILS(pjrtd_session_check_new(session, &space, PJRTD_ID_PROGRAM, 3), PJRTD_CODE_INVALID_ARGUMENT,
               "program id 3 is not above 3");
  ASSERT_OK(pjrtd_session_check_new(session, &space, PJRTD_ID_PROGRAM, 4));
  cr_assert_not_null(pjrtd_session_find_buffer(session, 7));
  cr_assert_null(pjrtd_session_find_program(session, 7));
  cr_assert_null(pjrtd_session_find_buffer(session, 3));
  close_session();
}

Test(session, wants_the_prefix_of_the_connection_in_every_id) {
  pjrtd_id_space prefixed = {.prefix = 0x12};
  uint64_t good = UINT64_C(0x12) << 48 | 1;
  ASSERT_OK(pjrtd_session_check_new(session, &prefixed, PJRTD_ID_BUFFER, good));
  ASSERT_FAILS(pjrtd_session_check_new(session, &prefixed, PJRTD_ID_BUFFER, 1), PJRTD_CODE_INVALID_ARGUMENT,
               "has the prefix 0 in its top 16 bits, this connection's is 18");
  ASSERT_FAILS(pjrtd_session_check_new(session, &prefixed, PJRTD_ID_BUFFER, UINT64_C(0x13) << 48 | 1),
               PJRTD_CODE_INVALID_ARGUMENT, "prefix 19");
  ASSERT_FAILS(pjrtd_session_check_new(session, &space, PJRTD_ID_BUFFER, UINT64_MAX), PJRTD_CODE_INVALID_ARGUMENT,
               "prefix 65535");
  close_session();
}

Test(session, burns_no_id_by_a_check) {
  ASSERT_OK(pjrtd_session_check_new(session, &space, PJRTD_ID_BUFFER, 9));
  ASSERT_OK(pjrtd_session_check_new(session, &space, PJRTD_ID_BUFFER, 9));
  ASSERT_FAILS(pjrtd_session_check_new(session, &space, PJRTD_ID_BUFFER, UINT64_MAX), PJRTD_CODE_INVALID_ARGUMENT, "");
  ASSERT_OK(pjrtd_session_check_new(session, &space, PJRTD_ID_BUFFER, 1));
  close_session();
}

Test(session, has_no_more_than_its_quota) {
  settings.max_session_buffers = 3;
  settings.max_session_programs = 2;
  for (uint64_t id = 1; id <= 3; id++) name_buffer(id);
  for (uint64_t id = 1; id <= 2; id++) name_program(id);
  PJRTD_AUTO(pjrtd_status) status = pjrtd_session_check_new(session, &space, PJRTD_ID_BUFFER, 4);
  cr_assert_eq(pjrtd_status_code(status), PJRTD_CODE_RESOURCE_EXHAUSTED);
  cr_assert(strstr(pjrtd_status_message(status), "3 buffers"), "%s", pjrtd_status_message(status));
  cr_assert(strstr(pjrtd_status_hint(status), "max_session_buffers"), "%s", pjrtd_status_hint(status));
  ASSERT_FAILS(pjrtd_session_check_new(session, &space, PJRTD_ID_PROGRAM, 3), PJRTD_CODE_RESOURCE_EXHAUSTED,
               "2 programs");
  ASSERT_OK(forget(session, PJRTD_ID_BUFFER, 2));
  ASSERT_OK(pjrtd_session_check_new(session, &space, PJRTD_ID_BUFFER, 4));
  close_session();
}

Test(session, says_the_same_of_an_id_that_was_deleted_and_one_that_never_was) {
  name_buffer(1);
  ASSERT_OK(forget(session, PJRTD_ID_BUFFER, 1));
  PJRTD_AUTO(pjrtd_status) deleted = forget(session, PJRTD_ID_BUFFER, 1);
  PJRTD_AUTO(pjrtd_status) never = pjrtd_session_not_found(PJRTD_ID_BUFFER, 1);
  cr_assert_eq(pjrtd_status_code(deleted), PJRTD_CODE_NOT_FOUND);
  cr_assert_eq(pjrtd_status_code(never), PJRTD_CODE_NOT_FOUND);
  cr_assert_str_eq(pjrtd_status_message(deleted), pjrtd_status_message(never));
  cr_assert_str_eq(pjrtd_status_hint(deleted), pjrtd_status_hint(never));
  cr_assert(strstr(pjrtd_status_message(never), "no buffer 1"), "%s", pjrtd_status_message(never));
  close_session();
}

Test(session, forgets_all_that_exist_and_names_the_first_that_does_not) {
  name_buffer(1);
  name_buffer(2);
  name_buffer(3);
  const uint64_t ids[] = {1, 50, 3, 60};
  ASSERT_FAILS(pjrtd_session_forget(session, PJRTD_ID_BUFFER, ids, 4), PJRTD_CODE_NOT_FOUND, "no buffer 50");
  cr_assert_null(pjrtd_session_find_buffer(session, 1));
  cr_assert_not_null(pjrtd_session_find_buffer(session, 2));
  cr_assert_null(pjrtd_session_find_buffer(session, 3));
  ASSERT_OK(pjrtd_session_forget(session, PJRTD_ID_BUFFER, NULL, 0));
  close_session();
}

Test(session, forgets_no_more_at_once_than_a_turn_has_time_for) {
  enum { MANY = 1000000 };
  name_buffer(1);
  uint64_t *ids = malloc(MANY * sizeof *ids);
  for (int i = 0; i < MANY; i++) ids[i] = 1;
  ASSERT_FAILS(pjrtd_session_forget(session, PJRTD_ID_BUFFER, ids, MANY), PJRTD_CODE_INVALID_ARGUMENT, "at most");
  cr_assert_not_null(pjrtd_session_find_buffer(session, 1), "a request that is refused does nothing");
  free(ids);
  close_session();
}

Test(session, does_not_see_what_another_has) {
  pjrtd_buffer *mine = name_buffer(1);
  pjrtd_session *other;
  ASSERT_OK(pjrtd_session_create(runtime, &somebody, &other));
  cr_assert_eq(pjrtd_session_find_buffer(session, 1), mine);
  cr_assert_null(pjrtd_session_find_buffer(other, 1));
  ASSERT_FAILS(forget(other, PJRTD_ID_BUFFER, 1), PJRTD_CODE_NOT_FOUND, "no buffer 1");
  cr_assert_eq(pjrtd_session_find_buffer(session, 1), mine);
  pjrtd_session_close(other, NULL, NULL);
  close_session();
}

Test(session, takes_only_the_name_from_what_is_in_use) {
  pjrtd_buffer *buffer = name_buffer(1);
  pjrtd_program *program = name_program(1);
  pjrtd_resource_retain(&buffer->resource);
  pjrtd_resource_retain(&program->resource);
  ASSERT_OK(forget(session, PJRTD_ID_BUFFER, 1));
  ASSERT_OK(forget(session, PJRTD_ID_PROGRAM, 1));
  cr_assert_null(buffer->account);
  cr_assert_null(program->session);
  cr_assert_eq(buffer->resource.references, 1);
  pjrtd_resource_release(&buffer->resource);
  pjrtd_resource_release(&program->resource);
  close_session();
}

Test(session, closes_with_what_is_in_use_and_counts_what_it_had) {
  pjrtd_buffer *buffer = name_buffer(1);
  name_buffer(2);
  pjrtd_program *program = name_program(1);
  pjrtd_resource_retain(&buffer->resource);
  pjrtd_resource_retain(&program->resource);
  uint64_t buffers, programs;
  pjrtd_session_close(session, &buffers, &programs);
  cr_assert_eq(buffers, 2);
  cr_assert_eq(programs, 1);
  while (runtime->doomed) turn();
  cr_assert_eq(buffer->resource.references, 1);
  cr_assert_eq(program->resource.references, 1);
  cr_assert_null(buffer->account);
  cr_assert_null(program->session);
  pjrtd_resource_release(&buffer->resource);
  pjrtd_resource_release(&program->resource);
}

static int destroyed;
static void on_destroyed(pjrtd_resource *resource) {
  destroyed++;
  pjrtd_free(resource);
}

Test(session, frees_many_a_few_at_a_time) {
  enum { MANY = 50000 };
  for (uint64_t id = 1; id <= MANY; id++) name_buffer(id)->resource.destroy = on_destroyed;
  uint64_t buffers;
  pjrtd_session_close(session, &buffers, NULL);
  cr_assert_eq(buffers, MANY);
  cr_assert_lt(destroyed, 1000, "the rest is for later turns");
  int turns = 0, most = 0;
  while (runtime->doomed) {
    int before = destroyed;
    turn();
    turns++;
    if (destroyed - before > most) most = destroyed - before;
  }
  cr_assert_eq(destroyed, MANY);
  cr_assert_gt(turns, 5);
  cr_assert_lt(most, MANY / 5);
}

Test(session, is_not_made_without_memory) {
  pjrtd_session *other = session;
  pjrtd_alloc_fail_after(0);
  PJRTD_AUTO(pjrtd_status) status = pjrtd_session_create(runtime, &somebody, &other);
  pjrtd_alloc_fail_after(-1);
  cr_assert_eq(pjrtd_status_code(status), PJRTD_CODE_RESOURCE_EXHAUSTED);
  cr_assert_null(other);
  cr_assert_eq(runtime->stats.sessions, 1);
  cr_assert_eq(runtime->sessions, session);
  close_session();
}

Test(session, keeps_an_id_free_that_it_had_no_memory_to_name) {
  pjrtd_buffer *buffer;
  ASSERT_OK(pjrtd_buffer_create(runtime, &buffer));
  pjrtd_alloc_fail_after(0);
  ASSERT_FAILS(pjrtd_session_name_buffer(session, &space, 1, buffer), PJRTD_CODE_RESOURCE_EXHAUSTED, "memory");
  pjrtd_alloc_fail_after(-1);
  cr_assert_eq(buffer->resource.references, 1);
  cr_assert_null(buffer->account);
  ASSERT_OK(pjrtd_session_check_new(session, &space, PJRTD_ID_BUFFER, 1));
  ASSERT_OK(pjrtd_session_name_buffer(session, &space, 1, buffer));
  pjrtd_resource_release(&buffer->resource);
  close_session();
}
