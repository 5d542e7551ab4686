#include "agent/core/pair_news.h"

#include <string.h>

void pair_news_forget(struct pair_news *news, uint32_t peer)
{
    memset(news->said[peer], 0, sizeof(news->said[peer]));
}

/* What the pairs of one rail say together. */
struct verdict {
    enum pair_trouble trouble; /* the least of its pairs' */
    const char *detail;        /* of such a pair */
    bool warm;
};

static enum pair_trouble trouble_of(const struct kvr_pair_facts *row)
{
    if (!kvr_pair_in_trouble(row->state))
        return PAIR_FINE;
    return row->state == KVR_PAIR_SLOW ? PAIR_SLOW : PAIR_LOST;
}

/* A spare pair says nothing: it is for when the others do not work. */
static struct verdict verdict_of(const struct kvr_pair_facts *rows, uint32_t count, uint32_t rail)
{
    struct verdict verdict = {.trouble = PAIR_LOST, .detail = NULL};

    for (uint32_t i = 0; i < count; i++) {
        enum pair_trouble trouble = trouble_of(&rows[i]);

        if (rows[i].rail != rail || rows[i].state == KVR_PAIR_SPARE ||
            rows[i].state == KVR_PAIR_STATE_END)
            continue;
        if (trouble <= verdict.trouble) {
            verdict.trouble = trouble;
            verdict.detail = rows[i].detail;
        }
        verdict.warm = verdict.warm || rows[i].state == KVR_PAIR_WARM;
    }
    if (verdict.detail == NULL) /* nothing is known of it */
        verdict.trouble = PAIR_FINE;
    return verdict;
}

uint32_t pair_news_take(struct pair_news *news, uint32_t peer, const struct kvr_pair_facts *rows,
                        uint32_t count, struct pair_news_item ret_items[KVR_RAILS_MAX])
{
    uint32_t item_count = 0;

    for (uint32_t rail = 0; rail < KVR_RAILS_MAX; rail++) {
        struct verdict verdict = verdict_of(rows, count, rail);
        bool back = verdict.warm && verdict.trouble == PAIR_FINE;
        uint8_t *said = &news->said[peer][rail];

        if (*said != PAIR_FINE ? !back && verdict.trouble <= *said : verdict.trouble == PAIR_FINE)
            continue;
        *said = (uint8_t)verdict.trouble;
        ret_items[item_count++] =
            (struct pair_news_item){verdict.trouble, rail, back ? "" : verdict.detail};
    }
    return item_count;
}
