/* Preloaded in the VM: makes a soft-RoCE device behave as cards do where libfabric counts on it.
 *
 * When a queue pair is destroyed, a card's driver takes its completions out of the completion queue
 * (rdma-core, mlx5_destroy_qp). soft-RoCE leaves them there. ofi_rxm, when it closes a connection,
 * then posts the receive buffer of each write with an immediate again, on the endpoint that it has
 * just freed. So here, after a destruction, the queue is read empty: what belonged to the dead
 * queue pair is dropped, what belongs to others is kept and goes before the queue. */
#include <dlfcn.h>
#include <pthread.h>
#include <stdio.h>
#include <stdlib.h>

#include <rdma/rdma_cma.h>

typedef int (*poll_function)(struct ibv_cq *cq, int count, struct ibv_wc *ret_completions);

struct kept {
    struct ibv_cq *cq;
    struct ibv_wc completion;
    struct kept *next;
};

static pthread_mutex_t lock = PTHREAD_MUTEX_INITIALIZER;
static struct kept *kept_first, **kept_last = &kept_first;
static poll_function driver_poll; /* one driver: every device here is soft-RoCE */

/* libfabric is loaded while the agent runs, and with it the libraries that have these functions. */
static void *next_function(const char *name)
{
    static const char *const libraries[] = {"librdmacm.so.1", "libibverbs.so.1"};
    void *function = dlsym(RTLD_NEXT, name);

    for (size_t i = 0; function == NULL && i < sizeof(libraries) / sizeof(libraries[0]); i++) {
        void *library = dlopen(libraries[i], RTLD_LAZY | RTLD_NOLOAD);

        if (library != NULL)
            function = dlsym(library, name);
    }
    if (function == NULL) {
        fprintf(stderr, "card: there is no %s to stand before\n", name);
        abort();
    }
    return function;
}

/* The completions of cq that were kept, the first `capacity` of them. Under the lock. */
static int take_kept(const struct ibv_cq *cq, int capacity, struct ibv_wc *ret_completions)
{
    struct kept **at = &kept_first;
    int count = 0;

    while (*at != NULL && count < capacity) {
        struct kept *entry = *at;

        if (entry->cq != cq) {
            at = &entry->next;
            continue;
        }
        ret_completions[count++] = entry->completion;
        *at = entry->next;
        if (*at == NULL)
            kept_last = at;
        free(entry);
    }
    return count;
}

static int poll_card(struct ibv_cq *cq, int capacity, struct ibv_wc *ret_completions)
{
    int count, more;

    pthread_mutex_lock(&lock);
    count = take_kept(cq, capacity, ret_completions);
    pthread_mutex_unlock(&lock);
    if (count == capacity)
        return count;
    more = driver_poll(cq, capacity - count, ret_completions + count);
    return more < 0 ? more : count + more;
}

/* Under the lock. */
static void keep(struct ibv_cq *cq, const struct ibv_wc *completion)
{
    struct kept *entry = malloc(sizeof(*entry));

    if (entry == NULL)
        abort();
    *entry = (struct kept){.cq = cq, .completion = *completion};
    *kept_last = entry;
    kept_last = &entry->next;
}

static void clean(struct ibv_cq *cq, uint32_t dead_number)
{
    struct ibv_wc completion;
    struct kept **at;

    pthread_mutex_lock(&lock);
    while (driver_poll(cq, 1, &completion) == 1)
        keep(cq, &completion);
    for (at = &kept_first; *at != NULL;) {
        struct kept *entry = *at;

        if (entry->cq == cq && entry->completion.qp_num == dead_number) {
            *at = entry->next;
            free(entry);
        } else {
            at = &entry->next;
        }
    }
    kept_last = at;
    pthread_mutex_unlock(&lock);
}

int rdma_create_qp(struct rdma_cm_id *id, struct ibv_pd *pd, struct ibv_qp_init_attr *attr)
{
    int (*create)(struct rdma_cm_id *, struct ibv_pd *, struct ibv_qp_init_attr *) =
        next_function("rdma_create_qp");

    pthread_mutex_lock(&lock);
    if (id->verbs->ops.poll_cq != poll_card) {
        driver_poll = id->verbs->ops.poll_cq;
        id->verbs->ops.poll_cq = poll_card;
    }
    pthread_mutex_unlock(&lock);
    return create(id, pd, attr);
}

void rdma_destroy_ep(struct rdma_cm_id *id)
{
    void (*destroy)(struct rdma_cm_id *) = next_function("rdma_destroy_ep");
    struct ibv_cq *queues[2] = {NULL, NULL};
    uint32_t number = 0;

    if (id->qp != NULL) {
        number = id->qp->qp_num;
        queues[0] = id->qp->recv_cq;
        queues[1] = id->qp->send_cq;
    }
    destroy(id);
    for (int i = 0; i < 2; i++) {
        if (queues[i] != NULL)
            clean(queues[i], number);
    }
}
