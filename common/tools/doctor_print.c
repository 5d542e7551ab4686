/* The two forms of what `kvrail doctor` found. */
#include "tools/doctor.h"

void doctor_print(const struct doctor_findings *findings, FILE *stream)
{
    static const char *const words[DOCTOR_STATES] = {[DOCTOR_OK] = "ok",
                                                     [DOCTOR_WARNING] = "warning",
                                                     [DOCTOR_WRONG] = "WRONG",
                                                     [DOCTOR_ABSENT] = "not here"};

    fprintf(stream, "%-15s %-8s %s\n", "CHECK", "STATE", "FOUND, AND WHAT TO DO");
    for (uint32_t i = 0; i < findings->count; i++) {
        const struct doctor_finding *finding = &findings->list[i];

        fprintf(stream, "%-15s %-8s %s\n", finding->check, words[finding->state], finding->found);
        if (finding->remedy[0] != '\0')
            fprintf(stream, "%-15s %-8s -> %s\n", "", "", finding->remedy);
    }
    fprintf(stream, "\n%u wrong, %u warning%s\n", findings->wrong, findings->warnings,
            findings->warnings == 1 ? "" : "s");
}

json_t *doctor_json(const struct doctor_findings *findings)
{
    json_t *list = json_array();

    for (uint32_t i = 0; i < findings->count; i++) {
        const struct doctor_finding *finding = &findings->list[i];

        json_array_append_new(
            list,
            json_pack("{s:s, s:s, s:s, s:o}", "check", finding->check, "state",
                      doctor_state_name(finding->state), "found", finding->found, "remedy",
                      finding->remedy[0] != '\0' ? json_string(finding->remedy) : json_null()));
    }
    return json_pack("{s:o, s:i, s:i}", "findings", list, "wrong", (int)findings->wrong, "warnings",
                     (int)findings->warnings);
}
