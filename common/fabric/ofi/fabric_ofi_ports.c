/* Ports that the endpoints of IP rails listen on: which this process has used, and those of
 * --rail-ports. */
#include "fabric/ofi/fabric_ofi_state.h"

#include <netinet/in.h>
#include <stdatomic.h>
#include <string.h>

#include "base/entropy.h"

/* The kernel may give a port again that an ended epoch had, and a peer that has not heard of that
 * end would write there. A port counts as used until this many other endpoints were opened. */
#define PORTS_APART 16384u

static pthread_mutex_t lock = PTHREAD_MUTEX_INITIALIZER;
static struct port_book book;
/* Where a range begins for this process, drawn once. Its number would not do: in a container each
 * life of a program has the same. */
static unsigned start;
static _Atomic unsigned rails; /* with a range */

void ofi_ports_count_rail(const struct kvr_rail *rail, bool opened)
{
    if (rail->ports.first == 0)
        return;
    if (opened)
        atomic_fetch_add(&rails, 1);
    else
        atomic_fetch_sub(&rails, 1);
}

static kvr_status none_left(const struct kvr_rail *rail, const struct port_shortage *shortage,
                            struct kvr_error *error)
{
    unsigned count = atomic_load(&rails);

    return kvr_error_set(
        error, KVR_FULL, "fabric",
        "rail %s: --rail-ports %u-%u has no free port: %u taken by others, %u open "
        "here, %u closed within the last %.3g s; widen it: %u rail%s of this "
        "agent need%s %u",
        rail->facts.name, rail->ports.first, rail->ports.last, shortage->taken, shortage->open,
        shortage->resting, (double)rail->port_rest / (double)KVR_S, count, count == 1 ? "" : "s",
        count == 1 ? "s" : "", KVR_PORTS_OF_RAIL * count);
}

kvr_status ofi_port_take(const struct kvr_rail *rail, const struct port_set *taken,
                         struct ofi_port *ret_port, struct kvr_error *error)
{
    struct port_shortage shortage;

    pthread_mutex_lock(&lock);
    while (start == 0)
        start = (unsigned)kvr_random_u64();
    ret_port->number = port_book_choose(&book, &rail->ports, start, kvr_clock_now(),
                                        rail->port_rest, taken, &shortage);
    if (ret_port->number != 0) {
        ret_port->before = book.uses[ret_port->number];
        port_book_open(&book, ret_port->number);
    }
    pthread_mutex_unlock(&lock);
    return ret_port->number != 0 ? KVR_OK : none_left(rail, &shortage, error);
}

void ofi_port_give_back(const struct ofi_port *port)
{
    pthread_mutex_lock(&lock);
    book.uses[port->number] = port->before;
    pthread_mutex_unlock(&lock);
}

bool ofi_port_claim(uint16_t port)
{
    bool fresh;

    pthread_mutex_lock(&lock);
    fresh = port_book_fresh(&book, port, PORTS_APART);
    if (fresh)
        port_book_open(&book, port);
    pthread_mutex_unlock(&lock);
    return fresh;
}

void ofi_port_end(uint16_t port)
{
    if (port == 0)
        return;
    pthread_mutex_lock(&lock);
    port_book_close(&book, port, kvr_clock_now());
    pthread_mutex_unlock(&lock);
}

uint16_t ofi_port_of(const void *address, uint32_t format)
{
    struct sockaddr_in6 v6;
    struct sockaddr_in v4;

    switch (format) {
    case FI_SOCKADDR_IN:
        memcpy(&v4, address, sizeof(v4));
        return ntohs(v4.sin_port);
    case FI_SOCKADDR_IN6:
        memcpy(&v6, address, sizeof(v6));
        return ntohs(v6.sin6_port);
    default:
        return 0;
    }
}

struct fi_info *ofi_info_at_port(const struct fi_info *info, uint16_t port)
{
    struct fi_info *copy = fi_dupinfo(info);

    if (copy == NULL || copy->src_addr == NULL)
        return copy;
    if (copy->addr_format == FI_SOCKADDR_IN)
        ((struct sockaddr_in *)copy->src_addr)->sin_port = htons(port);
    else if (copy->addr_format == FI_SOCKADDR_IN6)
        ((struct sockaddr_in6 *)copy->src_addr)->sin6_port = htons(port);
    return copy;
}
