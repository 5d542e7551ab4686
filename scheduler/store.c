#include "scheduler/store.h"

#include <stdio.h>

#include "scheduler/store_postgres.h"
#include "scheduler/store_sqlite.h"

kvr_status store_open_writer(const struct store_place *place, struct store **ret_store,
                             struct kvr_error *error)
{
    return place->url != NULL ? store_postgres_open_writer(place, ret_store, error)
                              : store_sqlite_open_writer(place->folder, ret_store, error);
}

kvr_status store_open_reader(const struct store_place *place, struct store **ret_store,
                             struct kvr_error *error)
{
    return place->url != NULL ? store_postgres_open_reader(place, ret_store, error)
                              : store_sqlite_open_reader(place->folder, ret_store, error);
}

void store_place_name(const struct store_place *place, char name[STORE_NAME_BYTES])
{
    if (place->url != NULL)
        snprintf(name, STORE_NAME_BYTES, "%s", place->url);
    else
        snprintf(name, STORE_NAME_BYTES, "%s/kvrail.db", place->folder);
}

struct store *store_close(struct store *store)
{
    return store != NULL ? store->driver->close(store) : NULL;
}

void store_set_deadline(struct store *store, kvr_ns deadline)
{
    store->deadline = deadline;
}

bool store_timed_out(struct store *store)
{
    return store->driver->timed_out(store);
}

const char *store_problem(struct store *store)
{
    return store->driver->problem(store);
}

health_problem store_trouble(struct store *store)
{
    return store->driver->trouble(store);
}

bool store_has_moved(struct store *store)
{
    return store->driver->has_moved(store);
}

const char *store_journal_folder(const struct store *store)
{
    return store->driver->journal_folder != NULL ? store->driver->journal_folder(store) : NULL;
}

uint64_t store_size(struct store *store)
{
    return store->driver->size(store);
}

bool store_used(struct store *store, uint64_t *ret_bytes)
{
    return store->driver->used != NULL && store->driver->used(store, ret_bytes);
}

bool store_others_wrote(struct store *store)
{
    return store->driver->others_wrote != NULL && store->driver->others_wrote(store);
}

/* ---- news ---- */

bool store_news_wanted(struct store *store)
{
    return store->driver->news != NULL && store->driver->news->wanted(store);
}

bool store_news_add(struct store *store, const struct store_news *news)
{
    return store->driver->news->add(store, news);
}

bool store_news_read(struct store *store, store_news_visit *visit, void *self)
{
    return store->driver->news == NULL || store->driver->news->read(store, visit, self);
}

int64_t store_news_until(struct store *store)
{
    return store->driver->news != NULL ? store->driver->news->until(store) : 0;
}

bool store_news_lost(struct store *store)
{
    return store->driver->news != NULL && store->driver->news->lost(store);
}

bool store_leads(struct store *store)
{
    return store->driver->news == NULL || store->driver->news->leads(store);
}

bool store_news_prune(struct store *store)
{
    return store->driver->news == NULL || store->driver->news->prune(store);
}

/* ---- rounds ---- */

bool store_expects(struct store *store)
{
    return store->driver->expect != NULL;
}

bool store_expect(struct store *store, const struct store_expected *rows)
{
    return store->driver->expect == NULL || store->driver->expect(store, rows);
}

bool store_find_orders(struct store *store, const struct store_start *starts, size_t count,
                       bool ret_has[])
{
    if (store->driver->find_orders != NULL)
        return store->driver->find_orders(store, starts, count, ret_has);
    for (size_t i = 0; i < count; i++)
        ret_has[i] = true;
    return true;
}

/* ---- transactions ---- */

bool store_begin(struct store *store)
{
    return store->driver->begin(store);
}

bool store_commit(struct store *store)
{
    return store->driver->commit(store);
}

bool store_has_written(struct store *store)
{
    return store->driver->has_written(store);
}

void store_rollback(struct store *store)
{
    store->driver->rollback(store);
}

uint64_t store_changed(struct store *store)
{
    return store->driver->changed(store);
}

int64_t store_next_id(struct store *store)
{
    return store->driver->next_id(store);
}

int64_t store_new_id(struct store *store, int64_t id)
{
    return store->driver->new_id(store, id);
}
