/* JSON output. One thread. */
#pragma once

#include <jansson.h>
#include <pjrtc/pjrtc.h>

/* A string, whatever bytes the text has. */
json_t *ctl_json_text(const char *text);
json_t *ctl_json_unsigned(uint64_t value);
json_t *ctl_json_integers(const int32_t *values, size_t count);
/* {"name": value, ...} */
json_t *ctl_json_attributes(const pjrtc_attribute *attributes, size_t count);
/* Prints and destroys it. */
void ctl_json_print(json_t *value);

/* An attribute's value for people; to be freed. */
char *ctl_attribute_text(const pjrtc_attribute *attribute);
