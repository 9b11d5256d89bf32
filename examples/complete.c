/* SPDX-License-Identifier: MIT
 *
 * Answers a question with a model, the text as it comes.
 *
 *     complete models/abacus-xs-f16.gguf "Tom has 3 apples and buys 5 more. How many apples does he have?"
 */
#include <lutra.h>

#include <stdio.h>
#include <stdlib.h>

static int print_piece(void *user, const struct lutra_piece *piece)
{
    fwrite(piece->text, 1, piece->n_bytes, user);
    fflush(user);
    return 0; /* anything else ends the sample */
}

/* The model's chat template around a question, as tokens; free() them. */
static int32_t *tokens_of(const lutra_model *model, const char *question, int *n_tok, struct lutra_error *err)
{
    struct lutra_message message = {.role = "user", .content = question};
    struct lutra_chat chat;
    lutra_chat_init(&chat, sizeof chat);
    chat.messages = &message;
    chat.n_message = 1;
    if (lutra_chat_tokenize(model, &chat, NULL, 0, n_tok, err) < 0) return NULL;
    int32_t *tokens = malloc((size_t)*n_tok * sizeof *tokens);
    if (!tokens)
        snprintf(err->what, sizeof err->what, "out of memory");
    else
        lutra_chat_tokenize(model, &chat, tokens, *n_tok, n_tok, err);
    return tokens;
}

static int answer(lutra_session *session, const lutra_model *model, const char *question, struct lutra_error *err)
{
    struct lutra_sampling sampling;
    lutra_sampling_init(&sampling, sizeof sampling);
    sampling.temperature = 0;
    struct lutra_request request;
    lutra_request_init(&request, sizeof request);
    int32_t *tokens = tokens_of(model, question, &request.n_prompt, err);
    if (!tokens) return -1;
    request.prompt = tokens;
    request.max_tokens = 200;
    request.sampling = &sampling;
    request.on_text = print_piece;
    request.user = stdout;
    int rc = lutra_generate(session, &request, err);
    free(tokens);
    return rc;
}

int main(int argc, char **argv)
{
    lutra_runtime *runtime = NULL;
    lutra_model *model = NULL;
    lutra_session *session = NULL;
    struct lutra_error err = {0};
    if (argc != 3) {
        fprintf(stderr, "usage: complete MODEL.gguf QUESTION\n");
        return 2;
    }
    int rc = lutra_runtime_open(&runtime, NULL, &err);
    if (rc == 0) rc = lutra_model_open(&model, runtime, argv[1], NULL, &err);
    if (rc == 0) rc = lutra_session_open(&session, model, NULL, &err);
    if (rc == 0) rc = answer(session, model, argv[2], &err);
    if (rc == 0) putchar('\n');
    if (rc < 0) fprintf(stderr, "complete: %s\n", err.what);
    lutra_session_close(&session);
    lutra_model_close(&model);
    lutra_runtime_close(&runtime);
    return rc < 0;
}
