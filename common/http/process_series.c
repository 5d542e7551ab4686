#include "http/process_series.h"

#include <dirent.h>
#include <stdio.h>
#include <string.h>
#include <sys/resource.h>
#include <time.h>
#include <unistd.h>

static unsigned open_files(void)
{
    DIR *folder = opendir("/proc/self/fd");
    unsigned count = 0;

    if (folder == NULL)
        return 0;
    while (readdir(folder) != NULL)
        count++;
    closedir(folder);
    return count > 3 ? count - 3 : 0; /* ".", ".." and the folder itself */
}

struct process_stat {
    unsigned long long user_ticks, system_ticks, start_ticks, virtual_bytes;
    long long resident_pages;
};

/* The command's name, in brackets, may hold anything. */
static bool read_stat(struct process_stat *ret_stat)
{
    char line[1024];
    FILE *file = fopen("/proc/self/stat", "re");
    const char *rest;
    bool read = file != NULL && fgets(line, sizeof(line), file) != NULL;

    if (file != NULL)
        fclose(file);
    rest = read ? strrchr(line, ')') : NULL;
    return rest != NULL &&
           sscanf(rest + 1,
                  " %*c %*d %*d %*d %*d %*d %*u %*u %*u %*u %*u %llu %llu %*d %*d %*d %*d %*d %*d "
                  "%llu %llu %lld",
                  &ret_stat->user_ticks, &ret_stat->system_ticks, &ret_stat->start_ticks,
                  &ret_stat->virtual_bytes, &ret_stat->resident_pages) == 5;
}

static double boot_time(void)
{
    struct timespec wall, since_boot;

    clock_gettime(CLOCK_REALTIME, &wall);
    clock_gettime(CLOCK_BOOTTIME, &since_boot);
    return (double)(wall.tv_sec - since_boot.tv_sec) +
           (double)(wall.tv_nsec - since_boot.tv_nsec) / 1e9;
}

void process_series_write(struct exposition *out)
{
    double ticks = (double)sysconf(_SC_CLK_TCK);
    struct process_stat stat;
    struct rlimit files;

    if (read_stat(&stat)) {
        exposition_one(out, true, "process_cpu_seconds_total", "CPU time of the process.",
                       (double)(stat.user_ticks + stat.system_ticks) / ticks);
        exposition_one(out, false, "process_start_time_seconds",
                       "When the process started, in seconds of 1970.",
                       boot_time() + (double)stat.start_ticks / ticks);
        exposition_one(out, false, "process_virtual_memory_bytes", "Address space of the process.",
                       (double)stat.virtual_bytes);
        exposition_one(out, false, "process_resident_memory_bytes",
                       "Memory that the process holds.",
                       (double)stat.resident_pages * (double)sysconf(_SC_PAGESIZE));
    }
    exposition_one(out, false, "process_open_fds", "Open file descriptors.", open_files());
    if (getrlimit(RLIMIT_NOFILE, &files) == 0)
        exposition_one(out, false, "process_max_fds", "How many may be open.",
                       (double)files.rlim_cur);
}
