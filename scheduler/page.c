#include "scheduler/page.h"

#include <limits.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <xxhash.h>

#include "scheduler/embedded.h"

#define FILE_BYTES_MAX ((size_t)4 << 20)

static bool read_file(const char *web_root, const char *name, struct page *page)
{
    char path[PATH_MAX];
    FILE *file;
    char *bytes;

    if (snprintf(path, sizeof(path), "%s/%s", web_root, name) >= (int)sizeof(path))
        return false;
    file = fopen(path, "rbe");
    if (file == NULL)
        return false;
    bytes = malloc(FILE_BYTES_MAX);
    if (bytes != NULL)
        page->size = fread(bytes, 1, FILE_BYTES_MAX, file);
    fclose(file);
    page->begin = bytes;
    page->owned = true;
    return bytes != NULL;
}

static const struct embedded_file *find(const char *path)
{
    for (size_t i = 0; i < embedded_page_count; i++)
        if (strcmp(embedded_pages[i].name, path) == 0)
            return &embedded_pages[i];
    return NULL;
}

bool page_is(const char *path)
{
    return find(path) != NULL;
}

bool page_get(const char *web_root, const char *path, struct page *ret_page)
{
    const struct embedded_file *file = find(path);

    if (file == NULL)
        return false;
    *ret_page = (struct page){
        .type = file->type, .begin = file->begin, .size = (size_t)(file->end - file->begin)};
    if (web_root != NULL && !read_file(web_root, file->file, ret_page))
        return false;
    snprintf(ret_page->etag, sizeof(ret_page->etag), "\"%016llx\"",
             (unsigned long long)XXH64(ret_page->begin, ret_page->size, 0));
    return true;
}

void page_done(struct page *page)
{
    if (page->owned)
        free((char *)page->begin);
}
