/* Values that came from the server, as text, as JSON, and in a file of numpy's. One thread. */
#pragma once

#include "ctl.h"
#include "ctl_json.h"

/* Results are shown whole where `--full` says so, and where standard output is no terminal. */
bool ctl_result_whole(bool full);
/* "f32[2]=1,2" on a line of standard output. Unless `whole`, only the first elements of a long one. */
void ctl_result_print(const pjrtc_value *value, bool whole);
/* "1,2", to be freed; shortened likewise. */
char *ctl_result_values(const pjrtc_value *value, bool whole);
/* {"type": "f32[2]", "dtype": "f32", "dims": [2], "values": [1, 2]} */
json_t *ctl_result_json(const pjrtc_value *value);

typedef struct ctl_results_file ctl_results_file;

/* Begins an .npz file; it takes its name only when it is complete. CTL_OK, or another status after a message. */
int ctl_results_file_create(const ctl_common *common, const char *path, ctl_results_file **out_file);
/* Adds one as NAME; says so once where numpy does not know the type. */
void ctl_results_file_add(ctl_results_file *file, const char *name, const pjrtc_value *value);
/* Ends and destroys it. */
int ctl_results_file_finish(ctl_results_file *file);

/* Downloads buffers, started one behind the other. `values`, zeroed, are to be freed with ctl_results_free, on failure
 * too. A buffer 0 is passed over. */
int ctl_results_download(const ctl_common *common, pjrtc_client *client, const uint64_t *buffers, size_t count,
                         uint64_t timeout_ns, pjrtc_value *values);
void ctl_results_free(pjrtc_value *values, size_t count);
