/* SPDX-License-Identifier: MIT
 *
 * Opens mutated GGUF files and touches everything in those that open.  Success or an error each time: no crash, no
 * hang (an alarm per input), no leak, and a heap bounded by the file's size.
 *
 *     fuzz_gguf                1,000 inputs from seed 1
 *     fuzz_gguf --long         10,000 other inputs
 *     fuzz_gguf N [FIRST]      inputs FIRST .. FIRST + N - 1; input numbers name inputs for good
 */
#include <sys/mman.h>

#include "fuzz/fuzz.h"
#include "fuzz/gguf/mutate.h"
#include "fuzz/heap.h"
#include "quant/quant.h"
#include "quantize/mix.h"
#include "weights/weights.h"

enum { SECONDS_PER_INPUT = 10 };

/* The library's own bound for one small file is far below the promised 64 MiB + 16 x file size. */
enum { HEAP_FIXED = 64 << 10, HEAP_PER_BYTE = 16 };

static struct {
    uint64_t n_open, n_format, n_unsupported, n_other, n_converted;
    size_t worst_heap;
    char folder[64];
} run;

/* ---- touching ---- */

static volatile uint64_t sink; /* keeps the reads */

static void touch_key(const struct weights *w, const struct gguf_kv *kv)
{
    struct lutra_error err;
    uint32_t u32 = 0;
    uint64_t u64 = 0;
    int64_t i64;
    float f32 = 0;
    double f64;
    bool b = false;
    struct gguf_str s = {"", 0};
    weights_get_u32(w, kv->key, &u32, &err);
    weights_get_u64(w, kv->key, &u64, &err);
    weights_get_f32(w, kv->key, &f32, &err);
    weights_get_bool(w, kv->key, &b, &err);
    weights_get_str(w, kv->key, &s, &err);
    weights_get_layer_u32(w, kv->key, (uint32_t)(fuzz_input % 5), &u32, &err);
    weights_opt_u32(w, kv->key, &u32, &err);
    for (uint64_t i = 0; i < kv->n; i++) {
        if (kv->elem == GGUF_STRING) {
            s = gguf_kv_str(kv, i);
            for (size_t k = 0; k < s.n; k++) sink += (uint8_t)s.s[k];
        } else {
            if (gguf_kv_i64(kv, i, &i64)) sink += (uint64_t)i64;
            if (gguf_kv_u64(kv, i, &u64)) sink += u64;
            if (gguf_kv_f64(kv, i, &f64)) sink += f64 > 0;
        }
    }
    static float real[16];
    static int32_t numbers[16];
    const struct gguf_kv *array;
    weights_copy_f32(w, kv->key, real, 16, &u64, &err);
    weights_copy_i32(w, kv->key, numbers, 16, &u64, &err);
    weights_get_array(w, kv->key, kv->elem, &array, &err);
    if (weights_kv_find(w, kv->key) != kv) fuzz_fail("a key is not found under its name");
}

static void touch_tensor(const struct weights *w, const struct tensor *t)
{
    static float row[65536];
    const struct quant_info *q = quant_info_of(t->type);
    const uint8_t *p = t->data;
    for (size_t i = 0; i < t->bytes; i++) sink += p[i];
    if (weights_tensor_find(w, t->name) != t) fuzz_fail("a tensor is not found under its name");
    if (t->ne[0] <= (int64_t)(sizeof row / sizeof *row)) q->dequantize(t->data, row, (size_t)t->ne[0]);
    weights_prefetch(w, t);
    weights_drop_pages(w, t);
}

static void touch(const struct weights *w)
{
    for (size_t i = 0; i < weights_kv_count(w); i++) touch_key(w, weights_kv_at(w, i));
    for (size_t i = 0; i < weights_tensor_count(w); i++) touch_tensor(w, weights_tensor_at(w, i));
    sink += weights_file_bytes(w) + weights_tensor_bytes(w);
}

/* Now and then what opens is also quantized: the writer must take whatever the reader gives. */
static void convert(const char *path)
{
    char out[96];
    struct lutra_error err;
    struct weights *w;
    struct weights_quantize_settings s = weights_quantize_default();
    snprintf(out, sizeof out, "%s/out.gguf", run.folder);
    size_t n_mix = 0;
    while (weights_mix_at(n_mix)) n_mix++;
    s.mix = weights_mix_at(fuzz_input / 7 % n_mix);
    s.pure = fuzz_input % 2;
    s.allow_requantize = true;
    if (weights_quantize_file(path, out, &s, &err) < 0) return;
    if (weights_open(&w, out, &err) < 0) fuzz_fail("%s", err.what);
    weights_close(&w);
    unlink(out);
    run.n_converted++;
}

/* ---- one input ---- */

static void check_heap(size_t before, size_t bytes)
{
    size_t used = heap_peak() - before;
    if (used > run.worst_heap) run.worst_heap = used;
    if (used > HEAP_FIXED + HEAP_PER_BYTE * bytes) fuzz_fail("too much heap");
}

static void try_input(const uint8_t *bytes, size_t n)
{
    char path[64];
    struct weights *w;
    struct lutra_error err = {0};
    int fd = memfd_create("fuzz", MFD_CLOEXEC);
    if (fd < 0 || write(fd, bytes, n) != (ssize_t)n) fuzz_fail("cannot write the input");
    snprintf(path, sizeof path, "/proc/self/fd/%d", fd);
    size_t before = heap_now();
    heap_reset_peak();
    fuzz_watch(SECONDS_PER_INPUT);
    int rc = weights_open(&w, path, &err);
    if (rc == 0) {
        run.n_open++;
        touch(w);
        check_heap(before, n);
        weights_close(&w);
        if (fuzz_input % 7 == 0) convert(path);
    } else {
        check_heap(before, n);
        if (err.code != rc || strncmp(err.what, path, strlen(path)) != 0) fuzz_fail("an error without its description");
        run.n_format += rc == LUTRA_E_FORMAT;
        run.n_unsupported += rc == LUTRA_E_UNSUPPORTED;
        run.n_other += rc != LUTRA_E_FORMAT && rc != LUTRA_E_UNSUPPORTED;
    }
    fuzz_watch(0);
    close(fd);
    if (heap_now() != before) fuzz_fail("a leak");
}

int main(int argc, char **argv)
{
    static uint8_t bytes[MAX_INPUT];
    static struct seed seed[N_SEEDS];
    struct fuzz_inputs in = fuzz_begin(argc, argv, 1000, 10000);
    snprintf(run.folder, sizeof run.folder, "/tmp/lutra-fuzz-gguf-XXXXXX");
    if (!mkdtemp(run.folder) || seeds_make(seed, run.folder) < 0) fuzz_fail("cannot make the seeds");
    for (int i = 0; i < N_SEEDS; i++) try_input(seed[i].bytes, seed[i].n);
    if (run.n_open != N_SEEDS) fuzz_fail("a seed does not open");
    for (fuzz_input = in.first; fuzz_input < in.first + in.n; fuzz_input++) {
        uint64_t dice = fuzz_input * 0x2545f4914f6cdd1du;
        size_t size = mutate(seed, &dice, bytes);
        try_input(bytes, size);
    }
    seeds_free(seed);
    rmdir(run.folder);
    printf("%llu inputs: %llu opened (%llu also quantized), %llu malformed, %llu unsupported, %llu other; "
           "largest heap %zu KiB\n",
        (unsigned long long)in.n, (unsigned long long)run.n_open - N_SEEDS, (unsigned long long)run.n_converted,
        (unsigned long long)run.n_format, (unsigned long long)run.n_unsupported, (unsigned long long)run.n_other,
        run.worst_heap / 1024);
    return fuzz_end(in, run.n_open > N_SEEDS && run.n_format && run.n_unsupported);
}
