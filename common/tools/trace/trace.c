/* `kvrail trace`: traces of requests and of transfers. */
#include "tools/tool.h"
#include "tools/trace/trace_tool.h"

int tool_trace_main(int argc, char **argv)
{
    static const struct kvr_subcommand subcommands[] = {
        {"anonymise", "write a trace that can be given away", trace_anonymise_main},
        {"cut", "write a part of a trace", trace_cut_main},
        {"export", "write a trace for other programs", trace_export_main},
        {"head", "write the first records of a trace", trace_head_main},
        {"import", "write a request trace of another format as a trace", trace_import_main},
        {"info", "say what a trace holds", trace_info_main},
        {"merge", "write several traces as one", trace_merge_main},
        {"record", "write transfers that a scheduler knows as a trace", trace_record_main},
        {"synth", "write a request trace made from a seed", trace_synth_main},
        {"validate", "check each line of a trace", trace_validate_main},
        {NULL, NULL, NULL},
    };

    return kvr_subcommands_run("kvrail trace", "Traces of requests and of transfers.", subcommands,
                               argc, argv);
}
