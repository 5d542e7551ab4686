#include "fabric/ofi/fabric_ofi_library.h"

#include <assert.h>
#include <dlfcn.h>
#include <link.h>
#include <pthread.h>
#include <rdma/fabric.h>
#include <rdma/fi_errno.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#define FILE_NAME "libfabric.so.1"

/* The forms of libfabric's structs are bound to versions of its symbols. The build names those of
 * the headers: KVR_VERSION_fi_getinfo is "FABRIC_1.3" with 1.17. */
#define SYMBOLS(X)                                                                                 \
    X(fi_dupinfo)                                                                                  \
    X(fi_fabric) X(fi_freeinfo) X(fi_getinfo) X(fi_strerror) X(fi_tostr) X(fi_version)

#define MEMBER(name) __typeof__(&name) name;
static struct {
    pthread_once_t once;
    char folder[KVR_LIBFABRIC_FOLDER_BYTES]; /* "" = the loader looks for it */
    bool loaded;
    struct {
        SYMBOLS(MEMBER)
    } calls;
    struct kvr_error error; /* why it is not loaded */
    char version[32];
    char description[2 * KVR_DETAIL_BYTES];
} library = {.once = PTHREAD_ONCE_INIT};

static const char *file_of(void *handle)
{
    struct link_map *map = NULL;

    return dlinfo(handle, RTLD_DI_LINKMAP, &map) == 0 ? map->l_name : FILE_NAME;
}

static kvr_status symbol(void *handle, const char *name, const char *version, void *ret_call)
{
    void *found = dlvsym(handle, name, version);

    if (found == NULL)
        return kvr_error_set(&library.error, KVR_UNSUPPORTED, "libfabric",
                             "%s has no %s of version %s, which kvrail is built with: choose a "
                             "libfabric of %d.%d or later with --libfabric",
                             file_of(handle), name, version, FI_MAJOR_VERSION, FI_MINOR_VERSION);
    memcpy(ret_call, &found, sizeof(found));
    return KVR_OK;
}

static kvr_status symbols(void *handle)
{
#define FIND(name) KVR_TRY(symbol(handle, #name, KVR_VERSION_##name, &library.calls.name));
    SYMBOLS(FIND)
    return KVR_OK;
}

/* Before the other symbols are looked for: an older library lacks some; its version says more. */
static kvr_status is_new_enough(void *handle)
{
    uint32_t version;

    KVR_TRY(symbol(handle, "fi_version", KVR_VERSION_fi_version, &library.calls.fi_version));
    version = library.calls.fi_version();
    if (FI_VERSION_LT(version, FI_VERSION(FI_MAJOR_VERSION, FI_MINOR_VERSION)))
        return kvr_error_set(&library.error, KVR_UNSUPPORTED, "libfabric",
                             "%s is libfabric %u.%u, but kvrail is built with the API of %d.%d: "
                             "choose that version or a later one with --libfabric",
                             file_of(handle), FI_MAJOR(version), FI_MINOR(version),
                             FI_MAJOR_VERSION, FI_MINOR_VERSION);
    return KVR_OK;
}

static void describe(void *handle)
{
    static const int anything = 0; /* 1.17 answers NULL where there is no datum to describe */

    snprintf(library.version, sizeof(library.version), "%s",
             library.calls.fi_tostr(&anything, FI_TYPE_VERSION));
    snprintf(library.description, sizeof(library.description),
             "libfabric %s of %s, kvrail is built with its API %d.%d", library.version,
             file_of(handle), FI_MAJOR_VERSION, FI_MINOR_VERSION);
}

static kvr_status load_from(const char *folder)
{
    char path[KVR_LIBFABRIC_FOLDER_BYTES + sizeof("/" FILE_NAME)];
    void *handle;

    snprintf(path, sizeof(path), "%s%s" FILE_NAME, folder, folder[0] != '\0' ? "/" : "");
    handle = dlopen(path, RTLD_NOW | RTLD_LOCAL);
    if (handle == NULL && folder[0] != '\0')
        return kvr_error_set(&library.error, KVR_INVALID, "libfabric",
                             "--libfabric is '%s', but the library there cannot be loaded: %s",
                             folder, dlerror());
    if (handle == NULL)
        return kvr_error_set(&library.error, KVR_NOT_FOUND, "libfabric",
                             "libfabric cannot be loaded: %s: install it, or name its folder with "
                             "--libfabric",
                             dlerror());
    KVR_TRY(is_new_enough(handle));
    KVR_TRY(symbols(handle));
    describe(handle);
    return KVR_OK;
}

static void load(void)
{
    const char *folder = library.folder;
    const char *named = getenv("KVRAIL_LIBFABRIC");

    if (folder[0] == '\0' && named != NULL)
        folder = named;
    library.loaded = load_from(folder) == KVR_OK; /* and stays until the process ends */
}

void kvr_libfabric_choose(const char *folder)
{
    assert(library.description[0] == '\0');
    snprintf(library.folder, sizeof(library.folder), "%s", folder);
}

kvr_status kvr_libfabric_load(struct kvr_error *error)
{
    (void)pthread_once(&library.once, load);
    if (library.loaded)
        return KVR_OK;
    if (error != NULL)
        *error = library.error;
    return library.error.status;
}

uint32_t kvr_libfabric_api(void)
{
    return FI_VERSION(FI_MAJOR_VERSION, FI_MINOR_VERSION);
}

const char *kvr_libfabric_version(void)
{
    return library.version;
}

const char *kvr_libfabric_describe(void)
{
    return library.description;
}

/* ---- libfabric's own functions --------------------------------------------------------------- */

struct fi_info *fi_dupinfo(const struct fi_info *info)
{
    return kvr_libfabric_load(NULL) == KVR_OK ? library.calls.fi_dupinfo(info) : NULL;
}

int fi_fabric(struct fi_fabric_attr *attr, struct fid_fabric **fabric, void *context)
{
    return kvr_libfabric_load(NULL) == KVR_OK ? library.calls.fi_fabric(attr, fabric, context)
                                              : -FI_ENOSYS;
}

void fi_freeinfo(struct fi_info *info)
{
    if (kvr_libfabric_load(NULL) == KVR_OK)
        library.calls.fi_freeinfo(info);
}

int fi_getinfo(uint32_t version, const char *node, const char *service, uint64_t flags,
               const struct fi_info *hints, struct fi_info **info)
{
    return kvr_libfabric_load(NULL) == KVR_OK
               ? library.calls.fi_getinfo(version, node, service, flags, hints, info)
               : -FI_ENOSYS;
}

const char *fi_strerror(int errnum)
{
    return kvr_libfabric_load(NULL) == KVR_OK ? library.calls.fi_strerror(errnum)
                                              : strerror(errnum);
}

char *fi_tostr(const void *data, enum fi_type datatype)
{
    static char none[] = "none";

    return kvr_libfabric_load(NULL) == KVR_OK ? library.calls.fi_tostr(data, datatype) : none;
}

uint32_t fi_version(void)
{
    return kvr_libfabric_load(NULL) == KVR_OK ? library.calls.fi_version() : 0;
}
