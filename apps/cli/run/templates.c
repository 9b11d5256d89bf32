/* SPDX-License-Identifier: MIT
 *
 * Chat templates by name, for models whose file has none: what each family was trained on, as Jinja.
 */
#include <string.h>

#include "run/run.h"

#define TURNS "{% for m in messages %}"
#define END "{% endfor %}"
#define REPLY(text) "{% if add_generation_prompt %}" text "{% endif %}"
/* Where a family has no system message, its text goes before the first message of the user. */
#define SYSTEM_FIRST_AS(lead_text)                                                                                     \
    "{% set ns = namespace(lead='') %}" TURNS "{% if m.role == 'system' %}{% set ns.lead = " lead_text " %}"           \
    "{% else %}{% set text = ns.lead ~ m.content|trim %}{% set ns.lead = '' %}"
#define SYSTEM_FIRST(gap) SYSTEM_FIRST_AS("m.content ~ " gap)
#define LLAMA2_TURN "{{ '[INST] ' ~ text ~ ' [/INST]' if m.role == 'user' else text ~ eos_token }}{% endif %}"

static const struct {
    const char *name, *text;
} templates[] = {
    {"chatml", TURNS "{{ '<|im_start|>' ~ m.role ~ '\n' ~ m.content ~ '<|im_end|>\n' }}" END REPLY(
                   "{{ '<|im_start|>assistant\n' }}")},
    {"llama2", "{{ bos_token }}" SYSTEM_FIRST("'\n'") LLAMA2_TURN END},
    {"llama2-sys", "{{ bos_token }}" SYSTEM_FIRST_AS("'<<SYS>>\n' ~ m.content ~ '\n<</SYS>>\n\n'") LLAMA2_TURN END},
    {"llama3",
        "{{ bos_token }}" TURNS
        "{{ '<|start_header_id|>' ~ m.role ~ '<|end_header_id|>\n\n' ~ m.content|trim ~ '<|eot_id|>' }}" END REPLY(
            "{{ '<|start_header_id|>assistant<|end_header_id|>\n\n' }}")},
    {"gemma", "{{ bos_token }}" SYSTEM_FIRST(
                  "'\n\n'") "{{ '<start_of_turn>' ~ ('model' if m.role == 'assistant' else m.role) ~ '\n' ~ text ~ "
                            "'<end_of_turn>\n' }}{% endif %}" END REPLY("{{ '<start_of_turn>model\n' }}")},
    {"phi3", TURNS "{{ '<|' ~ m.role ~ '|>\n' ~ m.content ~ '<|end|>\n' }}" END REPLY("{{ '<|assistant|>\n' }}")},
    {"phi4", TURNS "{{ '<|im_start|>' ~ m.role ~ '<|im_sep|>' ~ m.content ~ '<|im_end|>' }}" END REPLY(
                 "{{ '<|im_start|>assistant<|im_sep|>' }}")},
    {"zephyr",
        TURNS "{{ '<|' ~ m.role ~ '|>\n' ~ m.content ~ '<|endoftext|>\n' }}" END REPLY("{{ '<|assistant|>\n' }}")},
    {"vicuna", TURNS "{% if m.role == 'system' %}{{ m.content ~ '\n\n' }}"
                     "{% elif m.role == 'user' %}{{ 'USER: ' ~ m.content ~ '\n' }}"
                     "{% else %}{{ 'ASSISTANT: ' ~ m.content ~ '</s>\n' }}{% endif %}" END REPLY("{{ 'ASSISTANT:' }}")},
    {"mistral-v7",
        "{{ bos_token }}" TURNS "{% if m.role == 'system' %}{{ '[SYSTEM_PROMPT] ' ~ m.content ~ '[/SYSTEM_PROMPT]' }}"
        "{% elif m.role == 'user' %}{{ '[INST] ' ~ m.content ~ '[/INST]' }}"
        "{% else %}{{ ' ' ~ m.content ~ eos_token }}{% endif %}" END},
    {"deepseek3",
        "{{ bos_token }}" TURNS "{% if m.role == 'system' %}{{ m.content ~ '\n\n' }}"
        "{% elif m.role == 'user' %}{{ '<\xef\xbd\x9cUser\xef\xbd\x9c>' ~ m.content }}"
        "{% else %}{{ '<\xef\xbd\x9c"
        "Assistant\xef\xbd\x9c>' ~ m.content ~ "
        "'<\xef\xbd\x9c"
        "end\xe2\x96\x81of\xe2\x96\x81sentence\xef\xbd\x9c>' }}{% endif %}" END REPLY("{{ '<\xef\xbd\x9c"
                                                                                      "Assistant\xef\xbd\x9c>' }}")},
    {"falcon3", TURNS
        "{{ '<|' ~ m.role ~ '|>\n' ~ m.content ~ ('<|endoftext|>\n' if m.role == 'assistant' else '\n') }}" END REPLY(
            "{{ '<|assistant|>\n' }}")},
    {"granite",
        TURNS "{{ '<|start_of_role|>' ~ m.role ~ '<|end_of_role|>' ~ m.content ~ '<|end_of_text|>\n' }}" END REPLY(
            "{{ '<|start_of_role|>assistant<|end_of_role|>' }}")},
};
enum { N_TEMPLATES = sizeof templates / sizeof *templates };

const char *template_named(const char *name)
{
    for (int i = 0; i < N_TEMPLATES; i++)
        if (strcmp(templates[i].name, name) == 0) return templates[i].text;
    return NULL;
}

void template_list(char *out, size_t n_out)
{
    size_t n = 0;
    out[0] = 0;
    for (int i = 0; i < N_TEMPLATES && n < n_out; i++)
        n += (size_t)snprintf(out + n, n_out - n, "%s%s", i ? " " : "", templates[i].name);
}
