/* service/buffer_methods.c. */
#include "peer_fixture.h"

TestSuite(buffer_methods, .init = open_service, .fini = close_service, .timeout = 120);

Test(buffer_methods, say_what_a_buffer_is) {
  uint64_t id = make_pair(1, 2);
  Pjrtd__V1__StatReply *stat = reply(stat_buffer(id), &pjrtd__v1__stat_reply__descriptor);
  cr_assert_eq(stat->type->dtype, PJRTD__V1__DTYPE__DTYPE_F32);
  cr_assert_eq(stat->type->n_dims, 1);
  cr_assert_eq(stat->type->dims[0], 2);
  cr_assert_eq(stat->host_bytes, 8);
  cr_assert_eq(stat->device_bytes, 8);
  cr_assert_not(stat->is_deleted);
  cr_assert_eq(stat->layout->n_minor_to_major, 1);
  free_reply(stat);
}

Test(buffer_methods, say_of_a_donated_buffer_that_it_is_gone) {
  uint64_t program = make_program(ADD_TEXT(DONATED)), id = make_pair(1, 2);
  succeed(execute((execution){program, 1, {id}}, (how){0}));
  Pjrtd__V1__StatReply *stat = reply(stat_buffer(id), &pjrtd__v1__stat_reply__descriptor);
  cr_assert(stat->is_deleted);
  cr_assert_eq(stat->memory, -1);
  cr_assert_null(stat->type);
  free_reply(stat);
  succeed(delete_buffer(id));
  fails(stat_buffer(id), PJRTD_CODE_NOT_FOUND, "", 0);
}

static uint64_t delete_many(uint64_t *ids, size_t count, how how) {
  Pjrtd__V1__DeleteRequest message = PJRTD__V1__DELETE_REQUEST__INIT;
  message.n_buffers = count;
  message.buffers = ids;
  return request(PJRTD_METHOD_Buffer_Delete, &message.base, how);
}

Test(buffer_methods, delete_all_that_exist_and_name_the_first_that_does_not) {
  uint64_t ids[] = {make_pair(1, 2), 1000, make_pair(3, 4), 1001, make_pair(5, 6)};
  fails(delete_many(ids, 5, (how){0}), PJRTD_CODE_NOT_FOUND, "no buffer 1000", 0);
  for (int i = 0; i < 5; i += 2) fails(stat_buffer(ids[i]), PJRTD_CODE_NOT_FOUND, "", 0);
  wait_until_idle();
  cr_assert_eq(runtime->stats.buffers, 0);
}

Test(buffer_methods, delete_nothing_and_the_same_twice) {
  succeed(delete_many(NULL, 0, (how){0}));
  uint64_t id = make_pair(1, 2), twice[] = {id, id};
  fails(delete_many(twice, 2, (how){0}), PJRTD_CODE_NOT_FOUND, "", 0);
}

/* What a client could send to hold everybody up: as many ids as a message may carry. */
Test(buffer_methods, spend_little_on_many_ids_that_do_not_exist) {
  enum { MANY = 16384 };
  uint64_t *ids = calloc(MANY, sizeof *ids);
  for (int i = 0; i < MANY; i++) ids[i] = 1;
  pjrtd_alloc_fail_after(INT32_MAX);
  uint64_t call = delete_many(ids, MANY, (how){0});
  int64_t asked = pjrtd_alloc_fail_after(-1);
  fails(call, PJRTD_CODE_NOT_FOUND, "no buffer 1", 0);
  cr_assert_lt(asked, 200, "%d allocations", (int)asked);
  free(ids);
}

Test(buffer_methods, delete_no_more_at_once_than_a_turn_has_time_for) {
  enum { MANY = 100000 };
  uint64_t *ids = calloc(MANY, sizeof *ids);
  ids[0] = make_pair(1, 2);
  fails(delete_many(ids, MANY, (how){0}), PJRTD_CODE_INVALID_ARGUMENT, "at most", 0);
  check_pair(ids[0], 1, 2);
  free(ids);
}
