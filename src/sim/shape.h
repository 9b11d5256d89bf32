/* SPDX-License-Identifier: MIT
 *
 * A model as far as its cost goes: sizes of a dense transformer and the bits of its weights.
 *
 *     TRY(sim_shape_named(&shape, "Llama-8B", "w4", err));
 *     TRY(sim_shape_of_file(&shape, "model.gguf", err));
 */
#ifndef LUTRA_SIM_SHAPE_H
#define LUTRA_SIM_SHAPE_H

#include <stdbool.h>

struct lutra_error;

struct sim_shape {
    char name[128];
    char quant[16];   /* as it was asked for, or the layers' type */
    char kind[3][16]; /* types of the layers, of ffn_down, of the head, as bench/npu/counts.json calls them */
    int n_layer, d_model, d_ff, n_head, n_kv_head, d_head, n_vocab;
    double layer_bits, down_bits, head_bits; /* per weight, scales included; down: ffn_down */
    bool tied;                               /* the head is the embedding */
};

/* Shapes of real models; i = 0, 1, ... until NULL. */
const char *sim_shape_name(int i);

/* What the layers of a named shape may hold: "w4" are 4 bits with a scale per output [HETERO 5.1]; i as above. */
const char *sim_quant_name(int i);

/* The place of a name among name(0), name(1), ... until NULL; LUTRA_E_NOT_FOUND lists those there are. */
int sim_place_of(const char *(*name)(int), const char *wanted, const char *what, struct lutra_error *err);

/* LUTRA_E_NOT_FOUND as above. */
int sim_shape_named(struct sim_shape *out, const char *name, const char *quant, struct lutra_error *err);

/* Of a file or folder; LUTRA_E_UNSUPPORTED: not a dense transformer, and why. */
int sim_shape_of_file(struct sim_shape *out, const char *path, struct lutra_error *err);

/* Of one layer but its down matrix, of that, of the head. */
double sim_weights_of_layer(const struct sim_shape *s);
double sim_weights_of_down(const struct sim_shape *s);
double sim_weights_of_head(const struct sim_shape *s);

/* All weights (an embedding of its own, too), and the cache of so many tokens in halves. */
double sim_weight_bytes(const struct sim_shape *s);
double sim_cache_bytes(const struct sim_shape *s, double n_tokens);

#endif
