#include "base/absence.h"

kvr_ns kvr_absence_tick(struct kvr_absence *absence, kvr_ns now, kvr_ns period)
{
    kvr_ns late = absence->due_at != 0 && now > absence->due_at ? now - absence->due_at : 0;

    absence->due_at = now + period;
    if (late <= KVR_ABSENCE_NS)
        return 0;
    absence->count++;
    return late;
}
