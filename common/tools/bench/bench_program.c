#include "tools/bench/bench_program.h"

#include <dirent.h>
#include <errno.h>
#include <fcntl.h>
#include <poll.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/prctl.h>
#include <sys/stat.h>
#include <sys/wait.h>
#include <unistd.h>

#include "tools/bench/bench_child.h"
#include "tools/interrupt.h"

#define START_TRIES    1000 /* of 10 ms */
#define LOG_TAIL_BYTES 2000

/* ---- arguments ---- */

void bench_arguments_init(struct bench_arguments *arguments)
{
    arguments->count = 1;
}

void bench_arguments_add(struct bench_arguments *arguments, const char *name, const char *value)
{
    char item[KVR_OPTION_ITEM_BYTES + 90];

    if (value[0] == '\0')
        return;
    snprintf(item, sizeof(item), "%s=%s", name, value);
    bench_arguments_add_item(arguments, item);
}

void bench_arguments_add_item(struct bench_arguments *arguments, const char *item)
{
    char *text = arguments->text[arguments->count];

    snprintf(text, sizeof(arguments->text[0]), "--%s", item);
    arguments->list[arguments->count++] = text;
}

/* ---- the folder ---- */

bool bench_folder_make(char ret_path[BENCH_PATH_BYTES])
{
    const char *base = getenv("TMPDIR");

    if (base == NULL || base[0] == '\0' || strlen(base) > 60)
        base = "/tmp";
    snprintf(ret_path, BENCH_PATH_BYTES, "%s/kvrail-bench.XXXXXX", base);
    if (mkdtemp(ret_path) != NULL)
        return true;
    fprintf(stderr, "kvrail bench: %s: %s\n", ret_path, strerror(errno));
    ret_path[0] = '\0';
    return false;
}

void bench_folder_remove(const char *path)
{
    DIR *directory = opendir(path);
    const struct dirent *entry;

    while (directory != NULL && (entry = readdir(directory)) != NULL)
        if (entry->d_name[0] != '.')
            (void)unlinkat(dirfd(directory), entry->d_name, 0);
    if (directory != NULL)
        closedir(directory);
    (void)rmdir(path);
}

/* ---- the program ---- */

/* The directory that this executable lies in. */
static bool own_directory(char ret_path[BENCH_PATH_BYTES])
{
    ssize_t length = readlink("/proc/self/exe", ret_path, BENCH_PATH_BYTES - 1);
    char *slash;

    if (length <= 0)
        return false;
    ret_path[length] = '\0';
    slash = strrchr(ret_path, '/');
    if (slash == NULL)
        return false;
    *slash = '\0';
    return true;
}

/* What the user's environment says to agents is meant for others, except which libfabric to load.
 */
static void forget_environment(void)
{
    char name[128];

    for (char **at = environ; *at != NULL;) {
        size_t length = strcspn(*at, "=");

        if (strncmp(*at, "KVRAIL_", 7) != 0 || strncmp(*at, "KVRAIL_LIBFABRIC=", 17) == 0 ||
            length >= sizeof(name)) {
            at++;
            continue;
        }
        memcpy(name, *at, length);
        name[length] = '\0';
        (void)unsetenv(name); /* moves the rest up */
    }
}

static void become(const char *program, const char *log, char **arguments)
{
    int file = open(log, O_WRONLY | O_CREAT | O_APPEND, 0600);

    (void)prctl(PR_SET_PDEATHSIG, SIGTERM);
    signal(SIGINT, SIG_IGN);
    signal(SIGTERM, SIG_DFL);
    if (file >= 0) {
        (void)dup2(file, STDOUT_FILENO);
        (void)dup2(file, STDERR_FILENO);
    }
    forget_environment();
    execv(program, arguments);
    fprintf(stderr, "%s: %s\n", program, strerror(errno));
    _exit(127);
}

pid_t bench_program_start(const char *folder, const char *program,
                          struct bench_arguments *arguments, bool (*enter)(const void *self),
                          const void *self)
{
    char path[BENCH_PATH_BYTES + 32], log[BENCH_PATH_BYTES + 32], directory[BENCH_PATH_BYTES];
    pid_t pid;

    if (!own_directory(directory))
        return 0;
    snprintf(path, sizeof(path), "%s/%s", directory, program);
    snprintf(log, sizeof(log), "%s/%s.log", folder, program);
    arguments->list[0] = path;
    arguments->list[arguments->count] = NULL;
    (void)fflush(NULL);
    pid = fork();
    if (pid == 0 && enter != NULL && !enter(self))
        _exit(126);
    if (pid == 0)
        become(path, log, arguments->list);
    return pid > 0 ? pid : 0;
}

bool bench_program_failed(const char *folder, const char *program)
{
    char path[BENCH_PATH_BYTES + 32], text[LOG_TAIL_BYTES + 1];
    FILE *file;
    size_t got;

    if (interrupts() > 0) {
        fprintf(stderr, "kvrail bench: interrupted\n");
        return false;
    }
    fprintf(stderr, "kvrail bench: the %s did not start; its log ends:\n", program);
    snprintf(path, sizeof(path), "%s/%s.log", folder, program);
    file = fopen(path, "re");
    if (file == NULL)
        return false;
    if (fseek(file, -LOG_TAIL_BYTES, SEEK_END) != 0)
        rewind(file);
    got = fread(text, 1, LOG_TAIL_BYTES, file);
    text[got] = '\0';
    fputs(text, stderr);
    fclose(file);
    return false;
}

bool bench_program_await(const char *path, pid_t pid)
{
    struct stat status;

    for (int tries = 0; tries < START_TRIES && interrupts() == 0; tries++) {
        if (stat(path, &status) == 0 && (S_ISSOCK(status.st_mode) || status.st_size > 0))
            return true;
        if (kill(pid, 0) != 0 || waitpid(pid, NULL, WNOHANG) == pid)
            return false;
        (void)poll(NULL, 0, 10);
    }
    return false;
}

unsigned bench_program_port(const char *path)
{
    FILE *file = fopen(path, "re");
    unsigned port = 0;

    if (file == NULL || fscanf(file, "%u", &port) != 1)
        port = 0;
    if (file != NULL)
        fclose(file);
    return port;
}
