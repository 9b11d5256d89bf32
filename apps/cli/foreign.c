/* SPDX-License-Identifier: MIT
 *
 * Names as in llama.cpp's `--help` and READMEs (builds to 2026).  A table of facts: one row for each answer.
 */
#include "foreign.h"

#include <string.h>

#include "option.h"

/* The answers of `lutra serve` alone, which come before those of all commands. */
static const struct foreign served[] = {
    {"-embd --embedding --embeddings --cache-prompt --models-autoload --prefill-assistant --cache-idle-slots "
     "--no-cache-idle-slots --perf --no-perf -e --escape --no-escape --webui --no-webui --ui --no-ui --no-agent "
     "--no-webui-mcp-proxy --no-ui-mcp-proxy --no-cache-prompt",
        FOREIGN_NONE, NULL, NULL},
    {"-sps --slot-prompt-similarity -cpent --checkpoint-every-n-tokens --checkpoint-min-step --tags", FOREIGN_ONE, NULL,
        NULL},
    {"--path", FOREIGN_ONE, "the page is in the program; a proxy serves other files", NULL},
    {"--api-prefix --server-base", FOREIGN_ONE, "a path's beginning is a proxy's to take off", NULL},
    {"--ssl-key-file --ssl-cert-file", FOREIGN_ONE, "TLS is a proxy's work (docs/SERVER.md, As a service)", NULL},
    {"--slot-save-path", FOREIGN_ONE, "prompts are not kept in files", NULL},
    {"--reuse-port", FOREIGN_NONE, "a port is one server's", NULL},
    {"--media-path", FOREIGN_ONE, "images, sounds and videos are not read", NULL},
    {"--models-preset", FOREIGN_ONE, "all models of --models-dir have the options of the command line", NULL},
    {"--no-models-autoload", FOREIGN_NONE, "a model is opened when a request names it", NULL},
    {"--no-prefill-assistant", FOREIGN_NONE, "a last message of the assistant is continued", NULL},
    {"--lora-init-without-apply", FOREIGN_NONE, "adapters are those of the start, for all requests", NULL},
    {"--webui-config --webui-config-file --ui-config --ui-config-file --tools", FOREIGN_ONE,
        "the page's settings are the browser's", NULL},
    {"--webui-mcp-proxy --ui-mcp-proxy --agent", FOREIGN_NONE, "the page asks no other servers", NULL},
    {"-sp --special", FOREIGN_NONE, "control tokens are not part of a reply", NULL},
    {"--spm-infill", FOREIGN_NONE, "what goes around a hole is as the vocabulary's marks say", NULL},
    {"-r --reverse-prompt", FOREIGN_ONE, "requests name what ends a reply: \"stop\"", NULL},
    {"--ignore-eos", FOREIGN_NONE, "requests ask for that: \"ignore_eos\"", NULL},
    {"-mv --model-vocoder", FOREIGN_ONE, "sounds are not made", NULL},
    {"--tts-use-guide-tokens", FOREIGN_NONE, "sounds are not made", NULL},
    {"--embd-gemma-default --fim-qwen-7b-spec --fim-qwen-30b-default --gpt-oss-20b-default --gpt-oss-120b-default "
     "--vision-gemma-4b-default --vision-gemma-12b-default",
        FOREIGN_NONE, "name the model: -hf USER/REPO or -m FILE", NULL},
};

static const struct foreign table[] = {
    /* ---- changes nothing here ---- */
    {"-ngl --gpu-layers --n-gpu-layers -sm --split-mode -mg --main-gpu "
     "-ncmoe --n-cpu-moe -ncffn --n-cpu-ffn --moe-cache-mib -fitt --fit-target -fitc --fit-ctx",
        FOREIGN_ONE, NULL, NULL},
    {"-fa --flash-attn -fit --fit -mmp --mmap -nkvo --no-kv-offload --repack --no-host -nopo --no-op-offload",
        FOREIGN_SWITCH, NULL, NULL},
    {"-cmoe --cpu-moe -kvo --kv-offload --op-offload -nr --no-repack -kvu --kv-unified -no-kvu "
     "--no-kv-unified -cb --cont-batching -nocb --no-cont-batching --mlock --no-mmap --direct-io --no-direct-io "
     "--check-tensors -bs --backend-sampling",
        FOREIGN_NONE, NULL, NULL},
    {"-ub --ubatch-size -tb --threads-batch -C --cpu-mask -Cr --cpu-range --cpu-strict --prio --poll -Cb "
     "--cpu-mask-batch -Crb --cpu-range-batch --cpu-strict-batch --prio-batch --poll-batch --numa -dt --defrag-thold "
     "-lm --load-mode -lzm --lazy-mode -np --parallel -cram --cache-ram -ctxcp --ctx-checkpoints --swa-checkpoints "
     "--cache-reuse --keep --threads-http -c --ctx-size",
        FOREIGN_ONE, NULL, NULL},
    {"--jinja --warmup --no-warmup -mli --multiline-input --simple-io --no-context-shift --offline --show-timings "
     "--no-show-timings --display-prompt --progress --log-disable --log-prefix --no-log-prefix --log-timestamps "
     "--no-log-timestamps --log-verbose -mms --no-mmproj --no-mmproj-auto --mmproj-auto --skip-chat-parsing "
     "--no-skip-chat-parsing",
        FOREIGN_NONE, NULL, NULL},
    {"--log-file -lv --verbosity --log-verbosity --log-prompts-dir", FOREIGN_ONE, NULL, NULL},
    {"--log-colors --spec-draft-cpu-strict --cpu-strict-draft --spec-draft-poll --poll-draft "
     "--spec-draft-cpu-strict-batch "
     "--cpu-strict-batch-draft --spec-draft-poll-batch --poll-batch-draft",
        FOREIGN_SWITCH, NULL, NULL},
    /* ...since drafts change no text */
    {"--spec-draft-threads --spec-draft-threads-batch --spec-draft-cpu-mask -Cd --cpu-mask-draft "
     "--spec-draft-cpu-range -Crd "
     "--cpu-range-draft --spec-draft-prio --prio-draft --spec-draft-cpu-mask-batch -Cbd --cpu-mask-batch-draft "
     "--spec-draft-prio-batch --prio-batch-draft --spec-draft-override-tensor -otd --override-tensor-draft "
     "--spec-draft-n-cpu-moe --spec-draft-ncmoe -ncmoed --n-cpu-moe-draft --spec-draft-n-ubatch --spec-draft-p-split "
     "--spec-draft-sampling --spec-draft-device --spec-draft-type-k --spec-draft-type-v -ptc --print-token-count",
        FOREIGN_ONE, NULL, NULL},
    {"--spec-draft-cpu-moe -cmoed --cpu-moe-draft --spec-draft-backend-sampling --no-spec-draft-backend-sampling "
     "--mmproj-offload --no-mmproj-offload --no-log-jsonl",
        FOREIGN_NONE, NULL, NULL},
    /* ---- would change the result ---- */
    {"-hf -hfr --hf-repo -hff --hf-file -hft --hf-token -mu --model-url -dr --docker-repo -hfv -hfrv --hf-repo-v",
        FOREIGN_ONE, "models come from a repository in run, eval, perplexity and tokenize only, and by -hf alone",
        NULL},
    {"--gpt-oss-20b-default --gpt-oss-120b-default --vision-gemma-4b-default --vision-gemma-12b-default "
     "--fim-qwen-1.5b-default --fim-qwen-3b-default --fim-qwen-7b-default",
        FOREIGN_NONE, "name the model: -hf USER/REPO or -m FILE", NULL},
    {"--grammar --grammar-file -j --json-schema -jf --json-schema-file", FOREIGN_ONE,
        "'lutra run' takes grammars and schemas, and so do requests to 'lutra serve'; here text is not constrained",
        NULL},
    {"--lora-base", FOREIGN_ONE, "an adapter is added to the model of -m", NULL},
    {"--control-vector --control-vector-scaled", FOREIGN_ONE, "control vectors are not implemented", NULL},
    {"--control-vector-layer-range", FOREIGN_TWO, "control vectors are not implemented", NULL},
    {"-mm --mmproj -mmu --mmproj-url --image --audio --video --image-min-tokens --image-max-tokens -mmdev "
     "--mmproj-device",
        FOREIGN_ONE, "images, sounds and videos are not read", NULL},
    {"--video-fps --video-timestamp-interval --video-ffmpeg-dir", FOREIGN_ONE, "images, sounds and videos are not read",
        NULL},
    {"--spec-synth-len --spec-synth-rates", FOREIGN_ONE, "drafts are not made up", NULL},
    {"-o --output --output-file", FOREIGN_ONE, "the answer goes to stdout (> FILE)", NULL},
    {"--log-jsonl", FOREIGN_NONE, "messages are plain lines", NULL},
    {"--completion-bash", FOREIGN_NONE, "completions are installed with the program", NULL},
    {"--version", FOREIGN_NONE, "'lutra --version' prints it", NULL},
    {"--rope-scaling", FOREIGN_ONE, "a model's rotary scaling is what its file says", "none"},
    {"--rope-scale --rope-freq-base --rope-freq-scale --yarn-orig-ctx --yarn-ext-factor --yarn-attn-factor "
     "--yarn-beta-slow --yarn-beta-fast",
        FOREIGN_ONE, "a model's rotary scaling is what its file says", "0 0.0"},
    {"--override-kv", FOREIGN_ONE, "a model's metadata is what its file says", NULL},
    {"-gan --grp-attn-n -gaw --grp-attn-w", FOREIGN_ONE, "there is no self-extend", "1"},
    {"--smoothing-factor --smoothing-curve", FOREIGN_ONE, "there is no quadratic sampling", "0 0.0"},
    {"-hfd -hfrd --hf-repo-draft --spec-draft-hf", FOREIGN_ONE, "a draft model is a file here: -md FILE", NULL},
    {"-ngld --gpu-layers-draft --n-gpu-layers-draft -cd --ctx-size-draft -td --threads-draft -tbd "
     "--threads-batch-draft -ctkd --cache-type-k-draft -ctvd --cache-type-v-draft --draft-p-split --spec-draft-ngl "
     "--spec-replace",
        FOREIGN_ONE, "a draft model (-md) runs with the other's settings", "none"},
    {"-lcs --lookup-cache-static -lcd --lookup-cache-dynamic", FOREIGN_ONE,
        "drafts come from the text so far (--spec-type suffix) or a store (--rag), not from such files", NULL},
    {"--spec-ngram-simple-size-n", FOREIGN_ONE, "it is --spec-ngram-size-n here, the most that is looked up", NULL},
    {"--spec-ngram-size-m --spec-ngram-simple-size-m", FOREIGN_ONE, "--draft-max says how much is drafted", NULL},
    {"--spec-ngram-min-hits --spec-ngram-simple-min-hits", FOREIGN_ONE, "--draft-p-min says how sure a draft has to be",
        NULL},
    {"--spec-ngram-mod-n-min --spec-ngram-mod-n-max --spec-ngram-mod-n-match --spec-ngram-map-k-size-n "
     "--spec-ngram-map-k-size-m --spec-ngram-map-k-min-hits --spec-ngram-map-k4v-size-n --spec-ngram-map-k4v-size-m "
     "--spec-ngram-map-k4v-min-hits",
        FOREIGN_ONE, "ngram-mod and ngram-map are not built: --spec-type suffix takes matches of any length", NULL},
    {"--spec-default", FOREIGN_NONE, "name the drafters: --spec-type suffix", NULL},
    {"--prompt-cache", FOREIGN_ONE, "prompt caches are not kept in files", NULL},
    {"--prompt-cache-all --prompt-cache-ro", FOREIGN_NONE, "prompt caches are not kept in files", NULL},
    {"--context-shift", FOREIGN_NONE, "a full context ends the reply (-c N gives more)", NULL},
    {"--no-jinja", FOREIGN_NONE, "chat templates are always rendered as Jinja", NULL},
    {"--in-prefix --in-suffix", FOREIGN_ONE, "what goes around a message is the chat template's", NULL},
    {"--in-prefix-bos", FOREIGN_NONE, "what goes around a message is the chat template's", NULL},
    {"-if --interactive-first", FOREIGN_NONE, "text mode begins with a prompt (-p, then -i)", NULL},
    {"--reasoning-budget-message", FOREIGN_ONE, "a budget of thinking ends in the model's own tag", NULL},
    {"--reasoning-effort", FOREIGN_ONE, "--reasoning low, medium or high asks for it", NULL},
    {"--verbose-prompt", FOREIGN_NONE, "'lutra tokenize' shows a prompt's tokens", NULL},
    {"-cl --cache-list", FOREIGN_NONE, "'lutra models' lists them", NULL},
    {"--rpc -rpc", FOREIGN_ONE, "models do not spread over machines", NULL},
    {"-embd --embedding --embeddings", FOREIGN_SWITCH,
        "'lutra embed' prints them, and 'lutra serve' always answers /v1/embeddings", "0"},
    {"-tgs", FOREIGN_NONE, "sequences are decoded together", NULL},
    {"--pooling --attention --host --port --path --api-prefix --api-key --api-key-file --ssl-key-file --ssl-cert-file "
     "-to --timeout --slot-save-path -sps --slot-prompt-similarity --server-base -a --alias",
        FOREIGN_ONE, "it is an option of 'lutra serve', or not implemented", NULL},
    {"--metrics --props --slots --no-slots --no-webui --rerank --reranking", FOREIGN_NONE, NULL, NULL},
    {"--webui", FOREIGN_NONE, "it is not implemented", NULL},
    {"--include-weights --exclude-weights", FOREIGN_ONE, "an importance matrix is used for all tensors it has", NULL},
    {"--tensor-type-file --prune-layers --target-bpw --max-buffer-size", FOREIGN_ONE,
        "tensors get the types of TYPE, --tensor-type, --token-embedding-type and --output-tensor-type", NULL},
    {"--keep-split --no-importance --keep-bpw-state --process-output --show-statistics", FOREIGN_NONE,
        "it is not implemented", NULL},
    {"--ppl --hellaswag --winogrande --multiple-choice --kl-divergence --all-logits --save-all-logits", FOREIGN_NONE,
        "that is 'lutra perplexity'", NULL},
    {"--no-ppl", FOREIGN_NONE, NULL, NULL},
    {"--ppl-stride --ppl-output-type", FOREIGN_ONE, "it is not implemented", "0"},
};

static const struct foreign *find_in(const struct foreign *list, size_t n_list, const char *given, size_t n)
{
    for (size_t i = 0; i < n_list; i++)
        if (option_is_named(list[i].names, given, n)) return &list[i];
    return NULL;
}

const struct foreign *foreign_find(const char *command, const char *given, size_t n)
{
    const struct foreign *own = NULL;
    if (strcmp(command, "serve") == 0) own = find_in(served, sizeof served / sizeof *served, given, n);
    return own ? own : find_in(table, sizeof table / sizeof *table, given, n);
}

bool foreign_is_switch(const char *word)
{
    return word[0] && (strspn(word, "01,") == strlen(word) || strcmp(word, "on") == 0 || strcmp(word, "off") == 0 ||
                          strcmp(word, "auto") == 0);
}

const char *foreign_tool(const char *name)
{
    static const struct {
        const char *names, *answer;
    } tools[] = {
        {"cli main completion chat simple simple-chat", "that is 'lutra run'"},
        {"batched-bench", "that is 'lutra bench' with -npl"},
        {"server", "that is 'lutra serve'"},
        {"perplexity", "that is 'lutra perplexity'"},
        {"speculative speculative-simple", "that is 'lutra run' with -md FILE"},
        {"lookup", "that is 'lutra run' with --spec-type ngram-simple"},
        {"gguf-split gguf export-lora cvector-generator tts mtmd-cli embedding retrieval rpc-server "
         "lookahead parallel save-load-state infill run-server fit-params",
            "it is not implemented"},
    };
    for (size_t i = 0; i < sizeof tools / sizeof *tools; i++)
        if (option_is_named(tools[i].names, name, strlen(name))) return tools[i].answer;
    return NULL;
}
