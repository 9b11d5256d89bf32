/* SPDX-License-Identifier: MIT
 *
 * The cache as ops/kv_view.h lays it out.  A place is a byte offset in the layer's pool or its draft scratch.
 */
layout(constant_id = 0) const uint TYPE = 0; /* 0: F32, 1: F16, 2: Q8_0 */
const uint KV_BLOCK = 64, Q8_BYTES = 34;

struct Cache {
    U32 pool, draft;   /* of the layer */
    I32 row;           /* [n_row] struct kv_row */
    uint vec_bytes, side_bytes, block_bytes, n_draft, n_kv_head;
};

/* Fields of struct kv_row. */
const uint N_PAGED = 0, N_PATH = 1, UP = 2, TABLE = 3, BLOCK = 4, SLOT = 5, ROW_WORDS = 7;

int row_field(Cache c, uint row, uint field)
{
    return c.row.at[row * ROW_WORDS + field];
}

uint block_place(Cache c, uint side, uint block, uint head, uint slot)
{
    return block * c.block_bytes + side * c.side_bytes + (head * KV_BLOCK + slot) * c.vec_bytes;
}

uint draft_place(Cache c, uint side, uint head, uint slot)
{
    return ((side * c.n_kv_head + head) * c.n_draft + slot) * c.vec_bytes;
}
