#include "scheduler/kept.h"

#include <stdio.h>
#include <string.h>

struct ready *kept_find(const struct kept *kept, const char *key, uint64_t changes, kvr_ns now)
{
    for (int i = 0; i < KEPT_MAX; i++) {
        const struct kept_answer *answer = &kept->answers[i];

        if (answer->ready != NULL && strcmp(answer->key, key) == 0)
            return answer->changes == changes && now < answer->made_at + KEPT_NS
                       ? ready_share(answer->ready)
                       : NULL;
    }
    return NULL;
}

void kept_put(struct kept *kept, const char *key, uint64_t changes, kvr_ns made_at,
              struct ready *ready)
{
    struct kept_answer *place = &kept->answers[0];

    for (int i = 0; i < KEPT_MAX; i++) {
        struct kept_answer *answer = &kept->answers[i];

        if (strcmp(answer->key, key) == 0) {
            place = answer;
            break;
        }
        if (answer->made_at < place->made_at)
            place = answer;
    }
    ready_drop(place->ready);
    place->ready = ready_share(ready);
    place->changes = changes;
    place->made_at = made_at;
    snprintf(place->key, sizeof(place->key), "%s", key);
}

void kept_drop(struct kept *kept)
{
    for (int i = 0; i < KEPT_MAX; i++)
        ready_drop(kept->answers[i].ready);
    memset(kept, 0, sizeof(*kept));
}
