#include "http/refusal.h"

const struct refusal_facts *refusal_facts(refusal why)
{
    static const struct refusal_facts facts[REFUSAL_END] = {
#define X(symbol, name, status, sentence) {name, status, sentence},
        REFUSAL_LIST(X)
#undef X
    };

    return &facts[why];
}
