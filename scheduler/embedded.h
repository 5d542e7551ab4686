/* Files that are compiled into the program: the schema's migrations, the web page, and the document
 * of the API. */
#ifndef KVR_SCHEDULER_EMBEDDED_H
#define KVR_SCHEDULER_EMBEDDED_H

#include <stddef.h>

struct embedded_file {
    const char *name; /* of the page and the document: its path, "/openapi.json"; of a migration:
                         its file name */
    const char *file; /* its name in the folder it comes from */
    const char *type; /* content type */
    const char *begin, *end;
};

extern const struct embedded_file embedded_pages[];
extern const size_t embedded_page_count;

extern const struct embedded_file embedded_openapi; /* the document of the API */

/* embedded_migrations[v] brings a database from version v to v + 1. */
extern const struct embedded_file embedded_migrations[];
extern const int embedded_migration_count;
/* Those of PostgreSQL, each with the number of the version that it leads to. */
extern const struct embedded_file embedded_postgres[];
extern const int embedded_postgres_count;

#endif
