/* service/methods.c. */
#include <criterion/criterion.h>
#include <string.h>

#include "service/call.h"

Test(methods, finds_each_line_of_the_table_and_nothing_else) {
  size_t found = 0;
  for (uint32_t id = 0; id <= UINT16_MAX; id++) {
    const pjrtd_method *method = pjrtd_method_find((uint16_t)id);
    if (!method) continue;
    found++;
    cr_assert_eq(method->id, id);
    cr_assert_not_null(method->handle);
    cr_assert(strchr(method->name, '.'));
  }
  size_t lines = 0;
#define PJRTD_METHOD(id_, family, Name, name_, Request, Reply, right_)     \
  lines++;                                                                 \
  cr_assert_str_eq(pjrtd_method_find(id_)->name, #family "." #Name);       \
  cr_assert_str_eq(pjrtd_method_find(id_)->request->short_name, #Request); \
  cr_assert_eq(pjrtd_method_find(id_)->right, PJRTD_RIGHT_##right_);
#include "proto/methods.def"
#undef PJRTD_METHOD
  cr_assert_eq(found, lines);
}

Test(methods, need_a_session_where_they_name_what_it_holds) {
  cr_assert_not(pjrtd_method_find(PJRTD_METHOD_Runtime_Hello)->needs_session);
  cr_assert_not(pjrtd_method_find(PJRTD_METHOD_Session_Open)->needs_session);
  cr_assert_not(pjrtd_method_find(PJRTD_METHOD_Session_Sync)->needs_session);
  cr_assert_not(pjrtd_method_find(PJRTD_METHOD_Admin_Stats)->needs_session);
  cr_assert(pjrtd_method_find(PJRTD_METHOD_Buffer_Upload)->needs_session);
  cr_assert(pjrtd_method_find(PJRTD_METHOD_Program_Release)->needs_session);
  cr_assert(pjrtd_method_find(PJRTD_METHOD_Execute_Execute)->needs_session);
}

Test(methods, take_bulk_where_they_bring_data) {
#define PJRTD_METHOD(id_, family, Name, name_, Request, Reply, right_)                                             \
  cr_assert_eq(                                                                                                    \
      pjrtd_method_find(id_)->takes_bulk,                                                                          \
      !strcmp(#Name, "Upload") || !strcmp(#Name, "Compile") || !strcmp(#Name, "Execute") || !strcmp(#Name, "Run"), \
      "%s", #Name);
#include "proto/methods.def"
#undef PJRTD_METHOD
}
