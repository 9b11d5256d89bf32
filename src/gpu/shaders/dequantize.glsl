/* SPDX-License-Identifier: MIT
 *
 * Weights as floats: elements k .. k + 7 of the row that begins at byte `row` of p.weight; k is a multiple of 8.
 * Layouts: quant/formats.h.  TYPE is a specialization constant: a pipeline keeps one case.
 */
const uint F32_ = 0, F16_ = 1, Q4_0 = 2, Q8_0 = 8, Q4_K = 12, Q6_K = 14, BF16_ = 30;

void floats8(uint row, uint k, inout float v[8])
{
    for (uint e = 0; e < 8 && k + e < p.n_in; e++) {
        if (TYPE == F32_)
            v[e] = uintBitsToFloat(bytes4(p.weight, row + (k + e) * 4));
        else if (TYPE == F16_)
            v[e] = half_at(p.weight, row + (k + e) * 2);
        else
            v[e] = uintBitsToFloat(bytes2(p.weight, row + (k + e) * 2) << 16);
    }
}

void dequantize8(uint row, uint k, inout float v[8])
{
    floats8(row, k, v);
}
