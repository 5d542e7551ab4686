#include "base/fault_guard.h"

#include <errno.h>
#include <signal.h>
#include <stdatomic.h>
#include <stddef.h>
#include <stdlib.h>
#include <sys/mman.h>

#define CLAIMED 1 /* a base that is being set: no address is in it */

/* Never freed, so that the handler may read them at any time. */
struct guard {
    _Atomic uintptr_t base; /* 0: free */
    _Atomic uint64_t bytes;
    _Atomic bool broken;
    struct guard *next;
};

static struct guard *_Atomic guards;
static _Atomic uint64_t faults;

static struct guard *guard_of(uintptr_t address)
{
    for (struct guard *guard = atomic_load(&guards); guard != NULL; guard = guard->next) {
        uintptr_t base = atomic_load(&guard->base);

        if (base > CLAIMED && address >= base && address - base < atomic_load(&guard->bytes))
            return guard;
    }
    return NULL;
}

/* Huge pages can only be replaced whole. */
static bool replace(uintptr_t address)
{
    static const uint64_t units[] = {4096, 16384, 65536, 2u << 20, 32u << 20, 512u << 20, 1u << 30};

    for (size_t i = 0; i < sizeof(units) / sizeof(units[0]); i++)
        if (mmap((void *)(address & ~(uintptr_t)(units[i] - 1)), units[i], PROT_READ | PROT_WRITE,
                 MAP_FIXED | MAP_PRIVATE | MAP_ANONYMOUS | MAP_NORESERVE, -1, 0) != MAP_FAILED)
            return true;
    return false;
}

static void on_fault(int number, siginfo_t *info, void *context)
{
    int saved_errno = errno;
    uintptr_t address = (uintptr_t)info->si_addr;
    struct guard *guard = guard_of(address);

    (void)context;
    if (info->si_code > 0 && guard != NULL && replace(address)) { /* else some process sent it */
        atomic_store(&guard->broken, true);
        atomic_fetch_add(&faults, 1);
    } else {
        signal(number, SIG_DFL); /* the touch is repeated */
    }
    errno = saved_errno;
}

void kvr_fault_guard_install(void)
{
    struct sigaction action = {.sa_sigaction = on_fault, .sa_flags = SA_SIGINFO | SA_RESTART};

    sigemptyset(&action.sa_mask);
    sigaction(SIGBUS, &action, NULL);
}

static struct guard *claim(void)
{
    struct guard *guard, *first;

    for (guard = atomic_load(&guards); guard != NULL; guard = guard->next) {
        uintptr_t free_base = 0;

        if (atomic_compare_exchange_strong(&guard->base, &free_base, CLAIMED))
            return guard;
    }
    guard = calloc(1, sizeof(*guard));
    if (guard == NULL)
        return NULL;
    atomic_store(&guard->base, CLAIMED);
    first = atomic_load(&guards);
    do {
        guard->next = first;
    } while (!atomic_compare_exchange_weak(&guards, &first, guard));
    return guard;
}

void kvr_fault_guard_add(const void *base, uint64_t bytes)
{
    struct guard *guard = claim();

    if (guard == NULL)
        return;
    atomic_store(&guard->bytes, bytes);
    atomic_store(&guard->broken, false);
    atomic_store(&guard->base, (uintptr_t)base);
}

void kvr_fault_guard_remove(const void *base)
{
    for (struct guard *guard = atomic_load(&guards); guard != NULL; guard = guard->next)
        if (atomic_load(&guard->base) == (uintptr_t)base)
            atomic_store(&guard->base, 0);
}

uint64_t kvr_fault_guard_faults(void)
{
    return atomic_load(&faults);
}

const void *kvr_fault_guard_broken(void)
{
    for (struct guard *guard = atomic_load(&guards); guard != NULL; guard = guard->next)
        if (atomic_load(&guard->base) > CLAIMED && atomic_exchange(&guard->broken, false))
            return (const void *)atomic_load(&guard->base);
    return NULL;
}
