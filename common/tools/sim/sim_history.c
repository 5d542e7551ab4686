#include "tools/sim/sim_history.h"

#include <inttypes.h>
#include <stdlib.h>

static int request_of(const struct sim_history *history, const struct sim_line *line)
{
    if (line->request >= 0 || line->nonce == 0)
        return line->request;
    for (uint32_t i = 0; i < history->name_count; i++)
        if (history->names[i].nonce == line->nonce)
            return history->names[i].request;
    return -1;
}

static void print_line(const struct sim_history *history, const struct sim_line *line, FILE *file)
{
    int request = request_of(history, line);

    fprintf(file, "%12.6f ms  %-7s%-2u ", (double)line->at / (double)KVR_MS, line->who,
            line->number);
    if (request >= 0)
        fprintf(file, "r%-3d", request);
    else
        fprintf(file, "    ");
    fprintf(file, " %-16s", line->what);
    if (line->nonce != 0)
        fprintf(file, " t%" PRIx64, line->nonce & 0xffff);
    fprintf(file, " %" PRIu64 " %" PRIu64 " %" PRIu64, line->a, line->b, line->c);
    if (line->detail != NULL)
        fprintf(file, "  %s", line->detail);
    fputc('\n', file);
}

void sim_history_reset(struct sim_history *history)
{
    history->count = 0;
    history->name_count = 0;
    if (history->lines == NULL)
        history->lines = calloc(SIM_HISTORY_LINES, sizeof(*history->lines));
    if (history->lines == NULL)
        abort();
}

void sim_history_add(struct sim_history *history, const struct sim_line *line)
{
    if (history->live)
        print_line(history, line, stdout);
    history->lines[history->count++ % SIM_HISTORY_LINES] = *line;
}

void sim_history_name(struct sim_history *history, uint64_t nonce, int request)
{
    if (history->name_count == SIM_HISTORY_NAMES)
        return;
    history->names[history->name_count].nonce = nonce;
    history->names[history->name_count++].request = request;
}

void sim_history_print(const struct sim_history *history, int request, FILE *file)
{
    uint64_t first = history->count > SIM_HISTORY_LINES ? history->count - SIM_HISTORY_LINES : 0;

    for (uint64_t i = first; i < history->count; i++) {
        const struct sim_line *line = &history->lines[i % SIM_HISTORY_LINES];
        int of = request_of(history, line);

        if (request < 0 || of < 0 || of == request)
            print_line(history, line, file);
    }
}
