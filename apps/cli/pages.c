/* SPDX-License-Identifier: MIT
 *
 * What man pages say beside the option tables: examples, files and variables of each command.  An entry is what is
 * typed or named, and what it does; tests run every example.
 */
#include "describe.h"

#include <string.h>

#define HISTORY                                                                                                        \
    {                                                                                                                  \
        "$XDG_STATE_HOME/lutra/history or ~/.local/state/lutra/history", "what was typed in chats"                     \
    }
#define PACKED                                                                                                         \
    {                                                                                                                  \
        "MODEL.lutra-packed, MODEL.lutra-packed.costs", "packed weights (lutra pack), and what passes cost with them"  \
    }
#define STORE                                                                                                          \
    {                                                                                                                  \
        "$XDG_DATA_HOME/lutra/rag.db or ~/.local/share/lutra/rag.db", "documents, if --db names no file"               \
    }
#define HUB                                                                                                            \
    {                                                                                                                  \
        "$HF_HUB_CACHE, $HF_HOME/hub or ~/.cache/huggingface/hub", "models of Hugging Face's tools and of -hf"         \
    }

static const struct page pages[] = {
    {"run",
        {{"lutra run model.gguf", "a chat"},
            {"lutra run -q -st -m model.gguf -p \"Say hello\"", "one answer, for a pipe"},
            {"lutra run -m model.gguf --vote 8 -p \"What is 17 times 23?\"", "the most frequent of eight answers"},
            {"lutra run -m model.gguf --best-of 8 --check equation --until-pass -p \"What is 17 times 23?\"",
                "the first of eight answers whose equations hold"}},
        {HISTORY, PACKED, HUB}, {{"HF_ENDPOINT", "the server that -hf asks"}, {"HF_TOKEN", "access token for it"}}},
    {"serve",
        {{"lutra serve -m model.gguf", "http://127.0.0.1:8080/v1 for programs of this machine"},
            {"lutra serve -m model.gguf --host 0.0.0.0 --api-key-file keys", "for others, with a key"},
            {"lutra serve -m model.gguf --port 11434", "where programs look for Ollama"}},
        {{"keys", "a key in each line, and behind a blank a name for the log"}, PACKED, HUB},
        {{"LISTEN_FDS, LISTEN_PID", "a listening socket of the service manager"},
            {"NOTIFY_SOCKET", "told when it serves and when it ends"}}},
    {"eval",
        {{"lutra eval -m model.gguf -f problems.jsonl --methods greedy,vote@8", "accuracy of one answer and of a vote"},
            {"lutra eval -m model.gguf -f problems.jsonl --report report.json --methods greedy,vote@4",
                "the same as JSON, which --auto-table reads"}},
        {{"problems.jsonl", "a line of JSON for each problem, with \"question\" and \"answer\""},
            {"REPORT.journal", "finished problems; the same command goes on behind them"}},
        {{NULL, NULL}}},
    {"perplexity", {{"lutra perplexity -m model.gguf -f text.txt -c 64", "how well the model predicts the text"}},
        {{NULL, NULL}}, {{NULL, NULL}}},
    {"bench",
        {{"lutra bench -m model.gguf", "prompts of 512 tokens, decoding of 128"},
            {"lutra bench -m model.gguf -npl 1,8", "one and eight sequences side by side"}},
        {PACKED}, {{NULL, NULL}}},
    {"quantize",
        {{"lutra quantize in.gguf out.gguf Q4_K_M", "llama-quantize's mix of that name"},
            {"lutra quantize in.gguf Q5_K_M --dry-run", "which tensor gets which type"}},
        {{"OUT.gguf.calibrated", "finished matrices of --calibrate --resume, until OUT.gguf is written"}},
        {{NULL, NULL}}},
    {"imatrix",
        {{"lutra imatrix -m model.gguf -f text.txt -o imatrix.gguf -c 64", "importance of inputs over the text"}},
        {{NULL, NULL}}, {{NULL, NULL}}},
    {"import", {{"lutra import models/abacus-b158 out.gguf", "a Hugging Face folder as a GGUF file"}}, {{NULL, NULL}},
        {{NULL, NULL}}},
    {"pack",
        {{"lutra pack model.gguf", "the next start maps packed weights"},
            {"lutra pack --check model.gguf.lutra-packed", "compares its sums"}},
        {PACKED}, {{NULL, NULL}}},
    {"profile",
        {{"lutra profile -m model.gguf --device cpu:0",
            "what its operations take; with several clusters, their plans"}},
        {{"MODEL.DEVICES.lutra-profile", "what was measured, and the plans that follow"}}, {{NULL, NULL}}},
    {"make-model", {{"lutra make-model --shape tiny-qwen2 --type Q4_0 -o out.gguf", "random weights, for measuring"}},
        {{NULL, NULL}}, {{NULL, NULL}}},
    {"inspect",
        {{"lutra inspect model.gguf", "what it is, and what keeps it from running"},
            {"lutra inspect --json model.gguf", "for programs"}},
        {{NULL, NULL}}, {{NULL, NULL}}},
    {"check",
        {{"lutra check model.gguf", "its values, and what this machine makes of it"},
            {"lutra check --quick --json model.gguf", "for programs"}},
        {{NULL, NULL}}, {{NULL, NULL}}},
    {"models", {{"lutra models", "names that -m takes"}},
        {HUB, {"~/.ollama/models, ~/.lmstudio/models, ~/.cache/llama.cpp", "models of other programs"}},
        {{"HF_HUB_CACHE, HF_HOME, LLAMA_CACHE, OLLAMA_MODELS", "where to look instead"}}},
    {"pull", {{"lutra pull user/repo:Q4_K_M", "a file of the hub, into its cache"}}, {HUB},
        {{"HF_ENDPOINT", "another hub"}, {"HF_TOKEN", "for models that are not public"}}},
    {"tokenize", {{"lutra tokenize -m model.gguf --ids -p \"Say hello\"", "token ids"}}, {{NULL, NULL}},
        {{NULL, NULL}}},
    {"embed",
        {{"lutra embed -m model.gguf --pooling last -p \"how are owls counted\"", "a vector of length 1, in JSON"},
            {"lutra embed -m model.gguf --pooling mean -p \"owls by night\"", "the mean of its tokens"}},
        {{NULL, NULL}}, {{NULL, NULL}}},
    {"rag",
        {{"lutra rag add --db notes.db notes manual.html", "documents into a store"},
            {"lutra rag search --db notes.db \"how are owls counted\"", "the passages that an answer would see"}},
        {STORE, {"STORE-tokens", "drafts from the store; may be deleted"}}, {{NULL, NULL}}},
    {"sim",
        {{"lutra sim -m model.gguf --soc 8gen3", "a prompt and a reply on that phone"},
            {"lutra sim --shape Qwen2.5-7B --compare --memory 8", "what fits into 8 GiB, ranked"}},
        {{NULL, NULL}}, {{NULL, NULL}}},
};

const struct page *page_of(const char *command)
{
    for (size_t i = 0; i < sizeof pages / sizeof *pages; i++)
        if (!strcmp(pages[i].command, command)) return &pages[i];
    return NULL;
}
