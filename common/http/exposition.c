#include "http/exposition.h"

#include <inttypes.h>
#include <stdlib.h>
#include <string.h>

/* ---- families ---- */

static void begin(struct exposition *exposition, const char *name, const char *type,
                  const char *help)
{
    int length = (int)strlen(name);

    if (exposition->open && strcmp(type, "counter") == 0)
        length -= (int)sizeof("_total") - 1;
    exposition->family = name;
    fprintf(exposition->out, "# HELP %.*s %s\n# TYPE %.*s %s\n", length, name, help, length, name,
            type);
}

void exposition_counter(struct exposition *exposition, const char *name, const char *help)
{
    begin(exposition, name, "counter", help);
}

void exposition_gauge(struct exposition *exposition, const char *name, const char *help)
{
    begin(exposition, name, "gauge", help);
}

void exposition_histogram(struct exposition *exposition, const char *name, const char *help)
{
    begin(exposition, name, "histogram", help);
}

void exposition_end(struct exposition *exposition)
{
    if (exposition->open)
        fputs("# EOF\n", exposition->out);
}

/* ---- samples ---- */

static void write_label(FILE *out, const struct exposition_label *label)
{
    fprintf(out, "%s=\"", label->name);
    for (const char *at = label->value; *at != '\0'; at++) {
        if (*at == '\n') {
            fputs("\\n", out);
            continue;
        }
        if (*at == '\\' || *at == '"')
            fputc('\\', out);
        fputc(*at, out);
    }
    fputc('"', out);
}

static void write_name(struct exposition *exposition, const char *suffix,
                       const struct exposition_label *labels)
{
    fprintf(exposition->out, "%s%s", exposition->family, suffix);
    if (labels == NULL || labels[0].name == NULL)
        return;
    for (size_t i = 0; labels[i].name != NULL; i++) {
        fputc(i == 0 ? '{' : ',', exposition->out);
        write_label(exposition->out, &labels[i]);
    }
    fputc('}', exposition->out);
}

void exposition_count(struct exposition *exposition, const struct exposition_label *labels,
                      uint64_t value)
{
    write_name(exposition, "", labels);
    fprintf(exposition->out, " %" PRIu64 "\n", value);
}

void exposition_value(struct exposition *exposition, const struct exposition_label *labels,
                      double value)
{
    write_name(exposition, "", labels);
    fprintf(exposition->out, " %.15g\n", value);
}

void exposition_one(struct exposition *exposition, bool counter, const char *name, const char *help,
                    double value)
{
    begin(exposition, name, counter ? "counter" : "gauge", help);
    exposition_value(exposition, NULL, value);
}

static void write_bucket(struct exposition *exposition, const struct exposition_label *label,
                         const char *bound, uint64_t count,
                         const struct exposition_exemplar *exemplar)
{
    const struct exposition_label bound_alone[] = {{"le", bound}, {NULL, NULL}};
    const struct exposition_label both[] = {
        {label != NULL ? label->name : NULL, label != NULL ? label->value : NULL},
        {"le", bound},
        {NULL, NULL}};

    write_name(exposition, "_bucket", label != NULL ? both : bound_alone);
    fprintf(exposition->out, " %" PRIu64, count);
    if (exposition->open && exemplar->transfer != 0)
        fprintf(exposition->out, " # {transfer_id=\"%016" PRIx64 "\"} %.9g %.3f",
                exemplar->transfer, exemplar->seconds, (double)exemplar->at_ns / 1e9);
    fputc('\n', exposition->out);
}

void exposition_buckets(struct exposition *exposition, const struct exposition_label *label,
                        const double *bounds, const uint64_t *buckets, size_t bound_count,
                        double sum, const struct exposition_exemplar *exemplars)
{
    const struct exposition_label labels[] = {
        {label != NULL ? label->name : NULL, label != NULL ? label->value : NULL}, {NULL, NULL}};
    uint64_t count = 0;
    char bound[32];

    for (size_t i = 0; i <= bound_count; i++) {
        if (i < bound_count)
            snprintf(bound, sizeof(bound), "%g", bounds[i]);
        else
            strcpy(bound, "+Inf");
        count += buckets[i];
        write_bucket(exposition, label, bound, count, &exemplars[i]);
    }
    write_name(exposition, "_sum", labels);
    fprintf(exposition->out, " %.9g\n", sum);
    write_name(exposition, "_count", labels);
    fprintf(exposition->out, " %" PRIu64 "\n", count);
}

/* ---- negotiation ---- */

/* The weight of a part of Accept: what follows its q=, or 1. */
static double weight_of(const char *part, size_t length)
{
    for (size_t i = 0; i + 3 < length; i++)
        if (part[i] == ';' && strspn(part + i + 1, " ") + i + 3 < length) {
            const char *name = part + i + 1 + strspn(part + i + 1, " ");

            if (name[0] == 'q' && name[1] == '=')
                return strtod(name + 2, NULL);
        }
    return 1;
}

struct ready *exposition_ready(bool open, void (*write)(void *self, struct exposition *out),
                               void *self)
{
    struct exposition out = {.open = open};
    char *text = NULL;
    size_t size = 0;

    out.out = open_memstream(&text, &size);
    if (out.out == NULL)
        return NULL;
    write(self, &out);
    exposition_end(&out);
    if (fclose(out.out) != 0) {
        free(text);
        return NULL;
    }
    return ready_make(text, size, open ? EXPOSITION_OPENMETRICS : EXPOSITION_PROMETHEUS);
}

bool exposition_wants_open(const char *accept)
{
    static const char open_type[] = "application/openmetrics-text";
    double open = 0, text = 0;

    while (accept != NULL && *accept != '\0') {
        size_t length = strcspn(accept, ",");
        const char *part = accept + strspn(accept, " ");

        if (strncmp(part, open_type, sizeof(open_type) - 1) == 0)
            open = weight_of(accept, length);
        else if (strncmp(part, "text/plain", sizeof("text/plain") - 1) == 0)
            text = weight_of(accept, length);
        accept += length;
        accept += *accept == ',';
    }
    return open > 0 && open >= text;
}
