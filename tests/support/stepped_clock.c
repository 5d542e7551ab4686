/* A wall clock that a test steps: LD_PRELOAD=stepped_clock.so, KVRAIL_STEPPED_CLOCK=FILE.
 *
 * FILE has 16 bytes: at 0 how many nanoseconds CLOCK_REALTIME is ahead (signed), at 8 how often a
 * program was given a time that was shifted. Both change while the program runs. The monotonic
 * clocks are the kernel's. Without a file nothing is shifted. */
#include <fcntl.h>
#include <stdatomic.h>
#include <stdint.h>
#include <stdlib.h>
#include <sys/mman.h>
#include <sys/syscall.h>
#include <sys/time.h>
#include <time.h>
#include <unistd.h>

#define NS_PER_S 1000000000ll
#define EXPORTED __attribute__((visibility("default")))

struct clock_page {
    _Atomic int64_t ahead_ns;
    _Atomic uint64_t shifted;
};

static struct clock_page *page; /* NULL: no file */

__attribute__((constructor)) static void open_page(void)
{
    const char *path = getenv("KVRAIL_STEPPED_CLOCK");
    int file = path != NULL ? open(path, O_RDWR | O_CLOEXEC) : -1;
    void *mapped;

    if (file < 0)
        return;
    mapped = mmap(NULL, sizeof(*page), PROT_READ | PROT_WRITE, MAP_SHARED, file, 0);
    close(file);
    if (mapped != MAP_FAILED)
        page = mapped;
}

static void shift(struct timespec *time)
{
    int64_t ahead = page != NULL ? atomic_load(&page->ahead_ns) : 0;
    int64_t ns = (int64_t)time->tv_sec * NS_PER_S + time->tv_nsec + ahead;

    if (ahead == 0)
        return;
    atomic_fetch_add(&page->shifted, 1);
    time->tv_sec = ns / NS_PER_S;
    time->tv_nsec = ns % NS_PER_S;
}

EXPORTED int clock_gettime(clockid_t clock, struct timespec *ret_time)
{
    int result = (int)syscall(SYS_clock_gettime, clock, ret_time);

    if (result == 0 && (clock == CLOCK_REALTIME || clock == CLOCK_REALTIME_COARSE))
        shift(ret_time);
    return result;
}

EXPORTED int gettimeofday(struct timeval *restrict ret_time, void *restrict zone)
{
    struct timespec now;

    (void)zone;
    if (clock_gettime(CLOCK_REALTIME, &now) != 0)
        return -1;
    ret_time->tv_sec = now.tv_sec;
    ret_time->tv_usec = now.tv_nsec / 1000;
    return 0;
}

EXPORTED time_t time(time_t *ret_time)
{
    struct timespec now;

    if (clock_gettime(CLOCK_REALTIME, &now) != 0)
        return -1;
    if (ret_time != NULL)
        *ret_time = now.tv_sec;
    return now.tv_sec;
}
