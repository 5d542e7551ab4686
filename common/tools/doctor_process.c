/* What `kvrail doctor` says about this process's limits, the kernel and the clock. Pure. */
#include <inttypes.h>
#include <string.h>

#include "filter/filter_message.h"
#include "tools/doctor.h"

static bool pins_memory(const struct topo *host)
{
    for (unsigned i = 0; i < host->rail_count; i++)
        if (host->rails[i].pins_memory)
            return true;
    return false;
}

static void judge_files(const struct doctor_process *process, struct doctor_findings *findings)
{
    if (process->files.status != KVR_OK)
        doctor_add(findings, "open_files", DOCTOR_WRONG,
                   "raise the limit where agents start (LimitNOFILE= of the unit, ulimit -n)", "%s",
                   process->files.detail);
    else
        doctor_add(findings, "open_files", DOCTOR_OK, NULL, "RLIMIT_NOFILE allows %" PRIu64,
                   process->files_limit);
}

/* "8192 KiB", "everything" */
static const char *limit_show(uint64_t bytes, char ret_text[32])
{
    if (bytes == UINT64_MAX)
        return "everything";
    snprintf(ret_text, 32, "%" PRIu64 " KiB", bytes >> 10);
    return ret_text;
}

static void judge_locked(const struct doctor_facts *facts, struct doctor_findings *findings)
{
    const struct doctor_process *process = &facts->process;
    const char *check = "locked_memory", *names = "user_namespace";
    bool pins = pins_memory(facts->host), enough = process->locked.status == KVR_OK;
    char text[32];

    if (!pins)
        doctor_add(findings, check, DOCTOR_ABSENT, NULL, "no rail here pins memory");
    else if (!enough)
        doctor_add(findings, check, DOCTOR_WARNING,
                   "raise the limit where agents start (the units do; ulimit -l unlimited)", "%s",
                   process->locked.detail);
    else
        doctor_add(findings, check, DOCTOR_OK, NULL,
                   "RLIMIT_MEMLOCK allows %s, which suffices, or IPC_LOCK lifts it",
                   limit_show(process->locked_limit, text));
    if (process->every_user)
        doctor_add(findings, names, DOCTOR_OK, NULL, "this process is in the first one");
    else
        doctor_add(findings, names, pins && !enough ? DOCTOR_WARNING : DOCTOR_OK,
                   pins && !enough ? "start agents outside of it (Kubernetes: hostUsers: true), or "
                                     "raise RLIMIT_MEMLOCK in the container runtime"
                                   : NULL,
                   "this process is in one of its own: cards lock memory by RLIMIT_MEMLOCK alone, "
                   "whatever IPC_LOCK says");
}

static void judge_memory(const struct doctor_process *process, struct doctor_findings *findings)
{
    if (process->memfd.status != KVR_OK)
        doctor_add(findings, "memfd", DOCTOR_WRONG,
                   "allow memfd_create (sysctl vm.memfd_noexec below 2, and the container's "
                   "seccomp profile)",
                   "%s", process->memfd.detail);
    else
        doctor_add(findings, "memfd", DOCTOR_OK, NULL, "sealed memory for host pages can be made");
    if (process->pidfd.status != KVR_OK)
        doctor_add(findings, "pidfd", DOCTOR_WARNING,
                   "use Linux 5.3 or later, and a seccomp profile that allows pidfd_open",
                   "%s; agents see an engine's end by its socket alone", process->pidfd.detail);
    else
        doctor_add(findings, "pidfd", DOCTOR_OK, NULL, "agents can watch an engine's process");
}

/* Pages that the cards map for all regions together; 0: no card here has such a limit. */
static uint64_t pages_max(const struct topo *host)
{
    uint64_t most = 0;

    for (unsigned i = 0; i < host->rail_count; i++) {
        const struct kvr_provider *provider = kvr_provider_find(host->rails[i].provider);

        if (provider != NULL && provider->libfabric.pages_max > 0)
            most = provider->libfabric.pages_max;
    }
    return most;
}

static void judge_huge_pages(const struct doctor_facts *facts, struct doctor_findings *findings)
{
    const struct doctor_memory *memory = &facts->memory;
    uint64_t pages = pages_max(facts->host), mapped = pages * memory->page_bytes;

    if (pages == 0)
        doctor_add(findings, "huge_pages", DOCTOR_ABSENT, NULL,
                   "no card here is known to map few pages");
    else if (mapped < memory->bytes && memory->huge_bytes == 0)
        doctor_add(findings, "huge_pages", DOCTOR_WARNING,
                   "reserve huge pages (sysctl vm.nr_hugepages) if engines register more host "
                   "memory, and take it from a memfd with MFD_HUGETLB",
                   "cards map about %.0f GB in pages of %" PRIu64
                   " bytes, this host has %.0f GB, and no huge pages are reserved",
                   (double)mapped / 1e9, memory->page_bytes, (double)memory->bytes / 1e9);
    else
        doctor_add(findings, "huge_pages", DOCTOR_OK, NULL,
                   "cards map about %.0f GB in small pages; %.0f GB are reserved as huge pages",
                   (double)mapped / 1e9, (double)memory->huge_bytes / 1e9);
}

static void judge_clock(const struct kvr_clock_sync *clock, struct doctor_findings *findings)
{
    if (clock->error.status != KVR_OK)
        doctor_add(findings, "clock", DOCTOR_ABSENT, NULL, "%s", clock->error.detail);
    else if (!clock->synchronised)
        doctor_add(findings, "clock", DOCTOR_WARNING,
                   "run chronyd or systemd-timesyncd: times of two hosts are compared in traces",
                   "the kernel's clock is not synchronised");
    else
        doctor_add(findings, "clock", DOCTOR_OK, NULL,
                   "synchronised, with an error of %.1f ms at most", (double)clock->error_us / 1e3);
}

/* Ports of tcp rails authenticate no peer. */
static void judge_filter(const struct doctor_facts *facts, struct doctor_findings *findings)
{
    const struct doctor_process *process = &facts->process;
    const char *check = "rail_filter";

    if (process->filter.status == KVR_OK)
        doctor_add(findings, check, DOCTOR_OK, NULL,
                   "kvrail-filter answers this user: name its socket by --rail-filter");
    else if (strncmp(facts->provider, "tcp", 3) != 0)
        doctor_add(findings, check, DOCTOR_ABSENT, NULL,
                   "kvrail-filter is for agents with provider tcp (%.100s)",
                   process->filter.detail);
    else if (process->network_alone)
        doctor_add(findings, check, DOCTOR_OK, NULL,
                   "no other process is in this network namespace; its firewall must keep other "
                   "hosts from the ports of tcp rails");
    else
        doctor_add(findings, check, DOCTOR_WARNING,
                   "run kvrail-filter, and agents with --rail-filter: a stranger that reaches the "
                   "port of a tcp rail can end its agent (security.md)",
                   "kvrail-filter at " KVR_FILTER_SOCKET ": %.120s", process->filter.detail);
}

void doctor_judge_process(const struct doctor_facts *facts, struct doctor_findings *findings)
{
    judge_files(&facts->process, findings);
    judge_locked(facts, findings);
    judge_memory(&facts->process, findings);
    judge_huge_pages(facts, findings);
    judge_filter(facts, findings);
    judge_clock(&facts->clock, findings);
}
