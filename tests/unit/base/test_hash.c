/* SPDX-License-Identifier: MIT
 *
 * base/hash: values that files keep, and that damage never goes unseen.
 */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdlib.h>
#include <string.h>

#include <cmocka.h>

#include "base/hash.h"

enum { N = 4 * 4096 + 13 };

static uint8_t bytes[N];

static int fill(void **state)
{
    (void)state;
    for (size_t i = 0; i < N; i++) bytes[i] = (uint8_t)(i * 2654435761u >> 21);
    return 0;
}

/* Files keep them: they must not drift. */
static void known_values(void **state)
{
    (void)state;
    assert_true(hash_bytes(0, NULL, 0) == 0xc5d5ad71720cdfb3);
    assert_true(hash_bytes(7, "lutra", 5) == 0x6fa11d330ffff82c);
    assert_true(hash_bytes(0, bytes, N) == 0x97cd7adf15d184e4);
}

static void every_bit_counts(void **state)
{
    uint64_t want = hash_bytes(1, bytes, N);
    (void)state;
    for (size_t bit = 0; bit < 8 * N; bit += bit < 8 * 200 || bit > 8 * (N - 200) ? 1 : 61) {
        bytes[bit / 8] ^= (uint8_t)(1 << bit % 8);
        if (hash_bytes(1, bytes, N) == want) fail_msg("bit %zu", bit);
        bytes[bit / 8] ^= (uint8_t)(1 << bit % 8);
    }
    assert_true(hash_bytes(1, bytes, N) == want);
    assert_true(hash_bytes(2, bytes, N) != want);
    for (size_t n = 0; n < 300; n++) assert_true(hash_bytes(1, bytes, n) != hash_bytes(1, bytes, n + 1));
}

/* Two flips of one bit, in one lane and in neighbours; words and pages that changed places; pages of zeros. */
static void changes_do_not_cancel(void **state)
{
    uint64_t want = hash_bytes(0, bytes, N), *word = malloc(N);
    (void)state;
    for (int bit = 0; bit < 64; bit++)
        for (size_t apart = 1; apart < 40; apart++) {
            memcpy(word, bytes, N);
            word[3] ^= (uint64_t)1 << bit, word[3 + apart] ^= (uint64_t)1 << bit;
            if (hash_bytes(0, word, N) == want) fail_msg("bit %d, %zu words apart", bit, apart);
        }
    for (size_t size = 8; size <= 4096; size *= 2) {
        memcpy(word, bytes + size, size);
        memcpy((uint8_t *)word + size, bytes, size);
        memcpy((uint8_t *)word + 2 * size, bytes + 2 * size, N - 2 * size);
        assert_true(hash_bytes(0, word, N) != want);
        memcpy(word, bytes, N);
        memset((uint8_t *)word + size, 0, size);
        assert_true(hash_bytes(0, word, N) != want);
    }
    uint64_t zeros = hash_bytes(0, memset(word, 0, N), N);
    assert_true(zeros != hash_bytes(0, word, N - 8));
    free(word);
}

static void parts_make_a_whole(void **state)
{
    enum { BIG = 3 * HASH_PART + 5 };
    uint8_t *big = calloc(1, BIG);
    uint64_t sum = 0;
    (void)state;
    big[BIG - 1] = 1;
    for (int part = 3; part >= 0; part--) sum += hash_part(big, BIG, (size_t)part);
    uint64_t want = hash_parts(big, BIG);
    assert_true(sum == want);
    assert_true(hash_parts(big, 0) == 0);
    /* Parts that changed places, of which two are equal. */
    big[0] = 1;
    want = hash_parts(big, BIG);
    big[0] = 0, big[HASH_PART] = 1;
    assert_true(hash_parts(big, BIG) != want);
    free(big);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(known_values),
        cmocka_unit_test(every_bit_counts),
        cmocka_unit_test(changes_do_not_cancel),
        cmocka_unit_test(parts_make_a_whole),
    };
    return cmocka_run_group_tests(tests, fill, NULL);
}
