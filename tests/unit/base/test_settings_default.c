/* base/settings_default.c. Root and users have different defaults: a test of a user's gives up root in its own process.
 */
#include "base/memory_limit.h"
#include "settings_fixture.h"

static void become_a_user(void) {
  fixture_init();
  if (geteuid() != 0) return;
  cr_assert_eq(seteuid(65534), 0);
}

/* The leak sanitizer looks at the process when it ends, and needs the rights that it began with. */
static void become_root_again(void) {
  fixture_deinit();
  cr_assert_eq(seteuid(getuid()), 0);
}

TestSuite(settings_default, .init = become_a_user, .fini = become_root_again);

Test(settings_default, follows_xdg_for_users) {
  CHECK_OK(LOAD());
  cr_assert_str_eq(settings.listen.items[0], "unix:/run/user/1/pjrtd.sock");
  cr_assert_str_eq(settings.cache_dir, "/home/someone/.cache/pjrtd");
  cr_assert_str_eq(settings.state_dir, "/home/someone/.local/state/pjrtd");
  setenv("XDG_CACHE_HOME", "/x/cache", 1);
  setenv("XDG_STATE_HOME", "/x/state", 1);
  CHECK_OK(LOAD());
  cr_assert_str_eq(settings.cache_dir, "/x/cache/pjrtd");
  cr_assert_str_eq(settings.state_dir, "/x/state/pjrtd");
}

Test(settings_default, ignores_relative_folders_of_the_environment) {
  setenv("XDG_CACHE_HOME", "cache", 1);
  CHECK_OK(LOAD());
  cr_assert_str_eq(settings.cache_dir, "/home/someone/.cache/pjrtd");
}

Test(settings_default, takes_the_folders_that_systemd_gives) {
  setenv("RUNTIME_DIRECTORY", "/run/pjrtd-a:/run/other", 1);
  setenv("CACHE_DIRECTORY", "/var/cache/a", 1);
  setenv("STATE_DIRECTORY", "/var/lib/a:/var/lib/b", 1);
  CHECK_OK(LOAD());
  cr_assert_str_eq(settings.listen.items[0], "unix:/run/pjrtd-a/pjrtd.sock");
  cr_assert_str_eq(settings.cache_dir, "/var/cache/a");
  cr_assert_str_eq(settings.state_dir, "/var/lib/a");
}

Test(settings_default, says_what_to_do_when_nothing_names_a_socket) {
  unsetenv("XDG_RUNTIME_DIR");
  CHECK_INVALID(LOAD(), "listen: no address is set, and XDG_RUNTIME_DIR does not say where a user's sockets belong",
                "name one: --listen unix:PATH");
  CHECK_OK(LOAD("--listen", "unix:/x"));
  cr_assert_eq(settings.listen.count, 1);
}

Test(settings_default, uses_the_system_folders_as_root, .init = fixture_init) {
  if (geteuid() != 0) {
    /* Nothing to look at as a user, and what users get is tested above. */
    CHECK_OK(LOAD());
    cr_assert_str_neq(settings.cache_dir, "/var/cache/pjrtd");
    return;
  }
  CHECK_OK(LOAD());
  cr_assert_str_eq(settings.listen.items[0], "unix:/run/pjrtd/pjrtd.sock");
  cr_assert_str_eq(settings.cache_dir, "/var/cache/pjrtd");
  cr_assert_str_eq(settings.state_dir, "/var/lib/pjrtd");
}

Test(settings_default, leaves_what_was_set) {
  CHECK_OK(LOAD("--cache-dir", "/c", "--state-dir=", "--listen", "unix:/l", "--max-buffer-bytes", "5 GiB"));
  cr_assert_str_eq(settings.cache_dir, "/c");
  cr_assert_str_eq(settings.state_dir, "");
  cr_assert_str_eq(settings.listen.items[0], "unix:/l");
  cr_assert_eq(settings.max_buffer_bytes, (uint64_t)5 << 30);
}

Test(settings_default, allows_four_fifths_of_memory_for_buffers) {
  CHECK_OK(LOAD());
  cr_assert_eq(settings.max_buffer_bytes, pjrtd_memory_limit_bytes("") / 5 * 4);
  cr_assert(settings.max_buffer_bytes > 0);
}
