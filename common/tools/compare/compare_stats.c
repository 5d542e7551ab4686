#include "tools/compare/compare_stats.h"

#include <math.h>
#include <stdlib.h>
#include <string.h>

#include "base/rng.h"

#define DRAWS_MAX  4000
#define DRAWS_MIN  2000
#define WORK_BOUND 100e6 /* draws times pairs */

static const struct {
    const char *name;
    double percent;
} figures[] = {COMPARE_FIGURE_LIST(KVR_ROW)};

const char *compare_figure_name(compare_figure figure)
{
    return figures[figure].name;
}

struct draws {
    double *a, *b;                           /* one draw of each list */
    double *differences[COMPARE_FIGURE_END]; /* of each draw */
    size_t count;                            /* draws */
};

static void exchange(double *one, double *other)
{
    double kept = *one;

    *one = *other;
    *other = kept;
}

/* The value that would stand at `place` if the list were sorted. The list changes its order. */
static double select_place(double *list, size_t count, size_t place)
{
    size_t first = 0, end = count;

    while (end - first > 1) {
        double pivot = list[first + (end - first) / 2];
        size_t low = first, high = end - 1;

        while (low <= high) {
            while (list[low] < pivot)
                low++;
            while (list[high] > pivot)
                high--;
            if (low > high)
                break;
            exchange(&list[low++], &list[high]);
            if (high == 0)
                break;
            high--;
        }
        if (place <= high)
            end = high + 1;
        else if (place >= low)
            first = low;
        else
            return list[place];
    }
    return list[first];
}

static double figure_of(double *list, size_t count, compare_figure figure)
{
    double sum = 0;

    if (figures[figure].percent >= 0) {
        size_t place = (size_t)ceil(figures[figure].percent / 100 * (double)count);

        return select_place(list, count, place > 0 ? place - 1 : 0);
    }
    for (size_t i = 0; i < count; i++)
        sum += list[i];
    return sum / (double)count;
}

static size_t end_of(const struct compare_pairs *pairs, size_t request)
{
    return request + 1 < pairs->requests ? pairs->firsts[request + 1] : pairs->count;
}

/* The same requests in both lists, so that what both have in common falls out. Returns the number
 * of pairs. */
static size_t draw(struct draws *draws, const struct compare_pairs *pairs, struct kvr_rng *rng)
{
    size_t drawn = 0;

    for (size_t i = 0; i < pairs->requests; i++) {
        size_t request = (size_t)(kvr_rng_next(rng) % pairs->requests);
        size_t first = pairs->firsts != NULL ? pairs->firsts[request] : request;
        size_t end = pairs->firsts != NULL ? end_of(pairs, request) : request + 1;

        memcpy(draws->a + drawn, pairs->a + first, (end - first) * sizeof(double));
        memcpy(draws->b + drawn, pairs->b + first, (end - first) * sizeof(double));
        drawn += end - first;
    }
    return drawn;
}

/* Of all draws. */
static size_t most_pairs(const struct compare_pairs *pairs)
{
    size_t most = 1;

    for (size_t i = 0; i < pairs->requests && pairs->firsts != NULL; i++)
        if (end_of(pairs, i) - pairs->firsts[i] > most)
            most = end_of(pairs, i) - pairs->firsts[i];
    return most * pairs->requests;
}

static int by_value(const void *left, const void *right)
{
    double a = *(const double *)left, b = *(const double *)right;

    return (a > b) - (a < b);
}

static double quantile(const double *sorted, size_t count, double share)
{
    return sorted[(size_t)(share * (double)(count - 1) + 0.5)];
}

static void judge(double *differences, size_t count, size_t comparisons, bool enough,
                  struct compare_change *change)
{
    double doubt = COMPARE_DOUBT / (double)comparisons / 2;

    qsort(differences, count, sizeof(differences[0]), by_value);
    change->low = quantile(differences, count, 0.025);
    change->high = quantile(differences, count, 0.975);
    change->differs = enough && (quantile(differences, count, doubt) > 0 ||
                                 quantile(differences, count, 1 - doubt) < 0);
}

static void draws_free(struct draws *draws)
{
    free(draws->a);
    free(draws->b);
    for (int figure = 0; figure < COMPARE_FIGURE_END; figure++)
        free(draws->differences[figure]);
}

static bool draws_make(struct draws *draws, size_t pairs)
{
    bool made;

    *draws = (struct draws){.count = DRAWS_MAX};
    if ((double)pairs * DRAWS_MAX > WORK_BOUND)
        draws->count = (size_t)(WORK_BOUND / (double)pairs);
    if (draws->count < DRAWS_MIN)
        draws->count = DRAWS_MIN;
    draws->a = malloc(pairs * sizeof(double));
    draws->b = malloc(pairs * sizeof(double));
    made = draws->a != NULL && draws->b != NULL;
    for (int figure = 0; figure < COMPARE_FIGURE_END; figure++) {
        draws->differences[figure] = malloc(draws->count * sizeof(double));
        made &= draws->differences[figure] != NULL;
    }
    if (!made)
        draws_free(draws);
    return made;
}

kvr_status compare_stats(const struct compare_pairs *pairs, size_t comparisons, uint64_t seed,
                         struct compare_changes *ret_changes, struct kvr_error *error)
{
    size_t count = pairs->count;
    struct kvr_rng rng;
    struct draws draws;

    *ret_changes = (struct compare_changes){.count = count, .requests = pairs->requests};
    if (count == 0)
        return KVR_OK;
    if (!draws_make(&draws, most_pairs(pairs)))
        return kvr_error_set(error, KVR_NO_MEMORY, "compare", "no memory for %zu pairs", count);
    memcpy(draws.a, pairs->a, count * sizeof(draws.a[0]));
    memcpy(draws.b, pairs->b, count * sizeof(draws.b[0]));
    for (int figure = 0; figure < COMPARE_FIGURE_END; figure++) {
        ret_changes->figures[figure].a = figure_of(draws.a, count, (compare_figure)figure);
        ret_changes->figures[figure].b = figure_of(draws.b, count, (compare_figure)figure);
    }
    kvr_rng_init(&rng, seed);
    for (size_t i = 0; i < draws.count; i++) {
        size_t drawn = draw(&draws, pairs, &rng);

        for (int figure = 0; figure < COMPARE_FIGURE_END; figure++)
            draws.differences[figure][i] = figure_of(draws.b, drawn, (compare_figure)figure) -
                                           figure_of(draws.a, drawn, (compare_figure)figure);
    }
    for (int figure = 0; figure < COMPARE_FIGURE_END; figure++)
        judge(draws.differences[figure], draws.count, comparisons,
              pairs->requests >= COMPARE_REQUESTS_MIN, &ret_changes->figures[figure]);
    draws_free(&draws);
    return KVR_OK;
}
