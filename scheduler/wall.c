#include "scheduler/wall.h"

int64_t wall_time(struct wall *wall, kvr_ns now, kvr_ns system)
{
    kvr_ns expected = wall->time + (now - wall->now);

    if (wall->time != 0 && system > expected + WALL_SLACK_NS) {
        if (wall->doubt_since == 0)
            wall->doubt_since = now;
        if (now - wall->doubt_since < WALL_DOUBT_NS)
            return (int64_t)expected;
    }
    *wall = (struct wall){.now = now, .time = system};
    return (int64_t)system;
}
