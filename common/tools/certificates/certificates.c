/* `kvrail certificates`: the CA of a small fleet, and its certificates. */
#include <fcntl.h>
#include <stdio.h>

#include "base/options.h"
#include "tls/pem_file.h"
#include "tools/certificates/authority.h"
#include "tools/certificates/certificate_issue.h"
#include "tools/certificates/certificate_name.h"
#include "tools/certificates/certificate_revoke.h"
#include "tools/certificates/certificate_show.h"
#include "tools/certificates/issued.h"
#include "tools/tool.h"

#define DAY_SECONDS   86400
#define EARLY_SECONDS 300 /* clocks of hosts differ: a certificate is valid a little before now */

struct certificates_options {
    char fleet[KVR_NAME_BYTES];
    uint64_t days;
    kvr_ns age;
    struct kvr_option_list hosts, tenants, arguments;
    bool force;
};

#define ROW(called, kind, field, ...)                                                              \
    {                                                                                              \
        .section = "certificate", .name = (called),                                                \
        KVR_OPTION_##kind(struct certificates_options, field), __VA_ARGS__                         \
    }
#define AGE                                                                                        \
    ROW("age", DURATION, age, .fallback = "0s", .max = 36500ull * DAY_SECONDS * KVR_S,             \
        .hidden = true, .help = "Made as if so long ago: for tests.")

static const struct kvr_option init_options[] = {
    ROW("fleet", STRING, fleet, .value = "NAME", .fallback = "default",
        .help = "The fleet's name, in every identity: kvrail://FLEET/ROLE/NAME."),
    ROW("days", COUNT, days, .fallback = "3650", .min = 1, .max = 36500,
        .help = "How long the CA is valid."),
    ROW("force", BOOL, force,
        .help = "Replace the CA that is there. Every certificate must then be issued again, and "
                "the list of revoked ones is removed."),
    AGE,
};

static const struct kvr_option issue_options[] = {
    ROW("host", LIST, hosts, .value = "HOST", .max = KVR_OPTION_LIST_MAX,
        .help =
            "A DNS name or an IP address of the host, without a port; may be repeated. A "
            "scheduler needs every name and address that its callers use: HTTPS compares them. Of "
            "several certificates each has all."),
    ROW("days", COUNT, days, .fallback = "365", .min = 1, .max = 36500,
        .help = "How long it is valid; at most as long as the CA."),
    ROW("tenant", LIST, tenants, .value = "TENANT", .max = KVR_OPTION_LIST_MAX,
        .help = "A tenant that the agent may serve, as an organizational unit of the subject; may "
                "be repeated."),
    ROW("force", BOOL, force,
        .help = "Replace the certificate and the key that are there. The old certificate stays "
                "valid until it expires; revoke the name first if its key is lost."),
    AGE,
};

static const struct kvr_command init_command = {
    .name = "kvrail certificates init",
    .description =
        "Makes the CA of a fleet in the folder DIR: ca.pem, which every program is given with\n"
        "--tls-ca, and ca-key.pem, which stays here. The key is ECDSA on P-256. Its reader\n"
        "can make certificates that the whole fleet believes: keep DIR on one machine.",
    KVR_OPTION_ROWS(init_options),
    .arguments = "DIR",
    .arguments_offset = offsetof(struct certificates_options, arguments),
    .arguments_min = 1,
    .arguments_max = 1,
    .footer = "Example:\n  kvrail certificates init /root/fleet --fleet prod",
};

static const struct kvr_command issue_command = {
    .name = "kvrail certificates issue",
    .description =
        "Makes DIR/NAME.pem and DIR/NAME-key.pem, which the CA in DIR signs. ROLE is prefill,\n"
        "decode, scheduler or client (a person, or a tool). NAME of an agent is its --name. The\n"
        "program gets them with --tls-certificate and --tls-key. Several pairs of ROLE and NAME\n"
        "make as many certificates.",
    KVR_OPTION_ROWS(issue_options),
    .arguments = "DIR ROLE NAME…",
    .arguments_offset = offsetof(struct certificates_options, arguments),
    .arguments_min = 3,
    .arguments_max = KVR_OPTION_LIST_MAX,
    .footer = "Examples:\n"
              "  kvrail certificates issue /root/fleet prefill p0 decode d0\n"
              "  kvrail certificates issue /root/fleet scheduler s --host 10.0.0.5",
};

static const struct kvr_command revoke_command = {
    .name = "kvrail certificates revoke",
    .description =
        "Puts every certificate that DIR's CA has issued to NAME on the list DIR/crl.pem. Give\n"
        "the list to every program with --tls-crl; a program reads it again when it changes.",
    .arguments = "DIR NAME",
    .arguments_offset = offsetof(struct certificates_options, arguments),
    .arguments_min = 2,
    .arguments_max = 2,
};

static const struct kvr_command show_command = {
    .name = "kvrail certificates show",
    .description =
        "Prints the certificates of a PEM file: identity, hosts, when each is valid, issuer and\n"
        "fingerprint. Exit status 1 when one has expired.",
    .arguments = "FILE",
    .arguments_offset = offsetof(struct certificates_options, arguments),
    .arguments_min = 1,
    .arguments_max = 1,
};

/* One sentence; the exit status is its result. */
static int failed(const struct kvr_command *command, const struct kvr_error *error)
{
    fprintf(stderr, "%s: %s\n", command->name, error->detail);
    return error->status == KVR_INVALID ? KVR_EXIT_USAGE : 1;
}

static struct certificate_life life_of(const struct certificates_options *config)
{
    time_t now = time(NULL) - (time_t)(config->age / KVR_S);

    return (struct certificate_life){.begin = now - EARLY_SECONDS,
                                     .end = now + (time_t)config->days * DAY_SECONDS};
}

static kvr_status init(const struct certificates_options *config, struct kvr_error *error)
{
    const char *path = config->arguments.items[0];
    struct certificate_folder folder;
    kvr_status status;

    KVR_TRY(certificate_name_check("--fleet", config->fleet, error));
    KVR_TRY(certificate_folder_open(path, true, &folder, error));
    if (!config->force && (certificate_folder_has(&folder, "ca.pem") ||
                           certificate_folder_has(&folder, "ca-key.pem")))
        status = kvr_error_set(error, KVR_EXISTS, "certificates",
                               "%s has a CA; --force replaces it, and every certificate must then "
                               "be issued again",
                               path);
    else
        status = issued_clear(&folder, error);
    if (status == KVR_OK)
        status = certificate_folder_remove(&folder, "crl.pem", error);
    if (status == KVR_OK)
        status = authority_make(&folder, config->fleet, life_of(config), error);
    certificate_folder_close(&folder);
    return status;
}

static int init_main(int argc, char **argv)
{
    struct certificates_options config = {0};
    struct kvr_error error = {0};
    int exit_status;

    if (!kvr_options_load(&init_command, argc, argv, &config, &exit_status))
        return exit_status;
    if (init(&config, &error) != KVR_OK)
        return failed(&init_command, &error);
    printf("%s/ca.pem: the CA of fleet %s\n", config.arguments.items[0], config.fleet);
    return 0;
}

/* What is asked for the i-th pair of ROLE and NAME. */
static kvr_status take_wish(const struct certificates_options *config, uint32_t i,
                            struct certificate_wish *ret_wish, struct kvr_error *error)
{
    struct certificate_wish wish = {.name = config->arguments.items[2 + 2 * i],
                                    .hosts = &config->hosts,
                                    .tenants = &config->tenants,
                                    .life = life_of(config)};

    KVR_TRY(certificate_role_find(config->arguments.items[1 + 2 * i], &wish.role, error));
    KVR_TRY(certificate_subject_check(wish.name, error));
    if (wish.role == CERTIFICATE_SCHEDULER && config->hosts.count == 0)
        return kvr_error_set(error, KVR_INVALID, "certificates",
                             "agents and browsers call a scheduler by its host: give every name "
                             "and address of it with --host");
    *ret_wish = wish;
    return KVR_OK;
}

static kvr_status check_free(const struct certificate_folder *folder, const char *name,
                             struct kvr_error *error)
{
    char key[KVR_NAME_BYTES + 16], certificate[KVR_NAME_BYTES + 16];

    snprintf(key, sizeof(key), "%s-key.pem", name);
    snprintf(certificate, sizeof(certificate), "%s.pem", name);
    if (!certificate_folder_has(folder, key) && !certificate_folder_has(folder, certificate))
        return KVR_OK;
    return kvr_error_set(error, KVR_EXISTS, "certificates",
                         "%s has a certificate or a key of '%s'; --force replaces both",
                         folder->path, name);
}

static kvr_status issue_one(const struct certificate_folder *folder,
                            const struct authority *authority,
                            const struct certificates_options *config, uint32_t i,
                            struct kvr_error *error)
{
    char uri[CERTIFICATE_URI_BYTES];
    struct certificate_wish wish;
    time_t end;

    KVR_TRY(take_wish(config, i, &wish, error));
    if (!config->force)
        KVR_TRY(check_free(folder, wish.name, error));
    KVR_TRY(certificate_issue(folder, authority, &wish, &end, error));
    printf("%s/%s.pem: %s%s\n", folder->path, wish.name,
           certificate_uri(authority->fleet, wish.role, wish.name, uri),
           end < wish.life.end ? ", until the CA ends" : "");
    return KVR_OK;
}

static kvr_status issue_in(const struct certificate_folder *folder,
                           const struct certificates_options *config, uint32_t count,
                           struct kvr_error *error)
{
    kvr_status status = KVR_OK;
    struct authority authority;

    KVR_TRY(authority_open(folder, &authority, error));
    for (uint32_t i = 0; i < count && status == KVR_OK; i++)
        status = issue_one(folder, &authority, config, i, error);
    authority_close(&authority);
    return status;
}

static kvr_status issue(const struct certificates_options *config, struct kvr_error *error)
{
    uint32_t count = (config->arguments.count - 1) / 2;
    struct certificate_folder folder;
    struct certificate_wish wish;
    kvr_status status;

    if (config->arguments.count % 2 == 0)
        return kvr_error_set(error, KVR_INVALID, "certificates",
                             "role '%s' lacks its name: the arguments are DIR, then pairs of ROLE "
                             "and NAME",
                             config->arguments.items[config->arguments.count - 1]);
    for (uint32_t i = 0; i < count; i++)
        KVR_TRY(take_wish(config, i, &wish, error)); /* none is made where one is wrong */
    KVR_TRY(certificate_folder_open(config->arguments.items[0], false, &folder, error));
    status = issue_in(&folder, config, count, error);
    certificate_folder_close(&folder);
    return status;
}

static int issue_main(int argc, char **argv)
{
    struct certificates_options config = {0};
    struct kvr_error error = {0};
    int exit_status;

    if (!kvr_options_load(&issue_command, argc, argv, &config, &exit_status))
        return exit_status;
    return issue(&config, &error) == KVR_OK ? 0 : failed(&issue_command, &error);
}

static kvr_status revoke_name(const char *path, const char *name, struct kvr_error *error)
{
    struct certificate_folder folder;
    struct authority authority;
    unsigned revoked = 0;
    uint64_t number = 0;
    kvr_status status;

    KVR_TRY(certificate_subject_check(name, error));
    KVR_TRY(certificate_folder_open(path, false, &folder, error));
    status = authority_open(&folder, &authority, error);
    if (status == KVR_OK) {
        status = certificate_revoke(&folder, &authority, name, &revoked, &number, error);
        authority_close(&authority);
    }
    certificate_folder_close(&folder);
    KVR_TRY(status);
    if (revoked > 0)
        printf("%s/crl.pem: %u certificate%s of %s revoked, list %llu\n", path, revoked,
               revoked > 1 ? "s" : "", name, (unsigned long long)number);
    else
        printf("%s/crl.pem: every certificate of %s was on list %llu already\n", path, name,
               (unsigned long long)number);
    return KVR_OK;
}

static int revoke_main(int argc, char **argv)
{
    struct certificates_options config = {0};
    struct kvr_error error = {0};
    int exit_status;

    if (!kvr_options_load(&revoke_command, argc, argv, &config, &exit_status))
        return exit_status;
    return revoke_name(config.arguments.items[0], config.arguments.items[1], &error) == KVR_OK
               ? 0
               : failed(&revoke_command, &error);
}

static int show_main(int argc, char **argv)
{
    struct certificates_options config = {0};
    struct kvr_error error = {0}, why = {0};
    gnutls_datum_t text;
    bool expired = false;
    int exit_status;

    if (!kvr_options_load(&show_command, argc, argv, &config, &exit_status))
        return exit_status;
    if (kvr_pem_file_read(AT_FDCWD, config.arguments.items[0], &text, &error) != KVR_OK)
        return failed(&show_command, &error);
    if (certificate_show(&text, time(NULL), stdout, &expired, &why) != KVR_OK)
        (void)kvr_error_set(&error, why.status, "certificates", "%s: %s", config.arguments.items[0],
                            why.detail);
    gnutls_free(text.data);
    if (error.status != KVR_OK)
        return failed(&show_command, &error);
    return expired ? 1 : 0;
}

int tool_certificates_main(int argc, char **argv)
{
    static const struct kvr_subcommand subcommands[] = {
        {"init", "make the CA of a fleet", init_main},
        {"issue", "make a certificate and its key", issue_main},
        {"revoke", "put a name's certificates on the list of revoked ones", revoke_main},
        {"show", "print what a certificate says", show_main},
        {NULL, NULL, NULL},
    };

    return kvr_subcommands_run("kvrail certificates",
                               "The CA of a small fleet, and its certificates.", subcommands, argc,
                               argv);
}
