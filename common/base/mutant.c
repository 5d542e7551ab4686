#include "base/mutant.h"

#include <string.h>

#ifdef KVRAIL_MUTANTS

kvr_mutant kvr_mutant_planted = KVR_MUTANT_none;

static const struct {
    const char *name, *rule;
} mutants[] = {
#define X(name, rule) {#name, rule},
    KVR_MUTANT_LIST(X)
#undef X
};

bool kvr_mutant_plant(const char *name)
{
    for (size_t i = 0; i < sizeof(mutants) / sizeof(mutants[0]); i++) {
        if (strcmp(mutants[i].name, name) != 0)
            continue;
        kvr_mutant_planted = (kvr_mutant)(i + 1);
        return true;
    }
    return false;
}

void kvr_mutants_list(FILE *file)
{
    for (size_t i = 0; i < sizeof(mutants) / sizeof(mutants[0]); i++)
        fprintf(file, "%s  %s\n", mutants[i].name, mutants[i].rule);
}

#else

bool kvr_mutant_plant(const char *name)
{
    (void)name;
    return false;
}

void kvr_mutants_list(FILE *file)
{
    (void)file;
}

#endif
