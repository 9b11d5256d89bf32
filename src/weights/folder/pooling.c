/* SPDX-License-Identifier: MIT
 *
 * What sentence-transformers keeps beside a model that makes vectors of texts:
 *
 *     1_Pooling/config.json    pooling_mode_cls_token, _mean_tokens, _lasttoken, ...: one of them is true
 *     N_Dense/config.json      in_features, out_features, bias, activation_function: a layer behind the pooling; its
 *                              weights lie beside it (folder.c)
 *
 * Source: sentence_transformers/models/Pooling.py, Dense.py.
 */
#include "weights/folder/folder_impl.h"

#include <stdio.h>
#include <string.h>

enum { MOST_DENSE = 8 /* a folder's numbers that are looked at */ };

static int read_mode(struct folder *f, const json_t *config, struct lutra_error *err)
{
    static const char *const mode[] = {"mean_tokens", "cls_token", "lasttoken"};
    static const int number[] = {1, 2, 3}; /* as GGUF numbers them */
    const char *key;
    json_t *v;
    int found = 0, n = 0;
    json_object_foreach((json_t *)config, key, v)
    {
        if (strncmp(key, "pooling_mode_", 13) != 0 || !json_is_true(v)) continue;
        n++;
        for (size_t i = 0; i < sizeof mode / sizeof *mode; i++)
            if (strcmp(key + 13, mode[i]) == 0) found = number[i];
    }
    if (n != 1 || !found)
        return lutra_fail(
            err, LUTRA_E_UNSUPPORTED, "%s/1_Pooling/config.json: another pooling than mean, cls or last", f->label);
    folder_put_u32(f, "pooling_type", (uint64_t)found);
    return 0;
}

static int read_dense(struct folder *f, int i, const json_t *config, struct lutra_error *err)
{
    const char *act = json_string_value(json_object_get(config, "activation_function"));
    json_int_t in = json_integer_value(json_object_get(config, "in_features"));
    json_int_t out = json_integer_value(json_object_get(config, "out_features"));
    char key[32];
    if (i != 2 && i != 3) act = "";
    if (!act || strcmp(act, "torch.nn.modules.linear.Identity") != 0 || json_is_true(json_object_get(config, "bias")))
        return lutra_fail(
            err, LUTRA_E_UNSUPPORTED, "%s/%d_Dense/config.json: a layer with a bias or an activation", f->label, i);
    if (in < 1 || in > UINT32_MAX || out < 1 || out > UINT32_MAX)
        return lutra_fail(
            err, LUTRA_E_FORMAT, "%s/%d_Dense/config.json: 'in_features' or 'out_features' is no count", f->label, i);
    snprintf(key, sizeof key, "dense_%d_feat_in", i);
    folder_put_u32(f, key, (uint64_t)in);
    snprintf(key, sizeof key, "dense_%d_feat_out", i);
    folder_put_u32(f, key, (uint64_t)out);
    return 0;
}

int folder_read_pooling(struct folder *f, struct lutra_error *err)
{
    json_t *config;
    char name[64];
    TRY(folder_json(f, "1_Pooling/config.json", true, &config, err));
    int rc = config ? read_mode(f, config, err) : 0;
    json_decref(config);
    if (f->family->flags & FAMILY_ENCODER)
        gguf_writer_put_bool(f->keys, folder_key(f, "attention.causal", (char[96]){0}), false);
    for (int i = 2; i < MOST_DENSE && rc == 0; i++) {
        snprintf(name, sizeof name, "%d_Dense/config.json", i);
        TRY(folder_json(f, name, true, &config, err));
        if (config && !(f->family->flags & FAMILY_ENCODER))
            rc = lutra_fail(err, LUTRA_E_UNSUPPORTED, "%s/%s: layers behind the pooling of %s are not implemented",
                f->label, name, f->family->name);
        if (config && rc == 0) rc = read_dense(f, i, config, err);
        json_decref(config);
    }
    return rc;
}
