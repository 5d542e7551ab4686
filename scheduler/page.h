/* The web page's files: compiled in, or read from a folder while the page is developed. */
#ifndef KVR_SCHEDULER_PAGE_H
#define KVR_SCHEDULER_PAGE_H

#include <stdbool.h>
#include <stddef.h>

#define PAGE_ETAG_BYTES 24

struct page {
    const char *type;
    const char *begin; /* static when compiled in, else malloc'ed */
    size_t size;
    bool owned;
    bool kept_for_ever; /* its name has a hash of its contents */
    char etag[PAGE_ETAG_BYTES];
};

/* False: there is no such file. Free with page_done. */
bool page_get(const char *web_root, const char *path, struct page *ret_page);
/* It is a path of the page; there may be no such file. */
bool page_is(const char *path);
void page_done(struct page *page);

#endif
