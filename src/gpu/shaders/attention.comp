/* SPDX-License-Identifier: MIT
 *
 * Attention.  Group (x, y): query head x of row y.  Segments of 64 aligned positions in ascending order: lane i has the
 * score of position i, then the lanes share out the elements of the output.  A position that the row does not see is
 * left out.  Nothing here depends on other rows.
 */
#version 450
#extension GL_GOOGLE_include_directive : require
#include "common.glsl"
#include "cache.glsl"

const uint LANES = 64, D_MAX = 512;
layout(local_size_x = 64) in;

layout(push_constant) uniform Push {
    Cache cache;
    I32 table;
    F32 q, result, sinks;
    uint n_head, d_head, window, has_sinks;
    float scale, softcap;
} p;

shared float query[D_MAX];
shared float score[LANES], weight[LANES];
shared uint v_place[LANES];
shared bool in_draft[LANES];

float load(U32 from, uint place, uint d)
{
    if (TYPE == 0) return uintBitsToFloat(from.at[place / 4 + d]);
    if (TYPE == 1) return half_at(from, place + 2 * d);
    uint block = place + d / 32 * Q8_BYTES;
    int code = int(byte_at(from, block + 2 + d % 32) << 24) >> 24;
    return float(code) * half_at(from, block);
}

float score_of(U32 from, uint place)
{
    precise float s = 0;
    if (TYPE == 1) {
        for (uint d = 0; d < p.d_head; d += 2) {
            uint two = from.at[(place + 2 * d) / 4];
            s = fma(query[d], half_to_float(two & 0xffff), s);
            s = fma(query[d + 1], half_to_float(two >> 16), s);
        }
    } else {
        for (uint d = 0; d < p.d_head; d++) s = fma(query[d], load(from, place, d), s);
    }
    s *= p.scale;
    return p.softcap != 0 ? p.softcap * tanh_of(s / p.softcap) : s;
}

void main()
{
    uint lane = gl_LocalInvocationID.x, head = gl_WorkGroupID.x, row = gl_WorkGroupID.y;
    uint kv_head = head / (p.n_head / p.cache.n_kv_head), at = (row * p.n_head + head) * p.d_head;
    int n_paged = row_field(p.cache, row, N_PAGED), n = n_paged + row_field(p.cache, row, N_PATH);
    int first = p.window > 0 && n > int(p.window) ? n - int(p.window) : 0;
    for (uint d = lane; d < p.d_head; d += LANES) query[d] = p.q.at[at + d];
    precise float most = p.has_sinks != 0 ? p.sinks.at[head] : -INFINITE;
    precise float sum = p.has_sinks != 0 ? 1 : 0;
    precise float y[D_MAX / LANES];
    for (uint i = 0; i < D_MAX / LANES; i++) y[i] = 0;
    barrier();
    for (int segment = first / int(KV_BLOCK); segment * int(KV_BLOCK) < n; segment++) {
        int pos = segment * int(KV_BLOCK) + int(lane);
        bool seen = pos >= first && pos < n;
        score[lane] = -INFINITE;
        if (seen) {
            uint slot = lane, block = 0;
            bool draft = pos >= n_paged;
            if (draft) {
                int r = int(row);
                for (int k = n - 1; k > pos; k--) r = row_field(p.cache, uint(r), UP);
                slot = uint(row_field(p.cache, uint(r), SLOT));
            } else {
                block = uint(p.table.at[row_field(p.cache, row, TABLE) + segment]);
            }
            uint k_place = draft ? draft_place(p.cache, 0, kv_head, slot) : block_place(p.cache, 0, block, kv_head, slot);
            v_place[lane] = draft ? draft_place(p.cache, 1, kv_head, slot) : block_place(p.cache, 1, block, kv_head, slot);
            in_draft[lane] = draft;
            if (draft)
                score[lane] = score_of(p.cache.draft, k_place);
            else
                score[lane] = score_of(p.cache.pool, k_place);
        }
        barrier();
        uint low = uint(max(first - segment * int(KV_BLOCK), 0)), high = uint(min(n - segment * int(KV_BLOCK), int(KV_BLOCK)));
        float now = most;
        for (uint i = low; i < high; i++) now = is_nan(score[i]) ? score[i] : max(now, score[i]);
        if (seen) weight[lane] = exp_of(score[lane] - now);
        precise float keep = most == -INFINITE ? 0 : exp_of(most - now);
        most = now;
        barrier();
        sum *= keep;
        for (uint i = low; i < high; i++) sum += weight[i];
        for (uint d = lane, k = 0; d < p.d_head; d += LANES, k++) {
            precise float part = y[k] * keep;
            for (uint i = low; i < high; i++) {
                float v;
                if (in_draft[i])
                    v = load(p.cache.draft, v_place[i], d);
                else
                    v = load(p.cache.pool, v_place[i], d);
                part = fma(weight[i], v, part);
            }
            y[k] = part;
        }
        barrier();
    }
    for (uint d = lane, k = 0; d < p.d_head; d += LANES, k++) p.result.at[at + d] = y[k] / sum;
}
