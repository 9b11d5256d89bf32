/* SPDX-License-Identifier: MIT
 *
 * The ids of many strings:  folder_ids MODEL STRINGS > IDS
 *
 * MODEL is a folder or file with a vocabulary.  STRINGS holds one text after another, a NUL after each; for each a line
 * of ids comes out, with control tokens recognised and nothing put around the text.
 */
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "lutra/core.h"

static int fail(const char *what, const struct lutra_error *err)
{
    fprintf(stderr, "folder_ids: %s: %s\n", what, err ? err->what : "cannot be read");
    return 1;
}

static char *load(const char *path, size_t *n)
{
    FILE *f = fopen(path, "rb");
    char *text = NULL;
    *n = 0;
    if (f && fseek(f, 0, SEEK_END) == 0) {
        long size = ftell(f);
        rewind(f);
        text = malloc((size_t)size + 1);
        if (text) *n = fread(text, 1, (size_t)size, f);
        if (text) text[*n] = 0;
    }
    if (f) fclose(f);
    return text;
}

int main(int argc, char **argv)
{
    enum { ROOM = 1 << 20 };
    size_t n_text;
    int n = 0;
    struct lutra_error err = {0};
    lutra_runtime *runtime;
    lutra_model *model;
    if (argc != 3) return fail("usage: folder_ids MODEL STRINGS", &err);
    char *text = load(argv[2], &n_text);
    int32_t *ids = malloc(ROOM * sizeof *ids);
    if (!text || !ids) return fail(argv[2], NULL);
    struct lutra_model_settings settings;
    lutra_model_settings_init(&settings, sizeof settings);
    settings.vocab_only = true;
    if (lutra_runtime_open(&runtime, NULL, &err) < 0) return fail("runtime", &err);
    if (lutra_model_open(&model, runtime, argv[1], &settings, &err) < 0) return fail(argv[1], &err);
    for (char *at = text; at < text + n_text; at += strlen(at) + 1) {
        if (lutra_tokenize(model, at, strlen(at), LUTRA_PARSE_SPECIAL, ids, ROOM, &n, &err) < 0)
            return fail("text", &err);
        for (int i = 0; i < n; i++) printf(i ? " %d" : "%d", (int)ids[i]);
        putchar('\n');
    }
    lutra_model_close(&model);
    lutra_runtime_close(&runtime);
    free(text);
    free(ids);
    return 0;
}
