#include "tools/bench/bench_ping_account.h"

#include <stdint.h>
#include <stdlib.h>
#include <string.h>

static const struct {
    const char *name, *text;
} stations[PING_STATION_END] = {
    [PING_ASKED] = {"asked", ""},
    [PING_SEEN] = {"seen", "the source's rail thread wakes and finds it"},
    [PING_POSTED] = {"posted", "it chooses a rail, and the provider takes the page"},
    [PING_LANDED] = {"landed", "the target's rail thread wakes and receives it"},
    [PING_LOOP] = {"loop", "the target's loop wakes"},
    [PING_TOLD] = {"told", "it decides to tell the engine"},
    [PING_READ] = {"read", "it sends, and the engine wakes and reads"},
};

const char *ping_station_name(ping_station station)
{
    return stations[station].name;
}

const char *ping_station_text(ping_station station)
{
    return stations[station].text;
}

static kvr_ns total(const struct ping_sample *sample)
{
    int last = PING_STATION_END - 1;

    while (last > PING_ASKED && sample->at[last] == 0)
        last--;
    return sample->at[last] - sample->at[PING_ASKED];
}

static int by_total(const void *a, const void *b)
{
    kvr_ns left = total(a), right = total(b);

    return (left > right) - (left < right);
}

/* Nearest rank, in microseconds. */
static double percentile(const struct ping_sample *samples, size_t count, size_t percent)
{
    return (double)total(&samples[(count * percent + 99) / 100 - 1]) / 1e3;
}

/* A station may be passed before the one in front of it: a target can have a page before the call
 * that posted it has returned. */
static void add_parts(const struct ping_sample *sample, struct ping_account *account)
{
    kvr_ns before = sample->at[PING_ASKED];

    for (int i = PING_ASKED + 1; i < PING_STATION_END; i++) {
        if (sample->at[i] == 0)
            continue;
        account->on_way[i] = true;
        account->parts_us[i] += (double)(int64_t)(sample->at[i] - before) / 1e3;
        before = sample->at[i];
    }
}

void ping_account_make(struct ping_sample *samples, size_t count, struct ping_account *ret_account)
{
    size_t first = count * 2 / 5, end = count * 3 / 5;

    memset(ret_account, 0, sizeof(*ret_account));
    ret_account->count = count;
    if (count == 0)
        return;
    end = end > first ? end : first + 1;
    qsort(samples, count, sizeof(*samples), by_total);
    ret_account->p50_us = percentile(samples, count, 50);
    ret_account->p99_us = percentile(samples, count, 99);
    for (size_t i = first; i < end; i++) {
        ret_account->middle_us += (double)total(&samples[i]) / 1e3;
        add_parts(&samples[i], ret_account);
    }
    ret_account->middle_us /= (double)(end - first);
    for (int i = 0; i < PING_STATION_END; i++)
        ret_account->parts_us[i] /= (double)(end - first);
}
