/* What must hold before an agent starts: each failure names the limit, the need and the remedy. */
#include <string.h>

#include "agent/agent_needs.h"
#include "agent/agent_state.h"
#include "base/address.h"
#include "base/log.h"
#include "base/state_folder.h"
#include "fabric/ofi/fabric_ofi.h"
#include "fabric/ofi/fabric_ofi_library.h"

#define STATE_NEEDED (64ull << 20)

void agent_memlock_check(const struct kvr_rail_facts *facts)
{
    struct kvr_error error = {0};

    if (kvr_agent_needs_locked(facts, &error) != KVR_OK)
        kvr_log_warning("%s", error.detail);
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

void agent_libfabric_prepare(const struct kvr_agent_config *config)
{
    kvr_libfabric_choose(config->posting.libfabric);
    if (strcmp(config->device, "cuda") != 0)
        kvr_fabric_ofi_host_only();
}

kvr_status agent_checks(const struct kvr_agent_config *config, struct kvr_error *error)
{
    KVR_TRY(kvr_agent_needs_files(error));
    if (config->state_dir[0] == '\0')
        return KVR_OK;
    return kvr_state_folder_take(config->state_dir, STATE_NEEDED, error);
}

void agent_insecure_say(const struct kvr_agent_config *config)
{
    if (config->tls.insecure)
        kvr_log_warning("--insecure: messages are not encrypted, and any program that reaches this "
                        "agent's ports may read and write KV pages; `kvrail certificates` makes "
                        "what --tls-certificate needs");
}

void agent_exposed_say(const struct kvr_agent_config *config, const struct kvr_rail_facts *facts)
{
    struct kvr_address address;

    if (config->tls.insecure || !facts->exposed ||
        (kvr_address_parse(facts->source, 0, NULL, &address) == KVR_OK &&
         kvr_address_is_loopback(&address)))
        return;
    kvr_log_warning("rail %s: KV bytes are not encrypted on their way, and other hosts reach its "
                    "port: keep it in a network of trusted hosts",
                    facts->source);
}
