#include "fabric/rail_ports.h"

#include <stdlib.h>
#include <string.h>

static bool read_port(const char **text, uint16_t *ret_port)
{
    size_t digits = strspn(*text, "0123456789");
    unsigned long port = strtoul(*text, NULL, 10);

    *text += digits;
    *ret_port = (uint16_t)port;
    return digits >= 1 && digits <= 5 && port >= 1 && port < KVR_PORTS;
}

kvr_status kvr_rail_ports_parse(const char *text, struct kvr_rail_ports *ret_ports,
                                struct kvr_error *error)
{
    struct kvr_rail_ports ports = {0};
    const char *at = text;

    if (read_port(&at, &ports.first) && *at++ == '-' && read_port(&at, &ports.last) &&
        *at == '\0' && ports.first <= ports.last) {
        *ret_ports = ports;
        return KVR_OK;
    }
    return kvr_error_set(error, KVR_INVALID, "fabric",
                         "'%.40s' must be two ports from 1 to 65535, as in 9500-9599", text);
}

unsigned kvr_rail_ports_count(const struct kvr_rail_ports *ports)
{
    return ports->first == 0 ? 0 : ports->last - ports->first + 1u;
}

void port_set_add(struct port_set *set, uint16_t port)
{
    set->bits[port / 64] |= UINT64_C(1) << (port % 64);
}

static bool in_set(const struct port_set *set, uint16_t port)
{
    return (set->bits[port / 64] >> (port % 64) & 1) != 0;
}

uint16_t port_book_choose(const struct port_book *book, const struct kvr_rail_ports *ports,
                          unsigned start, kvr_ns now, kvr_ns rest, const struct port_set *taken,
                          struct port_shortage *ret_shortage)
{
    unsigned count = kvr_rail_ports_count(ports);
    uint64_t oldest = UINT64_MAX;
    uint16_t found = 0;

    *ret_shortage = (struct port_shortage){0};
    for (unsigned i = 0; i < count; i++) {
        uint16_t port = (uint16_t)(ports->first + (start + i) % count);
        const struct port_use *use = &book->uses[port];

        if (use->open) {
            ret_shortage->open++;
        } else if (in_set(taken, port)) {
            ret_shortage->taken++;
        } else if (use->opening > 0 && now < use->closed + rest) {
            ret_shortage->resting++;
        } else if (use->opening < oldest) {
            oldest = use->opening;
            found = port;
        }
    }
    return found;
}

bool port_book_fresh(const struct port_book *book, uint16_t port, uint64_t apart)
{
    const struct port_use *use = &book->uses[port];

    return !use->open && (use->opening == 0 || book->openings - use->opening > apart);
}

void port_book_open(struct port_book *book, uint16_t port)
{
    book->uses[port].opening = ++book->openings;
    book->uses[port].open = true;
}

void port_book_close(struct port_book *book, uint16_t port, kvr_ns now)
{
    book->uses[port].closed = now;
    book->uses[port].open = false;
}
