/* What a libfabric for tcp alone has in place of the rest. link_libfabric.sh links it with
 * libfabric's own objects (libfabric.a), and names in ABSENT(X) the providers to leave out:
 * X(fi_verbs_ini) …
 *
 * Their objects are not linked, so the library needs no librdmacm, libibverbs or libefa. The
 * objects were compiled for programs: they reach variables directly, which in a shared library
 * works only with variables of its own. So it has its own of the four that are the C library's. */
#include <dlfcn.h>
#include <netinet/in.h>
#include <stddef.h>

#define HIDDEN __attribute__((visibility("hidden")))

struct fi_provider;

/* libfabric does the same for a provider that it was configured without. */
#define NONE(init)                                                                                 \
    struct fi_provider *init(void);                                                                \
    HIDDEN struct fi_provider *init(void)                                                          \
    {                                                                                              \
        return NULL;                                                                               \
    }
ABSENT(NONE)

HIDDEN const struct in6_addr own_any __asm__("in6addr_any") = IN6ADDR_ANY_INIT;
HIDDEN const struct in6_addr own_loopback __asm__("in6addr_loopback") = IN6ADDR_LOOPBACK_INIT;

/* The end of the heap, for hooks of a cache of registrations. tcp has no such cache. */
HIDDEN void *own_break __asm__("__curbrk");

/* Where the log goes: the same stream. */
HIDDEN void *own_stderr __asm__("stderr");

__attribute__((constructor(101))) static void take_stderr(void)
{
    void **stream = dlsym(RTLD_NEXT, "stderr");

    own_stderr = stream != NULL ? *stream : NULL;
}
