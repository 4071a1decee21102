/* pjrtctl: asks and uses a pjrtd from the command line. This file finds the command; each has a file of its own. */
#include <string.h>

#include "ctl.h"

static const struct {
  const char *name;
  ctl_command *run;
  const char *usage;
} commands[] = {
    {"info", ctl_info,
     "pjrtctl info [--target TARGET] [--json]\n    What is served: versions, plugin, platform, devices.\n"},
    {"devices", ctl_devices,
     "pjrtctl devices [--target TARGET] [--json]\n    The devices, their memories and what these hold.\n"},
    {"stats", ctl_stats, "pjrtctl stats [--target TARGET] [--json]\n    The server's counters.\n"},
    {"session", ctl_session,
     "pjrtctl session [ls | show SESSION | close SESSION] [--target TARGET] [--json]\n"
     "    The sessions that you may see, what one holds, or its end. A SESSION is a name, or a number as ls shows "
     "it.\n"},
    {"slot", ctl_slot,
     "pjrtctl slot [ls SESSION | get SESSION SLOT... | put SESSION SLOT ARGUMENT | rm SESSION SLOT...]\n"
     "        [--device N] [--ttl SECONDS] [--save FILE.npz] [--full] [--target TARGET] [--json]\n"
     "    What the slots of a session hold, their values, and setting and removing them. The SESSION is named; put "
     "makes\n"
     "    it where there is none.\n"
     "pjrtctl slot [publish SESSION NAME [SLOT...] | borrow SESSION NAME [SLOT[=AS]...] | withdraw NAME | published]\n"
     "        [--everybody] [--uid N]... [--ttl SECONDS] [--target TARGET] [--json]\n"
     "    Slots that sessions share, read-only and without a copy: publishing some or all under a NAME, taking them "
     "into a\n"
     "    SESSION, which is made where there is none, ending that, and a list.\n"},
    {"compile", ctl_compile,
     "pjrtctl compile FILE [--device N] [--replicas N] [--partitions N] [--spmd] [--xla NAME=VALUE]...\n"
     "        [--deadline SECONDS] [--target TARGET] [--json]\n"
     "    Compiles StableHLO (text, bytecode or portable artifact; \"-\" is standard input) and describes it.\n"},
    {"run", ctl_run,
     "pjrtctl run FILE [--arg ARGUMENT]... [--session NAME [--ttl SECONDS]] [--feed-back OUTPUT=SLOT]...\n"
     "        [--steps N] [--every N] [--until OUTPUT] [--stack ARGUMENT]... [--save FILE.npz] [--full] [compile's "
     "options]\n"
     "    Compiles and runs it, and prints each result. An ARGUMENT is TYPE[DIMENSIONS]=VALUES:\n"
     "        f32[2,2]=1,2,3,4    values in row-major order, or one that fills all\n"
     "        f32[2,2]=@x.npy     a file of numpy.save; @x.npy alone takes its type\n"
     "        s4[5]=hex:f8ff0703  the bytes on the host, little-endian\n"
     "        slot:x              what slot x of the session holds\n"
     "    With --session it runs in the session of that name, which is made where there is none and stays.\n"
     "    With --steps it runs that often in one call; --feed-back 0=arg:1 gives output 0 to argument 1 of the next "
     "step.\n"},
};

void ctl_usage(FILE *to, const char *command) {
  if (!command) fputs("Usage: pjrtctl COMMAND ..., where COMMAND is one of\n\n", to);
  for (size_t i = 0; i < sizeof commands / sizeof *commands; i++)
    if (!command || strcmp(command, commands[i].name) == 0) fprintf(to, "%s", commands[i].usage);
  if (!command)
    fputs(
        "pjrtctl version\n    The version of pjrtctl and of the library that it runs with.\n\n"
        "The target is unix:PATH, grpc://HOST:PORT or grpcs://HOST:PORT; without --target it is PJRTD_TARGET's, else "
        "the\n"
        "default socket.\n"
        "Exit status: 0 done, 1 the request failed, 2 usage, 3 no server, 4 a file. See pjrtctl(1).\n",
        to);
}

static int version(void) {
  printf("pjrtctl %s, libpjrtc %s\n", PJRTD_VERSION, pjrtc_version());
  return CTL_OK;
}

/* What was written must have arrived: a full disk is a failure. */
static int flushed(int status) {
  if (fflush(stdout) == 0 && !ferror(stdout)) return status;
  fputs("pjrtctl: standard output cannot be written\n", stderr);
  return status ? status : CTL_FILE;
}

int main(int argc, char **argv) {
  ctl_common common = {0};
  /* Options of all commands may come before the command as well. */
  int at = 1;
  for (; at < argc && argv[at][0] == '-' && argv[at][1]; at++) {
    if (strcmp(argv[at], "--json") == 0) {
      common.json = true;
    } else if (strcmp(argv[at], "--target") == 0 && at + 1 < argc) {
      common.target = argv[++at];
    } else if (strncmp(argv[at], "--target=", 9) == 0) {
      common.target = argv[at] + 9;
    } else if (strcmp(argv[at], "--version") == 0) {
      return flushed(version());
    } else if (strcmp(argv[at], "--help") == 0 || strcmp(argv[at], "-h") == 0) {
      ctl_usage(stdout, NULL);
      return flushed(CTL_OK);
    } else {
      return ctl_complain(&common, CTL_USAGE, "pjrtctl --help lists what there is", "unknown option %s", argv[at]);
    }
  }
  if (at == argc) {
    ctl_usage(stderr, NULL);
    return CTL_USAGE;
  }
  const char *name = argv[at];
  if (strcmp(name, "version") == 0) return flushed(version());
  if (strcmp(name, "help") == 0) {
    ctl_usage(stdout, at + 1 < argc ? argv[at + 1] : NULL);
    return flushed(CTL_OK);
  }
  for (size_t i = 0; i < sizeof commands / sizeof *commands; i++) {
    if (strcmp(name, commands[i].name) != 0) continue;
    int status = commands[i].run(argc - at - 1, argv + at + 1, &common);
    if (status == -1) {
      ctl_usage(stdout, name);
      status = CTL_OK;
    }
    return flushed(status);
  }
  return ctl_complain(&common, CTL_USAGE, "pjrtctl --help lists what there is", "unknown command %s", name);
}
