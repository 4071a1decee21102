/* state/program.c. */
#include "runtime_fixture.h"
#include "state/program.h"

Test(program, is_counted_while_it_exists_and_freed_by_another_thread, .init = open_runtime, .fini = close_runtime,
     .timeout = 120) {
  pjrtd_program *program;
  ASSERT_OK(pjrtd_program_create(runtime, &program));
  cr_assert_eq(program->resource.state, PJRTD_RESOURCE_PENDING);
  cr_assert_eq(runtime->stats.programs, 0);
  pjrtd_program_set(program, compile(ADD_TEXT("")));
  cr_assert_eq(program->resource.state, PJRTD_RESOURCE_READY);
  cr_assert_eq(runtime->stats.programs, 1);
  cr_assert_eq(program->output_bytes, 8);
  cr_assert_str_eq(program->info->name, "add");
  pjrtd_resource_release(&program->resource);
  cr_assert_eq(runtime->jobs_running, 1);
  wait_until_idle();
  cr_assert_eq(runtime->stats.programs, 0);
  cr_assert_eq(pjrtd_lane_get_stats(runtime->reaper).jobs, 1);
}

Test(program, is_freed_without_memory_for_a_thread, .init = open_runtime, .fini = close_runtime, .timeout = 120) {
  pjrtd_program *program;
  ASSERT_OK(pjrtd_program_create(runtime, &program));
  pjrtd_program_set(program, compile(ADD_TEXT("")));
  pjrtd_alloc_fail_after(0);
  pjrtd_resource_release(&program->resource);
  pjrtd_alloc_fail_after(-1);
  wait_until_idle();
  cr_assert_eq(runtime->stats.programs, 0);
}

/* Who goes last frees the executable, whoever compiled it, where none is to stay. */
Test(program, shares_its_executable, .init = open_runtime, .fini = close_runtime, .timeout = 120) {
  settings.max_idle_programs = 0;
  pjrtd_program *first, *second;
  ASSERT_OK(pjrtd_program_create(runtime, &first));
  first->source = pjrtd_sources_add(&runtime->sources, 7, "add", 3, compile(ADD_TEXT("")));
  pjrtd_program_set(first, first->source->executable);
  ASSERT_OK(pjrtd_program_create(runtime, &second));
  pjrtd_program_share(second, pjrtd_sources_join(&runtime->sources, 7, "add", 3));
  cr_assert_eq(second->resource.state, PJRTD_RESOURCE_READY);
  cr_assert_eq(second->executable, first->executable);
  cr_assert_eq(second->output_bytes, 8);
  cr_assert_eq(runtime->stats.programs, 2);
  pjrtd_resource_release(&first->resource);
  cr_assert_eq(runtime->stats.programs, 1);
  cr_assert_eq(runtime->jobs_running, 0);
  cr_assert_str_eq(second->info->name, "add");
  pjrtd_resource_release(&second->resource);
  cr_assert_eq(runtime->jobs_running, 1);
  cr_assert_null(pjrtd_sources_join(&runtime->sources, 7, "add", 3));
  wait_until_idle();
  cr_assert_eq(runtime->stats.programs, 0);
  cr_assert_eq(pjrtd_lane_get_stats(runtime->reaper).jobs, 1);
}

/* The next one that goes sends it away. */
Test(program, leaves_its_executable_for_another, .init = open_runtime, .fini = close_runtime, .timeout = 120) {
  settings.max_idle_programs = 1;
  const char *texts[] = {ADD_TEXT(""), ADD_TEXT(DONATED)};
  for (int i = 0; i < 2; i++) {
    pjrtd_program *program;
    ASSERT_OK(pjrtd_program_create(runtime, &program));
    program->source = pjrtd_sources_add(&runtime->sources, i ? 8 : 7, i ? "two" : "one", 3, compile(texts[i]));
    pjrtd_program_set(program, program->source->executable);
    pjrtd_resource_release(&program->resource);
    cr_assert_eq(runtime->jobs_running, i);
    wait_until_idle();
    cr_assert_eq(runtime->stats.programs, 0);
  }
  cr_assert_eq(runtime->sources.idle, 1);
  cr_assert_null(pjrtd_sources_join(&runtime->sources, 7, "one", 3));
  cr_assert_eq(pjrtd_lane_get_stats(runtime->reaper).jobs, 1);
}

Test(program, that_was_never_compiled_or_failed_leaves_no_trace, .init = open_bare, .fini = close_bare) {
  pjrtd_program *pending, *failed;
  ASSERT_OK(pjrtd_program_create(runtime, &pending));
  ASSERT_OK(pjrtd_program_create(runtime, &failed));
  pjrtd_resource_set_failed(&failed->resource, PJRTD_INVALID("no"));
  pjrtd_resource_release(&pending->resource);
  pjrtd_resource_release(&failed->resource);
  cr_assert_eq(runtime->stats.programs, 0);
  cr_assert_null(runtime->doomed);
}

/* All that must be so for the loop to run it; each alone is what it fails on. */
Test(program, is_quick_only_when_its_time_is_known_and_short, .init = open_bare, .fini = close_bare) {
  pjrtd_program_info info = {.straight_line = true, .num_devices = 1};
  pjrtd_program program = {.runtime = runtime, .info = &info, .measured_ns = 100 * 1000, .ran_in_call = true};
  settings.loop_execute_us = 100;
  cr_assert(pjrtd_program_is_quick(&program));
  program.measured_ns++;
  cr_assert_not(pjrtd_program_is_quick(&program));
  program.measured_ns = 1;
  info.straight_line = false;
  cr_assert_not(pjrtd_program_is_quick(&program));
  info.straight_line = true;
  info.num_devices = 2;
  cr_assert_not(pjrtd_program_is_quick(&program));
  info.num_devices = 1;
  program.ran_in_call = false;
  cr_assert_not(pjrtd_program_is_quick(&program), "the first run, or a platform that runs it elsewhere");
  program.ran_in_call = true;
  cr_assert(pjrtd_program_is_quick(&program));
  settings.loop_execute_us = 0;
  cr_assert_not(pjrtd_program_is_quick(&program));
}

Test(program, is_not_made_without_memory, .init = open_bare, .fini = close_bare) {
  pjrtd_program *program = (pjrtd_program *)&loop;
  pjrtd_alloc_fail_after(0);
  ASSERT_FAILS(pjrtd_program_create(runtime, &program), PJRTD_CODE_RESOURCE_EXHAUSTED, "memory");
  pjrtd_alloc_fail_after(-1);
  cr_assert_null(program);
}
