/* SPDX-License-Identifier: MIT
 *
 * lutra_sim(): what settings mean, and the answer's frame.
 */
#include "sim/report.h"

#include <stdio.h>
#include <string.h>

#include "base/status.h"
#include "base/settings.h"

void lutra_sim_settings_init(struct lutra_sim_settings *settings, size_t size)
{
    settings_fill(settings, size,
        &(struct lutra_sim_settings){
            .size = sizeof *settings, .n_prompt = 1024, .n_decode = 128, .n_batch = 1, .gpu_slice_ms = 10});
}

const char *lutra_sim_shape(int i)
{
    return sim_shape_name(i);
}

json_t *sim_span_json(const struct sim_span *s)
{
    return json_pack("{s:f, s:f, s:f}", "low", s->low, "middle", s->middle, "high", s->high);
}

struct sim_span sim_rate(double n, const struct sim_span *us)
{
    return (struct sim_span){n * 1e6 / us->high, n * 1e6 / us->middle, n * 1e6 / us->low};
}

static int check_numbers(const struct lutra_sim_settings *s, struct lutra_error *err)
{
    const struct {
        const char *name;
        double value, least, most;
    } fields[] = {{"n_prompt", s->n_prompt, 1, SIM_ROWS_MAX}, {"n_decode", s->n_decode, 0, SIM_ROWS_MAX},
        {"n_batch", s->n_batch, 1, 1024}, {"n_ctx", s->n_ctx, 0, 4 * SIM_ROWS_MAX},
        {"n_beside", s->n_beside, 0, SIM_BESIDE_MAX}, {"memory_gib", s->memory_gib, 0, 1e9},
        {"game_fps", s->game_fps, 0, 1000}, {"game_share", s->game_share, 0, 1},
        {"gpu_slice_ms", s->gpu_slice_ms, 0, 1e6}};
    for (size_t i = 0; i < sizeof fields / sizeof *fields; i++)
        if (!(fields[i].value >= fields[i].least && fields[i].value <= fields[i].most))
            return lutra_fail(err, LUTRA_E_ARGUMENT, "lutra_sim: %s is %.10g: not %g to %.10g", fields[i].name,
                fields[i].value, fields[i].least, fields[i].most);
    if (s->game_fps > 0 && s->game_fps < 1)
        return lutra_fail(err, LUTRA_E_ARGUMENT, "lutra_sim: game_fps is %g: neither 0 nor 1 to 1000", s->game_fps);
    if (s->n_ctx && s->n_ctx < s->n_prompt + s->n_decode)
        return lutra_fail(err, LUTRA_E_ARGUMENT, "lutra_sim: %d + %d tokens do not fit into n_ctx %d", s->n_prompt,
            s->n_decode, s->n_ctx);
    return 0;
}

/* "npu,gpu" */
static int read_devices(struct sim_case *c, const char *text, struct lutra_error *err)
{
    for (const char *at = text; at; at = *at ? at + 1 : NULL) {
        const size_t n = strcspn(at, ",");
        char name[16];
        snprintf(name, sizeof name, "%.*s", (int)n, at);
        const int d = sim_place_of(sim_processor_name, name, "processor", err);
        if (d < 0) return d;
        for (int i = 0; i < c->n_device; i++)
            if (c->device[i] == (enum sim_device)d)
                return lutra_fail(err, LUTRA_E_ARGUMENT, "device '%s': %s is there twice", text, name);
        c->device[c->n_device++] = (enum sim_device)d;
        at += n;
    }
    return 0;
}

struct sim_question sim_prompt_of(const struct sim_case *c)
{
    struct sim_question q = {.profile = c->profile,
        .shape = &c->shape,
        .plan = c->plan,
        .rows = c->set.n_prompt,
        .n_out = 1,
        .beside = c->set.n_beside,
        .beside_past = c->set.n_prompt,
        .n_device = c->n_device};
    memcpy(q.device, c->device, sizeof q.device);
    return q;
}

struct sim_question sim_decode_of(const struct sim_case *c)
{
    struct sim_question q = sim_prompt_of(c);
    q.rows = q.n_out = c->set.n_batch, q.past = c->set.n_prompt, q.many = true, q.beside = 0;
    return q;
}

static const char *law_name(int i)
{
    return i == SIM_QNN ? "qnn" : i == SIM_LUTRA ? "lutra" : NULL;
}

/* What settings ask for at once, and nothing models. */
static int check_case(const struct sim_case *c, struct lutra_error *err)
{
    const struct lutra_sim_settings *s = &c->set;
    const char *plan = sim_plan_name(c->plan);
    const bool ours = c->plan >= SIM_ONE, lists = s->what == LUTRA_SIM_LENGTHS || s->what == LUTRA_SIM_PLANS;
    if (c->law == SIM_LUTRA && (lists || c->plan != SIM_FREE || s->n_beside))
        return lutra_fail(err, LUTRA_E_ARGUMENT,
            "plan '%s', lists of plans and sequences beside a prompt are of the law qnn: this project's kernels use "
            "the "
            "NPU alone, and no fixed graphs",
            plan);
    if (c->law == SIM_LUTRA && s->game_fps > 0)
        return lutra_fail(
            err, LUTRA_E_ARGUMENT, "a game is of the law qnn: this project's kernels leave the GPU to it");
    if (s->game_fps > 0 && (ours || s->n_beside))
        return lutra_fail(err, LUTRA_E_UNSUPPORTED, "a game beside %s is not modelled",
            ours ? "the engine's plans" : "sequences that decode in the prompt's passes");
    if (s->device && !ours && s->what != LUTRA_SIM_LENGTHS)
        return lutra_fail(err, LUTRA_E_ARGUMENT,
            "device '%s' is of the plans one, class and hybrid: plan '%s' has its own", s->device, plan);
    return 0;
}

static int read_case(
    struct sim_case *c, struct soc_profile *profile, const struct lutra_sim_settings *settings, struct lutra_error *err)
{
    lutra_sim_settings_init(&c->set, sizeof c->set);
    TRY(settings_copy(&c->set, sizeof c->set, settings, "lutra_sim_settings", err));
    struct lutra_sim_settings *s = &c->set;
    TRY(check_numbers(s, err));
    const int law = sim_place_of(law_name, s->law ? s->law : "qnn", "law", err);
    if (law < 0) return law;
    const int plan = sim_place_of(sim_plan_name, s->plan ? s->plan : "free", "plan", err);
    if (plan < 0) return plan;
    c->law = (enum sim_law)law, c->plan = (enum sim_plan)plan;
    TRY(check_case(c, err));
    if (!s->device) s->device = "npu,gpu";
    TRY(read_devices(c, s->device, err));
    TRY(soc_profile_open(profile, s->soc ? s->soc : "8gen3", err));
    c->profile = profile, c->is_file = s->soc && soc_profile_is_file(s->soc);
    if (s->model) return sim_shape_of_file(&c->shape, s->model, err);
    return sim_shape_named(&c->shape, s->shape ? s->shape : "Llama-8B", s->quant ? s->quant : "w4", err);
}

static json_t *frame(const struct sim_case *c)
{
    const struct sim_shape *s = &c->shape;
    return json_pack("{s:s, s:s, s:s, s:s, s:{s:s, s:s, s:i, s:i, s:i, s:i, s:i, s:i, s:i, s:f, s:f, s:f, s:b}}",
        "times", "modelled, not measured", "soc", c->profile->soc, "profile", c->profile->name, "law", law_name(c->law),
        "model", "name", s->name, "quant", s->quant, "n_layer", s->n_layer, "d_model", s->d_model, "d_ff", s->d_ff,
        "n_head", s->n_head, "n_kv_head", s->n_kv_head, "d_head", s->d_head, "n_vocab", s->n_vocab, "layer_bits",
        s->layer_bits, "down_bits", s->down_bits, "head_bits", s->head_bits, "tied", s->tied);
}

static json_t *answer(const struct sim_case *c, struct lutra_error *err)
{
    switch (c->set.what) {
    case LUTRA_SIM_REPLY: return sim_reply_json(c, err);
    case LUTRA_SIM_LENGTHS: return sim_lengths_json(c, err);
    case LUTRA_SIM_COMPARE: return sim_compare_json(c, err);
    case LUTRA_SIM_PAPERS: return sim_papers_json(c, err);
    case LUTRA_SIM_PLANS: return sim_plans_json(c, err);
    }
    lutra_fail(err, LUTRA_E_ARGUMENT, "lutra_sim: what is %d", (int)c->set.what);
    return NULL;
}

static int run(const struct lutra_sim_settings *settings, char **json, struct lutra_error *err)
{
    struct soc_profile profile;
    struct sim_case c = {0};
    TRY(read_case(&c, &profile, settings, err));
    json_t *part = answer(&c, err), *all = c.set.what == LUTRA_SIM_PAPERS ? json_object() : frame(&c);
    if (part && all) json_object_update(all, part), *json = json_dumps(all, JSON_INDENT(1) | JSON_REAL_PRECISION(9));
    json_decref(part);
    json_decref(all);
    if (*json || (!part && err->code < 0)) return err->code;
    return lutra_fail(err, LUTRA_E_NO_MEMORY, "lutra_sim: no memory");
}

int lutra_sim(const struct lutra_sim_settings *settings, char **json, struct lutra_error *err)
{
    struct lutra_error why = {0};
    *json = NULL;
    int rc = run(settings, json, &why);
    if (rc < 0 && err) *err = why;
    return rc;
}
