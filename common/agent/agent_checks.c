/* What must hold before an agent starts: each failure names the limit, the need and the remedy. */
#include <inttypes.h>
#include <linux/capability.h>
#include <string.h>
#include <sys/resource.h>
#include <sys/syscall.h>
#include <unistd.h>

#include "agent/agent_state.h"
#include "base/address.h"
#include "base/log.h"
#include "base/need.h"
#include "base/state_folder.h"
#include "wire/packet_socket.h"

/* Engines bring a socket, a page, a doorbell, a pidfd and regions each; peers and rails a few
 * descriptors. One packet may bring many. */
#define FILES_OF_ENGINE (6 + AGENT_REGISTERING_MAX)
#define FILES_NEEDED                                                                               \
    (64 + KVR_PACKET_FDS_MAX + FILES_OF_ENGINE * KVR_ENGINES_MAX + 2 * KVR_PEERS_MAX +             \
     8 * KVR_RAILS_MAX)
#define STATE_NEEDED    (64ull << 20)
#define MEMLOCK_ADVISED (1ull << 30)

/* The limit does not hold for a process with that capability, as a container may have it. */
static bool locks_beyond_limit(void)
{
    struct __user_cap_header_struct header = {.version = _LINUX_CAPABILITY_VERSION_3};
    struct __user_cap_data_struct sets[_LINUX_CAPABILITY_U32S_3] = {{0}};

    return syscall(SYS_capget, &header, sets) == 0 &&
           (sets[CAP_TO_INDEX(CAP_IPC_LOCK)].effective & CAP_TO_MASK(CAP_IPC_LOCK)) != 0;
}

void agent_memlock_check(const struct kvr_rail_facts *facts)
{
    struct rlimit limit;

    if (!facts->pins_memory || locks_beyond_limit())
        return;
    if (getrlimit(RLIMIT_MEMLOCK, &limit) == 0 && limit.rlim_cur < MEMLOCK_ADVISED)
        kvr_log_warning(
            "RLIMIT_MEMLOCK allows %" PRIu64 " KiB and provider %s pins every region: "
            "larger ones will be refused (ulimit -l unlimited, LimitMEMLOCK=infinity, or "
            "in a container the capability IPC_LOCK)",
            (uint64_t)limit.rlim_cur >> 10, facts->provider);
}

void agent_congestion_check(const struct kvr_rail_facts *facts, const char *wish)
{
    if (strncmp(facts->congestion, "bbr", 3) == 0 && strcmp(wish, "auto") == 0)
        kvr_log_warning(
            "rail %s: this host's congestion control is bbr, which leaves a part of a short "
            "path unused, and this user may not choose cubic: allow it by sysctl "
            "net.ipv4.tcp_allowed_congestion_control",
            facts->name);
    else if (facts->congestion[0] != '\0')
        kvr_log_debug("rail %s: congestion control %s", facts->name, facts->congestion);
}

kvr_status agent_option_refuse(const char *option, struct kvr_error *error)
{
    const struct kvr_error value = *error;

    return kvr_error_set(error, value.status, "start", "--%s: %s", option, value.detail);
}

kvr_status agent_checks(const struct kvr_agent_config *config, struct kvr_error *error)
{
    KVR_TRY(kvr_need_files(FILES_NEEDED, error));
    if (config->state_dir[0] == '\0')
        return KVR_OK;
    return kvr_state_folder_take(config->state_dir, STATE_NEEDED, error);
}

/* Nothing is encrypted, so no option alone opens a port to other hosts. */
const char *kvr_agent_exposed(const struct kvr_agent_config *config)
{
    struct kvr_address address;

    if (config->insecure)
        return NULL;
    if (config->listen[0] != '\0' &&
        kvr_address_parse(config->listen, 0, NULL, &address) == KVR_OK &&
        !kvr_address_is_loopback(&address))
        return config->listen;
    return NULL;
}
