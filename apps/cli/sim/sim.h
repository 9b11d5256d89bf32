/* SPDX-License-Identifier: MIT */
#ifndef LUTRA_CLI_SIM_H
#define LUTRA_CLI_SIM_H

#include <jansson.h>
#include <stdbool.h>

/* sim.c: a member's number; 0: there is none. */
double sim_number(const json_t *o, const char *key);

/* gantt.c: members of an operation with the time of each processor, and of how many: the CPU, last, is often idle. */
enum { SIM_PROCESSORS = 3 };
extern const char *const sim_processors[SIM_PROCESSORS];
int sim_used(const json_t *ops);
/* gantt.c: not in the picture: the head, which is no part of a layer, where that is what is drawn. */
bool sim_is_beyond(const json_t *all, const json_t *op);
/* gantt.c: until all in the picture are over. */
double sim_layer_us(const json_t *all, const json_t *ops);

/* gantt.c: a layer of the prompt and one of the reply, a bar for each operation and processor.  An exit code. */
int sim_write_svg(const json_t *all, const char *path);

/* cost.c: accuracy against modelled latency and energy, of what counted kernels say.  An exit code. */
int sim_write_costs(const json_t *counted, const char *path);

#endif
