/* Readable output: tables and name-value lists that fit the terminal. One thread. */
#pragma once

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

/* Columns of standard output; 0 where it is no terminal, so that nothing is cut. */
size_t ctl_width(void);

/* "1.5 GiB", "512 B". */
const char *ctl_bytes(uint64_t bytes, char out[32]);
/* "1.5 s", "26 ms", "3 d 4 h". */
const char *ctl_duration(uint64_t ns, char out[32]);

typedef struct ctl_table ctl_table;

/* Column names, the last one NULL; a name that ends with '#' makes a column of numbers, which stand to the right. Names
 * are borrowed. `has_header`: shows them. */
ctl_table *ctl_table_create(const char *const *columns, bool has_header);
/* The next cell, row by row; the text is copied, and control characters in it are made harmless. */
void ctl_table_add(ctl_table *table, const char *format, ...) __attribute__((format(printf, 2, 3)));
/* Prints and destroys it. On a terminal the last column is folded to fit. */
void ctl_table_print(ctl_table *table);
