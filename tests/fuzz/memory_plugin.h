/* A plugin layer in memory, in the place of daemon/plugin: it computes nothing that is worth it, but keeps every rule
 * of plugin.h, so that a fuzzer can drive everything above it thousands of times a second.
 *
 * A program is its first byte: m (also the probe) doubles f32[2]; d the same, consuming its argument; w the same, not
 * straight-line; p ends by an event; f fails; n takes and gives nothing; z gives 20 empty tensors; t runs on two
 * devices. Anything else does not compile. */
#pragma once

#include "plugin/plugin.h"

/* A plugin that needs no library. */
pjrtd_plugin *memory_plugin_create(void);
/* Buffers and executables that exist: what a fuzzer checks to be 0 in the end. */
size_t memory_plugin_count_objects(void);
