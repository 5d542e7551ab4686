/* Writes that arrive over the rails of another rail group than their landing's (rules 5 and 7). */
#ifndef DECODE_AGENT_LAND_FORWARD_H
#define DECODE_AGENT_LAND_FORWARD_H

#include "decode-agent/land_message.h"

struct land;

void land_hand_over(struct land *land, uint32_t rail, uint32_t epoch, uint32_t immediate);
/* Sends every other group a marker behind all that was handed over from this epoch. */
void land_epoch_mark(struct land *land, uint32_t rail, uint32_t epoch);
/* False: the message is of another kind. */
bool land_forward_command(struct land *land, const union land_message *message);

#endif
