typedef int pjrtd_service_empty;
