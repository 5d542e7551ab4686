#include "base/data_path.h"

#include <string.h>

const char *kvr_path_name(kvr_path path)
{
    static const char *const names[] = {KVR_PATH_LIST(KVR_NAME)};

    return path > KVR_PATH_NONE && path < KVR_PATH_END ? names[path] : "";
}

kvr_path kvr_path_from_name(const char *name)
{
    int path = KVR_PATH_END - 1;

    while (path > KVR_PATH_NONE && strcmp(kvr_path_name((kvr_path)path), name) != 0)
        path--;
    return (kvr_path)path;
}
