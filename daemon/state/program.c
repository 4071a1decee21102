/* See program.h. */
#include "state/program.h"

static void reap_run(pjrtd_job *job) {
  pjrtd_program *program = (pjrtd_program *)((char *)job - offsetof(pjrtd_program, reap));
  pjrtd_executable_destroy(program->executable);
}

static void reaped(pjrtd_job *job) {
  pjrtd_program *program = (pjrtd_program *)((char *)job - offsetof(pjrtd_program, reap));
  program->runtime->stats.programs--;
  pjrtd_free(program);
}

static void reap_done(pjrtd_job *job) {
  pjrtd_runtime_job_ended(((pjrtd_program *)((char *)job - offsetof(pjrtd_program, reap)))->runtime);
  reaped(job);
}

static void program_destroy(pjrtd_resource *resource) {
  pjrtd_program *program = pjrtd_program_of(resource);
  pjrtd_runtime *runtime = program->runtime;
  /* What goes in its place may be another one, that was not used for longer. */
  if (program->source)
    program->executable = pjrtd_sources_leave(&runtime->sources, program->source, runtime->settings->max_idle_programs);
  if (!program->executable) {
    if (program->info) runtime->stats.programs--;
    pjrtd_free(program);
    return;
  }
  program->reap = (pjrtd_job){.run = reap_run, .done = reap_done};
  pjrtd_status *status = pjrtd_runtime_submit(program->runtime, program->runtime->reaper, &program->reap);
  if (!status) return;
  pjrtd_status_destroy(status); /* no thread: it is freed here */
  program->reap.done = reaped;
  pjrtd_runtime_free_later(program->runtime, &program->reap);
}

pjrtd_status *pjrtd_program_create(pjrtd_runtime *runtime, pjrtd_program **out_program) {
  *out_program = NULL;
  pjrtd_program *program = pjrtd_calloc(1, sizeof *program);
  if (!program) return pjrtd_status_oom();
  pjrtd_resource_init(&program->resource, program_destroy);
  program->runtime = runtime;
  *out_program = program;
  return PJRTD_OK;
}

void pjrtd_program_set(pjrtd_program *program, pjrtd_executable *executable) {
  program->executable = executable;
  program->info = pjrtd_executable_get_info(executable);
  program->runtime->stats.programs++;
  uint64_t bytes = 0;
  for (size_t i = 0; i < program->info->num_outputs; i++)
    if (__builtin_add_overflow(bytes, program->info->outputs[i].host_bytes, &bytes)) bytes = UINT64_MAX;
  if (__builtin_mul_overflow(bytes, program->info->num_devices, &program->output_bytes))
    program->output_bytes = UINT64_MAX;
  pjrtd_resource_set_ready(&program->resource);
}

void pjrtd_program_share(pjrtd_program *program, pjrtd_source *source) {
  program->source = source;
  pjrtd_program_set(program, source->executable);
}

bool pjrtd_program_is_quick(const pjrtd_program *program) {
  return program->ran_in_call && program->info->straight_line && program->info->num_devices == 1 &&
         program->measured_ns <= (uint64_t)program->runtime->settings->loop_execute_us * 1000;
}
