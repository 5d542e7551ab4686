#include "tools/compare/compare_report.h"

#include <math.h>
#include <stdlib.h>

#define SHARE_CHANGE   0.2  /* a rail's part of its agent's bytes changed by a fifth, or */
#define SHARE_LEAST    0.01 /* by so much of all: less is no news */
#define CAUSE_LEAST    0.25 /* of the total's change: a smaller part is no cause */
#define OUTCOME_ERRORS 3.3  /* standard errors between two shares that chance does not make */

/* ---- times ----------------------------------------------------------------------------------- */

/* A pair of times, in milliseconds. */
struct pair {
    uint64_t request;
    double a, b;
};

static int by_request(const void *left, const void *right)
{
    const struct pair *a = left, *b = right;

    return (a->request > b->request) - (a->request < b->request);
}

/* Those that both have, request by request. Returns how many. */
static size_t collect(const struct compare_report *report, kvtrace_time time, struct pair *pairs)
{
    const struct compare_sample *one = &report->samples[0], *other = &report->samples[1];
    size_t count = 0;

    for (size_t i = 0; i < one->count; i++) {
        const struct compare_transfer *left = &one->transfers[i], *right;

        if (left->other == KVTRACE_NONE)
            continue;
        right = &other->transfers[left->other];
        if (left->times_us[time] == KVTRACE_NEVER || right->times_us[time] == KVTRACE_NEVER)
            continue;
        pairs[count++] = (struct pair){left->request, (double)left->times_us[time] / 1e3,
                                       (double)right->times_us[time] / 1e3};
    }
    if (count > 0)
        qsort(pairs, count, sizeof(pairs[0]), by_request);
    return count;
}

struct lists {
    struct pair *pairs;
    double *a, *b;
    size_t *firsts;
};

static struct compare_pairs lists_fill(const struct lists *lists, size_t count)
{
    struct compare_pairs pairs = {lists->a, lists->b, count, lists->firsts, 0};

    for (size_t i = 0; i < count; i++) {
        lists->a[i] = lists->pairs[i].a;
        lists->b[i] = lists->pairs[i].b;
        if (i == 0 || lists->pairs[i].request != lists->pairs[i - 1].request)
            lists->firsts[pairs.requests++] = i;
    }
    return pairs;
}

static kvr_status compare_times(struct compare_report *report, uint64_t seed,
                                struct kvr_error *error)
{
    size_t room = report->matched > 0 ? report->matched : 1;
    struct lists lists = {malloc(room * sizeof(lists.pairs[0])), malloc(room * sizeof(lists.a[0])),
                          malloc(room * sizeof(lists.b[0])),
                          malloc(room * sizeof(lists.firsts[0]))};
    kvr_status status = KVR_OK;

    if (lists.pairs == NULL || lists.a == NULL || lists.b == NULL || lists.firsts == NULL)
        status = kvr_error_set(error, KVR_NO_MEMORY, "compare", "no memory for %zu pairs", room);
    for (int time = 0; time < KVTRACE_TIME_END && status == KVR_OK; time++) {
        size_t count = collect(report, (kvtrace_time)time, lists.pairs);
        struct compare_pairs pairs = lists_fill(&lists, count);

        status = compare_stats(&pairs, (size_t)KVTRACE_TIME_END * COMPARE_FIGURE_END,
                               seed + (uint64_t)time, &report->times[time], error);
    }
    free(lists.pairs);
    free(lists.a);
    free(lists.b);
    free(lists.firsts);
    return status;
}

static double mean_change(const struct compare_report *report, int time)
{
    const struct compare_change *mean = &report->times[time].figures[COMPARE_MEAN];

    return mean->b - mean->a;
}

/* What part of the total's change that is. */
static double share_of_change(const struct compare_report *report, int time)
{
    return mean_change(report, time) / mean_change(report, KVTRACE_TIME_TOTAL);
}

/* The part with the largest change, of those that changed as the total did. */
static kvtrace_time find_cause(const struct compare_report *report)
{
    double largest = CAUSE_LEAST;
    kvtrace_time cause = KVTRACE_TIME_END;

    if (!report->times[KVTRACE_TIME_TOTAL].figures[COMPARE_MEAN].differs)
        return cause;
    for (int time = 0; time < KVTRACE_TIME_END; time++) {
        double share = share_of_change(report, time);

        if (time == KVTRACE_TIME_TOTAL || time == KVTRACE_TIME_EXPOSED ||
            time == KVTRACE_TIME_READY || !report->times[time].figures[COMPARE_MEAN].differs ||
            share <= largest)
            continue;
        largest = share;
        cause = (kvtrace_time)time;
    }
    return cause;
}

/* ---- outcomes -------------------------------------------------------------------------------- */

static double bad_share(const struct compare_sample *sample)
{
    uint64_t good = sample->outcomes[KVTRACE_DONE] + sample->outcomes[KVTRACE_LIVE];

    return sample->count > 0 ? 1 - (double)good / (double)sample->count : 0;
}

/* The share that did not end well grew: 1, fell: -1, or chance may have changed it: 0. */
static int bad_change(const struct compare_report *report)
{
    const struct compare_sample *a = &report->samples[0], *b = &report->samples[1];
    double one = bad_share(a), other = bad_share(b), both, error;

    if (a->count == 0 || b->count == 0)
        return 0;
    both = (one * (double)a->count + other * (double)b->count) / (double)(a->count + b->count);
    error = sqrt(both * (1 - both) * (1 / (double)a->count + 1 / (double)b->count));
    if (error <= 0 || fabs(other - one) < OUTCOME_ERRORS * error)
        return 0;
    return other > one ? 1 : -1;
}

bool compare_same_outcomes(const struct compare_report *report)
{
    return bad_change(report) == 0;
}

static void judge(struct compare_report *report)
{
    report->differs = !compare_same_outcomes(report);
    for (int time = 0; time < KVTRACE_TIME_END; time++)
        for (int figure = 0; figure < COMPARE_FIGURE_END; figure++)
            report->differs |= report->times[time].figures[figure].differs;
    report->cause = find_cause(report);
}

/* ---- options --------------------------------------------------------------------------------- */

static void add_sentence(char (*sentences)[COMPARE_SENTENCE_BYTES], size_t *count,
                         const char *format, ...) __attribute__((format(printf, 3, 4)));

static void add_sentence(char (*sentences)[COMPARE_SENTENCE_BYTES], size_t *count,
                         const char *format, ...)
{
    va_list arguments;

    if (*count == COMPARE_SENTENCES_MAX)
        return;
    va_start(arguments, format);
    vsnprintf(sentences[(*count)++], COMPARE_SENTENCE_BYTES, format, arguments);
    va_end(arguments);
}

/* A word of `length` bytes stands in the text, between blanks. */
static bool has_word(const char *text, const char *word, size_t length)
{
    while (*text != '\0') {
        size_t bytes = strcspn(text, " ");

        if (bytes == length && memcmp(text, word, length) == 0)
            return true;
        text += bytes;
        text += *text == ' ';
    }
    return false;
}

/* Options of one that the other does not have so. */
static void compare_words(struct compare_report *report, const char *agent, const char *options,
                          const char *others, const char *which)
{
    const char *word = options;

    while (*word != '\0') {
        size_t length = strcspn(word, " ");

        if (length > 0 && !has_word(others, word, length))
            add_sentence(report->options, &report->option_count, "%s: only %s has %.*s", agent,
                         which, (int)(length < 120 ? length : 120), word);
        word += length;
        word += *word == ' ';
    }
}

static const struct kvtrace_agent *find_agent(const struct kvtrace_book *book, const char *name,
                                              kvr_role role)
{
    for (int64_t i = 0; i < book->agent_count; i++)
        if (book->agents[i]->role == role && strcmp(book->agents[i]->name, name) == 0)
            return book->agents[i];
    return NULL;
}

static void compare_agents(struct compare_report *report)
{
    const struct kvtrace_book *a = &report->samples[0].book, *b = &report->samples[1].book;

    for (int64_t i = 0; i < a->agent_count; i++) {
        const struct kvtrace_agent *one = a->agents[i],
                                   *other = find_agent(b, one->name, one->role);

        if (other == NULL) {
            add_sentence(report->options, &report->option_count, "only A has agent %s", one->name);
            continue;
        }
        if (strcmp(one->version, other->version) != 0)
            add_sentence(report->options, &report->option_count, "%s: version %s in A, %s in B",
                         one->name, one->version, other->version);
        if (one->rail_count != other->rail_count)
            add_sentence(report->options, &report->option_count, "%s: %zu rails in A, %zu in B",
                         one->name, one->rail_count, other->rail_count);
        compare_words(report, one->name, one->options, other->options, "A");
        compare_words(report, one->name, other->options, one->options, "B");
    }
    for (int64_t i = 0; i < b->agent_count; i++)
        if (find_agent(a, b->agents[i]->name, b->agents[i]->role) == NULL)
            add_sentence(report->options, &report->option_count, "only B has agent %s",
                         b->agents[i]->name);
}

/* ---- rails ----------------------------------------------------------------------------------- */

static uint64_t agent_bytes(const struct compare_sample *sample, const char *agent)
{
    uint64_t sum = 0;

    for (size_t i = 0; i < sample->rail_count; i++)
        if (strcmp(sample->rails[i].agent, agent) == 0)
            sum += sample->rails[i].bytes;
    return sum;
}

/* What part of its agent's bytes it carried. */
static double share_of(const struct compare_sample *sample, const struct compare_rail *rail)
{
    uint64_t all = agent_bytes(sample, rail->agent);

    for (size_t i = 0; i < sample->rail_count; i++) {
        const struct compare_rail *one = &sample->rails[i];

        if (strcmp(one->agent, rail->agent) == 0 && strcmp(one->rail, rail->rail) == 0)
            return all > 0 ? (double)one->bytes / (double)all : 0;
    }
    return 0;
}

static void compare_rail(struct compare_report *report, const struct compare_rail *rail)
{
    double a = share_of(&report->samples[0], rail), b = share_of(&report->samples[1], rail);

    if (fabs(b - a) >= SHARE_LEAST && fabs(b - a) >= SHARE_CHANGE * fmax(a, b))
        add_sentence(report->rails, &report->rail_count,
                     "rail %s of %s carried %.1f %% of the agent's bytes in A, %.1f %% in B",
                     rail->rail, rail->agent, 100 * a, 100 * b);
}

/* A target's rails follow its source's: sources first. */
static void compare_rails(struct compare_report *report)
{
    const struct compare_sample *a = &report->samples[0], *b = &report->samples[1];

    for (int role = 0; role < 2; role++) {
        for (size_t i = 0; i < a->rail_count; i++)
            if (a->rails[i].role == (kvr_role)role && agent_bytes(b, a->rails[i].agent) > 0)
                compare_rail(report, &a->rails[i]);
        for (size_t i = 0; i < b->rail_count; i++)
            if (b->rails[i].role == (kvr_role)role && agent_bytes(a, b->rails[i].agent) > 0 &&
                share_of(a, &b->rails[i]) <= 0)
                compare_rail(report, &b->rails[i]);
    }
}

/* ---- all ------------------------------------------------------------------------------------- */

kvr_status compare_report_make(const char *a, const char *b, uint64_t seed,
                               struct compare_report *ret_report, struct kvr_error *error)
{
    *ret_report = (struct compare_report){.paths = {a, b}, .cause = KVTRACE_TIME_END};
    for (int i = 0; i < 2; i++)
        KVR_TRY(compare_read(ret_report->paths[i], &ret_report->samples[i], error));
    ret_report->matched =
        compare_match(&ret_report->samples[0], &ret_report->samples[1], &ret_report->matching);
    KVR_TRY(compare_times(ret_report, seed, error));
    compare_agents(ret_report);
    compare_rails(ret_report);
    judge(ret_report);
    return KVR_OK;
}

void compare_report_release(struct compare_report *report)
{
    for (int i = 0; i < 2; i++)
        compare_release(&report->samples[i]);
}

static void verdict_of_times(const struct compare_report *report, char *text, size_t room)
{
    const struct compare_change *total = &report->times[KVTRACE_TIME_TOTAL].figures[COMPARE_MEAN];
    size_t used;

    if (!total->differs) {
        snprintf(text, room, "the total time is not distinguishable; see the differences below");
        return;
    }
    used = (size_t)snprintf(text, room, "B is %s: %.2f ms a transfer on average, %.2f in A",
                            total->b > total->a ? "slower" : "faster", total->b, total->a);
    if (report->cause != KVTRACE_TIME_END && used < room)
        snprintf(text + used, room - used, "; %s is %s (%s)",
                 share_of_change(report, report->cause) > 0.5 ? "most of it" : "the largest part",
                 kvtrace_time_name(report->cause), kvtrace_time_meaning(report->cause));
}

void compare_verdict(const struct compare_report *report, char *text, size_t room)
{
    int change = bad_change(report);
    size_t used = 0;

    if (report->matched == 0)
        snprintf(text, room, "nothing is matched: A and B have no transfer of the same request");
    else if (report->times[KVTRACE_TIME_TOTAL].requests < COMPARE_REQUESTS_MIN && change == 0)
        snprintf(text, room, "too few to say: %zu requests are done in both, and %d are needed",
                 report->times[KVTRACE_TIME_TOTAL].requests, COMPARE_REQUESTS_MIN);
    else if (!report->differs)
        snprintf(text, room, "A and B are not distinguishable");
    if (report->matched == 0 || (!report->differs && change == 0))
        return;
    if (change != 0)
        used = (size_t)snprintf(text, room, "%.1f %% of B did not end well, %.1f %% of A; ",
                                100 * bad_share(&report->samples[1]),
                                100 * bad_share(&report->samples[0]));
    if (used < room)
        verdict_of_times(report, text + used, room - used);
}
