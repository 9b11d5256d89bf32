/* SPDX-License-Identifier: MIT */
#include "ops/op.h"

const char *op_name(enum op_kind kind)
{
    static const char *const names[] = {
#define OP_TEXT(name, text) [name] = text,
        OP_LIST(OP_TEXT)
#undef OP_TEXT
    };
    return (unsigned)kind < OP_COUNT ? names[kind] : "unknown";
}
