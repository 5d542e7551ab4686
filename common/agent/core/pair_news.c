#include "agent/core/pair_news.h"

#include <stddef.h>

void pair_news_forget(struct pair_news *news, uint32_t peer)
{
    news->lost[peer] = 0;
}

/* Of our rail with the peer's. A spare pair says nothing: it is for when the others do not work. */
static bool is_broken(const struct kvr_pair_facts *row)
{
    return row->state == KVR_PAIR_UNREACHABLE || row->state == KVR_PAIR_SLOW;
}

/* The last broken pair of the rail. NULL: it reaches the peer, as far as is known. */
static const struct kvr_pair_facts *loss_of(const struct kvr_pair_facts *rows, uint32_t count,
                                            uint32_t rail, bool *ret_warm)
{
    const struct kvr_pair_facts *broken = NULL;
    bool works = false;

    *ret_warm = false;
    for (uint32_t i = 0; i < count; i++) {
        if (rows[i].rail != rail)
            continue;
        if (is_broken(&rows[i]))
            broken = &rows[i];
        works = works || rows[i].state == KVR_PAIR_UP || rows[i].state == KVR_PAIR_WARM;
        *ret_warm = *ret_warm || rows[i].state == KVR_PAIR_WARM;
    }
    return works ? NULL : broken;
}

uint32_t pair_news_take(struct pair_news *news, uint32_t peer, const struct kvr_pair_facts *rows,
                        uint32_t count, struct pair_news_item ret_items[KVR_RAILS_MAX])
{
    uint32_t item_count = 0;

    for (uint32_t rail = 0; rail < KVR_RAILS_MAX; rail++) {
        uint64_t bit = UINT64_C(1) << rail;
        bool warm, said = (news->lost[peer] & bit) != 0;
        const struct kvr_pair_facts *loss = loss_of(rows, count, rail, &warm);

        if (said ? !warm : loss == NULL)
            continue;
        news->lost[peer] ^= bit;
        ret_items[item_count++] = (struct pair_news_item){
            .lost = !said, .rail = rail, .detail = loss != NULL ? loss->detail : ""};
    }
    return item_count;
}
