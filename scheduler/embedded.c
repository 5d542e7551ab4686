/* The assembler puts the files into read-only data: no generated source, and any size. The build
 * gives SCHEDULER_SOURCE_DIR, WEB_SOURCE_DIR, and WEB_SCRIPT and WEB_STYLE with hashes in them. It
 * knows that this file depends on theirs. */
#include "scheduler/embedded.h"

#define EMBED(symbol, path)                                                                        \
    __asm__(".section .rodata\n"                                                                   \
            ".balign 16\n"                                                                         \
            "embedded_" #symbol "_begin:\n"                                                        \
            ".incbin \"" path "\"\n"                                                               \
            "embedded_" #symbol "_end:\n"                                                          \
            ".byte 0\n"                                                                            \
            ".previous\n");                                                                        \
    extern const char embedded_##symbol##_begin[] __attribute__((visibility("hidden")));           \
    extern const char embedded_##symbol##_end[] __attribute__((visibility("hidden")))

#define EMBEDDED(name, file, type, symbol)                                                         \
    {                                                                                              \
        name, file, type, embedded_##symbol##_begin, embedded_##symbol##_end                       \
    }

EMBED(index_html, WEB_SOURCE_DIR "/index.html");
EMBED(script, WEB_SOURCE_DIR "/" WEB_SCRIPT);
EMBED(style, WEB_SOURCE_DIR "/" WEB_STYLE);
EMBED(licences, WEB_SOURCE_DIR "/LICENSES.txt");

const struct embedded_file embedded_pages[] = {
    EMBEDDED("/", "index.html", "text/html; charset=utf-8", index_html),
    EMBEDDED("/" WEB_SCRIPT, WEB_SCRIPT, "text/javascript; charset=utf-8", script),
    EMBEDDED("/" WEB_STYLE, WEB_STYLE, "text/css; charset=utf-8", style),
    EMBEDDED("/LICENSES.txt", "LICENSES.txt", "text/plain; charset=utf-8", licences),
};
const size_t embedded_page_count = sizeof(embedded_pages) / sizeof(embedded_pages[0]);

EMBED(openapi, SCHEDULER_SOURCE_DIR "/openapi.json");

const struct embedded_file embedded_openapi =
    EMBEDDED("/api/v1/openapi.json", "openapi.json", "application/json", openapi);

EMBED(migration_1, SCHEDULER_SOURCE_DIR "/migrations/0001_initial.sql");
EMBED(migration_2, SCHEDULER_SOURCE_DIR "/migrations/0002_requests.sql");
EMBED(migration_3, SCHEDULER_SOURCE_DIR "/migrations/0003_orders.sql");
EMBED(migration_4, SCHEDULER_SOURCE_DIR "/migrations/0004_ranks.sql");
EMBED(migration_5, SCHEDULER_SOURCE_DIR "/migrations/0005_path.sql");
EMBED(migration_6, SCHEDULER_SOURCE_DIR "/migrations/0006_rail_group.sql");
EMBED(migration_7, SCHEDULER_SOURCE_DIR "/migrations/0007_fragments.sql");
EMBED(migration_8, SCHEDULER_SOURCE_DIR "/migrations/0008_limits.sql");
EMBED(migration_9, SCHEDULER_SOURCE_DIR "/migrations/0009_warm.sql");
EMBED(migration_10, SCHEDULER_SOURCE_DIR "/migrations/0010_pruning.sql");
EMBED(migration_11, SCHEDULER_SOURCE_DIR "/migrations/0011_audit.sql");
EMBED(migration_12, SCHEDULER_SOURCE_DIR "/migrations/0012_secure.sql");
EMBED(migration_13, SCHEDULER_SOURCE_DIR "/migrations/0013_tenant.sql");
EMBED(migration_14, SCHEDULER_SOURCE_DIR "/migrations/0014_reasons.sql");
EMBED(migration_15, SCHEDULER_SOURCE_DIR "/migrations/0015_search.sql");
EMBED(migration_16, SCHEDULER_SOURCE_DIR "/migrations/0016_event_pack.sql");
EMBED(migration_17, SCHEDULER_SOURCE_DIR "/migrations/0017_not_done.sql");
EMBED(migration_18, SCHEDULER_SOURCE_DIR "/migrations/0018_agent_orders.sql");
EMBED(migration_19, SCHEDULER_SOURCE_DIR "/migrations/0019_spans.sql");
EMBED(migration_20, SCHEDULER_SOURCE_DIR "/migrations/0020_rollups.sql");
EMBED(migration_21, SCHEDULER_SOURCE_DIR "/migrations/0021_agent_options.sql");
EMBED(migration_22, SCHEDULER_SOURCE_DIR "/migrations/0022_pages_faults.sql");
EMBED(migration_23, SCHEDULER_SOURCE_DIR "/migrations/0023_engines_seen.sql");

const struct embedded_file embedded_migrations[] = {
    EMBEDDED("0001_initial.sql", "0001_initial.sql", "application/sql", migration_1),
    EMBEDDED("0002_requests.sql", "0002_requests.sql", "application/sql", migration_2),
    EMBEDDED("0003_orders.sql", "0003_orders.sql", "application/sql", migration_3),
    EMBEDDED("0004_ranks.sql", "0004_ranks.sql", "application/sql", migration_4),
    EMBEDDED("0005_path.sql", "0005_path.sql", "application/sql", migration_5),
    EMBEDDED("0006_rail_group.sql", "0006_rail_group.sql", "application/sql", migration_6),
    EMBEDDED("0007_fragments.sql", "0007_fragments.sql", "application/sql", migration_7),
    EMBEDDED("0008_limits.sql", "0008_limits.sql", "application/sql", migration_8),
    EMBEDDED("0009_warm.sql", "0009_warm.sql", "application/sql", migration_9),
    EMBEDDED("0010_pruning.sql", "0010_pruning.sql", "application/sql", migration_10),
    EMBEDDED("0011_audit.sql", "0011_audit.sql", "application/sql", migration_11),
    EMBEDDED("0012_secure.sql", "0012_secure.sql", "application/sql", migration_12),
    EMBEDDED("0013_tenant.sql", "0013_tenant.sql", "application/sql", migration_13),
    EMBEDDED("0014_reasons.sql", "0014_reasons.sql", "application/sql", migration_14),
    EMBEDDED("0015_search.sql", "0015_search.sql", "application/sql", migration_15),
    EMBEDDED("0016_event_pack.sql", "0016_event_pack.sql", "application/sql", migration_16),
    EMBEDDED("0017_not_done.sql", "0017_not_done.sql", "application/sql", migration_17),
    EMBEDDED("0018_agent_orders.sql", "0018_agent_orders.sql", "application/sql", migration_18),
    EMBEDDED("0019_spans.sql", "0019_spans.sql", "application/sql", migration_19),
    EMBEDDED("0020_rollups.sql", "0020_rollups.sql", "application/sql", migration_20),
    EMBEDDED("0021_agent_options.sql", "0021_agent_options.sql", "application/sql", migration_21),
    EMBEDDED("0022_pages_faults.sql", "0022_pages_faults.sql", "application/sql", migration_22),
    EMBEDDED("0023_engines_seen.sql", "0023_engines_seen.sql", "application/sql", migration_23),
};
const int embedded_migration_count = sizeof(embedded_migrations) / sizeof(embedded_migrations[0]);

EMBED(postgres_20, SCHEDULER_SOURCE_DIR "/migrations/postgres/0020_initial.sql");
EMBED(postgres_21, SCHEDULER_SOURCE_DIR "/migrations/postgres/0021_agent_options.sql");
EMBED(postgres_22, SCHEDULER_SOURCE_DIR "/migrations/postgres/0022_pages_faults.sql");
EMBED(postgres_23, SCHEDULER_SOURCE_DIR "/migrations/postgres/0023_engines_seen.sql");

const struct embedded_file embedded_postgres[] = {
    EMBEDDED("0020_initial.sql", "0020_initial.sql", "application/sql", postgres_20),
    EMBEDDED("0021_agent_options.sql", "0021_agent_options.sql", "application/sql", postgres_21),
    EMBEDDED("0022_pages_faults.sql", "0022_pages_faults.sql", "application/sql", postgres_22),
    EMBEDDED("0023_engines_seen.sql", "0023_engines_seen.sql", "application/sql", postgres_23),
};
const int embedded_postgres_count = sizeof(embedded_postgres) / sizeof(embedded_postgres[0]);
