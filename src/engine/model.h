/* SPDX-License-Identifier: MIT
 *
 * An open model: weights, op list and plan.
 */
#ifndef LUTRA_ENGINE_MODEL_H
#define LUTRA_ENGINE_MODEL_H

#include "decode/row_cost.h"
#include "engine/runtime.h"
#include "kv/kv.h"
#include "model/model.h"
#include "sched/profile.h"
#include "text/reasoning.h"
#include "text/template.h"
#include "text/vocab.h"
#include "weights/packed.h"
#include "weights/reader.h"
#include "weights/weights.h"

struct lutra_model {
    lutra_runtime *runtime;
    struct weights *weights;
    struct weights *adapter[LUTRA_ADAPTERS_MOST];
    int n_adapter;
    uint64_t adapters;      /* hash of what they add; 0: nothing */
    struct weights *packed; /* packed copies of its matrices (weights/packed.h), or NULL */
    bool check_packed;      /* their sums are compared even where they are used in place */
    int n_damaged;          /* copies whose sums were wrong */
    struct text_vocab *vocab;
    struct text_template *chat;    /* NULL: none in the file, or one that does not parse (then logged) */
    char *chat_source;             /* NUL-terminated copy, or NULL */
    atomic_bool chat_told;         /* what the template cannot take has been said */
    const struct text_tags *tags;  /* of reasoning, known from it; NULL: none */
    struct model *model;           /* NULL when vocab_only, like the plan */
    const lutra_model *trunk;      /* of an MTP block: whose weights, vocabulary and runtime it borrows; or NULL */
    struct weights_reader *reader; /* its file is read and packed by its first passes; NULL: it is */
    atomic_bool reading;           /* the same for who has no turn */
    bool lazy_weights;             /* weights are packed when a layer is reached (model_hold) and freed after it */
    atomic_uint devices;           /* that its passes may use: a set of their numbers in the runtime */
    struct plan plan, plan_many;   /* of passes of few rows, and of many: model_plan */
    struct profile *profile;       /* that says how its devices share, or NULL */
    enum profile_plan plan_kind[PASS_CLASSES];
    bool mixes;         /* devices whose numbers may be others share operations where the plan does not say otherwise */
    char plan_text[96]; /* that in words; "": nothing is shared */
    struct demand_rates demand; /* of a pass */
    int n_plan;                 /* how often the plan has changed */
    struct row_cost cost;  /* of passes, as the last session to be closed has measured it; under the runtime's turn */
    int cost_plan;         /* n_plan then */
    struct device *loaded; /* has the op list's constants, or NULL */
    _Atomic uint64_t packed_bytes;
    atomic_int n_user; /* sessions and verifiers that are open on it */
    char name[128], file_type[16];
    char step_mark[64];             /* a verifier's (lutra.prm.mark); "": none */
    struct lutra_sampling sampling; /* the defaults of its requests */
    char *samplers;                 /* that the file names, or NULL */
};

/* Whether it has a head that says how well a document answers. */
bool model_ranks(const lutra_model *m);

/* The MTP block of a model, as a model whose sessions draft for it; closed before it.  With the turn.
 * LUTRA_E_UNSUPPORTED: it has none. */
int model_open_block(lutra_model **out, lutra_model *trunk, struct lutra_error *err);

/* plans.c: the plan of a pass. */
struct plan *model_plan(lutra_model *m, int n_row);
/* Opens such a plan of a list of its operations, on the devices that are left. */
int model_open_plan(
    lutra_model *m, enum pass_class rows, const struct op_list *list, struct plan *out, struct lutra_error *err);
/* Its devices that are left, in order; returns how many. */
int model_devices(const lutra_model *m, struct device *out[PLAN_DEVICES]);
/* Whether one of its plans has this device. */
bool model_uses(const lutra_model *m, const struct device *d);

/* Of a model that is still being read: prepares all that is left, when it is there; with another model nothing.  With
 * the turn of all devices. */
int model_read_rest(lutra_model *m, struct lutra_error *err);

/* Of a model opened by piece, or still being read by a pass that has all devices: prepares what n operations read and
 * is not prepared yet, when it is there; with another model nothing.  What was held when it fails goes with the
 * model. */
int model_hold(struct lutra_model *m, const struct op *op, int n, struct lutra_error *err);
void model_let_go(struct lutra_model *m, const struct op *op, int n);

/* What tells its profile from others, and where that lies for these devices: to be freed, NULL: out of memory. */
void model_profile_key(const lutra_model *m, char model[24], struct profile_key *key);
char *model_profile_path(const lutra_model *m);

/* As lutra_model_open, for the quantizer: matrices keep the file's column order (weights_order).
 * lazy_weights: only quantize/observe.c runs it, piece by piece and not to its head; weights are prepared when a piece
 * holds them, and released behind it. */
int model_open_unsorted(lutra_model **out, lutra_runtime *runtime, const char *path,
    const struct lutra_model_settings *settings, bool lazy_weights, struct lutra_error *err);

#endif
