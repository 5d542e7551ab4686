#include "base/mutant.h"

#include <string.h>

#ifdef KVRAIL_MUTANTS

kvr_mutant kvr_mutant_planted = KVR_MUTANT_none;

static const struct {
    const char *name, *rule;
} mutants[] = {
#define X(name, rule) {#name, rule},
    KVR_MUTANT_LIST(X)
#ifdef KVRAIL_SHORT_SLOTS
        KVR_MUTANT_SHORT_SLOTS_LIST(X)
#endif
#undef X
};

#define MUTANTS (sizeof(mutants) / sizeof(mutants[0]))

bool kvr_mutant_plant(const char *name)
{
    for (size_t i = 0; i < MUTANTS; i++) {
        if (strcmp(mutants[i].name, name) != 0)
            continue;
        kvr_mutant_planted = (kvr_mutant)(i + 1);
        return true;
    }
    return false;
}

size_t kvr_mutants_list(FILE *file)
{
    for (size_t i = 0; i < MUTANTS; i++)
        fprintf(file, "%s  %s\n", mutants[i].name, mutants[i].rule);
    return MUTANTS;
}

#else

bool kvr_mutant_plant(const char *name)
{
    (void)name;
    return false;
}

size_t kvr_mutants_list(FILE *file)
{
    (void)file;
    return 0;
}

#endif
