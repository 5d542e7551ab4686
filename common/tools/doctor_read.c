/* The facts of `kvrail doctor` that `kvrail topo` does not read. */
#include <ctype.h>
#include <dirent.h>
#include <errno.h>
#include <inttypes.h>
#include <string.h>
#include <unistd.h>

#include "agent/agent_needs.h"
#include "base/memfd.h"
#include "base/need.h"
#include "base/network_namespace.h"
#include "base/pidfd.h"
#include "base/user_namespace.h"
#include "filter/filter_client.h"
#include "tools/doctor.h"

static void read_libfabric(struct doctor_libfabric *libfabric)
{
    (void)kvr_libfabric_load(&libfabric->error);
    libfabric->text = kvr_libfabric_describe();
    libfabric->api = kvr_libfabric_api();
}

static void read_usable(const struct topo *host, const struct topo_provider *list,
                        struct kvr_host_groups *groups, struct kvr_host_cards *cards)
{
    *groups = (struct kvr_host_groups){.topology = host->topology};
    kvr_host_rails_choose(groups, list->rails, list->listed);
    kvr_host_cards_usable(groups, list->provider, list->rails, list->listed, cards);
}

static void read_cards(const struct topo *host, const struct topo_provider *list,
                       struct doctor_opened *ret_opened)
{
    static struct kvr_host_groups groups; /* large */
    const char *names[DOCTOR_NAMES_SHOWN] = {NULL};
    struct kvr_host_cards *cards = &ret_opened->cards;

    read_usable(host, list, &groups, cards);
    ret_opened->provider = list->provider;
    for (uint32_t i = 0; i < cards->count && i < DOCTOR_NAMES_SHOWN; i++)
        names[i] = groups.rails[cards->rails[i]].name;
    doctor_names_show(names, cards->count, ret_opened->names);
}

static bool is_of(const struct kvr_host_rail *rail, const struct kvr_rail_facts *facts)
{
    return strcmp(rail->name, facts->name) == 0 && strcmp(rail->source, facts->source) == 0 &&
           strcmp(rail->interface, facts->interface) == 0;
}

uint32_t doctor_usable_rails(const struct topo *host, const struct topo_provider *list,
                             uint32_t ret_rails[KVR_HOST_RAILS_MAX])
{
    static struct kvr_host_groups groups; /* large, as the next */
    static struct kvr_host_cards cards;
    uint32_t found = 0;

    read_usable(host, list, &groups, &cards);
    for (uint32_t i = 0; i < cards.count; i++) {
        uint32_t at = 0;

        while (at < list->listed && !is_of(&groups.rails[cards.rails[i]], &list->rails[at]))
            at++;
        if (at < list->listed)
            ret_rails[found++] = at;
    }
    return found;
}

/* Of a provider without rails `rails` and `card_rails` say why. */
static void read_opened(const struct topo *host, struct doctor_facts *facts)
{
    for (unsigned i = 0; i < host->provider_count; i++) {
        const struct topo_provider *list = &host->providers[i];
        const struct kvr_provider *provider = kvr_provider_find(list->provider);

        if (provider != NULL && provider->all_cards && list->count > 0)
            read_cards(host, list, &facts->opened[facts->opened_count++]);
    }
}

/* "nvidia0", not "nvidiactl" */
static bool is_gpu_node(const char *name)
{
    const char *number = name + strlen("nvidia");

    return strncmp(name, "nvidia", strlen("nvidia")) == 0 && isdigit((unsigned char)number[0]);
}

static void read_nodes(struct doctor_nodes *nodes)
{
    DIR *folder = opendir("/dev");
    const struct dirent *entry;

    nodes->control = access(KVR_CUDA_CONTROL, F_OK) == 0;
    nodes->memory = access("/dev/nvidia-uvm", F_OK) == 0;
    while (folder != NULL && (entry = readdir(folder)) != NULL)
        nodes->gpus += is_gpu_node(entry->d_name);
    if (folder != NULL)
        closedir(folder);
}

static void read_gpu(const struct kvr_gpu *gpu, struct doctor_gpu *ret_gpu)
{
    struct kvr_device *device = NULL;
    int32_t ordinal;

    if (kvr_device_cuda_ordinal(gpu, &ordinal, &ret_gpu->opened) != KVR_OK ||
        kvr_device_cuda_open(ordinal, KVR_CUDA_COPIER_AUTO, &device, &ret_gpu->opened) != KVR_OK)
        return;
    ret_gpu->slower = device->slower;
    kvr_device_close(device);
}

static void read_locked(const struct topo *host, struct doctor_process *process)
{
    for (unsigned i = 0; i < host->rail_count && process->locked.status == KVR_OK; i++)
        process->locked.status = kvr_agent_needs_locked(&host->rails[i], &process->locked);
}

static void read_process(const struct topo *host, struct doctor_process *process)
{
    struct kvr_filter_client filter;
    int fd = -1;

    process->files.status = kvr_agent_needs_files(&process->files); /* raises the limit */
    process->files_limit = kvr_limit_files();
    process->locked_limit = kvr_limit_locked();
    process->every_user = kvr_sees_every_user();
    read_locked(host, process);
    if (kvr_memfd_create("kvrail-doctor", 1, "doctor", &fd, &process->memfd) == KVR_OK)
        close(fd);
    fd = kvr_pidfd_open(getpid());
    if (fd >= 0)
        close(fd);
    else
        (void)kvr_error_system(&process->pidfd, "doctor", errno, "pidfd_open is refused");
    if (kvr_filter_client_open(KVR_FILTER_SOCKET, &filter, &process->filter) == KVR_OK)
        kvr_filter_client_close(&filter);
    process->network_alone = kvr_network_namespace_alone();
}

/* Reserved pages of the usual huge size; pages of another size have no line here. */
static uint64_t read_huge_bytes(void)
{
    FILE *file = fopen("/proc/meminfo", "re");
    uint64_t pages = 0, kib = 0;
    char line[128];

    if (file == NULL)
        return 0;
    while (fgets(line, sizeof(line), file) != NULL) {
        (void)sscanf(line, "HugePages_Total: %" SCNu64, &pages);
        (void)sscanf(line, "Hugepagesize: %" SCNu64, &kib);
    }
    fclose(file);
    return pages * (kib << 10);
}

static void read_memory(const struct kvr_topology *topology, struct doctor_memory *memory)
{
    for (uint32_t i = 0; i < topology->node_count; i++)
        memory->bytes += topology->nodes[i].memory_bytes;
    memory->page_bytes = (uint64_t)sysconf(_SC_PAGESIZE);
    memory->huge_bytes = read_huge_bytes();
}

void doctor_read(const struct topo *host, const char *provider, struct doctor_facts *ret_facts)
{
    ret_facts->host = host;
    ret_facts->provider = provider;
    if (host->topology->from_file)
        return;
    read_libfabric(&ret_facts->libfabric);
    read_opened(host, ret_facts);
    read_nodes(&ret_facts->nodes);
    for (unsigned i = 0; i < host->gpu_count; i++)
        read_gpu(&host->gpus[i].gpu, &ret_facts->gpus[i]);
    read_process(host, &ret_facts->process);
    read_memory(host->topology, &ret_facts->memory);
    kvr_clock_sync_read(&ret_facts->clock);
}
