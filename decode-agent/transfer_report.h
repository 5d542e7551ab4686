/* Events of a transfer, for the scheduler. */
#ifndef DECODE_AGENT_TRANSFER_REPORT_H
#define DECODE_AGENT_TRANSFER_REPORT_H

#include "decode-agent/transfer.h"

void transfer_report(struct inbound *inbound, const struct transfer *transfer, kvr_event_kind kind);

#endif
