/* The subcommands of `kvrail`. argv[0] is the subcommand's name; each returns the exit status. */
#ifndef KVR_TOOLS_TOOL_H
#define KVR_TOOLS_TOOL_H

#include "base/options.h"

extern const struct kvr_subcommand tool_subcommands[];
extern const char tool_description[];

int tool_alive_main(int argc, char **argv);
int tool_certificates_main(int argc, char **argv);
int tool_bench_main(int argc, char **argv);
int tool_compare_main(int argc, char **argv);
int tool_completion_main(int argc, char **argv);
int tool_plan_fleet_main(int argc, char **argv);
int tool_manual_main(int argc, char **argv);
int tool_replay_main(int argc, char **argv);
/* Of `kvrail replay`, where --virtual is among the words. */
int tool_replay_virtual_main(int argc, char **argv);
int tool_trace_main(int argc, char **argv);
int tool_status_main(int argc, char **argv);
int tool_why_main(int argc, char **argv);
int tool_abandon_main(int argc, char **argv);
int tool_renew_main(int argc, char **argv);
int tool_cancel_main(int argc, char **argv);
int tool_drain_main(int argc, char **argv);
int tool_resume_main(int argc, char **argv);
int tool_token_main(int argc, char **argv);
int tool_topo_main(int argc, char **argv);
int tool_doctor_main(int argc, char **argv);
int tool_sim_main(int argc, char **argv);

#endif
