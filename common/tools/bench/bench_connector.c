/* `kvrail bench connector`: what the connector costs in Python. The package kvrail.bench measures;
 * this finds an interpreter and the package, and becomes it. */
#include <errno.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "tools/bench/bench.h"
#include "tools/bench/bench_cli.h"

#define OPTIONS      struct connector_options
#define PATH_BYTES   4096
#define FOLDERS_MOST 4 /* above the program's own, where the sources are looked for */

struct connector_options {
    uint64_t requests, pages, rounds;
    char python[PATH_BYTES];
    char json[JSON_OUTPUT_PATH_BYTES];
};

static const struct kvr_option options[] = {
    {.name = "requests",
     .section = "work",
     .fallback = "1000",
     .min = 1,
     .max = 1000000,
     KVR_OPTION_COUNT(OPTIONS, requests),
     .help = "In flight while others come and go; half of them publishes, half fetches."},
    {.name = "pages",
     .fallback = "64",
     .min = 1,
     .max = 65536,
     KVR_OPTION_COUNT(OPTIONS, pages),
     .help = "Blocks of each request, in one KV group."},
    BENCH_OPTION_ROUNDS(OPTIONS, "101", 100000,
                        "How often each figure is taken; the figures are medians."),
    {.name = "python",
     .section = "program",
     .value = "PROGRAM",
     .fallback = "python3",
     KVR_OPTION_STRING(OPTIONS, python),
     .help = "The interpreter, 3.10 or later; that of vLLM, to measure vLLM's class too."},
    JSON_OUTPUT_OPTION(OPTIONS, "output", "the figures"),
};

static const struct kvr_command command = {
    .name = "kvrail bench connector",
    .description =
        "What the connector for vLLM costs in Python, at the scheduler's and at the worker's "
        "side:\n"
        "a publish and a fetch from their arrival to their end, and a step of vLLM without any\n"
        "transfer. The connector is called as vLLM calls it: through the class that vLLM loads,\n"
        "where the interpreter has vLLM, else below it. A stand-in takes the calls of libkvrail,\n"
        "so neither the library, the agents nor vLLM's own work is in the figures.",
    KVR_OPTION_ROWS(options),
    .footer = "Example:\n"
              "  kvrail bench connector --python /opt/vllm/bin/python3 --json",
};

/* Says which module is missing. */
static const char start[] =
    "import sys\n"
    "if sys.version_info < (3, 10):\n"
    "    sys.exit(f'kvrail bench: {sys.executable} is Python {sys.version.split()[0]}: name one of "
    "'\n"
    "             '3.10 or later with --python')\n"
    "try:\n"
    "    from kvrail.bench.__main__ import main\n"
    "except ModuleNotFoundError as error:\n"
    "    sys.exit(f'kvrail bench: {sys.executable} has no module {error.name}: install kvrail from "
    "'\n"
    "             'its wheel for it, or add common/python of the sources to PYTHONPATH')\n"
    "sys.exit(main())\n";

/* Cuts the last part off. False: there is none. */
static bool to_parent(char *path)
{
    char *slash = strrchr(path, '/');

    if (slash == NULL || slash == path)
        return false;
    *slash = '\0';
    return true;
}

static bool has_package(const char *folder)
{
    char file[PATH_BYTES + 32];

    snprintf(file, sizeof(file), "%s/kvrail/bench/__main__.py", folder);
    return access(file, R_OK) == 0;
}

/* The folder of the package that belongs to this program: the wheel has it above bin, the sources
 * in common/python. False: Python itself must know it. */
static bool find_package(char ret_folder[PATH_BYTES])
{
    char above[PATH_BYTES - 16];
    ssize_t length = readlink("/proc/self/exe", above, sizeof(above) - 1);

    if (length <= 0)
        return false;
    above[length] = '\0';
    for (int i = 0; to_parent(above) && i <= FOLDERS_MOST; i++) {
        snprintf(ret_folder, PATH_BYTES, "%s", above);
        if (has_package(ret_folder))
            return true;
        snprintf(ret_folder, PATH_BYTES, "%s/common/python", above);
        if (has_package(ret_folder))
            return true;
    }
    return false;
}

/* In front: a kvrail that is installed for the interpreter may be of another version. */
static void name_package(void)
{
    const char *before = getenv("PYTHONPATH");
    char folder[PATH_BYTES], path[2 * PATH_BYTES];

    if (!find_package(folder))
        return;
    snprintf(path, sizeof(path), "%s%s%s", folder, before != NULL ? ":" : "",
             before != NULL ? before : "");
    setenv("PYTHONPATH", path, 1);
}

int bench_connector_main(int argc, char **argv)
{
    struct connector_options chosen = {.json = ""};
    char requests[32], pages[32], rounds[32];
    int code;

    if (!kvr_options_load(&command, argc, argv, &chosen, &code))
        return code;
    snprintf(requests, sizeof(requests), "--requests=%llu", (unsigned long long)chosen.requests);
    snprintf(pages, sizeof(pages), "--pages=%llu", (unsigned long long)chosen.pages);
    snprintf(rounds, sizeof(rounds), "--rounds=%llu", (unsigned long long)chosen.rounds);
    name_package();
    execlp(chosen.python, chosen.python, "-c", start, requests, pages, rounds, "--json",
           chosen.json, (char *)NULL);
    fprintf(stderr,
            "kvrail bench: %s cannot be run: %s: install Python 3.10 or later, or name an "
            "interpreter with --python\n",
            chosen.python, strerror(errno));
    return 1;
}
