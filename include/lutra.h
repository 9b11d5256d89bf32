/* SPDX-License-Identifier: MIT
 *
 * Lutra: an LLM inference engine.  This header is the whole public API; its parts stand in lutra/.
 *
 *     lutra_runtime *rt = NULL;  lutra_model *model = NULL;  lutra_session *s = NULL;
 *     struct lutra_error err;
 *     if (lutra_runtime_open(&rt, NULL, &err) < 0 || lutra_model_open(&model, rt, "model.gguf", NULL, &err) < 0 ||
 *         lutra_session_open(&s, model, NULL, &err) < 0) { fprintf(stderr, "%s\n", err.what); ... }
 *     struct lutra_request r;
 *     lutra_request_init(&r, sizeof r);
 *     r.prompt = tokens;  r.n_prompt = n;  r.on_text = print_piece;
 *     lutra_generate(s, &r, &err);
 *     lutra_session_close(&s);  lutra_model_close(&model);  lutra_runtime_close(&rt);
 *
 * Read lutra/core.h first: it says what holds everywhere (status, threads, structs that grow).
 */
#ifndef LUTRA_H
#define LUTRA_H

#include "lutra/chat.h"
#include "lutra/check.h"
#include "lutra/core.h"
#include "lutra/experimental.h"
#include "lutra/files.h"
#include "lutra/generate.h"
#include "lutra/rag.h"
#include "lutra/rows.h"
#include "lutra/search.h"
#include "lutra/session.h"
#include "lutra/sim.h"
#include "lutra/status.h"

#endif
