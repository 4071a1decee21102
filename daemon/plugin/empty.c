typedef int pjrtd_plugin_empty;
