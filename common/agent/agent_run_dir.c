/* Chooses the folder of the engine socket where no option names it. */
#include <errno.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

#include "agent/agent_state.h"

/* $RUNTIME_DIRECTORY may name several, separated by colons: the first. False: none is known. */
static bool find(char folder[512])
{
    const char *service = getenv("RUNTIME_DIRECTORY");
    const char *user = getenv("XDG_RUNTIME_DIR");

    if (service != NULL && service[0] != '\0')
        snprintf(folder, 512, "%.*s", (int)strcspn(service, ":"), service);
    else if (user != NULL && user[0] != '\0')
        snprintf(folder, 512, "%s/kvrail", user);
    else if (access("/run/kvrail", W_OK | X_OK) == 0 || access("/run", W_OK | X_OK) == 0)
        snprintf(folder, 512, "/run/kvrail");
    else
        return false;
    return true;
}

/* In a folder that others may write, they could take the socket's name away. */
static kvr_status make(const char *folder, mode_t mode, struct kvr_error *error)
{
    struct stat state;

    if (mkdir(folder, mode) != 0 && errno != EEXIST)
        return kvr_error_system(error, "start", errno, "--run-dir %s cannot be made", folder);
    if (stat(folder, &state) != 0 || !S_ISDIR(state.st_mode))
        return kvr_error_set(error, KVR_SYSTEM, "start", "--run-dir %s is no folder", folder);
    if (access(folder, W_OK | X_OK) != 0)
        return kvr_error_system(error, "start", errno,
                                "--run-dir %s cannot be written: choose another, or give it to "
                                "this user",
                                folder);
    if ((state.st_mode & S_IWOTH) != 0 && (state.st_mode & S_ISVTX) == 0)
        return kvr_error_set(error, KVR_SYSTEM, "start",
                             "--run-dir %s can be written by every user: chmod 0700 it, or choose "
                             "another",
                             folder);
    return KVR_OK;
}

static bool others_attach(const struct kvr_engines_config *engines)
{
    return engines->users.count > 0 || engines->groups.count > 0;
}

kvr_status agent_run_dir_open(struct kvr_agent *agent, struct kvr_error *error)
{
    const struct kvr_agent_config *config = agent->config;
    char folder[512], path[sizeof(folder) + KVR_NAME_BYTES + 8];

    if (config->engine_socket[0] != '\0') {
        memcpy(agent->engine_socket, config->engine_socket, sizeof(agent->engine_socket));
        return KVR_OK;
    }
    if (strchr(config->name, '/') != NULL)
        return kvr_error_set(error, KVR_INVALID, "start",
                             "--name %s has a / and cannot name the engine socket: choose another, "
                             "or give --engine-socket",
                             config->name);
    if (config->run_dir[0] != '\0')
        memcpy(folder, config->run_dir, sizeof(folder));
    else if (!find(folder))
        return kvr_error_set(error, KVR_INVALID, "start",
                             "there is no folder for the engine socket: /run cannot be written and "
                             "neither RUNTIME_DIRECTORY nor XDG_RUNTIME_DIR is set; give --run-dir "
                             "or --engine-socket");
    KVR_TRY(make(folder, others_attach(&config->engines) ? 0711 : 0700, error));
    snprintf(path, sizeof(path), "%s/%s.sock", folder, config->name);
    if (strlen(path) >= sizeof(agent->engine_socket))
        return kvr_error_set(error, KVR_TOO_LARGE, "start",
                             "choose a shorter --run-dir: a Unix socket's path has at most %zu "
                             "characters, and this one would have %zu: %s",
                             sizeof(agent->engine_socket) - 1, strlen(path), path);
    memcpy(agent->engine_socket, path, strlen(path) + 1);
    return KVR_OK;
}
