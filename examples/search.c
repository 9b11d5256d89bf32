/* SPDX-License-Identifier: MIT
 *
 * Lets a model answer a question eight times and takes the answer that most of them come to.
 *
 *     search models/abacus-xs-f16.gguf "Tom has 3 apples and buys 5 more. How many apples does he have?"
 */
#include <lutra.h>

#include <stdio.h>

enum { N_CANDIDATE = 8, N_TOK = 512 };

static void print_event(void *user, const struct lutra_search_event *event)
{
    if (event->kind == LUTRA_EVENT_FINISH) fprintf(user, "candidate %d: %s\n", event->candidate, event->answer);
}

static int vote(lutra_session *session, const lutra_model *model, const char *question, struct lutra_error *err)
{
    struct lutra_message message = {.role = "user", .content = question};
    struct lutra_request request;
    struct lutra_search search;
    lutra_search_run *run;
    int32_t tokens[N_TOK];
    int active = 1;
    lutra_request_init(&request, sizeof request);
    struct lutra_chat chat;
    lutra_chat_init(&chat, sizeof chat);
    chat.messages = &message;
    chat.n_message = 1;
    int rc = lutra_chat_tokenize(model, &chat, tokens, N_TOK, &request.n_prompt, err);
    if (rc < 0) return rc;
    if (request.n_prompt > N_TOK) {
        snprintf(err->what, sizeof err->what, "the question has more than %d tokens", N_TOK);
        return LUTRA_E_CTX_FULL;
    }
    request.prompt = tokens;
    request.max_tokens = 200;
    lutra_search_init(&search, sizeof search);
    search.method = LUTRA_SEARCH_VOTE;
    search.width = N_CANDIDATE;
    search.on_event = print_event;
    search.user = stderr;
    if ((rc = lutra_search_submit(&run, session, &request, &search, err)) < 0) return rc;
    while (rc == 0 && active > 0) rc = lutra_step(session, &active, err);
    const struct lutra_search_result *result = lutra_search_done(run);
    if (rc == 0 && result && result->text) printf("%s (%.0f %% of the votes)\n", result->answer, 100 * result->score);
    lutra_search_close(&run);
    return rc;
}

int main(int argc, char **argv)
{
    lutra_runtime *runtime = NULL;
    lutra_model *model = NULL;
    lutra_session *session = NULL;
    struct lutra_session_settings settings;
    struct lutra_error err = {0};
    if (argc != 3) {
        fprintf(stderr, "usage: search MODEL.gguf QUESTION\n");
        return 2;
    }
    lutra_session_settings_init(&settings, sizeof settings);
    settings.n_seq = N_CANDIDATE; /* all at once; with fewer they take turns */
    int rc = lutra_runtime_open(&runtime, NULL, &err);
    if (rc == 0) rc = lutra_model_open(&model, runtime, argv[1], NULL, &err);
    if (rc == 0) rc = lutra_session_open(&session, model, &settings, &err);
    if (rc == 0) rc = vote(session, model, argv[2], &err);
    if (rc < 0) fprintf(stderr, "search: %s\n", err.what);
    lutra_session_close(&session);
    lutra_model_close(&model);
    lutra_runtime_close(&runtime);
    return rc < 0;
}
