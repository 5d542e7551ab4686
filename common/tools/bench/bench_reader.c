#include "tools/bench/bench_reader.h"

#include <stdio.h>
#include <string.h>

#include "tools/bench/bench_child.h"

#define PAUSE_NS (100 * KVR_MS)
#define ID_BYTES 24

static json_t *ask(struct bench_reader *reader, const char *path, const char *member)
{
    struct kvr_error error = {0};
    kvr_ns begin = kvr_clock_now();
    json_t *answer = scheduler_get(reader->call, path, member, &error);

    if (answer != NULL) {
        kvr_histogram_record(&reader->times, kvr_clock_now() - begin);
    } else if (error.status != KVR_NOT_FOUND) { /* an opening has become a transfer */
        reader->unanswered++;
    }
    return answer;
}

/* The last of the list becomes the one that is looked at. */
static void ask_list(struct bench_reader *reader, const char *path, char id[ID_BYTES])
{
    json_t *list = ask(reader, path, "transfers");
    const char *last =
        json_string_value(json_object_get(json_array_get(list, json_array_size(list) - 1), "id"));

    if (last != NULL)
        snprintf(id, ID_BYTES, "%s", last);
    json_decref(list);
}

static void ask_one(struct bench_reader *reader, const char *id)
{
    char path[sizeof("/api/v1/transfers/") + ID_BYTES];

    if (id[0] == '\0')
        return;
    snprintf(path, sizeof(path), "/api/v1/transfers/%s", id);
    json_decref(ask(reader, path, NULL));
}

static void *reader_main(void *self)
{
    static const char *const lists[] = {
        "/api/v1/transfers?limit=50",
        "/api/v1/transfers?state=live&limit=50",
        "/api/v1/transfers?state=done&limit=50",
    };
    struct bench_reader *reader = self;
    char id[ID_BYTES] = "";

    for (unsigned turn = 0; !atomic_load(&reader->stopping); turn++) {
        unsigned question = turn % 5;

        if (question < 3)
            ask_list(reader, lists[question], id);
        else if (question == 3)
            ask_one(reader, id);
        else
            json_decref(ask(reader, "/api/v1/summary", NULL));
        bench_sleep(PAUSE_NS);
    }
    return NULL;
}

kvr_status bench_reader_start(struct bench_reader *reader, const struct scheduler_call *call,
                              struct kvr_error *error)
{
    int failure;

    reader->call = call;
    kvr_histogram_init(&reader->times);
    failure = pthread_create(&reader->thread, NULL, reader_main, reader);
    if (failure != 0)
        return kvr_error_system(error, "bench", failure, "no thread for the reader");
    return KVR_OK;
}

void bench_reader_stop(struct bench_reader *reader)
{
    atomic_store(&reader->stopping, true);
    pthread_join(reader->thread, NULL);
}
