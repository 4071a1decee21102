pjrtd_fuzz(hlo-module LINKS pjrtd_plugin pjrtd_headers pjrtd_xla_proto)
