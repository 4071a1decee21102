typedef int pjrtd_transport_empty;
