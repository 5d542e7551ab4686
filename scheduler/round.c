#include "scheduler/round.h"

#include <string.h>

void round_begin(struct round *round)
{
    round->count = round->answered = 0;
}

void round_add(struct round *round, const struct kvr_report *report)
{
    if (round->count == ROUND_MAX)
        return;
    round->starts[round->count] = (struct store_start){report->agent, report->boot};
    round->reports[round->count++] = report;
}

void round_find_orders(struct round *round, struct store *store)
{
    if (round->count == 0 ||
        !store_find_orders(store, round->starts, round->count, round->has_orders))
        memset(round->has_orders, 0, sizeof(round->has_orders));
}

bool round_next_has_orders(struct round *round)
{
    return round->answered < round->count && round->has_orders[round->answered++];
}
